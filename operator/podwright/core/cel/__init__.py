"""CEL (Common Expression Language): a library parses and type-checks expressions, and our own closures evaluate them
and count the cost.

Read `environment.py` first. `checking` turns a text into a checked tree, `cost` estimates the cost of the tree,
`evaluation` compiles it to closures, and `library` has the functions that these call. `values.py` says which Python
values stand for the values of CEL.
"""
