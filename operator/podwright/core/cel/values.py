"""The values of CEL as Python values.

| CEL | Python |
| --- | --- |
| null, bool, int, double, string, bytes | None, bool, int, float, str, bytes |
| uint | Uint |
| list | list (never changed after an evaluation has seen it) |
| map | dict, whose keys are those of `to_key`: `True == 1` in Python, and lists and maps have no hash |
| an object with fields | a dict with the fields' names as keys |
| duration, timestamp, optional, type | Duration, Timestamp, Optional, Type |
| quantity, semver, IP, CIDR, URL, format | the classes in the modules with these names |

Integers of activations must lie within 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final, TypeAlias

from podwright.core.cel import types
from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.types import Type
from podwright.core.objects.dataclass import dataclass

Value: TypeAlias = Any
"""A value of an expression, see the table above."""

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """A duration in nanoseconds, within 64 bits."""

    nanos: int


@dataclass(frozen=True, order=True, slots=True)
class Timestamp:
    """A time in nanoseconds since 1970, from year 1 to 9999. `offset` is the zone of its text in seconds east of
    UTC.
    """

    nanos: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing. `has_value` is False for `optional.none()`."""

    value: Value
    has_value: bool = True


NONE: Final = Optional(None, has_value=False)


class BoolKey(Enum):
    """A key of type bool in a map."""

    FALSE = False
    TRUE = True


class SameKey:
    """A list, map or optional value as a key of a map: as in cel-go, only this very value finds its entry."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return other.__class__ is SameKey and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class DefaultMap(dict[Value, Value]):
    """A map that finds `default` under every key that it does not have. `in` and the macros see only its own keys."""

    def __init__(self, entries: dict[Value, Value], default: Value) -> None:
        super().__init__(entries)
        self.default = default


class Opaque:
    """A value of a type that Kubernetes adds to CEL. Its class defines the type and the comparison."""

    __slots__ = ()
    cel_type: Type

    def equals(self, other: Value) -> bool:
        """True if the value equals another one. Raises EvaluationError if the two cannot be compared."""
        raise NotImplementedError

    def go_size(self) -> int:
        """The size that cel-go counts in the cost: 1 for a value without a size."""
        return 1

    def traversal_cost(self) -> int:
        """The cost of visiting everything inside."""
        return 1


_TYPES: Final[dict[type, Type]] = {
    type(None): types.NULL,
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    list: types.LIST,
    tuple: types.LIST,
    dict: types.MAP,
    Duration: types.DURATION,
    Timestamp: types.TIMESTAMP,
    Optional: types.OPTIONAL,
    Type: types.TYPE,
}


def type_of(value: Value) -> Type:
    """The type of a value, without parameters. Raises EvaluationError if CEL has no such value."""
    found = _TYPES.get(type(value))
    if found is not None:
        return found
    if isinstance(value, Opaque):
        return value.cel_type
    if isinstance(value, dict):
        return types.MAP
    if isinstance(value, list):
        return types.LIST
    raise EvaluationError(f"unsupported conversion to ref.Val: ({type(value).__name__}){value}")


_SAME: Final = (list, tuple, dict, Optional)
"""Keys of these types are found by identity."""
_WRAPPED: Final = (BoolKey, SameKey)


def to_key(value: Value) -> Value:
    """The key under which a dict holds an entry."""
    if value is True:
        return BoolKey.TRUE
    if value is False:
        return BoolKey.FALSE
    if isinstance(value, _SAME):
        return SameKey(value)
    return value


def keys_of(entries: dict[Value, Value]) -> Iterator[Value]:
    """The keys of a map as values of CEL."""
    for key in entries:
        yield key.value if key.__class__ in _WRAPPED else key


_MISSING: Final = object()


def find(entries: dict[Value, Value], key: Value) -> tuple[Value, bool]:
    """Finds what a map has under a key, and whether it has it. Numbers of different types are the same key if they are
    equal.
    """
    found = entries.get(to_key(key), _MISSING)
    if found is not _MISSING:
        return found, True
    if entries.__class__ is DefaultMap:
        return entries.default, True
    return None, False


def has_key(entries: dict[Value, Value], key: Value) -> bool:
    """True if a map itself has a key, without its default."""
    return to_key(key) in entries


def size_of(value: Value) -> int:
    """The size of a value as cel-go counts it in costs: code points, bytes, elements, entries, otherwise 1."""
    kind = value.__class__
    if kind is str or kind is list or kind is dict or kind is bytes or kind is tuple:
        return len(value)
    if isinstance(value, (list, dict)):
        return len(value)
    if isinstance(value, Optional):
        return size_of(value.value) if value.has_value else 1
    if isinstance(value, Opaque):
        return value.go_size()
    return 1


def no_such_overload(function: str = "", *args: Value) -> EvaluationError:
    """The error of a call with arguments of the wrong type."""
    if not function:
        return EvaluationError("no such overload")
    return EvaluationError(f"no such overload: {function}({', '.join(type_of(arg).name for arg in args)})")


Function = Callable[..., Value]
