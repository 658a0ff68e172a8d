"""The cost of each call, as cel-go and Kubernetes count it while an expression is evaluated.

Sources: `interpreter/runtimecost.go` of cel-go, its trackers for lists and sets, and `library/cost.go` of
`k8s.io/apiserver/pkg/cel`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

from podwright.core.cel import types
from podwright.core.cel.values import MAX_UINT, Opaque, Value, keys_of, size_of, to_key

STRING_FACTOR: Final = 0.1
"""Cost of a code point."""
REGEX_FACTOR: Final = 0.25
"""Cost of a code point of a regular expression, per code point of the text."""
LIST_COST: Final = 10
MAP_COST: Final = 30

Arguments = tuple[Value, ...]
CallCost = Callable[[Arguments, Value], int]


def _traversed(argument: int, factor: float = 1.0) -> CallCost:
    return lambda args, _result: ceil(float(size_of(args[argument])) * factor * STRING_FACTOR)


def _smaller(args: Arguments, _result: Value) -> int:
    return ceil(float(min(size_of(args[0]), size_of(args[1]))) * STRING_FACTOR)


def _added(args: Arguments, _result: Value) -> int:
    return ceil(float(size_of(args[0]) + size_of(args[1])) * STRING_FACTOR)


def _matched(args: Arguments, _result: Value) -> int:
    return ceil((1.0 + float(size_of(args[0]))) * STRING_FACTOR) * ceil(float(size_of(args[1])) * REGEX_FACTOR)


def _searched(args: Arguments, _result: Value) -> int:
    return ceil(float(size_of(args[0])) * STRING_FACTOR) * ceil(float(size_of(args[1])) * STRING_FACTOR)


def _listed(args: Arguments, _result: Value) -> int:
    return size_of(args[1])


def _joined(_args: Arguments, result: Value) -> int:
    return ceil(float(size_of(result)) * 2 * STRING_FACTOR)


def _walked(args: Arguments, _result: Value) -> int:
    return traversal_cost(args[0])


def traversal_cost(value: Value) -> int:
    """The cost of visiting everything inside a value once. More than any limit if there is too much inside."""
    total = visited = 0
    stack = [value]
    while stack:
        found = stack.pop()
        visited += 1
        if visited > _MAX_VISITED:
            return MAX_UINT
        if found.__class__ is str:
            total += int(float(len(found.encode())) * STRING_FACTOR)
        elif found.__class__ is bytes:
            total += int(float(len(found)) * STRING_FACTOR)
        elif isinstance(found, (list, tuple)):
            stack += found
        elif isinstance(found, dict):
            for key in keys_of(found):
                stack += (key, found[to_key(key)])
        elif isinstance(found, Opaque):
            total += found.traversal_cost()
        else:
            total += 1
    return total


_MAX_VISITED: Final = 1_000_000


def _validated(args: Arguments, _result: Value) -> int:
    regex_size = getattr(args[0], "regex_size", 1)
    return ceil((1.0 + float(size_of(args[1]))) * STRING_FACTOR) * ceil(float(regex_size) * REGEX_FACTOR)


def _contained(*, cidr: bool, text: bool) -> CallCost:
    def cost(args: Arguments, _result: Value) -> int:
        own, other = size_of(args[0]), size_of(args[1])
        total = ceil(float(own + own) * STRING_FACTOR)
        if cidr:
            total += ceil(float(own) * STRING_FACTOR) + 1
        if text:
            total += ceil(float(other) * STRING_FACTOR)
        return total

    return cost


def _sets(factor: int) -> CallCost:
    return lambda args, _result: 1 + size_of(args[0]) * size_of(args[1]) * factor


def _allocated(size: int, factor: float = 1.0) -> int:
    return min(int(float(size) * (factor if factor >= 0 else 1.0)), 2**64 - 1) + 1 + LIST_COST


def _of_result(_args: Arguments, result: Value) -> int:
    return _allocated(size_of(result))


def _flattened(args: Arguments, _result: Value) -> int:
    return _allocated(size_of(args[0]), float(args[1]) if len(args) > 1 else 1.0)


def _self_compared(argument: int) -> CallCost:
    def cost(args: Arguments, _result: Value) -> int:
        values = args[argument]
        size = size_of(values)
        is_text = isinstance(values, (list, tuple)) and values and isinstance(values[0], (str, bytes))
        is_text = is_text or isinstance(values, Opaque)  # stands for lists of any elements
        return _allocated(size * size, 2.0 + STRING_FACTOR if is_text else 2.0)

    return cost


_SORTED: Final = ("int", "uint", "double", "bool", types.DURATION.name, types.TIMESTAMP.name, "string", "bytes")
_BY_OVERLOAD: Final[dict[str, int | CallCost]] = {
    "starts_with_string": _traversed(1),
    "ends_with_string": _traversed(1),
    "string_to_bytes": _traversed(0),
    "bytes_to_string": _traversed(0),
    "strings_quote": _traversed(0),
    "string_format": _traversed(0),
    "in_list": _listed,
    **dict.fromkeys(
        (
            f"{relation}_{kind}"
            for relation in ("less", "greater", "less_equals", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _smaller,
    ),
    "equals": _smaller,
    "not_equals": _smaller,
    "add_string": _added,
    "add_bytes": _added,
    "matches": _matched,
    "matches_string": _matched,
    "contains_string": _searched,
}

_TRACKED: Final[dict[str, int | CallCost]] = {
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "list_slice": _of_result,
    "list_flatten": _flattened,
    "list_flatten_int": _flattened,
    "lists_range": _of_result,
    "list_reverse": _of_result,
    "list_distinct": _self_compared(0),
    **dict.fromkeys((f"list_{kind}_sort" for kind in _SORTED), _self_compared(0)),
    **dict.fromkeys((f"list_{kind}_sortByAssociatedKeys" for kind in _SORTED), _self_compared(1)),
}
OF_RESULT: Final = frozenset((_of_result, _joined))
"""Costs that depend on the result."""

_READ_IN_ONE_STEP: Final = (
    "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason",
    "error", "errored", "masked", "prefixLength", "family", "isUnspecified", "isLoopback",
    "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger",
    "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major",
    "minor", "patch", "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery",
)  # fmt: skip
_BY_FUNCTION: Final[dict[str, int | CallCost]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _walked),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey"), _traversed(0)),
    **dict.fromkeys(("replace", "split"), _traversed(0, 2)),
    "join": _joined,
    **dict.fromkeys(("find", "findAll"), _matched),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip"), _traversed(0)),
    "ip.isCanonical": _traversed(0, 2),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _traversed(0)),
    "validate": _validated,
    **dict.fromkeys(_READ_IN_ONE_STEP, 1),
}


def call_cost(function: str, overload: str) -> int | CallCost:
    """The cost of a call, or how to compute it from the arguments and the result. `overload` is empty if only the
    values decide.
    """
    if overload in _TRACKED:
        return _TRACKED[overload]
    if function == "ip" and overload == "cidr_ip":
        return 1
    if function in ("containsIP", "containsCIDR"):
        return _contained(cidr=function == "containsCIDR", text=overload.endswith("_string"))
    if function in _BY_FUNCTION:
        return _BY_FUNCTION[function]
    return _BY_OVERLOAD.get(overload, 1)
