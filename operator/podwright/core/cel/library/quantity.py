"""Quantities in expressions: exact arithmetic, and which of them count as integers, as `resource.Quantity` has it.

A quantity is `value` · 10^`scale`. As in Kubernetes, numbers of up to 18 digits are kept as written, longer ones as big
decimals: `1000m` is no integer for `isInteger`, nor is a big decimal.
Source of the rules: `k8s.io/apimachinery/pkg/api/resource`.
"""

from __future__ import annotations

from typing import Final

from podwright.core.cel import types
from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.values import MAX_INT, MIN_INT, Opaque, no_such_overload
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.quantity import written

_FAST_DIGITS: Final = 18
_NANO: Final = -9
_MAX_SCALE: Final = 400
"""No double is as great. Greater exponents are read as this one."""
_MAX_DIGITS: Final = 1000
"""Further digits only decide whether to round up."""

WRONG_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_NUMBER: Final = "unable to parse numeric part of quantity"
WRONG_SUFFIX: Final = "unable to parse quantity's suffix"


@dataclass(frozen=True, eq=False, slots=True)
class Quantity(Opaque):
    """A quantity. `is_big` says that Kubernetes keeps it as a big decimal, `is_result` that arithmetic made it."""

    cel_type = types.QUANTITY
    value: int
    scale: int = 0
    is_big: bool = False
    is_result: bool = False

    def equals(self, other: object) -> bool:
        """cel-go compares with quantities only, and on the right-hand side not with the result of arithmetic."""
        if not isinstance(other, Quantity) or other.is_result:
            raise no_such_overload()
        return self.compare(other) == 0

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1."""
        mine, theirs = self.value, other.value
        if self.scale > other.scale:
            mine *= 10 ** (self.scale - other.scale)
        else:
            theirs *= 10 ** (other.scale - self.scale)
        return (mine > theirs) - (mine < theirs)

    def add(self, other: Quantity) -> Quantity:
        """The exact sum."""
        if not self.is_big and not other.is_big:
            if other.value == 0:
                return Quantity(self.value, self.scale, is_result=True)
            if self.value == 0:
                return Quantity(other.value, other.scale, is_result=True)
        scale = min(self.scale, other.scale)
        mine = self.value * 10 ** (self.scale - scale)
        theirs = other.value * 10 ** (other.scale - scale)
        total = mine + theirs
        fits = all(MIN_INT <= part <= MAX_INT for part in (mine, theirs, total)) and (
            total > MIN_INT or mine * theirs < 0
        )
        is_big = self.is_big or other.is_big or not fits
        return Quantity(mine + theirs, scale, is_big, is_result=True)

    def negated(self) -> Quantity:
        """The quantity with the other sign."""
        return Quantity(-self.value, self.scale, self.is_big)

    def as_integer(self) -> int | None:
        """The quantity as an integer of 64 bits, None if Kubernetes does not convert it."""
        if self.is_big or self.scale < 0:
            return None
        number = self.value * 10**self.scale
        return number if MIN_INT <= number <= MAX_INT else None

    def as_float(self) -> float:
        """The nearest double, or an infinity."""
        try:
            base = float(self.value)
        except OverflowError:
            return float("inf") if self.value > 0 else float("-inf")
        if self.scale > 308:
            return base * float("inf") if base else float("nan")
        return base * float(f"1e{self.scale}")

    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.value > 0) - (self.value < 0)

    def __str__(self) -> str:
        return f"{self.value}e{self.scale}" if self.scale else str(self.value)


def read_quantity(text: str) -> Quantity:
    """Raises EvaluationError with Kubernetes' text if the text is not a quantity."""
    found = written(text) if text else None
    if found is None:
        raise EvaluationError(WRONG_FORMAT)
    if found.power is None:
        raise EvaluationError(WRONG_SUFFIX)
    whole, fraction, binary = found.whole.lstrip("0"), found.fraction, found.is_binary
    exponent = max(-_MAX_SCALE, min(_MAX_SCALE, found.power))
    digits = (whole or "0") + fraction
    number = _fast(len(digits), digits, len(fraction), exponent, binary)
    if number is None:
        if not whole and not fraction and (found.has_point or not found.whole):
            raise EvaluationError(WRONG_NUMBER)
        number = _slow(digits, len(fraction), exponent, binary)
    return number.negated() if found.is_negative else number


def _fast(length: int, digits: str, places: int, exponent: int, binary: bool) -> Quantity | None:
    if binary:
        if places or 15 - length - int(exponent * 3 / 10) - 1 < 0:
            return None
        number = int(digits) << exponent
        return Quantity(number) if number <= MAX_INT else None
    if length > _FAST_DIGITS or exponent - places < _NANO:
        return None
    return Quantity(int(digits), exponent - places)


def _slow(digits: str, places: int, exponent: int, binary: bool) -> Quantity:
    cut = max(0, len(digits) - _MAX_DIGITS)
    number = int(digits[: len(digits) - cut] or "0")
    scale = cut - places
    if cut and digits[len(digits) - cut :].strip("0"):
        number, scale = number * 10 + 1, scale - 1
    if binary:
        number <<= exponent
    else:
        scale += exponent
    if number == 0:
        return Quantity(0, 0, is_big=True)
    scale = min(scale, _MAX_SCALE)
    number = number * 10 ** (scale - _NANO) if scale >= _NANO else -(-number // 10 ** (_NANO - scale))
    if binary:
        number = min(number, MAX_INT * 10**9)
    return Quantity(number, _NANO, is_big=True)
