"""Arithmetic over columns, with CEL's errors: integers overflow instead of wrapping, and division truncates towards
zero.

Each function takes two arrays, or an array and a number, of one type. It returns the result and the rows where it is an
error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.cel_columns.vectors import Bools, VecKind

Array = NDArray[Any]
Wrong = tuple[tuple[str, Bools], ...]
"""Texts of errors, each with the rows that have it. The first one that applies counts."""
Answer = tuple[Array, Wrong]
_OVERFLOW: Final = "integer overflow"
_UNSIGNED_OVERFLOW: Final = "unsigned integer overflow"
_LEAST: Final = np.int64(-(2**63))
_SMALL: Final = 2**31
_NONE: Final[Wrong] = ()


def _add(a: Any, b: Any) -> Answer:
    found = np.add(a, b)
    return found, ((_OVERFLOW, ((a ^ found) & (b ^ found)) < 0),)


def _subtract(a: Any, b: Any) -> Answer:
    found = np.subtract(a, b)
    return found, ((_OVERFLOW, ((a ^ b) & (a ^ found)) < 0),)


def _multiply(a: Any, b: Any) -> Answer:
    found = np.multiply(a, b)
    if _within(a, _SMALL) and _within(b, _SMALL):
        return found, _NONE
    zero = b == 0
    back = np.floor_divide(found, np.where(zero, 1, b))
    wrong = (~zero & ((back != a) | (np.multiply(back, b) != found))) | ((b == -1) & (a == _LEAST))
    wrong |= (a == -1) & (b == _LEAST)
    return found, ((_OVERFLOW, wrong),)


def _within(values: Any, bound: int) -> bool:
    """True if all values lie between -bound and bound."""
    if not np.size(values):
        return True
    return bool(np.max(values) < bound) and bool(np.min(values) > -bound)


def _divide(a: Any, b: Any) -> Answer:
    zero, overflow = np.equal(b, 0), (b == -1) & (a == _LEAST)
    divisor = np.where(zero | overflow, 1, b)
    found = np.floor_divide(a - np.fmod(a, divisor), divisor)
    return found, (("division by zero", zero), (_OVERFLOW, overflow))


def _modulo(a: Any, b: Any) -> Answer:
    zero, overflow = np.equal(b, 0), (b == -1) & (a == _LEAST)
    found = np.fmod(a, np.where(zero | overflow, 1, b))
    return found, (("modulus by zero", zero), (_OVERFLOW, overflow))


def _exact(compute: Callable[[Any, Any], Array]) -> Callable[[Any, Any], Answer]:
    """An operation that never fails."""
    return lambda a, b: (compute(a, b), _NONE)


def _add_unsigned(a: Any, b: Any) -> Answer:
    found = np.add(a, b)
    return found, ((_UNSIGNED_OVERFLOW, found < a),)


def _subtract_unsigned(a: Any, b: Any) -> Answer:
    return np.subtract(a, b), ((_UNSIGNED_OVERFLOW, np.less(a, b)),)


def _multiply_unsigned(a: Any, b: Any) -> Answer:
    found = np.multiply(a, b)
    zero = np.equal(b, 0)
    return found, ((_UNSIGNED_OVERFLOW, ~zero & (np.floor_divide(found, np.where(zero, np.uint64(1), b)) != a)),)


def _divide_unsigned(a: Any, b: Any) -> Answer:
    zero = np.equal(b, 0)
    return np.floor_divide(a, np.where(zero, np.uint64(1), b)), (("division by zero", zero),)


def _modulo_unsigned(a: Any, b: Any) -> Answer:
    zero = np.equal(b, 0)
    return np.remainder(a, np.where(zero, np.uint64(1), b)), (("modulus by zero", zero),)


ARITHMETIC: Final[Mapping[tuple[str, VecKind], Callable[[Any, Any], Answer]]] = {
    ("_+_", VecKind.INT): _add,
    ("_-_", VecKind.INT): _subtract,
    ("_*_", VecKind.INT): _multiply,
    ("_/_", VecKind.INT): _divide,
    ("_%_", VecKind.INT): _modulo,
    ("_+_", VecKind.UINT): _add_unsigned,
    ("_-_", VecKind.UINT): _subtract_unsigned,
    ("_*_", VecKind.UINT): _multiply_unsigned,
    ("_/_", VecKind.UINT): _divide_unsigned,
    ("_%_", VecKind.UINT): _modulo_unsigned,
    ("_+_", VecKind.DOUBLE): _exact(np.add),
    ("_-_", VecKind.DOUBLE): _exact(np.subtract),
    ("_*_", VecKind.DOUBLE): _exact(np.multiply),
    ("_/_", VecKind.DOUBLE): _exact(np.divide),
}
"""By operator and kind of both operands."""


def negated(kind: VecKind, values: Array) -> Answer:
    """The unary minus."""
    if kind is VecKind.INT:
        return np.negative(values), ((_OVERFLOW, values == _LEAST),)
    return np.negative(values), _NONE


def to_double(values: Array) -> Answer:
    """`double(x)` of integers."""
    return values.astype(np.float64), _NONE


def to_int(kind: VecKind, values: Array) -> Answer:
    """`int(x)` of unsigned integers or doubles. Source of the bounds: cel-go."""
    great, small = (np.uint64(2**63), None) if kind is VecKind.UINT else (np.float64(2.0**63), -np.float64(2.0**63))
    right = values < great if small is None else (values < great) & (values > small)
    wrong = ~right
    found = np.where(wrong, np.zeros(1, values.dtype), values).astype(np.int64)
    return found, ((_OVERFLOW, wrong),)
