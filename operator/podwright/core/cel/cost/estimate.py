"""Estimates the cost of an expression from its checked tree, before any evaluation, as cel-go does.

The sizes of variables come from their types. What has no bound has the greatest number of 64 bits.
Sources: `checker/cost.go` of cel-go, and the size estimator of `k8s.io/dynamic-resource-allocation/cel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from podwright.core.cel import types
from podwright.core.cel.checking.tree import (
    Call,
    Comprehension,
    Const,
    Ident,
    ListExpr,
    MapExpr,
    Node,
    Select,
)
from podwright.core.cel.cost.call_estimates import Estimate, Operand, estimate_call
from podwright.core.cel.cost.counted import LIST_COST, MAP_COST
from podwright.core.cel.cost.ranges import EMPTY, NOTHING, ONE, UNKNOWN, Range, fixed
from podwright.core.cel.types import Type

Path = tuple[str, ...]

_NO_LONGER: Final = frozenset(
    ("or", "orValue", "value", "lowerAscii", "upperAscii", "trim", "substring", "charAt", "string", "optional.of")
)
"""Functions whose result is no longer than their arguments together, or than the text of a number."""
_NUMBER: Final = 32
_MATCH_COST: Final = 2
"""What a match costs. A text has at most as many as it has code points."""
_SCALARS: Final = frozenset((types.BOOL, types.DOUBLE, types.DURATION, types.INT, types.TIMESTAMP, types.UINT))
_SIZED: Final = frozenset(("string", "bytes", "list", "map", "dyn", "any"))


@dataclass(frozen=True)
class _Entries:
    """The sizes of a container's keys and values."""

    is_list: bool
    key: Range
    value: Range

    def union(self, other: _Entries) -> _Entries:
        return _Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


@dataclass(frozen=True)
class _Local:
    path: Path
    size: Range | None
    entries: _Entries | None = None


class CostEstimator:
    """Estimates one tree. `variables` are those of its environment.

    `beyond_cel_go`: also gives sizes to optional entries and to texts that are no longer than what they are made of.
    `counts_matches`: counts each match of `findAll`, too, which cel-go does not.
    """

    def __init__(
        self, variables: Mapping[str, Type], *, beyond_cel_go: bool = False, counts_matches: bool = False
    ) -> None:
        self._variables = variables
        self._beyond_cel_go = beyond_cel_go
        self._counts_matches = counts_matches
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Range:
        """The range of what the evaluation of a node costs."""
        if isinstance(node, Const):
            return ONE if isinstance(node.value, Type) else NOTHING
        if isinstance(node, Ident):
            self._paths[id(node)] = self._path(node) or (node.name,)
            return ONE
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, ListExpr):
            return self._list(node)
        if isinstance(node, MapExpr):
            return self._map(node)
        if isinstance(node, Comprehension):
            return self._bind(node) if _is_bind(node) else self._loop(node)
        return NOTHING

    def _select(self, node: Select) -> Range:
        cost = self.cost(node.operand)
        if node.is_test:
            return cost
        if node.operand.type.name == "map" or node.operand.type.is_object:
            cost = cost.plus(ONE)
        self._paths[id(node)] = (*self._path(node.operand), node.field)
        return cost

    def _call(self, node: Call) -> Range:
        if node.function == "dyn":
            cost = self.cost(node.args[0])
            self._copy_sizes(node, node.args[0])
            return cost.plus(ONE)
        args = node.args
        order = (*range(1, len(args)), 0) if node.is_method else range(len(args))
        costs = [NOTHING] * len(args)
        operands: list[Operand] = [Operand(node, None)] * len(args)
        for i in order:
            costs[i] = self.cost(args[i])
            operands[i] = self._operand(args[i])
        if not node.overloads:
            return NOTHING
        own, size = EMPTY, None
        for overload in node.overloads:
            found = self._overload(node, overload, operands, costs)
            own = own.union(found.cost)
            if found.size is not None:
                size = found.size if size is None else size.union(found.size)
            if overload in ("index_list", "index_map"):
                entries = self._entries_of(args[0])
                size = entries.value if entries else None
                self._paths[id(node)] = (*self._path(args[0]), "@items" if overload == "index_list" else "@values")
            if size is None:
                size = self._size(node)
        if size is None and self._beyond_cel_go:
            size = self._further_size(node, operands)
        if size is not None:
            self._sizes[id(node)] = size
        return own

    def _further_size(self, node: Call, operands: list[Operand]) -> Range | None:
        if node.function in ("_[?_]", "_?._"):
            return self._declared((*self._path(node.args[0]), "@values"))
        if node.function not in _NO_LONGER:
            return None
        sizes = [operand.size if operand.size is not None else self._size(operand.node) for operand in operands]
        known = [size for size in sizes if size is not None]
        return Range(0, sum(size.high for size in known) + _NUMBER) if len(known) == len(sizes) else None

    def _overload(self, node: Call, overload: str, operands: list[Operand], costs: list[Range]) -> Estimate:
        match overload:
            case "logical_and" | "logical_or":
                return Estimate(Range(costs[0].low, costs[0].plus(costs[1]).high))
            case "conditional":
                yes, no = (self._entries_of(arg) for arg in node.args[1:])
                if yes and no:
                    self._entries[id(node)] = yes.union(no)
                size = operands[1].any_size.union(operands[2].any_size)
                return Estimate(costs[0].plus(costs[1].union(costs[2])), size)
            case "add_list" | "add_string" | "add_bytes":
                left, right = (self._entries_of(arg) for arg in node.args)
                if left and right:
                    self._entries[id(node)] = left.union(right)
        found = estimate_call(node.function, overload, operands, is_method=node.is_method)
        total = found.cost
        if self._counts_matches and node.function == "findAll":
            total = total.plus(operands[0].any_size.by(_MATCH_COST))
        for cost in costs:
            total = total.plus(cost)
        return Estimate(total, found.size)

    def _operand(self, node: Node) -> Operand:
        path = self._path(node)
        if path and path[0][:1] == "@":
            path = ()
        size = self._size(node)
        if size is None and path:
            size = self._declared(path)
        items = self._declared((*path, "@items")) if path and node.type.parameters else None
        return Operand(node, size, items)

    def _list(self, node: ListExpr) -> Range:
        cost, item = fixed(LIST_COST), EMPTY if node.elements else NOTHING
        for element in node.elements:
            cost = cost.plus(self.cost(element))
            item = item.union(self._size_or_unknown(element))
        self._entries[id(node)] = _Entries(is_list=True, key=ONE, value=item)
        return cost

    def _map(self, node: MapExpr) -> Range:
        cost = fixed(MAP_COST)
        key = value = EMPTY if node.entries else NOTHING
        for entry in node.entries:
            cost = cost.plus(self.cost(entry.key))
            key = key.union(self._size_or_unknown(entry.key))
            cost = cost.plus(self.cost(entry.value))
            value = value.union(self._size_or_unknown(entry.value))
        self._entries[id(node)] = _Entries(is_list=False, key=key, value=value)
        return cost

    def _bind(self, node: Comprehension) -> Range:
        cost = self.cost(node.range).plus(self.cost(node.init))
        self._push(node.accumulator, _Local(self._path(node.init), self._size(node.init), self._entries_of(node.init)))
        cost = cost.plus(self.cost(node.result))
        self._pop(node.accumulator)
        self._copy_sizes(node, node.result)
        return cost

    def _loop(self, node: Comprehension) -> Range:
        cost = self.cost(node.range).plus(self.cost(node.init))
        self._push(node.accumulator, _Local(self._path(node.init), self._size(node.init), self._entries_of(node.init)))
        entries, path = self._entries_of(node.range), self._path(node.range)
        is_list = entries.is_list if entries else node.range.type.name == "list"
        key, value = (entries.key, entries.value) if entries else (None, None)
        keys = _Local((*path, "@indices" if is_list else "@keys"), key)
        values = _Local((*path, "@items" if is_list else "@values"), value)
        self._push(node.variable, keys if node.second or not is_list else values)
        if node.second:
            self._push(node.second, values)
        each = self.cost(node.condition).plus(self.cost(node.step))
        self._pop(node.variable)
        if node.second:
            self._pop(node.second)
        cost = cost.plus(self.cost(node.result))
        self._pop(node.accumulator)
        count = self._size_or_unknown(node.range)
        if isinstance(node.init, Const):
            size = self._size(node.init)
            if size is not None:
                self._sizes[id(node)] = size
        elif isinstance(node.init, ListExpr | MapExpr):
            self._sizes[id(node)] = count
            stepped = self._entries_of(node.step)
            if stepped is not None:
                self._entries[id(node)] = stepped
        return cost.plus(count.times(each))

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _pop(self, name: str) -> None:
        self._locals[name].pop()

    def _local(self, node: Node) -> _Local | None:
        if isinstance(node, Ident):
            found = self._locals.get(node.name)
            return found[-1] if found else None
        return None

    def _path(self, node: Node) -> Path:
        local = self._local(node)
        return local.path if local is not None else self._paths.get(id(node), ())

    def _copy_sizes(self, to: Node, source: Node) -> None:
        size, entries = self._size(source), self._entries_of(source)
        if size is not None:
            self._sizes[id(to)] = size
        if entries is not None:
            self._entries[id(to)] = entries

    def _size_or_unknown(self, node: Node) -> Range:
        size = self._size(node)
        return UNKNOWN if size is None else size

    def _entries_of(self, node: Node) -> _Entries | None:
        found = self._entries.get(id(node))
        local = self._local(node)
        return found if found is not None or local is None else local.entries

    def _size(self, node: Node) -> Range | None:
        found = self._sizes.get(id(node))
        if found is not None:
            return found
        known = _literal_size(node)
        if known is not None:
            return fixed(known)
        path = self._path(node)
        declared = self._declared(path) if path else None
        if declared is not None:
            self._sizes[id(node)] = declared
            return declared
        if _is_scalar(node.type):
            return ONE
        local = self._local(node)
        return local.size if local is not None else None

    def _declared(self, path: Path) -> Range | None:
        """The size that the declarations of the variables give, None if they do not say."""
        kind = self._variables.get(path[0])
        for name in path[1:]:
            if kind is None:
                return None
            kind = _part(kind, name)
        if kind is None or (kind.size is None and kind.name in _SIZED):
            return None
        return Range(0, kind.size or 0)


def _part(kind: Type, name: str) -> Type | None:
    if name in ("@items", "@values"):
        return kind.parameters[-1] if kind.name in ("list", "map") else None
    if name == "@keys":
        return kind.parameters[0] if kind.name == "map" else None
    if name in kind.fields:
        return kind.fields[name]
    return kind.parameters[1] if kind.name == "map" and kind.parameters[1].size is not None else None


def _is_bind(node: Comprehension) -> bool:
    return (
        isinstance(node.range, ListExpr)
        and not node.range.elements
        and isinstance(node.condition, Const)
        and node.condition.value is False
    )


def _literal_size(node: Node) -> int | None:
    if isinstance(node, Const):
        value = node.value
        if isinstance(value, str | bytes):
            return len(value)
        return None if isinstance(value, Type) else 1
    if isinstance(node, ListExpr):
        return len(node.elements)
    return len(node.entries) if isinstance(node, MapExpr) else None


def _is_scalar(kind: Type) -> bool:
    while kind.name == "optional_type" and kind.parameters:
        kind = kind.parameters[0]
    return kind in _SCALARS
