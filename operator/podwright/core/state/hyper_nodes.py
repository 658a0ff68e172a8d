"""HyperNodes of Volcano: they pick nodes by name, pattern or label, or consist of other HyperNodes.

Their tiers are levels: a HyperNode is larger than its members, which have lower tiers, so none is in itself. A node is
in one HyperNode of a tier, and a HyperNode in one other: the first that picks it, in the order of their tiers and
names. `on_problem` hears of what does not count. Where a node is, is found out once for each node.

Source: Volcano v1.16.0-alpha.1-42-ged72c7c81, `pkg/scheduler/api/hyper_node_info.go`, `pkg/util/hypernode`, and
`staging/src/volcano.sh/apis/pkg/apis/topology/v1alpha1/hypernode_types.go`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.node import Node
from podwright.core.objects.selectors import LabelSelector
from podwright.core.objects.sub_groups import MAX_LEVELS
from podwright.core.state.columns.table import NodeTable

MOST_PROBLEMS: Final = 100
"""The most HyperNodes whose problems are reported at once; others follow when these are mended."""
NAMES_AT_ONCE: Final = 1024
PATTERNS_AT_ONCE: Final = 64
_SPARE_NAMES: Final = 1024

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HyperNode:
    """One of them. What it picks: nodes by `nodes`, their names; `patterns`, of which one is found in their name; or
    `selectors`; and other HyperNodes by `members`, their names.
    """

    tier: int
    tier_name: str = ""
    nodes: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    selectors: tuple[LabelSelector, ...] = ()
    members: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Index:
    """Which HyperNodes may pick a node, and where they stand: by tier and name."""

    names: Sequence[str] = ()
    tiers: Sequence[int] = ()
    """The tiers that count, the lowest first."""
    numbers: dict[str, int] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)
    """The lowest tier of each name."""
    levels: dict[str, int] = field(default_factory=dict)
    """By name: the position of its tier."""
    above: dict[str, str] = field(default_factory=dict)
    by_node: dict[str, list[str]] = field(default_factory=dict)
    by_label: dict[str | tuple[str, str], list[tuple[str, LabelSelector]]] = field(default_factory=dict)
    """By a label that the selector needs, by its key alone, or by "" if it needs none."""
    patterns: list[tuple[str, str]] = field(default_factory=list)


class HyperNodes:
    """See the module. `pause`: where an attempt may pause; what was found until then is kept."""

    def __init__(self, table: NodeTable, pause: Callable[[], None]) -> None:
        self.changes = 0
        """Rises with each HyperNode that comes, changes or goes."""
        self.on_problem: Callable[[str, str], object] = lambda _name, _problem: None
        """Called with the name of a HyperNode and what is wrong with it."""
        self._table = table
        self._pause = pause
        self._known: dict[str, HyperNode] = {}
        self._index: _Index | None = None
        self._matched: dict[str, Sequence[str]] = {}
        """By name of a node: the HyperNodes with a pattern for it, the first of each tier."""
        self._matching: Iterator[None] | None = None
        """The matching of new nodes, if it is unfinished."""
        self._paths: list[tuple[Node | None, Sequence[int]]] = []
        """By row: the node, and the number of its HyperNode of each tier, or of the next lower one; -1 for none."""
        self._problems: set[str] = set()
        compact_regularly(self)

    def set(self, name: str, hyper_node: HyperNode | None) -> None:
        """Sets the HyperNode; None removes it."""
        self.changes += 1
        self._index = None
        if hyper_node is None:
            self._known.pop(name, None)
        else:
            self._known[name] = hyper_node

    @property
    def names(self) -> Sequence[str]:
        """By number."""
        return self._indexed().names

    def level_of(self, tier: str) -> int:
        """Returns the position of a tier in `levels`, or of the next lower one; -1 if no tier is so low. `tier`: as
        groups name it, see `core.objects.closeness`.
        """
        index = self._indexed()
        _, named, name = tier.partition("named ")
        highest = index.named.get(name, -1) if named else int(tier.removeprefix("tier "))
        lower = bisect_right(index.tiers, highest)
        return len(index.tiers) - lower if lower else -1

    def levels(self) -> Sequence[Int64s]:
        """For each tier, the highest first, int64[nodes]: the number of the HyperNode of that tier, or of the next
        lower one, that a node is in; -1 for none.
        """
        index, table = self._indexed(), self._table
        while names := self._unmatched() if index.patterns else ():
            self._matching = self._matching or self._match(index, names)
            for _ in self._matching:
                self._pause()
            self._matching = None
        nowhere = (-1,) * len(index.tiers)
        del self._paths[table.size :]
        self._paths += [(None, nowhere)] * (table.size - len(self._paths))
        for slot, node in enumerate(table.nodes):
            if self._paths[slot][0] is not node:
                self._pause()
                self._paths[slot] = node, nowhere if node is None else self._path(node, index)
        codes = np.array([path for _, path in self._paths], np.int64).reshape(table.size, len(index.tiers))
        return [codes[:, at] for at in range(len(index.tiers) - 1, -1, -1)]

    def _indexed(self) -> _Index:
        if self._index is None:
            self._matched.clear()
            self._matching = None
            self._paths.clear()
            self._problems.clear()
            self._index = self._made()
        return self._index

    def _made(self) -> _Index:
        tiers = sorted({each.tier for each in self._known.values()})[:MAX_LEVELS]
        positions = {tier: at for at, tier in enumerate(tiers)}
        ordered = sorted((each.tier, name) for name, each in self._known.items())
        index = _Index([name for tier, name in ordered if tier in positions], tiers)
        for _, name in ordered[len(index.names) :]:
            self._problem(name, f"only the {MAX_LEVELS} lowest tiers count")
        for number, name in enumerate(index.names):
            each = self._known[name]
            index.numbers[name], index.levels[name] = number, positions[each.tier]
            index.named.setdefault(each.tier_name, each.tier)
            index.patterns += [(pattern, name) for pattern in each.patterns]
            for node in each.nodes:
                index.by_node.setdefault(node, []).append(name)
            for selector in each.selectors:
                for key in _keys(selector):
                    index.by_label.setdefault(key, []).append((name, selector))
            for member in sorted(each.members & self._known.keys()):
                if self._known[member].tier >= each.tier:
                    self._problem(name, f"its member {member} has no lower tier than {each.tier}, and does not count")
                elif (first := index.above.setdefault(member, name)) != name:
                    self._problem(name, f"its member {member} is also one of {first}, which counts")
        return index

    def _unmatched(self) -> Sequence[str]:
        """The nodes that are new to the patterns."""
        if len(self._matched) > 2 * self._table.count + _SPARE_NAMES:
            self._matched.clear()
        return [node.name for node in self._table.nodes if node is not None and node.name not in self._matched]

    def _match(self, index: _Index, names: Sequence[str]) -> Iterator[None]:
        """Finds the patterns for these nodes. Each step is a part of the work."""
        from podwright.core.cel.library.regexes import PatternSet  # noqa: PLC0415 -- patterns are rare

        for begin in range(0, len(names), NAMES_AT_ONCE):
            found: dict[str, dict[int, str]] = {name: {} for name in names[begin : begin + NAMES_AT_ONCE]}
            for first in range(0, len(index.patterns), PATTERNS_AT_ONCE):
                yield
                patterns = index.patterns[first : first + PATTERNS_AT_ONCE]
                together = PatternSet([pattern for pattern, _ in patterns])
                for node, by_level in found.items():
                    for at in together.found_in(node):
                        self._enter(by_level, index.levels[patterns[at][1]], patterns[at][1], node)
            self._matched.update((node, tuple(by_level.values())) for node, by_level in found.items())

    def _path(self, node: Node, index: _Index) -> Sequence[int]:
        path: dict[int, str] = {}
        for name in sorted(self._picking(node, index), key=index.numbers.__getitem__):
            above: str | None = name
            while above is not None and index.levels[above] not in path:
                path[index.levels[above]] = above
                above = index.above.get(above)
            if above is not None:
                self._enter(path, index.levels[above], above, node.name)
        numbers, last = [], -1
        for level in range(len(index.tiers)):
            last = index.numbers[path[level]] if level in path else last
            numbers.append(last)
        return tuple(numbers)

    def _picking(self, node: Node, index: _Index) -> Iterator[str]:
        """The HyperNodes that pick the node themselves."""
        yield from index.by_node.get(node.name, ())
        yield from self._matched.get(node.name, ())
        keys: tuple[str | tuple[str, str], ...] = ("", *node.labels, *node.labels.items())
        for key in keys:
            for name, selector in index.by_label.get(key, ()):
                if selector.matches(node.labels):
                    yield name

    def _enter(self, found: dict[int, str], level: int, name: str, node: str) -> None:
        """The first HyperNode of a level counts."""
        first = found.setdefault(level, name)
        if first != name:
            self._problem(name, f"node {node} is also in {first}, which counts")

    def _problem(self, name: str, problem: str) -> None:
        """The first of each HyperNode is reported."""
        if name not in self._problems and len(self._problems) < MOST_PROBLEMS:
            self._problems.add(name)
            self.on_problem(name, problem)


def _keys(selector: LabelSelector) -> Sequence[str | tuple[str, str]]:
    """Returns the labels one of which a matching node must have; "" if it need not have any."""
    for each in selector.requirements:
        if each.operator == "In":
            return [(each.key, value) for value in each.values]
    return next(([each.key] for each in selector.requirements if each.operator == "Exists"), [""])
