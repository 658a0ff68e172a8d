"""Equality and order of values, as cel-go has them: numbers of different types compare by value, other types never
equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.frame import Frame
from podwright.core.cel.values import (
    Duration,
    Opaque,
    Optional,
    Timestamp,
    Uint,
    Value,
    find,
    keys_of,
    no_such_overload,
)

_NUMBERS = frozenset((int, float, Uint))


def equal(a: Value, b: Value, frame: Frame | None = None) -> bool:
    """Counts the parts of lists and maps in the frame. Raises EvaluationError for values without equality, such as a
    quantity and a number, and StopError if they have too many parts.
    """
    kind = a.__class__
    other = b.__class__
    if kind in _NUMBERS:
        return other in _NUMBERS and _numbers_equal(a, b)
    if kind is str or kind is bool or kind is bytes or a is None:
        return kind is other and a == b
    if b is None:
        return False
    if isinstance(a, (list, tuple)):
        if not isinstance(b, (list, tuple)) or len(a) != len(b):
            return False
        if frame is not None:
            frame.visit(len(a))
        return all(_same(x, y, frame) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return isinstance(b, dict) and _maps_equal(a, b, frame)
    if kind is Optional:
        return _optionals_equal(a, b, frame)
    if kind is Timestamp:
        return other is Timestamp and a.nanos == b.nanos
    if isinstance(a, Opaque):
        return a.equals(b)
    return kind is other and a == b


def _numbers_equal(a: Value, b: Value) -> bool:
    """Integers beyond 2**53 equal the double that they round to, as in cel-go."""
    if a.__class__ is float or b.__class__ is float:
        return not (isnan(a) or isnan(b)) and _compare_doubles(a, b) == 0
    return a == b


def _same(a: Value, b: Value, frame: Frame | None) -> bool:
    """Elements without equality count as equal, as in cel-go."""
    try:
        return equal(a, b, frame)
    except EvaluationError:
        return True


def _maps_equal(a: dict[Value, Value], b: dict[Value, Value], frame: Frame | None) -> bool:
    if len(a) != len(b):
        return False
    if frame is not None:
        frame.visit(len(a))
    for key in keys_of(a):
        other, found = find(b, key)
        if not found or not _same(find(a, key)[0], other, frame):
            return False
    return True


def _optionals_equal(a: Optional, b: Value, frame: Frame | None) -> bool:
    if b.__class__ is not Optional:
        return False
    if not a.has_value or not b.has_value:
        return a.has_value == b.has_value
    return equal(a.value, b.value, frame)


def matches(a: Value, b: Value, frame: Frame | None = None) -> bool:
    """True if two values are equal. Values without equality are not."""
    try:
        return equal(a, b, frame)
    except EvaluationError:
        return False


def contains(elements: Sequence[Value], value: Value, frame: Frame | None = None) -> bool:
    """True if a list has an element that equals a value."""
    return any(matches(value, element, frame) for element in elements)


def compare(a: Value, b: Value) -> int:
    """-1, 0 or 1. Raises EvaluationError if the values have no order."""
    kind = a.__class__
    if kind in _NUMBERS:
        if b.__class__ not in _NUMBERS:
            raise no_such_overload()
        if kind is float or b.__class__ is float:
            if (kind is float and isnan(a)) or (b.__class__ is float and isnan(b)):
                raise EvaluationError("NaN values cannot be ordered")
            return _compare_doubles(a, b)
    elif kind is not b.__class__:
        raise no_such_overload()
    elif kind is Timestamp:
        a, b = a.nanos, b.nanos
    elif kind is not str and kind is not bool and kind is not bytes and kind is not Duration:
        raise no_such_overload()
    if a == b:
        return 0
    return -1 if a < b else 1


_TOO_SMALL = -(2.0**63)
_TOO_GREAT = {int: 2.0**63, Uint: 2.0**64}


def _compare_doubles(a: Value, b: Value) -> int:
    """One of the two is a double. The other is rounded to a double, unless the double is beyond its range."""
    if a.__class__ is not float:
        return -_compare_doubles(b, a)
    kind = b.__class__
    if kind is not float:
        if a < (_TOO_SMALL if kind is int else 0.0):
            return -1
        if a > _TOO_GREAT[kind]:
            return 1
    x, y = a, float(b)
    if x == y:
        return 0
    return -1 if x < y else 1
