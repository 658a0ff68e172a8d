"""Functions over lists: Kubernetes' own, those of cel-go's extension, and its sets."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Final

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.frame import ELEMENT, Frame
from podwright.core.cel.library.equality import compare, contains, matches
from podwright.core.cel.library.operators import COMPARABLE, add
from podwright.core.cel.values import Duration, Function, Uint, Value, no_such_overload, type_of

_ZEROS: Final[dict[str, Value]] = {"int": 0, "uint": Uint(0), "double": 0.0, "google.protobuf.Duration": Duration(0)}


def is_list(value: Value) -> bool:
    """True if a value is a list."""
    return isinstance(value, (list, tuple))


def is_sorted(values: Value) -> bool:
    """True if each element is at most the next."""
    if not is_list(values):
        raise no_such_overload("isSorted", values)
    previous = None
    for i, value in enumerate(values):
        if value.__class__ not in COMPARABLE:
            raise no_such_overload()
        if i and _order(previous, value) > 0:
            return False
        previous = value
    return True


def _order(a: Value, b: Value) -> int:
    """The order of two values, 0 if they have none, as where cel-go only asks whether it is 1 or -1."""
    try:
        return compare(a, b)
    except EvaluationError:
        return 0


def _sum(frame: Frame, values: Value) -> Value:
    """Returns the sum, of the type of the elements; 0 for an empty list."""
    if not is_list(values):
        raise no_such_overload("sum", values)
    if not values:
        return 0
    total = _ZEROS.get(type_of(values[0]).name)
    if total is None:
        raise no_such_overload("sum", values)
    for value in values:
        total = add(frame, total, value)
    return total


def _extreme(name: str, wanted: int) -> Function:
    def find(values: Value) -> Value:
        if not is_list(values):
            raise no_such_overload(name, values)
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        best = values[0]
        for i, value in enumerate(values):
            if value.__class__ not in COMPARABLE:
                raise no_such_overload()
            if i and _order(best, value) == wanted:
                best = value
        return best

    return find


def index_of(frame: Frame, values: Value, item: Value) -> int:
    """The first index of an item, -1 if the list does not have it."""
    return next((i for i, value in enumerate(values) if matches(value, item, frame)), -1)


def last_index_of(frame: Frame, values: Value, item: Value) -> int:
    """The last index of an item, -1 if the list does not have it."""
    return next((i for i in range(len(values) - 1, -1, -1) if matches(values[i], item, frame)), -1)


def _includes(frame: Frame, target: Value, item: Value) -> bool:
    if is_list(target):
        return any(matches(value, item, frame) for value in target)
    return matches(target, item, frame)


def _slice(frame: Frame, values: Value, start: Value, end: Value) -> Value:
    if not is_list(values) or start.__class__ is not int or end.__class__ is not int:
        raise no_such_overload("slice", values, start, end)
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    frame.allocate(ELEMENT * (end - start))
    return list(values[start:end])


def _flatten(frame: Frame, values: Value, depth: Value = 1) -> Value:
    if not is_list(values) or depth.__class__ is not int:
        raise no_such_overload("flatten", values, depth)
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    for _ in range(min(depth, _MAX_DEPTH)):
        if not any(map(is_list, values)):
            break
        frame.allocate(ELEMENT * sum(len(value) if is_list(value) else 1 for value in values))
        values = [part for value in values for part in (value if is_list(value) else (value,))]
    return values


_MAX_DEPTH: Final = 1000


def _range(frame: Frame, count: Value) -> Value:
    if count.__class__ is not int:
        raise no_such_overload("lists.range", count)
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > _MAX_RANGE:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({_MAX_RANGE})")
    frame.allocate(ELEMENT * count)
    return list(range(count))


_MAX_RANGE: Final = 1_000_000


def _reverse(frame: Frame, values: Value) -> Value:
    if not is_list(values):
        raise no_such_overload("reverse", values)
    frame.allocate(ELEMENT * len(values))
    return list(values[::-1])


def _sort(frame: Frame, values: Value, keys: Value = None) -> Value:
    keys = values if keys is None else keys
    if not is_list(values) or not is_list(keys):
        raise no_such_overload("sort", values)
    if len(values) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(values)} and {len(keys)} elements respectively"
        )
    if not values:
        return values
    if keys[0].__class__ not in COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    if any(key.__class__ is not keys[0].__class__ for key in keys):
        raise EvaluationError("list elements must have the same type")
    frame.allocate(2 * ELEMENT * len(values))
    order = sorted(range(len(values)), key=cmp_to_key(lambda a, b: _order(keys[a], keys[b])))
    return [values[i] for i in order]


def _distinct(frame: Frame, values: Value) -> Value:
    if not is_list(values):
        raise no_such_overload("distinct", values)
    frame.allocate(ELEMENT * len(values))
    has_doubles = any(value.__class__ is float for value in values)
    hashed = _HASHED - {int, Uint} if has_doubles else _HASHED
    found: list[Value] = []
    known: set[Value] = set()
    others: list[Value] = []
    for value in values:
        if value.__class__ in hashed:
            if (value.__class__ is bool, value) in known:
                continue
            known.add((value.__class__ is bool, value))
        elif any(matches(value, other, frame) for other in others):
            continue
        else:
            others.append(value)
        found.append(value)
    return found


_HASHED: Final = frozenset((bool, int, Uint, str, bytes))
"""Values of other types are compared one by one: the call's cost is the square of their number. So are integers beside
doubles, which may equal them."""


def _set_function(name: str) -> Function:
    def call(frame: Frame, a: Value, b: Value) -> bool:
        if not is_list(a) or not is_list(b):
            raise no_such_overload(name, a, b)
        if name == "sets.intersects":
            return any(contains(b, value, frame) for value in a)
        found = all(contains(a, value, frame) for value in b)
        return found and (name == "sets.contains" or all(contains(b, value, frame) for value in a))

    return call


PLAIN: Final[dict[str, Function]] = {
    "isSorted": is_sorted,
    "min": _extreme("min", 1),
    "max": _extreme("max", -1),
}
ALLOCATING: Final[dict[str, Function]] = {
    "includes": _includes,
    **{name: _set_function(name) for name in ("sets.contains", "sets.equivalent", "sets.intersects")},
    "sum": _sum,
    "slice": _slice,
    "flatten": _flatten,
    "lists.range": _range,
    "reverse": _reverse,
    "sort": _sort,
    "@sortByAssociatedKeys": _sort,
    "distinct": _distinct,
}
