"""Counters of the placed pods that a selector matches, per row.

A counter is built from the classes of placed pods when it is first requested, and is kept from then on. Unused
and least recently used ones are dropped. Pods with many terms use tallies instead, which are not updated and not kept.

Of many changes between two requests, most are noted, and counted together at the next one: so a large transaction that
is rolled back, or suspended and resumed, costs the counters next to nothing. Invariant: each counter that is requested
equals a recount over all placed pods.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Final

import numpy as np

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.pod import LabelSet, PodInfo
from podwright.core.objects.selectors import Labels
from podwright.core.state.columns import NodeTable
from podwright.core.state.deadline import never
from podwright.core.state.observers import Batch, PlacementObserver, PodsInRows
from podwright.core.state.podindex.domains import Int32s, Rows, Sums
from podwright.core.state.podindex.placed import PlacedPodClasses, PodClass
from podwright.core.state.podindex.pod_columns import Int64s, PodColumns
from podwright.core.state.podindex.pod_selector import NamespaceLabels, PodSelector, includes_namespace
from podwright.core.state.podindex.selecting import SelectorIndex
from podwright.core.state.podindex.tally import Tally, per_node_counts

FEW_CLASSES: Final = 128
"""More classes than this are matched with a selector as columns, not one by one."""
FEW_PLACES: Final = 1024
"""Classes in more rows than this are matched as columns, too, if many selectors share these: one pass over all pods
takes as long.
"""
MAX_CANDIDATES: Final = 64
MAX_COUNTERS_PER_CLASS: Final = 32
"""A placed pod changes at most this many counters, and is compared with at most this many candidates. Pods with broad
selectors would otherwise make each other pod expensive. The least recently used counters are dropped.
"""
FEW_CHANGES: Final = 16
"""After this many changes without a request of a counter, further ones are only noted."""
MAX_NOTED: Final = 32_768
"""After this many noted changes, they are counted although no counter is requested."""
UNUSED_CHANGES: Final = 4096
"""A counter is dropped after this many changes were counted since it was last used. Counting them costs more than a new
counter.
"""


class MatchCounter:
    """The number of placed pods per row that match all `selectors`."""

    __slots__ = ("_rows", "exclude_terminating", "selectors", "sums", "used", "used_at")

    def __init__(self, selectors: tuple[PodSelector, ...], exclude_terminating: bool, rows: int) -> None:
        self.selectors = selectors
        self.exclude_terminating = exclude_terminating
        self.sums: dict[Hashable, Sums] = {}
        self._rows = np.zeros(rows, np.int32)
        self.used = True
        """Since the last compaction."""
        self.used_at = 0
        """How many changes all counters together had counted when it was last requested."""

    def column(self, rows: int) -> Int32s:
        """int32[rows], not to be modified."""
        if len(self._rows) < rows:
            self._grow(rows)
        return self._rows[:rows]

    def per_row(self, rows: int) -> tuple[Rows | None, Int32s]:
        return None, self.column(rows)

    def at_row(self, row: int) -> int:
        return int(self._rows[row]) if row < len(self._rows) else 0

    def counts(self, pod_class: PodClass, namespaces: NamespaceLabels) -> bool:
        """True if this counter counts the pods of a class."""
        if self.exclude_terminating and pod_class.terminating:
            return False
        return all(
            pod_selector.matches(pod_class.namespace, pod_class.labels, namespaces) for pod_selector in self.selectors
        )

    def count_all(self, counts: Int64s) -> None:
        """Sets the counts of all rows."""
        self._rows = counts.astype(np.int32)

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
        for sums in self.sums.values():
            sums.add(slot, delta, self)
        self._rows[slot] += delta

    def add_many(self, slots: Rows, deltas: Int32s) -> None:
        """`add` for each of these rows, which may repeat."""
        self.column(int(np.max(slots)) + 1)
        for sums in self.sums.values():
            sums.add_many(slots, deltas, self)
        self._rows += np.bincount(slots, deltas, len(self._rows)).astype(np.int32)

    def _grow(self, rows: int) -> None:
        known = len(self._rows)
        self._rows = np.pad(self._rows, (0, max(rows - known, known)))


_Key = tuple[tuple[PodSelector, ...], bool]
_used_at = attrgetter("used_at")


def max_counters(nodes: int) -> int:
    """The maximum number of counters. It is lower in large clusters, where each counter takes more memory."""
    return max(64, min(1024, 3_000_000 // (nodes + 1)))


class MatchIndex(PlacementObserver):
    """All counters, and the placed pods that they count. Counts are by row, whatever node is in it."""

    def __init__(self, table: NodeTable, namespaces: NamespaceLabels, pause: Callable[[], None] = never) -> None:
        """`pause`: see `PodColumns`."""
        self._pause = pause
        self._table = table
        self._namespaces = namespaces
        self._placed = PlacedPodClasses()
        self._counters: OrderedDict[_Key, MatchCounter] = OrderedDict()
        self._by_selector: SelectorIndex[MatchCounter] = SelectorIndex()
        self._counters_of: dict[PodClass, tuple[MatchCounter, ...]] = {}
        """A cache of the counters that count a class; cleared when counters are added or removed."""
        self._noted: dict[PodClass, tuple[tuple[MatchCounter, ...], dict[int, int]]] = {}
        """By class: the counters that count it, and by row how many pods were added that they have not counted, or
        removed if negative.
        """
        self._unread = 0
        """How many changes there were since a counter was requested."""
        self._counted_changes = 0
        self._namespace_labels: dict[str, Labels] = {}
        self._columns: PodColumns | None = None
        compact_regularly(self)

    def counter(self, selectors: tuple[PodSelector, ...], *, exclude_terminating: bool = False) -> MatchCounter:
        """The counter of the pods that match all these selectors. `exclude_terminating` leaves out terminating pods."""
        if self._noted:
            self._count_noted()
        self._unread = 0
        key = (selectors, exclude_terminating)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._keep(key, self._count(selectors, exclude_terminating=exclude_terminating))
        else:
            self._counters.move_to_end(key)
        counter.used_at = self._counted_changes
        counter.used = True
        return counter

    def count(self, selectors: tuple[PodSelector, ...], *, exclude_terminating: bool = False) -> MatchCounter:
        """The same as `counter`, but it is not kept: valid until the next pod is added or removed. For one of many."""
        return self._count(selectors, exclude_terminating=exclude_terminating, most_places=FEW_PLACES)

    def _count(
        self, selectors: tuple[PodSelector, ...], *, exclude_terminating: bool, most_places: int = sys.maxsize
    ) -> MatchCounter:
        """A new counter. Matches one by one at most FEW_CLASSES candidates, in at most `most_places` rows of the node
        table.
        """
        counter = MatchCounter(selectors, exclude_terminating, rows=self._table.size)
        if len(selectors) > FEW_CLASSES:
            self._count_as_columns(counter)
            return counter
        candidates = self._placed.candidates(self._namespaces_of(selectors[0]), selectors[0].selector)
        few = sum(map(len, candidates)) <= FEW_CLASSES
        if not few or sum(len(each.at) for each in chain.from_iterable(candidates)) > most_places:
            self._count_as_columns(counter)
            return counter
        for pod_class in chain.from_iterable(candidates):
            if counter.counts(pod_class, self._namespaces):
                counter.include(pod_class.at)
        return counter

    def tally(self, selectors: Mapping[PodSelector, int]) -> Tally:
        """The sum of the weights of the selectors that match, over all pods. Valid until the next pod is added or
        removed.
        """
        return Tally(self._placed, self._pod_columns(), selectors=selectors, namespaces=self._namespaces)

    def __len__(self) -> int:
        return len(self._counters)

    def compact(self) -> None:
        """Drops the counters that no decision has used since the last compaction, and memory of pods that are gone."""
        self._count_noted()
        for key in [key for key, counter in self._counters.items() if not counter.used]:
            self._drop(key)
        self._counters_of.clear()
        for counter in self._counters.values():
            counter.used = False
        self._columns = None

    def _count_as_columns(self, counter: MatchCounter) -> None:
        alive = counter.exclude_terminating
        counter.count_all(per_node_counts(self._pod_columns(), counter.selectors, self._table.size, alive=alive))

    def _pod_columns(self) -> PodColumns:
        if self._columns is None:
            self._columns = PodColumns(self._placed, self._namespaces, pause=self._pause)
        return self._columns

    def _keep(self, key: _Key, counter: MatchCounter) -> MatchCounter:
        first = counter.selectors[0]
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
        return [name for name in self._placed.namespaces if includes_namespace(pod_selector, name, self._namespaces)]

    def _counters_for(self, pod_class: PodClass) -> tuple[MatchCounter, ...]:
        """The counters that count a class."""
        found = self._counters_of.get(pod_class)
        if found is None:
            candidates = list(self._by_selector.candidates(pod_class.namespace, pod_class.labels))
            candidates = self._most_recently_used(candidates, MAX_CANDIDATES)
            counting = [counter for counter in candidates if counter.counts(pod_class, self._namespaces)]
            found = tuple(self._most_recently_used(counting, MAX_COUNTERS_PER_CLASS))
            self._counters_of[pod_class] = found
        return found

    def _most_recently_used(self, counters: list[MatchCounter], most: int) -> list[MatchCounter]:
        """Keeps this many of these counters, and drops the others."""
        if len(counters) <= most:
            return counters
        counters.sort(key=_used_at)
        for counter in counters[:-most]:
            self._drop((counter.selectors, counter.exclude_terminating))
        self._counters_of.clear()
        return counters[-most:]

    # PlacementObserver

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        pod_class = self._placed.add_all(pod, {slot: 1})
        if self._counters_of.get(pod_class) != ():
            self._change(pod_class, slot, 1)
        if self._columns is not None:
            self._added(self._columns, pod_class)

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        pod_class = self._placed.remove(pod, slot)
        self._change(pod_class, slot, -1)
        self._removed(pod_class)

    def _added(self, columns: PodColumns, pod_class: PodClass) -> None:
        if pod_class.row < 0:
            columns.append(pod_class)
            self._drop_unused_columns()

    def _removed(self, pod_class: PodClass) -> None:
        if not pod_class.at:
            self._counters_of.pop(pod_class, None)
            if self._columns is not None:
                self._columns.removed()
                self._drop_unused_columns()

    def batch(self, pods: PodsInRows) -> Batch:
        """Counts the pods of each class together."""
        classes: dict[tuple[str, LabelSet, bool], tuple[PodInfo, dict[int, int]]] = {}
        for pod, slot in pods:
            _, at = classes.setdefault((pod.namespace, pod.labels, pod.terminating), (pod, {}))
            at[slot] = at.get(slot, 0) + 1
        return partial(self._move, tuple(classes.values()))

    def _move(self, classes: Iterable[tuple[PodInfo, Mapping[int, int]]], present: bool) -> None:
        """`classes`: a pod of each class, and how many pods of it come to each row, or leave it."""
        for pod, at in classes:
            if present:
                pod_class = self._placed.add_all(pod, at)
                self._note_all(pod_class, at, 1)
                if self._columns is not None:
                    self._added(self._columns, pod_class)
            else:
                pod_class = self._placed.remove_all(pod, at)
                self._note_all(pod_class, at, -1)
                self._removed(pod_class)

    def _note_all(self, pod_class: PodClass, at: Mapping[int, int], sign: int) -> None:
        counters = self._counters_for(pod_class)
        if not counters:
            return
        noted = self._noted.setdefault(pod_class, (counters, {}))[1]
        for slot, pods in at.items():
            changed = noted.get(slot, 0) + sign * pods
            if changed:
                noted[slot] = changed
            else:
                del noted[slot]
        self._unread += len(at)
        if self._unread >= MAX_NOTED:
            self._count_noted()

    def _change(self, pod_class: PodClass, slot: int, delta: int) -> None:
        """Counts the change, or notes it if there were many since a counter was requested."""
        counters = self._counters_for(pod_class)
        if not counters:
            return
        self._unread += 1
        if self._unread > FEW_CHANGES:
            self._note(pod_class, counters, slot, delta)
            return
        for counter in counters:
            counter.add(slot, delta)
        self._counted_changes += 1
        if not self._counted_changes % UNUSED_CHANGES:
            self._drop_unused_counters()

    def _note(self, pod_class: PodClass, counters: tuple[MatchCounter, ...], slot: int, delta: int) -> None:
        at = self._noted.setdefault(pod_class, (counters, {}))[1]
        pods = at.get(slot, 0) + delta
        if pods:
            at[slot] = pods
        else:
            del at[slot]
        if self._unread >= MAX_NOTED:
            self._count_noted()

    def _count_noted(self) -> None:
        """Counts what was noted."""
        noted, before = list(self._noted.values()), self._counted_changes
        self._unread = 0
        self._noted.clear()
        by_counters: dict[tuple[MatchCounter, ...], list[Mapping[int, int]]] = {}
        for counters, at in noted:
            if at:
                by_counters.setdefault(counters, []).append(at)
        for counters, changes in by_counters.items():
            count = sum(map(len, changes))
            self._counted_changes += count
            slots = np.fromiter(chain.from_iterable(changes), np.intp, count)
            deltas = np.fromiter(chain.from_iterable(at.values() for at in changes), np.int32, count)
            for counter in counters:
                counter.add_many(slots, deltas)
        if self._counted_changes // UNUSED_CHANGES != before // UNUSED_CHANGES:
            self._drop_unused_counters()

    def _drop_unused_columns(self) -> None:
        if self._columns is not None and self._columns.stale:
            self._columns = None

    def _drop_unused_counters(self) -> None:
        least = self._counted_changes - UNUSED_CHANGES
        unused = [key for key, counter in self._counters.items() if counter.used_at < least]
        for key in unused:
            self._drop(key)
        if unused:
            self._counters_of.clear()

    def namespace_set(self, name: str, _labels: Mapping[str, str]) -> None:
        """Drops the counters that select namespaces by label, so that they are rebuilt on demand."""
        labels = self._namespaces(name)
        if labels == self._namespace_labels.get(name):
            return
        if labels is None:
            del self._namespace_labels[name]
        else:
            self._namespace_labels[name] = labels
        if self._columns is not None:
            self._columns.namespaces_changed()
        for key in [key for key in self._counters if any(not s.namespace_selector.nothing for s in key[0])]:
            self._drop(key)
        self._counters_of.clear()
