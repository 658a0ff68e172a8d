"""How many examples Hypothesis tries: a few in `make test-fast`, many in `make fuzz`."""

import os
from typing import Final

FACTOR: Final = float(os.environ.get("PODWRIGHT_EXAMPLES", "1"))


def examples(number: int) -> int:
    """`number`, which is that of `make test`, times the factor in PODWRIGHT_EXAMPLES; at least 5."""
    return max(5, round(number * FACTOR))
