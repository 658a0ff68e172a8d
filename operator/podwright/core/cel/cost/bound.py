"""The greatest cost that an expression can have, from the greatest sizes of the values that it reads.

The checked tree is evaluated with a Sized in the place of each value. What has no bound has the greatest number of 64
bits, as in cel-go. The bound is not cel-go's estimate: it is never less than what an evaluation counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from podwright.core.cel import types
from podwright.core.cel.checking.tree import Call, Comprehension, Const, Ident, ListExpr, MapExpr, Select, TreeNode
from podwright.core.cel.cost.counted import LIST_COST, MAP_COST, STRING_FACTOR, call_cost
from podwright.core.cel.types import Type
from podwright.core.cel.values import MAX_UINT, Opaque

_SCALARS: Final = (
    types.BOOL,
    types.INT,
    types.UINT,
    types.DOUBLE,
    types.NULL,
    types.DURATION,
    types.TIMESTAMP,
    types.TYPE,
    types.QUANTITY,
    types.SEMVER,
)
_SIZES: Final = {
    **{kind.name: 1 for kind in _SCALARS},
    types.IP.name: 16,
    types.CIDR.name: 16,
    types.FORMAT.name: 64,
}
_NUMBER: Final = 32
"""The text of a number is no longer."""
_MATCH_COST: Final = 2
"""The cost of a match. A text has at most as many matches as code points."""


class Sized(Opaque):
    """Stands for every value of at most this size. `item`, `key`: what a container has, None if that is unknown; a list
    has its items as keys. `literal`: the value itself, if the expression has it.
    """

    __slots__ = ("fields", "item", "key", "literal", "size")
    cel_type = types.DYN
    regex_size = 1103  # of the format `uri`, the greatest

    def __init__(
        self,
        size: int,
        item: Sized | None = None,
        key: Sized | None = None,
        *,
        fields: Mapping[str, Type] | None = None,
        literal: object = None,
    ) -> None:
        self.size = min(size, MAX_UINT)
        self.item = item
        self.key = key
        self.fields = fields or {}
        self.literal = literal

    @classmethod
    def of(cls, kind: Type) -> Sized:
        """All values of a type."""
        parts = [cls.of(part) for part in kind.parameters]
        if kind.name == types.OPTIONAL.name and parts:
            return parts[0]
        size = kind.size if kind.size is not None else len(kind.fields) or _SIZES.get(kind.name, MAX_UINT)
        return cls(size, parts[-1], parts[0], fields=kind.fields) if parts else cls(size, fields=kind.fields)

    def go_size(self) -> int:
        """At least that of an argument that failed."""
        return max(self.size, 1)

    def __float__(self) -> float:
        return float(self.literal if isinstance(self.literal, int) else MAX_UINT)

    def traversal_cost(self) -> int:
        """The greatest cost of visiting everything inside once. A code point may have four bytes."""
        if self.fields:
            return sum(len(name) + Sized.of(kind).traversal_cost() for name, kind in self.fields.items())
        if self.item is None or self.key is None:
            return int(4 * self.size * STRING_FACTOR) + 1
        inside = self.item.traversal_cost() + (0 if self.key is self.item else self.key.traversal_cost())
        return self.size * inside

    def at(self, name: object) -> Sized:
        """Returns the object's field, or the container's entry, under this name or key."""
        return Sized.of(self.fields[str(name)]) if name in self.fields else self.item or Sized(MAX_UINT)

    def resized(self, size: int) -> Sized:
        """The same in a container or text of another size."""
        return Sized(size, self.item, self.key)


def _union(*several: Sized | None) -> Sized:
    """Stands for what any of these stands for. None: unknown."""
    full = [each for each in several if each is None or each.size]
    known = [each for each in full if each is not None]
    if len(known) < len(full):
        return Sized(MAX_UINT)
    if len(known) < 2:
        return known[0] if known else Sized(0)
    item, key = [each.item for each in known], [each.key for each in known]
    fields = known[0].fields if all(each.fields is known[0].fields for each in known) else None
    return Sized(
        max(each.size for each in known),
        _union(*item) if any(item) else None,
        _union(*key) if any(key) else None,
        fields=fields,
    )


def _replaced(args: Sequence[Sized]) -> Sized:
    text, old, new = args[:3]
    times = text.size // len(old.literal) if isinstance(old.literal, str) and old.literal else text.size + 1
    return Sized(text.size + times * new.size)


def _joined(args: Sequence[Sized]) -> Sized:
    item = args[0].at(None).size + sum(arg.size for arg in args[1:])
    return Sized(args[0].size * item)


def _parts(args: Sequence[Sized]) -> Sized:
    """A list of parts of a text."""
    part = args[0].resized(args[0].size)
    return Sized(args[0].size + 1, part, part)


def _flattened(args: Sequence[Sized]) -> Sized:
    inner = args[0].at(None)
    return inner.resized(args[0].size * inner.size) if len(args) == 1 else Sized(MAX_UINT)


def _range(args: Sequence[Sized]) -> Sized:
    return Sized(max(0, int(float(args[0]))), Sized(1), Sized(1))


def _inserted(args: Sequence[Sized]) -> Sized:
    if len(args) == 2:
        return _union(*args).resized(args[0].size + args[1].size)
    into, key, value = args
    return _union(into, Sized(1, value, key)).resized(into.size + 1)


_Result = Callable[[Sequence[Sized]], Sized]
_OPTIONAL: Final = ("_[?_]", "_?._")
"""Evaluations count 1 more for these if the container is a literal."""
_RESULTS: Final[dict[str, _Result]] = {
    "_+_": lambda args: _union(*args).resized(sum(arg.size for arg in args)),
    "_?_:_": lambda args: _union(*args[1:]),
    **dict.fromkeys(("_[_]", *_OPTIONAL), lambda args: args[0].at(args[1].literal)),
    **dict.fromkeys(("min", "max", "first", "last"), lambda args: args[0].at(None)),
    **dict.fromkeys(("dyn", "or", "orValue", "value", "optional.of"), lambda args: _union(*args)),
    **dict.fromkeys(("reverse", "distinct", "sort", "slice", "@sortByAssociatedKeys"), lambda args: args[0]),
    **dict.fromkeys(
        ("lowerAscii", "upperAscii", "trim", "substring", "charAt", "find", "url"), lambda args: Sized(args[0].size)
    ),
    "string": lambda args: Sized(args[0].size + _NUMBER),
    "bytes": lambda args: Sized(args[0].size * 4),
    "strings.quote": lambda args: Sized(args[0].size * 2 + 2),
    "replace": _replaced,
    "split": _parts,
    "findAll": _parts,
    "join": _joined,
    "flatten": _flattened,
    "lists.range": _range,
    "cel.@mapInsert": _inserted,
}
"""The results of functions whose size their arguments bound."""


def greatest_cost(tree: TreeNode, variables: Mapping[str, Type]) -> int:
    """Returns the bound. Above 2**53, the cost has no bound, since the expression visits values of unknown size."""
    return _of(tree, {name: Sized.of(kind) for name, kind in variables.items()})[0]


Scope = Mapping[str, Sized]


def _of(node: TreeNode, scope: Scope) -> tuple[int, Sized]:
    """The cost of a node, and its value."""
    match node:
        case Const():
            size = len(node.value) if isinstance(node.value, (str, bytes)) else 1
            return int(isinstance(node.value, Type)), Sized(size, literal=node.value)
        case Ident():
            return 1, scope.get(node.name) or Sized.of(node.type)
        case Select():
            cost, operand = _of(node.operand, scope)
            return (cost, Sized(1)) if node.is_test else (cost + 1, operand.at(node.field))
        case Call():
            return _of_call(node, scope)
        case ListExpr():
            costs, elements = _of_all(node.elements, scope)
            item = _union(*elements)
            return LIST_COST + sum(costs), Sized(len(elements), item, item)
        case MapExpr():
            costs, keys = _of_all([entry.key for entry in node.entries], scope)
            more, values = _of_all([entry.value for entry in node.entries], scope)
            return MAP_COST + sum(costs) + sum(more), Sized(len(keys), _union(*values), _union(*keys))
        case Comprehension():
            return _of_loop(node, scope)
    return 0, Sized.of(node.type)


def _of_all(nodes: Sequence[TreeNode], scope: Scope) -> tuple[Sequence[int], Sequence[Sized]]:
    found = [_of(node, scope) for node in nodes]
    return [cost for cost, _ in found], [value for _, value in found]


def _of_call(node: Call, scope: Scope) -> tuple[int, Sized]:
    costs, args = _of_all(node.args, scope)
    value = _RESULTS[node.function](args) if node.function in _RESULTS else Sized.of(node.type)
    match node.function:
        case "_?_:_":
            return costs[0] + max(costs[1:]), value
        case "_&&_" | "_||_":
            return sum(costs), value
    own = call_cost(node.function, node.overload)
    total = sum(costs) + (own if isinstance(own, int) else own(tuple(args), value))
    if node.function == "findAll":
        total += _MATCH_COST * args[0].size
    return total + (node.function in _OPTIONAL), value


def _of_loop(node: Comprehension, scope: Scope) -> tuple[int, Sized]:
    cost, over = _of(node.range, scope)
    cost_of_init, init = _of(node.init, scope)
    is_map = node.range.type.name != "list"
    key, item = over.key or Sized(MAX_UINT), over.at(None)
    if node.second:
        variables = {node.variable: key if is_map else Sized(1), node.second: item}
    else:
        variables = {node.variable: key if is_map else item}
    inner = {**scope, **variables, node.accumulator: init}
    condition, (step, stepped) = _of(node.condition, inner)[0], _of(node.step, inner)
    if over.size and isinstance(node.init, (ListExpr, MapExpr)):
        init = stepped.resized(over.size * stepped.size)
    cost_of_result, result = _of(node.result, {**scope, node.accumulator: init})
    return cost + cost_of_init + over.size * (condition + step) + cost_of_result, result
