"""PlacedPriorities: how many placed pods have each priority, to answer without a search whether any is below
another.
"""

from __future__ import annotations

from collections import Counter

from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.core.state.observers import Batch, PlacementObserver, PodsInRows


def may_be_below(priority: int, cache: Cache) -> bool:
    """False if no unit on the cache is of lower priority, because no placed pod and no group is."""
    return cache.observer(PlacedPriorities).any_below(priority) or any(
        known < priority for known in cache.groups.priorities
    )


class PlacedPriorities(PlacementObserver):
    """See the module."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def any_below(self, priority: int) -> bool:
        """True if a placed pod has a lower priority."""
        return any(known < priority for known in self._counts)

    def pod_added(self, pod: PodInfo, _slot: int) -> None:
        self._counts[pod.priority] = self._counts.get(pod.priority, 0) + 1

    def pod_removed(self, pod: PodInfo, _slot: int) -> None:
        left = self._counts[pod.priority] - 1
        if left:
            self._counts[pod.priority] = left
        else:
            del self._counts[pod.priority]

    def batch(self, pods: PodsInRows) -> Batch:
        numbers = Counter([pod.priority for pod, _ in pods])

        def change(present: bool) -> None:
            counts = self._counts
            for priority, number in numbers.items():
                left = counts.get(priority, 0) + (number if present else -number)
                if left:
                    counts[priority] = left
                else:
                    del counts[priority]

        return change
