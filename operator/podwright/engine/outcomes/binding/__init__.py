"""Binding cycles: what happens to a placement until the watch shows the pod on its node.

Start with `states` (the state machine) and `executor` (runs the cycles). `effects` carries out outcomes, `checks`
checks the node around a Binding, `limiter` and `concurrency` bound the requests in progress, and `read_back` finds the
outcome of failed Bindings.
"""
