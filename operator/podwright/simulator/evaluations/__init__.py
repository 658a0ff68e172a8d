"""Evaluations of single pods, without a queue: where a pod could go and why, and whether that is what a case expects.
Start with `evaluation`.

dump (kubectl's output), cases (JSON lines) ─► evaluation ─► comparison with expected answers, allocations
"""
