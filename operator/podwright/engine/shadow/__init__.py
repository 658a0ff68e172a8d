"""Policies in shadow mode: their decisions are compared with those of the scheduler that places the pods. Nothing is
written to pods.

pending pods ─► shadow_pods ─┐
pods that got nodes ─────────┴─► shadow: one attempt at a time, in a share of the time ─► comparison ─► tally
                                                                         ─► report, status, metrics
"""
