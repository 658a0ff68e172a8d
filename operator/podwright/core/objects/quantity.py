"""Exact Kubernetes quantities (`1500m`, `0.5`, `1.5Gi`, `1e3`).

A quantity is an integer number of nano-units, the finest unit that Kubernetes supports. Finer input is rounded up, as in
`resource.ParseQuantity`. Source of the grammar: the Kubernetes API reference, "Quantity".
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from podwright.core.objects.errors import InvalidObjectError

NANO: Final = 10**9
MAX_INT64: Final = 2**63 - 1

_GRAMMAR: Final = re.compile(r"^([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([eE][+-]?[0-9]+)|([a-zA-Z]{0,2}))$", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MAX_DIGITS: Final = 64
_MAX_EXPONENT: Final = 64


@lru_cache(maxsize=65536)
def _nanos(text: str) -> int | None:
    found = _GRAMMAR.match(text)
    if found is None or len(text) > _MAX_DIGITS:
        return None
    sign, whole, fraction, exponent, suffix = found.groups()
    fraction = fraction or ""
    if not whole and not fraction:
        return None
    power = 0
    factor = 1
    if exponent:
        power = int(exponent[1:])
        if abs(power) > _MAX_EXPONENT:
            return None
    elif suffix in _BINARY:
        factor = 1 << _BINARY[suffix]
    elif suffix in _DECIMAL:
        power = _DECIMAL[suffix]
    else:
        return None
    digits = int(whole + fraction or "0") * factor
    scale = power + 9 - len(fraction)
    ten: int = 10 ** abs(scale)
    nanos = digits * ten if scale >= 0 else -(-digits // ten)
    nanos = min(nanos, MAX_INT64 * NANO)
    return -nanos if sign == "-" else nanos


def parse_quantity(value: object, where: str) -> int:
    """The quantity in nano-units. `where` is the field's path in the error.

    Raises InvalidObjectError if `value` is neither a quantity string nor a number.
    """
    text = value if isinstance(value, str) else str(value) if type(value) in (int, float) else None
    nanos = _nanos(text) if text is not None else None
    if nanos is None:
        raise InvalidObjectError(where, f"{value!r:.80} is not a quantity")
    return nanos


def round_up(nanos: int) -> int:
    """Nano-units to units, rounded up, as `Quantity.Value()` does."""
    return min(-(-nanos // NANO), MAX_INT64)


def round_up_milli(nanos: int) -> int:
    """Nano-units to milli-units, rounded up, as `Quantity.MilliValue()` does."""
    return min(-(-nanos // 1_000_000), MAX_INT64)
