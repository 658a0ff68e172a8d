"""Estimates of what calls cost and of how great their results are.

Sources: `checker/cost.go` of cel-go and `ext/lists.go`, `ext/sets.go`; `library/cost.go` of `k8s.io/apiserver/pkg/cel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from podwright.core.cel import types
from podwright.core.cel.checking.tree import Const, Node
from podwright.core.cel.cost.counted import LIST_COST, MAX_REGEX_SIZE, READ_IN_ONE_STEP, REGEX_FACTOR, STRING_FACTOR
from podwright.core.cel.cost.ranges import NOTHING, ONE, UNKNOWN, Range, fixed
from podwright.core.cel.types import Type
from podwright.core.cel.values import MAX_UINT


@dataclass(frozen=True)
class Operand:
    """An argument as the estimates see it. `size` is None if nothing is known, `items` is the size of a list's
    elements.
    """

    node: Node
    size: Range | None
    items: Range | None = None

    @property
    def any_size(self) -> Range:
        """The size, or that nothing is known."""
        return self.size if self.size is not None else UNKNOWN

    @property
    def kind(self) -> Type:
        """The type."""
        return self.node.type


@dataclass(frozen=True)
class Estimate:
    """The cost of a call without its arguments, and the size of its result, None if nothing is known."""

    cost: Range
    size: Range | None = None


Estimator = Callable[[Sequence[Operand], bool], Estimate | None]
"""Estimates a call from its arguments and whether the first of them is its target. None: it has the usual cost."""


def _traversed(argument: int, factor: float = 1, *, sized: bool = False) -> Estimator:
    def estimate(args: Sequence[Operand], _is_method: bool) -> Estimate:
        size = args[argument].any_size
        return Estimate(size.by(factor * STRING_FACTOR), size if sized else None)

    return estimate


def _constant(cost: Range) -> Estimator:
    return lambda _args, _is_method: Estimate(cost)


def _walked(args: Sequence[Operand], is_method: bool) -> Estimate | None:
    """Functions that visit each element of a list, or a string."""
    if not is_method:
        return None
    target = args[0]
    if not target.kind.parameters:
        return Estimate(target.any_size.by(STRING_FACTOR))
    cost = ONE
    if target.kind.parameters[0] in (types.STRING, types.BYTES):
        cost = cost.plus((target.items or UNKNOWN).by(STRING_FACTOR))
    return Estimate(target.any_size.times(cost))


def _included(args: Sequence[Operand], is_method: bool) -> Estimate | None:
    return _walked(args, is_method) if args[0].kind.parameters else Estimate(args[0].any_size)


def _replaced(args: Sequence[Operand], is_method: bool) -> Estimate | None:
    if not is_method or len(args) < 3:
        return None
    size, old, new = (arg.any_size for arg in args[:3])
    most, kept_most = _replacements(size.high, old.low, enlarges=new.high > old.low)
    least, kept_least = _replacements(size.low, old.high, enlarges=old.high > new.low)
    result = Range(least, most).times(new).plus(Range(kept_least, kept_most))
    return Estimate(size.by(2 * STRING_FACTOR), result)


def _replacements(size: int, old: int, *, enlarges: bool) -> tuple[int, int]:
    """How many times something of size `old` can be replaced, and how much of the text stays besides."""
    if not old:
        return min(size + 1, MAX_UINT), size
    if not enlarges:
        return 0, size
    return min(ceil(float(size) / float(old)), MAX_UINT), 0


def _split(args: Sequence[Operand], is_method: bool) -> Estimate | None:
    if not is_method:
        return None
    size = args[0].any_size
    most = size.high
    limit = args[2].node if len(args) > 2 else None
    if isinstance(limit, Const) and limit.value.__class__ is int:
        most = limit.value % 2**64
    return Estimate(size.by(2 * STRING_FACTOR), Range(0, most))


def _joined(args: Sequence[Operand], is_method: bool) -> Estimate | None:
    if not is_method:
        return None
    count = args[0].any_size
    size = count.times(args[0].items or UNKNOWN) if args[0].kind.parameters else NOTHING
    if len(args) > 1:
        size = size.plus(args[1].any_size.times(Range(max(0, count.low - 1), max(0, count.high - 1))))
    return Estimate(size.by(STRING_FACTOR), size)


def _searched(args: Sequence[Operand], is_method: bool) -> Estimate | None:
    if not is_method or len(args) < 2:
        return None
    return Estimate(_regex(args[0].any_size, args[1].any_size), Range(0, args[0].any_size.high))


def _regex(text: Range, pattern: Range) -> Range:
    return text.plus(ONE).by(STRING_FACTOR).times(pattern.by(REGEX_FACTOR))


def _validated(args: Sequence[Operand], _is_method: bool) -> Estimate | None:
    if len(args) < 2:
        return None
    return Estimate(args[1].any_size.by(STRING_FACTOR).by(MAX_REGEX_SIZE * REGEX_FACTOR))


_ADDRESS: Final = Range(4, 16)


def _contained(*, cidr: bool) -> Estimator:
    def estimate(args: Sequence[Operand], _is_method: bool) -> Estimate:
        cost = _ADDRESS.plus(_ADDRESS).by(STRING_FACTOR)
        if cidr:
            cost = cost.plus(_ADDRESS.by(STRING_FACTOR)).plus(ONE)
        if args[1].kind == types.STRING:
            cost = cost.plus(args[1].any_size.by(STRING_FACTOR))
        return Estimate(cost)

    return estimate


def _equals(args: Sequence[Operand], _is_method: bool) -> Estimate | None:
    kind = args[0].kind
    if kind != args[1].kind:
        return None
    if kind in (types.IP, types.CIDR, types.QUANTITY, types.SEMVER):
        return Estimate(ONE)
    if kind == types.FORMAT:
        return Estimate(Range(1, _MAX_FORMAT).by(STRING_FACTOR))
    if kind == types.URL:
        size = args[1].size
        return Estimate(Range(1, size.high if size else 1).by(STRING_FACTOR))
    return None


_MAX_FORMAT: Final = 64

_BY_FUNCTION: Final[dict[str, Estimator]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _walked),
    "includes": _included,
    "url": _traversed(0, sized=True),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _traversed(0, sized=True)),
    "replace": _replaced,
    "split": _split,
    "join": _joined,
    **dict.fromkeys(("find", "findAll"), _searched),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _traversed(0)),
    "ip": _traversed(0),
    "ip.isCanonical": _traversed(0, 2),
    "containsIP": _contained(cidr=False),
    "containsCIDR": _contained(cidr=True),
    "validate": _validated,
    "_==_": _equals,
    **dict.fromkeys(
        READ_IN_ONE_STEP,
        _constant(ONE),
    ),
}


def _allocated(size: Range, factor: float) -> Estimate:
    return Estimate(size.by(factor).plus(fixed(1 + LIST_COST)), size)


def _literal(operand: Operand, otherwise: int) -> int:
    node = operand.node
    if isinstance(node, Const) and node.value.__class__ is int:
        return max(0, node.value)
    return otherwise


def _sliced(args: Sequence[Operand], _is_method: bool) -> Estimate:
    size = args[0].any_size
    return _allocated(fixed((_literal(args[2], size.high) - _literal(args[1], 0)) % 2**64), 1)


def _flattened(args: Sequence[Operand], _is_method: bool) -> Estimate:
    depth = _literal(args[1], MAX_UINT) if len(args) > 1 else 1
    return _allocated(args[0].any_size, float(depth))


def _compared(argument: int, factor: float) -> Estimator:
    def estimate(args: Sequence[Operand], _is_method: bool) -> Estimate:
        size = args[argument].any_size
        return _allocated(size.times(size), factor)

    return estimate


def _sets(factor: int) -> Estimator:
    return lambda args, _is_method: Estimate(args[0].any_size.times(args[1].any_size).by(factor).plus(ONE))


_SORTED: Final = {
    **dict.fromkeys(("int", "uint", "double", "bool", types.DURATION.name, types.TIMESTAMP.name), 2.0),
    **dict.fromkeys(("string", "bytes"), 2.0 + STRING_FACTOR),
}
_EXTENSIONS: Final[dict[str, Estimator]] = {
    "list_slice": _sliced,
    "list_flatten": _flattened,
    "list_flatten_int": _flattened,
    "lists_range": lambda args, _is_method: _allocated(fixed(_literal(args[0], MAX_UINT)), 1),
    "list_reverse": lambda args, _is_method: _allocated(args[0].any_size, 1),
    "list_distinct": _compared(0, 2.0),
    **{f"list_{name}_sort": _compared(0, factor) for name, factor in _SORTED.items()},
    **{f"list_{name}_sortByAssociatedKeys": _compared(1, factor) for name, factor in _SORTED.items()},
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}


def _matched(args: Sequence[Operand], _is_method: bool) -> Estimate:
    return Estimate(_regex(args[0].any_size, args[1].any_size))


def _found(args: Sequence[Operand], _is_method: bool) -> Estimate:
    return Estimate(args[0].any_size.by(STRING_FACTOR).times(args[1].any_size.by(STRING_FACTOR)))


def _smaller(args: Sequence[Operand], _is_method: bool) -> Estimate:
    most = min(args[0].any_size.high, args[1].any_size.high)
    return Estimate(Range(1 if most else 0, most).by(STRING_FACTOR))


def _added(args: Sequence[Operand], _is_method: bool) -> Estimate:
    size = args[0].any_size.plus(args[1].any_size)
    return Estimate(size.by(STRING_FACTOR), size)


def _added_list(args: Sequence[Operand], _is_method: bool) -> Estimate:
    return Estimate(ONE, args[0].any_size.plus(args[1].any_size))


def _to_bytes(args: Sequence[Operand], _is_method: bool) -> Estimate:
    size = args[0].any_size
    return Estimate(size.by(STRING_FACTOR), Range(size.low, size.high * 4 % 2**64))


def _to_string(args: Sequence[Operand], _is_method: bool) -> Estimate:
    size = args[0].any_size
    return Estimate(size.by(STRING_FACTOR), Range(size.low // 4, size.high))


def _quoted(args: Sequence[Operand], _is_method: bool) -> Estimate:
    size = args[0].any_size
    return Estimate(size.by(STRING_FACTOR), Range(size.low + 2, (size.high * 2 + 2) % 2**64))


_STANDARD: Final[dict[str, Estimator]] = {
    "string_format": _traversed(0),
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_string,
    "strings_quote": _quoted,
    "starts_with_string": _traversed(1),
    "ends_with_string": _traversed(1),
    "in_list": lambda args, _is_method: Estimate(args[1].any_size.by(1)),
    "matches": _matched,
    "matches_string": _matched,
    "contains_string": _found,
    "add_string": _added,
    "add_bytes": _added,
    "add_list": _added_list,
    "equals": _smaller,
    "not_equals": _smaller,
    **dict.fromkeys(
        (
            f"{relation}_{kind}"
            for relation in ("less", "greater", "less_equals", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _smaller,
    ),
}


def estimate_call(function: str, overload: str, args: Sequence[Operand], *, is_method: bool) -> Estimate:
    """The estimate of a call, without that of its arguments."""
    found = None
    if overload in _EXTENSIONS:
        found = _EXTENSIONS[overload](args, is_method)
    elif overload == "cidr_ip":
        return Estimate(ONE)
    elif function in _BY_FUNCTION:
        found = _BY_FUNCTION[function](args, is_method)
    if found is None and overload in _STANDARD:
        found = _STANDARD[overload](args, is_method)
    return found or Estimate(ONE)
