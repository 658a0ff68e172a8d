"""CEL: parsing and type-checking by a library, evaluation with counted cost by our own closures.

Read `environment.py` first, then `tree.py` for the checked tree and `values.py` for the values.
"""
