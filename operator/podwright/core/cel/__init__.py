"""CEL: parsing and type-checking by a library, evaluation with counted cost by our own closures.

Read `environment.py` first. `checking` makes a checked tree of a text, `cost` says what it may cost at most, `evaluation` compiles
it to closures, and `library` has the functions that these call. The values are described in `values.py`.
"""
