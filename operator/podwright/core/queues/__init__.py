"""Queues: a tree of queues with guarantees, limits and weights, and the fair share of each.

`shares` has the rule for one parent and one resource. `tree` applies it from the top down and keeps the requests of all
queues.
"""
