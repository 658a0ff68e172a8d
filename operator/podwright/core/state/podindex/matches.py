"""Counters of the placed pods that a selector matches, per row.

A counter is built from the classes of placed pods when it is first requested, and is updated with each pod from then on. The least
recently used ones are dropped. Invariant: each counter equals a recount over all placed pods.
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
"""Returns the labels of a namespace by its name; None for an unknown namespace."""


class PodSelector(NamedTuple):
    """A label selector for pods in the listed namespaces and in those that `namespace_selector` matches.

    An unknown namespace matches only by its name or by the empty selector.
    """

    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector = NOTHING

    @classmethod
    def of_term(cls, term: PodAffinityTerm) -> PodSelector:
        """The selector of an affinity term of a pending pod."""
        return cls(term.selector, term.namespaces, term.namespace_selector)

    def includes_namespace(self, namespace: str, namespaces: NamespaceLabels) -> bool:
        if namespace in self.namespaces:
            return True
        selector = self.namespace_selector
        if selector.nothing or selector.empty:
            return not selector.nothing
        labels = namespaces(namespace)
        return labels is not None and selector.matches(labels)

    def matches(self, namespace: str, labels: Labels, namespaces: NamespaceLabels) -> bool:
        """Whether a pod with these labels in this namespace matches."""
        return self.selector.matches(labels) and self.includes_namespace(namespace, namespaces)

    @property
    def single_namespace(self) -> str | None:
        """The only namespace whose pods can match; None if there may be others."""
        if len(self.namespaces) == 1 and self.namespace_selector.nothing:
            return next(iter(self.namespaces))
        return None


class MatchCounter:
    """The number of placed pods per row that match all `selectors`."""

    __slots__ = ("_rows", "exclude_terminating", "selectors", "sums")

    def __init__(self, selectors: tuple[PodSelector, ...], exclude_terminating: bool, rows: int) -> None:
        self.selectors = selectors
        self.exclude_terminating = exclude_terminating
        self.sums: dict[Hashable, Sums] = {}
        self._rows = np.zeros(rows, np.int32)

    def column(self, rows: int) -> Int32s:
        """int32[rows], not to be modified."""
        if len(self._rows) < rows:
            self._grow(rows)
        return self._rows[:rows]

    def per_row(self, rows: int) -> tuple[Rows | None, Int32s]:
        return None, self.column(rows)

    def counts(self, pod_class: PodClass, namespaces: NamespaceLabels) -> bool:
        """Whether this counter counts the pods of a class."""
        if self.exclude_terminating and pod_class.terminating:
            return False
        return all(
            pod_selector.matches(pod_class.namespace, pod_class.labels, namespaces) for pod_selector in self.selectors
        )

    def include(self, at: Mapping[int, int]) -> None:
        """Adds the pods of a class while the counter is being built."""
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


_Key = tuple[tuple[PodSelector, ...], bool]


def max_counters(nodes: int) -> int:
    """The maximum number of counters. It is lower in large clusters, where each counter takes more memory."""
    return max(64, min(1024, 3_000_000 // (nodes + 1)))


class MatchIndex:
    """All counters, and the placed pods that they count. A `PlacementObserver` of the cache."""

    def __init__(self, table: NodeTable, namespaces: NamespaceLabels) -> None:
        self._table = table
        self._namespaces = namespaces
        self._placed = PlacedPods()
        self._counters: OrderedDict[_Key, MatchCounter] = OrderedDict()
        self._by_selector: SelectorIndex[MatchCounter] = SelectorIndex()
        self._counters_of: dict[PodClass, tuple[MatchCounter, ...]] = {}
        """A cache of the counters that count a class; cleared when counters are added or removed."""
        self._namespace_labels: dict[str, Labels] = {}

    def counter(self, selectors: tuple[PodSelector, ...], *, exclude_terminating: bool = False) -> MatchCounter:
        """The counter of the pods that match all these selectors. `exclude_terminating` leaves out terminating pods."""
        key = (selectors, exclude_terminating)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._build(key)
        else:
            self._counters.move_to_end(key)
        return counter

    def __len__(self) -> int:
        return len(self._counters)

    def _build(self, key: _Key) -> MatchCounter:
        selectors, exclude_terminating = key
        counter = MatchCounter(selectors, exclude_terminating, rows=self._table.size)
        first = selectors[0]
        for pod_class in self._placed.candidates(self._namespaces_of(first), first.selector):
            if counter.counts(pod_class, self._namespaces):
                counter.include(pod_class.at)
        self._counters[key] = counter
        self._by_selector.add(counter, first.selector, first.single_namespace)
        self._counters_of.clear()
        while len(self._counters) > max_counters(self._table.size):
            self._drop(next(iter(self._counters)))
        return counter

    def _drop(self, key: _Key) -> None:
        self._by_selector.remove(self._counters.pop(key))

    def _namespaces_of(self, pod_selector: PodSelector) -> Iterable[str]:
        if pod_selector.namespace_selector.nothing:
            return pod_selector.namespaces
        return [name for name in self._placed.namespaces if pod_selector.includes_namespace(name, self._namespaces)]

    def _counters_for(self, pod_class: PodClass) -> tuple[MatchCounter, ...]:
        """The counters that count a class."""
        found = self._counters_of.get(pod_class)
        if found is None:
            found = self._counters_of[pod_class] = tuple(
                counter
                for counter in self._by_selector.candidates(pod_class.namespace, pod_class.labels)
                if counter.counts(pod_class, self._namespaces)
            )
        return found

    # PlacementObserver

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        for counter in self._counters_for(self._placed.add(pod, slot)):
            counter.add(slot, 1)

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        pod_class = self._placed.remove(pod, slot)
        for counter in self._counters_for(pod_class):
            counter.add(slot, -1)
        if not pod_class.at:
            del self._counters_of[pod_class]

    def node_set(self, slot: int, before: Node | None, after: Node | None) -> None:
        """Does nothing, because counts are by row and independent of the node in it."""

    def namespace_set(self, name: str, _labels: Mapping[str, str]) -> None:
        """Drops the counters that select namespaces by label, so that they are rebuilt on demand."""
        labels = self._namespaces(name)
        if labels == self._namespace_labels.get(name):
            return
        if labels is None:
            del self._namespace_labels[name]
        else:
            self._namespace_labels[name] = labels
        for key in [key for key in self._counters if any(not s.namespace_selector.nothing for s in key[0])]:
            self._drop(key)
        self._counters_of.clear()
