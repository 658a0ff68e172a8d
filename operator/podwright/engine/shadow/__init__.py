"""Policies in shadow mode: what they would have decided, beside what other schedulers, or other policies, did. Nothing is written on pods.

pending pods ─► shadow_pods ─┐
pods that got nodes ─────────┴─► shadow: one attempt at a time, in a share of the time ─► comparison ─► tally ─► report, status, metrics
"""
