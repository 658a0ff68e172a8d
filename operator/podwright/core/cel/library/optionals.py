"""The functions of optional values. `or` and `orValue` are operators, since they evaluate only what they need."""

from __future__ import annotations

from typing import Final

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.frame import ELEMENT, Frame
from podwright.core.cel.library.conversions import text_in_error
from podwright.core.cel.library.signatures import unary
from podwright.core.cel.values import NONE, Duration, Function, Optional, Timestamp, Uint, Value, no_such_overload

_YEAR_1: Final = -62135596800 * 10**9


def _is_zero(value: Value) -> bool:
    kind = value.__class__
    if kind in (bool, int, float, Uint):
        return value == 0
    if value is None:
        return True
    if isinstance(value, (str, bytes, list, tuple, dict)):
        return not value
    if kind is Duration:
        return value.nanos == 0
    if kind is Timestamp:
        return value.nanos == _YEAR_1
    return False


def _value(value: Optional) -> Value:
    if not value.has_value:
        raise EvaluationError("optional.none() dereference")
    return value.value


def _unwrap(frame: Frame, values: Value) -> Value:
    if not isinstance(values, (list, tuple)):
        raise no_such_overload("optional.unwrap", values)
    frame.allocate(ELEMENT * len(values))
    for value in values:
        if value.__class__ is not Optional:
            raise EvaluationError(f"value {text_in_error(value)} is not optional")
    return [value.value for value in values if value.has_value]


def _end(name: str, index: int) -> Function:
    def get(values: Value) -> Optional:
        if not isinstance(values, (list, tuple)):
            raise no_such_overload(name, values)
        return Optional(values[index]) if values else NONE

    return get


PLAIN: Final[dict[str, Function]] = {
    "optional.of": Optional,
    "optional.ofNonZeroValue": lambda value: NONE if _is_zero(value) else Optional(value),
    "optional.none": lambda: NONE,
    "value": unary("value", Optional, _value),
    "hasValue": unary("hasValue", Optional, lambda value: value.has_value),
    "first": _end("first", 0),
    "last": _end("last", -1),
}
ALLOCATING: Final[dict[str, Function]] = {"optional.unwrap": _unwrap, "unwrapOpt": _unwrap}
