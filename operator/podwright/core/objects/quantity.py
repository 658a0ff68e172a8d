"""Exact Kubernetes quantities (`1500m`, `0.5`, `1.5Gi`, `1e3`).

A quantity is an integer number of nano-units, the finest unit that Kubernetes supports. Finer input is rounded up, as
in `resource.ParseQuantity`. Source of the grammar: the Kubernetes API reference, "Quantity".
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from podwright.core.objects.compaction import cleared_regularly
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.integers import int64_of
from podwright.core.objects.raw import shortened

NANO: Final = 10**9
MAX_INT64: Final = 2**63 - 1

_GRAMMAR: Final = re.compile(r"([+-]?)([0-9]*+)(?:(\.)([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIX: Final = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIXES: Final = ("", *_BINARY)
_CACHED_LENGTH: Final = 64
_SIGNIFICANT: Final = 100
"""Further digits only decide whether to round up."""
_HUGE: Final = 60
"""10 to this power exceeds every quantity, in nano-units. The inverse, times the greatest suffix, is less than one
nano-unit.
"""
_LARGEST: Final[int] = 10**_HUGE


def _nanos(text: str) -> int | None:
    exact = _exact_nanos(text)
    return None if exact is None else max(-MAX_INT64 * NANO, min(exact, MAX_INT64 * NANO))


class Written(NamedTuple):
    """A quantity as it is written: digits before and after the point, and what its suffix stands for."""

    is_negative: bool
    whole: str
    has_point: bool
    fraction: str
    power: int | None
    """The exponent of 10, or of 2 if `is_binary`; None for a suffix that does not exist."""
    is_binary: bool


def written(text: str) -> Written | None:
    """The parts of a quantity; None if the text has another form. Whether it has any digits is not checked."""
    found = _GRAMMAR.fullmatch(text)
    if found is None:
        return None
    sign, whole, point, fraction, suffix = found.groups()
    power = _DECIMAL.get(suffix)
    if power is None and (exponent := _EXPONENT.fullmatch(suffix)) is not None:
        power = int64_of(exponent[1])
    is_binary = suffix in _BINARY
    power = _BINARY[suffix] if is_binary else power
    return Written(sign == "-", whole, point is not None, fraction or "", power, is_binary)


def _exact_nanos(text: str) -> int | None:
    found = written(text)
    if found is None or found.power is None or not (found.whole or found.fraction):
        return None
    power, factor = (0, 1 << found.power) if found.is_binary else (found.power, 1)
    nanos = _scaled((found.whole + found.fraction).lstrip("0"), power + 9 - len(found.fraction), factor)
    return -nanos if found.is_negative else nanos


def _scaled(digits: str, scale: int, factor: int) -> int:
    """Digits · factor · 10^scale, rounded up and capped at _LARGEST. The cost does not depend on the scale."""
    if not digits:
        return 0
    if len(digits) + scale > _HUGE:
        return _LARGEST
    if len(digits) + scale < -_HUGE:
        return 1
    number = int(digits[:_SIGNIFICANT])
    if len(digits) > _SIGNIFICANT:
        scale += len(digits) - _SIGNIFICANT
        number += digits[_SIGNIFICANT:].strip("0") != ""
    ten: int = 10 ** abs(scale)
    return number * factor * ten if scale >= 0 else -(-number * factor // ten)


_cached_nanos: Final = cleared_regularly(lru_cache(maxsize=4096)(_nanos))


def parse_quantity(value: object, where: str) -> int:
    """The quantity in nano-units, capped at 64-bit units in both directions, as in kube-scheduler.

    Raises InvalidObjectError with the path `where` if `value` is neither a quantity string nor a number.
    """
    if type(value) is int:
        return max(-MAX_INT64, min(value, MAX_INT64)) * NANO
    text = value if isinstance(value, str) else str(value) if type(value) is float else None
    nanos = None
    if text is not None:
        nanos = _cached_nanos(text) if len(text) <= _CACHED_LENGTH else _nanos(text)
    if nanos is None:
        raise InvalidObjectError(where, f"{shortened(value)} is not a quantity")
    return nanos


def parse_exact_quantity(value: object, where: str) -> int:
    """The quantity in nano-units like `parse_quantity`, but not capped at 64 bits, which amounts of devices may exceed.

    Raises InvalidObjectError as `parse_quantity` does.
    """
    nanos = parse_quantity(value, where)
    if abs(nanos) < MAX_INT64 * NANO:
        return nanos
    return int(value) * NANO if type(value) is int else _exact_nanos(str(value)) or 0


def canonical(nanos: int, like: str) -> str:
    """A quantity as text, with the kind of suffix (binary or decimal) of the text `like`. Source:
    `Quantity.CanonicalizeBytes`.
    """
    if nanos % NANO:
        power, digits = -9, nanos
        while digits % 1000 == 0:
            digits, power = digits // 1000, power + 3
        return f"{digits}{_SUFFIX[power]}"
    units = nanos // NANO
    if like.endswith("i") and abs(units) >= 1024:
        power = 0
        while units % 1024 == 0 and power < 6:
            units, power = units // 1024, power + 1
        return f"{units}{_BINARY_SUFFIXES[power]}"
    power = 0
    while units and units % 1000 == 0 and power < 18:
        units, power = units // 1000, power + 3
    return f"{units}{_SUFFIX[power]}"


def round_up(nanos: int) -> int:
    """Nano-units to units, rounded up, as `Quantity.Value()` does."""
    return min(-(-nanos // NANO), MAX_INT64)


def round_up_milli(nanos: int) -> int:
    """Nano-units to milli-units, rounded up, as `Quantity.MilliValue()` does."""
    return min(-(-nanos // 1_000_000), MAX_INT64)
