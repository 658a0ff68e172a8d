"""PodColumns: the classes of placed pods as rows, so that many selectors are matched with all pods in one pass each.

It serves pods with many terms. Those with few terms use counters, which are updated with each pod. Next: `tally`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.selectors import LabelSelector
from podwright.core.state.deadline import never
from podwright.core.state.podindex.label_rows import Bools, LabelRows
from podwright.core.state.podindex.placed import PlacedPodClasses, PodClass
from podwright.core.state.podindex.pod_selector import NamespaceLabels, PodSelector

Int64s = NDArray[np.int64]
Scope = tuple[frozenset[str], LabelSelector]

_MAX_SCOPES: Final = 64
"""The number of sets of namespaces whose rows are kept."""
UNUSED_CHANGES: Final = 1024
"""Rows are dropped if this many pods' classes were added or removed since they were last used."""
SELECTORS_AT_ONCE: Final = 128
"""How many selectors are evaluated between two points."""
_at = attrgetter("at")


class PodColumns:
    """See the module. Built from all classes; `append` adds one. Rows of removed classes stay, and no longer count."""

    def __init__(
        self, placed: PlacedPodClasses, namespaces: NamespaceLabels, pause: Callable[[], None] = never
    ) -> None:
        """`pause` is called between selectors, where an attempt may pause."""
        self._pause = pause
        self._placed = placed
        self._namespaces = namespaces
        self._labels = LabelRows()
        self._namespace_numbers: dict[str, int] = {}
        self._namespace_of = array("i")
        self._terminating = array("b")
        self._namespace_rows: tuple[LabelRows, Bools] | None = None
        self._pods: tuple[int, tuple[NDArray[np.int32], NDArray[np.intp], Int64s]] | None = None
        self._scopes: dict[Scope, Bools] = {}
        self._changes = 0
        for pod_class in placed.classes():
            self._append(pod_class)

    # Reading

    def matching_all(self, selectors: Collection[PodSelector], *, exclude_terminating: bool = False) -> Bools:
        """bool[rows]: the classes that match all selectors, which are at least one."""
        self._changes = 0
        self._labels.index(selector.selector for selector in selectors)
        found = np.ones(self._labels.count, np.bool_)
        for number, selector in enumerate(selectors):
            if not number % SELECTORS_AT_ONCE:
                self._pause()
            found &= self._matching(selector)
        return self._without_terminating(found) if exclude_terminating else found

    def weights(self, weights: Mapping[PodSelector, int]) -> Int64s:
        """int64[rows]: for each class the sum of the weights of the selectors that match it."""
        self._changes = 0
        self._labels.index(selector.selector for selector in weights)
        total = np.zeros(self._labels.count, np.int64)
        for number, (selector, weight) in enumerate(weights.items()):
            if not number % SELECTORS_AT_ONCE:
                self._pause()
            found = self._matching(selector)
            total += found if weight == 1 else np.multiply(found, weight, dtype=np.int64)
        return total

    def per_node(self, weights: Bools | Int64s, nodes: int) -> Int64s:
        """int64[nodes]: for each row of the node table the sum over its pods of their classes' weights."""
        rows, slots, pods = self._pods_by_row_and_slot()
        summed = np.bincount(slots, np.multiply(weights[rows], pods, dtype=np.int64), nodes)
        return summed.astype(np.int64)

    def _matching(self, selector: PodSelector) -> Bools:
        scope = (selector.namespaces, selector.namespace_selector)
        within = self._scopes.get(scope)
        if within is None:
            if len(self._scopes) >= _MAX_SCOPES:
                self._scopes.clear()
            within = self._scopes[scope] = self._in_scope(selector)
        found = self._labels.matching(selector.selector)
        found &= within
        return found

    def _in_scope(self, selector: PodSelector) -> Bools:
        """bool[rows]: the classes in namespaces that the selector includes."""
        rows, known = self._labels_of_namespaces()
        if selector.namespace_selector.empty:
            included = np.ones(rows.count, np.bool_)
        else:
            included = rows.matching(selector.namespace_selector)
            included &= known
        numbers = self._namespace_numbers
        included[[numbers[name] for name in selector.namespaces if name in numbers]] = True
        return included.take(np.array(self._namespace_of, np.int32))

    def _labels_of_namespaces(self) -> tuple[LabelRows, Bools]:
        """The namespaces' labels as rows, and bool[rows]: whether the namespace is known."""
        if self._namespace_rows is None or self._namespace_rows[0].count != len(self._namespace_numbers):
            rows = LabelRows()
            labels = [self._namespaces(name) for name in self._namespace_numbers]
            for each in labels:
                rows.append(each or {})
            self._namespace_rows = rows, np.array([each is not None for each in labels], np.bool_)
        return self._namespace_rows

    def _without_terminating(self, found: Bools) -> Bools:
        alive: Bools = np.array(self._terminating, np.int8) == 0
        return found & alive

    def _pods_by_row_and_slot(self) -> tuple[NDArray[np.int32], NDArray[np.intp], Int64s]:
        """The number of pods for each pair of a class and a row of the node table: the class's row, the slot, the
        number.
        """
        if self._pods is None or self._pods[0] != self._placed.version:
            classes = list(self._placed.classes())
            places = list(map(_at, classes))
            rows = np.fromiter((pod_class.row for pod_class in classes), np.int32, len(classes))
            rows = np.repeat(rows, np.fromiter(map(len, places), np.intp, len(places)))
            slots = np.fromiter(chain.from_iterable(places), np.intp, len(rows))
            pods = np.fromiter(chain.from_iterable(place.values() for place in places), np.int64, len(rows))
            self._pods = self._placed.version, (rows, slots, pods)
        return self._pods[1]

    # Writing

    def append(self, pod_class: PodClass) -> None:
        """A class was added."""
        self._changes += 1
        self._append(pod_class)

    def removed(self) -> None:
        """A class was removed."""
        self._changes += 1

    @property
    def stale(self) -> bool:
        """True if the rows should be dropped, because they are not used, or because most are of removed classes."""
        return (
            self._changes > UNUSED_CHANGES + self._placed.count
            or self._labels.count > UNUSED_CHANGES + 2 * self._placed.count
        )

    def namespaces_changed(self) -> None:
        """The labels of a namespace have changed."""
        self._namespace_rows = None
        self._scopes.clear()

    def _append(self, pod_class: PodClass) -> None:
        self._scopes.clear()
        pod_class.row = self._labels.append(pod_class.labels)
        numbers = self._namespace_numbers
        self._namespace_of.append(numbers.setdefault(pod_class.namespace, len(numbers)))
        self._terminating.append(pod_class.terminating)
