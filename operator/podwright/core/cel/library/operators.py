"""The operators and functions of CEL's standard library."""

from __future__ import annotations

from math import copysign, inf, isnan, nan
from typing import Final

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.frame import ELEMENT, Frame
from podwright.core.cel.library.conversions import CONVERSIONS, MAX_SECONDS, MIN_SECONDS, text_in_error
from podwright.core.cel.library.equality import compare, contains
from podwright.core.cel.library.times import TIME_FUNCTIONS
from podwright.core.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    Duration,
    Function,
    Timestamp,
    Uint,
    Value,
    find,
    has_key,
    keys_of,
    no_such_overload,
    to_key,
)

_SECOND: Final = 10**9


class GrowingList(list[Value]):
    """The accumulator of a macro, which `+` extends in place. Only the macro can refer to it."""


class GrowingMap(dict[Value, Value]):
    """The accumulator of a macro, into which `cel.@mapInsert` inserts in place."""


def _int(number: int) -> int:
    if MIN_INT <= number <= MAX_INT:
        return number
    raise EvaluationError("integer overflow")


def _uint(number: int) -> Uint:
    if 0 <= number <= MAX_UINT:
        return Uint(number)
    raise EvaluationError("unsigned integer overflow")


def _duration(nanos: int) -> Duration:
    if MIN_INT <= nanos <= MAX_INT:
        return Duration(nanos)
    raise EvaluationError("integer overflow")


def _timestamp(nanos: int, offset: int) -> Timestamp:
    if MIN_SECONDS <= nanos // _SECOND <= MAX_SECONDS:
        return Timestamp(nanos, offset)
    raise EvaluationError("timestamp overflow")


def add(frame: Frame, a: Value, b: Value) -> Value:
    """`a + b`. Raises EvaluationError on overflow and for types that cannot be added."""
    kind, other = a.__class__, b.__class__
    if kind is other:
        if kind is int:
            return _int(a + b)
        if kind is str or kind is bytes:
            frame.allocate(len(a) + len(b))
            return a + b
        if kind is float:
            return a + b
        if kind is Uint:
            return _uint(int(a) + int(b))
        if kind is Duration:
            return _duration(a.nanos + b.nanos)
    if kind is GrowingList and isinstance(b, (list, tuple)):
        frame.allocate(ELEMENT * len(b))
        a.extend(b)
        return a
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        frame.allocate(ELEMENT * (len(a) + len(b)))
        return [*a, *b]
    if kind is Timestamp and other is Duration:
        return _timestamp(a.nanos + b.nanos, a.offset)
    if kind is Duration and other is Timestamp:
        return _timestamp(a.nanos + b.nanos, b.offset)
    if kind in _ADDERS or isinstance(a, (list, tuple)):
        raise no_such_overload()
    raise EvaluationError("no such overload: _+_")


_ADDERS: Final = frozenset((int, str, bytes, float, Uint, Duration, Timestamp))


def subtract(a: Value, b: Value) -> Value:
    """`a - b`. Raises EvaluationError on overflow and for types that cannot be subtracted."""
    kind, other = a.__class__, b.__class__
    if kind is other:
        if kind is int:
            return _int(a - b)
        if kind is float:
            return a - b
        if kind is Uint:
            return _uint(int(a) - int(b))
        if kind is Duration:
            return _duration(a.nanos - b.nanos)
        if kind is Timestamp:
            _duration((a.nanos // _SECOND - b.nanos // _SECOND) * _SECOND)
            return _duration(a.nanos - b.nanos)
    if kind is Timestamp and other is Duration:
        return _timestamp(a.nanos - b.nanos, a.offset)
    if kind in (int, float, Uint, Duration, Timestamp):
        raise no_such_overload()
    raise EvaluationError("no such overload: _-_")


def multiply(a: Value, b: Value) -> Value:
    """`a * b`. Raises EvaluationError on overflow and for types that cannot be multiplied."""
    kind = a.__class__
    if kind is b.__class__:
        if kind is int:
            return _int(a * b)
        if kind is float:
            return a * b
        if kind is Uint:
            return _uint(int(a) * int(b))
    raise no_such_overload() if kind in (int, float, Uint) else EvaluationError("no such overload: _*_")


def divide(a: Value, b: Value) -> Value:
    """`a / b`, towards zero. Raises EvaluationError for a division of integers by zero, and for types that have no
    division.
    """
    kind = a.__class__
    if kind is b.__class__:
        if kind is float:
            return _divide_doubles(a, b)
        if kind is int or kind is Uint:
            if not b:
                raise EvaluationError("division by zero")
            quotient = abs(int(a)) // abs(int(b))
            if kind is Uint:
                return Uint(quotient)
            return _int(quotient if (a < 0) == (b < 0) else -quotient)
    raise no_such_overload() if kind in (int, float, Uint) else EvaluationError("no such overload: _/_")


def _divide_doubles(a: float, b: float) -> float:
    if b:
        return a / b
    if isnan(a) or isnan(b) or not a:
        return nan
    return copysign(inf, a) * copysign(1.0, b)


def modulo(a: Value, b: Value) -> Value:
    """`a % b`, with the sign of a. Raises EvaluationError for a modulus of zero and types other than integers."""
    kind = a.__class__
    if kind is b.__class__ and (kind is int or kind is Uint):
        if not b:
            raise EvaluationError("modulus by zero")
        if kind is Uint:
            return Uint(int(a) % int(b))
        if a == MIN_INT and b == -1:
            raise EvaluationError("integer overflow")
        rest = abs(a) % abs(b)
        return rest if a >= 0 else -rest
    raise no_such_overload() if kind in (int, Uint) else EvaluationError("no such overload: _%_")


def insert(frame: Frame, entries: Value, *args: Value) -> Value:
    """`cel.@mapInsert(map, key, value)` and `cel.@mapInsert(map, entries)`. Raises EvaluationError if the map has the
    key.
    """
    if not isinstance(entries, dict) or (len(args) == 1 and not isinstance(args[0], dict)):
        raise no_such_overload("cel.@mapInsert", entries, *args)
    added = [(key, args[0][to_key(key)]) for key in keys_of(args[0])] if len(args) == 1 else [(args[0], args[1])]
    grows = entries.__class__ is GrowingMap
    frame.allocate(2 * ELEMENT * (len(added) if grows else len(added) + len(entries)))
    found = entries if grows else dict(entries)
    for key, value in added:
        if find(found, key)[1]:
            raise EvaluationError(f"insert failed: key {text_in_error(key)} already exists")
        found[to_key(key)] = value
    return found


def negate(a: Value) -> Value:
    """`-a`. Raises EvaluationError on overflow and for types without a sign."""
    kind = a.__class__
    if kind is int:
        return _int(-a)
    if kind is float:
        return -a
    if kind is Duration:
        return _duration(-a.nanos)
    raise no_such_overload() if kind is bool else EvaluationError("no such overload: -_")


def _not(a: Value) -> bool:
    if a.__class__ is not bool:
        raise no_such_overload()
    return not a


COMPARABLE: Final = frozenset((bool, int, Uint, float, str, bytes, Duration, Timestamp))
"""The classes of values that have an order."""


def _compared(function: str, a: Value, b: Value) -> int:
    if a.__class__ not in COMPARABLE:
        raise EvaluationError(f"no such overload: {function}")
    return compare(a, b)


def less(a: Value, b: Value) -> bool:
    """`a < b`."""
    kind = a.__class__
    if kind is b.__class__ and (kind is int or kind is str):
        return a < b
    return _compared("_<_", a, b) < 0


def less_or_equal(a: Value, b: Value) -> bool:
    """`a <= b`."""
    kind = a.__class__
    if kind is b.__class__ and (kind is int or kind is str):
        return a <= b
    return _compared("_<=_", a, b) <= 0


def greater(a: Value, b: Value) -> bool:
    """`a > b`."""
    kind = a.__class__
    if kind is b.__class__ and (kind is int or kind is str):
        return a > b
    return _compared("_>_", a, b) > 0


def greater_or_equal(a: Value, b: Value) -> bool:
    """`a >= b`."""
    kind = a.__class__
    if kind is b.__class__ and (kind is int or kind is str):
        return a >= b
    return _compared("_>=_", a, b) >= 0


def is_in(frame: Frame, a: Value, b: Value) -> bool:
    """`a in b`, for lists and the keys of maps."""
    if isinstance(b, dict):
        return has_key(b, a)
    if isinstance(b, (list, tuple)):
        return contains(b, a, frame)
    raise no_such_overload()


def size(a: Value) -> int:
    """`size(a)`: code points, bytes, elements or entries."""
    if isinstance(a, (str, bytes, list, tuple, dict)):
        return len(a)
    raise EvaluationError("no such overload: size")


def _string_test(name: str) -> Function:
    def test(a: Value, b: Value) -> bool:
        if a.__class__ is not str or b.__class__ is not str:
            raise no_such_overload()
        return a.startswith(b) if name == "startsWith" else a.endswith(b)

    return test


def _contains(a: Value, b: Value) -> bool:
    if a.__class__ is not str or b.__class__ is not str:
        raise no_such_overload()
    return b in a


PLAIN: Final[dict[str, Function]] = {
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "-_": negate,
    "!_": _not,
    "_<_": less,
    "_<=_": less_or_equal,
    "_>_": greater,
    "_>=_": greater_or_equal,
    "size": size,
    "startsWith": _string_test("startsWith"),
    "endsWith": _string_test("endsWith"),
    "contains": _contains,
    **CONVERSIONS,
    **TIME_FUNCTIONS,
}
"""Functions by their name."""

ALLOCATING: Final[dict[str, Function]] = {"_+_": add, "@in": is_in, "cel.@mapInsert": insert}
"""Functions whose result can be greater than their cost says. Their first argument is the Frame."""
