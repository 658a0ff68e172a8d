"""Nodes, queue and policies of a scheduler as plain values, for the page (kube/serve/page) of the operator and of
`podwright simulate --serve`.

Nothing is computed unless the page asks for it, and then in steps of about a millisecond of the scheduler's loop.
"""
