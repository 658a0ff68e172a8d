"""What a scheduler shows of itself to people who look: its nodes, its queue, its decisions and its policies, as plain values.

Nothing is computed unless somebody asks, and everything in steps of about a millisecond of the scheduler's loop. The page
(kube/serve/page) asks, in the operator and in `podwright simulate --serve`.
"""
