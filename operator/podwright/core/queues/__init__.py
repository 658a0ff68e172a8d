"""Queues: a tree of queues with guarantees, limits and weights, the fair share of each, and what forbids a pod.

`shares` has the rule for one parent and one resource. `tree` applies it from the top down and keeps the requests of all
queues. `queues` knows the queues of the cluster: start there. `membership` finds the queue of a pod, `accounts` count
the pods of each queue, `bounds` forbid pods to start, and `turns` say which queue comes next. `structure` keeps the
tree up to date while queues change, and `validity` says which of them make one. `shown` has what reports add.
"""
