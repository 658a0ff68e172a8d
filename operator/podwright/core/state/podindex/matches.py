"""How many placed pods a selector picks, per row: counters for the selectors in use.

A counter is made from the classes of placed pods when it is first asked for, and follows each pod from then on. The least
recently used ones are dropped. Invariant: a counter that is kept equals a recount over all placed pods.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from podwright.core.objects.affinity import PodAffinityTerm
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.selectors import NOTHING, Labels, LabelSelector
from podwright.core.state.columns import NodeTable
from podwright.core.state.podindex.domains import Int32s, Rows, Sums
from podwright.core.state.podindex.placed import PlacedPods, PodClass
from podwright.core.state.podindex.selecting import SelectorIndex

NamespaceLabels = Callable[[str], Labels | None]
"""The labels of a namespace by its name, None for one that is not known."""


class Picker(NamedTuple):
    """A label selector, and the namespaces that it looks into: those listed, and those that the selector matches.

    A namespace that is not known is picked by its name, or by the empty selector.
    """

    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector = NOTHING

    @classmethod
    def of_term(cls, term: PodAffinityTerm) -> Picker:
        """What an affinity term of a pending pod picks."""
        return cls(term.selector, term.namespaces, term.namespace_selector)

    def looks_into(self, namespace: str, namespaces: NamespaceLabels) -> bool:
        if namespace in self.namespaces:
            return True
        selector = self.namespace_selector
        if selector.nothing or selector.empty:
            return not selector.nothing
        labels = namespaces(namespace)
        return labels is not None and selector.matches(labels)

    def picks(self, namespace: str, labels: Labels, namespaces: NamespaceLabels) -> bool:
        """Whether a pod with these labels in this namespace is picked."""
        return self.selector.matches(labels) and self.looks_into(namespace, namespaces)

    @property
    def single_namespace(self) -> str | None:
        """The only namespace that it looks into; None if there may be others."""
        if len(self.namespaces) == 1 and self.namespace_selector.nothing:
            return next(iter(self.namespaces))
        return None


class MatchCounter:
    """The placed pods that all `pickers` pick, per row; with `live`, terminating ones do not count."""

    __slots__ = ("_rows", "live", "pickers", "sums")

    def __init__(self, pickers: tuple[Picker, ...], live: bool, rows: int) -> None:
        self.pickers = pickers
        self.live = live
        self.sums: dict[Hashable, Sums] = {}
        self._rows = np.zeros(rows, np.int32)

    def column(self, rows: int) -> Int32s:
        """int32[rows]; do not write to it."""
        if len(self._rows) < rows:
            self._grow(rows)
        return self._rows[:rows]

    def per_row(self, rows: int) -> tuple[Rows | None, Int32s]:
        return None, self.column(rows)

    def counts(self, group: PodClass, namespaces: NamespaceLabels) -> bool:
        """Whether the pods of a class count here."""
        if self.live and group.terminating:
            return False
        return all(picker.picks(group.namespace, group.labels, namespaces) for picker in self.pickers)

    def include(self, at: Mapping[int, int]) -> None:
        """Adds the pods of a class; only while the counter is being made."""
        if len(at) > 16:
            count = len(at)
            slots = np.fromiter(at.keys(), np.intp, count)
            self.column(int(np.max(slots)) + 1)
            self._rows[slots] += np.fromiter(at.values(), np.int32, count)
            return
        for slot, pods in at.items():
            self.column(slot + 1)
            self._rows[slot] += pods

    def add(self, slot: int, delta: int) -> None:
        if slot >= len(self._rows):
            self._grow(slot + 1)
        self._rows[slot] += delta
        for sums in self.sums.values():
            sums.add(slot, delta)

    def _grow(self, rows: int) -> None:
        grown = np.zeros(max(rows, 2 * len(self._rows)), np.int32)
        grown[: len(self._rows)] = self._rows
        self._rows = grown


_Key = tuple[tuple[Picker, ...], bool]


def max_counters(nodes: int) -> int:
    """How many counters are kept: fewer in large clusters, where each of them is longer."""
    return max(64, min(1024, 3_000_000 // (nodes + 1)))


class MatchIndex:
    """The counters, and the placed pods that they count. A `PlacementObserver` of the cache."""

    def __init__(self, table: NodeTable, namespaces: NamespaceLabels) -> None:
        self._table = table
        self._namespaces = namespaces
        self._placed = PlacedPods()
        self._counters: OrderedDict[_Key, MatchCounter] = OrderedDict()
        self._filed: SelectorIndex[MatchCounter] = SelectorIndex()
        self._watching: dict[PodClass, tuple[MatchCounter, ...]] = {}
        """Where the pods of a class count, as far as known; emptied when counters come or go."""
        self._known: dict[str, Labels] = {}

    def counter(self, pickers: tuple[Picker, ...], *, live: bool = False) -> MatchCounter:
        """The counter of the pods that all these pick; with `live`, of those that are not terminating."""
        key = (pickers, live)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._make(key)
        else:
            self._counters.move_to_end(key)
        return counter

    def __len__(self) -> int:
        return len(self._counters)

    def _make(self, key: _Key) -> MatchCounter:
        pickers, live = key
        counter = MatchCounter(pickers, live, self._table.size)
        first = pickers[0]
        for group in self._placed.candidates(self._into(first), first.selector):
            if counter.counts(group, self._namespaces):
                counter.include(group.at)
        self._counters[key] = counter
        self._filed.add(counter, first.selector, first.single_namespace)
        self._watching.clear()
        while len(self._counters) > max_counters(self._table.size):
            self._drop(next(iter(self._counters)))
        return counter

    def _drop(self, key: _Key) -> None:
        self._filed.remove(self._counters.pop(key))

    def _into(self, picker: Picker) -> Iterable[str]:
        if picker.namespace_selector.nothing:
            return picker.namespaces
        return [name for name in self._placed.namespaces if picker.looks_into(name, self._namespaces)]

    def _watchers(self, group: PodClass) -> tuple[MatchCounter, ...]:
        """The counters in which a class counts."""
        found = self._watching.get(group)
        if found is None:
            found = self._watching[group] = tuple(
                counter
                for counter in self._filed.candidates(group.namespace, group.labels)
                if counter.counts(group, self._namespaces)
            )
        return found

    # PlacementObserver

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        for counter in self._watchers(self._placed.add(pod, slot)):
            counter.add(slot, 1)

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        group = self._placed.remove(pod, slot)
        for counter in self._watchers(group):
            counter.add(slot, -1)
        if not group.at:
            del self._watching[group]

    def node_set(self, slot: int, before: Node | None, after: Node | None) -> None:
        """Counts are by row, whatever the node in it is."""

    def namespace_set(self, name: str, _labels: Mapping[str, str]) -> None:
        """Counters that go by namespace labels are made anew when next asked for."""
        labels = self._namespaces(name)
        if labels == self._known.get(name):
            return
        if labels is None:
            del self._known[name]
        else:
            self._known[name] = labels
        for key in [key for key in self._counters if any(not p.namespace_selector.nothing for p in key[0])]:
            self._drop(key)
        self._watching.clear()
