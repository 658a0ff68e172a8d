"""Tallies: the terms of one pod, counted together for one decision.

A pod may have thousands of terms. A counter for each of them would cost memory, and time with every other pod that
comes or goes. So the weights of all terms with one topology key are summed first, over the classes of placed pods, and
each class is then counted once. The cost is one pass over the classes for each distinct selector, and one over the pods
for each topology key.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from podwright.core.objects.pod import PodInfo
from podwright.core.state.podindex.domains import Counts, Rows, Sums
from podwright.core.state.podindex.placed import PlacedPodClasses
from podwright.core.state.podindex.pod_columns import Int64s, PodColumns
from podwright.core.state.podindex.pod_selector import NamespaceLabels, PodSelector


class Tally:
    """The summed weights of selectors that match placed pods. `total`: of all selectors. Valid until the cache
    changes.
    """

    __slots__ = ("_classes", "_columns", "_namespaces", "_per_row", "_placed", "_selectors", "sums", "total")

    def __init__(
        self,
        placed: PlacedPodClasses,
        columns: PodColumns,
        selectors: Mapping[PodSelector, int],
        namespaces: NamespaceLabels,
    ) -> None:
        self._placed = placed
        self._columns = columns
        self._selectors = selectors
        self._namespaces = namespaces
        self.total = sum(selectors.values())
        self._classes = columns.weights(selectors)
        self._per_row: Int64s | None = None
        self.sums: dict[Hashable, Sums] = {}

    def per_row(self, rows: int) -> tuple[Rows | None, Counts]:
        """None, and int64[rows]: the sum of the weights over the pods in each row of the node table."""
        if self._per_row is None:
            self._per_row = self._columns.per_node(self._classes, rows)
        return None, self._per_row

    def at_row(self, row: int) -> int:
        return int(self.per_row(row + 1)[1][row])

    def of(self, pod: PodInfo) -> int:
        """The sum of the weights of the selectors that match a pod, which need not be placed."""
        pod_class = self._placed.class_of(pod.namespace, pod.labels)
        if pod_class is not None and 0 <= pod_class.row < len(self._classes):
            return int(self._classes[pod_class.row])
        return sum(
            weight
            for selector, weight in self._selectors.items()
            if selector.matches(pod.namespace, pod.labels, self._namespaces)
        )


def per_node_counts(columns: PodColumns, selectors: tuple[PodSelector, ...], nodes: int, *, alive: bool) -> Int64s:
    """int64[nodes]: the number of pods that match all selectors, without terminating ones if `alive`."""
    return columns.per_node(columns.matching_all(selectors, exclude_terminating=alive), nodes)
