"""CEL over columns of the node table: an expression is evaluated on all nodes at once, with the evaluator's results.

`compiler` makes operations of a checked tree; `kept` keeps their results. Read `compiler` first, then `vectors` for the
values and `run` for what an operation is given.
"""
