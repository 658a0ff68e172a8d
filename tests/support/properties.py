"""How many examples Hypothesis tries, and how many cases other tests generate: a few in `make test-fast`, many in
`make fuzz`.
"""

import os
from typing import Final

FACTOR: Final = float(os.environ.get("PODWRIGHT_EXAMPLES", "1"))


def examples(number: int) -> int:
    """`number`, which is that of `make test`, times the factor in PODWRIGHT_EXAMPLES; at least 5."""
    return max(5, round(number * FACTOR))


def case_count(variable: str, number: int) -> int:
    """How many cases a test generates: what this variable of the environment says, else `number`, which is that of
    `make test`, times the same factor; at least 1.
    """
    return int(os.environ.get(variable) or max(1, round(number * FACTOR)))
