"""InFlight: the pods in flight, and the events that arrived since their attempts began.

Attempts begin and end in roughly the same order. So all events are one list, and each pod has the position at which its
attempt began. Events older than every attempt are dropped. Recording costs one append. The list is grouped by event
only when an attempt fails, so that a thousand failed attempts do not each scan ten thousand events.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

from podwright.core.framework.cluster_events import ClusterEvent
from podwright.core.queue.hinting import Occurrence

MAX_RECORDED: Final = 10_000
"""The most recorded events. With more, recording stops for the oldest attempt, as after
`SchedulingQueue.stop_recording`.
"""

_Positions = dict[ClusterEvent, list[int]]


class InFlight:
    """See the module. A position counts all events ever recorded; the list starts at position `_base`."""

    def __init__(self) -> None:
        self._starts: OrderedDict[str, int] = OrderedDict()
        """Start positions by uid, the oldest first."""
        self._occurrences: list[Occurrence] = []
        self._base = 0
        self._sorted: dict[str, _Positions] = {}
        """Positions by the uid of the only pod concerned and by event, for the list up to `_sorted_to`.

        May include positions that were dropped since `_sorted_from`.
        """
        self._sorted_from = self._sorted_to = 0

    def begin(self, uid: str) -> None:
        """Starts recording for a pod whose attempt begins. The pod is not in flight yet."""
        self._starts[uid] = self._base + len(self._occurrences)

    def record(self, occurrence: Occurrence) -> None:
        """Records an event, unless no pod in flight can be affected by it."""
        starts = self._starts
        if not starts or (occurrence.only and occurrence.only not in starts):
            return
        self._occurrences.append(occurrence)
        if len(self._occurrences) > MAX_RECORDED:
            self.end(next(iter(starts)))

    def end(self, uid: str) -> None:
        """Stops recording for the pod."""
        start = self._starts.pop(uid, None)
        if not self._starts:
            self._base += len(self._occurrences)
            self._occurrences.clear()
            self._sorted.clear()
        elif start == self._base and self._occurrences:
            oldest = next(iter(self._starts.values()))
            if oldest != start:
                del self._occurrences[: oldest - start]
                self._base = oldest

    def missed(self, uid: str) -> Iterator[tuple[ClusterEvent, Iterator[Occurrence]]]:
        """The events since the pod's attempt began that may concern it: each distinct event, with its occurrences."""
        start = self._starts.get(uid)
        if start is None:
            return
        self._sort()
        for only in ("", uid):
            for event, positions in self._sorted.get(only, {}).items():
                if positions[-1] >= start:
                    yield event, self._at(positions, start)

    def _at(self, positions: Sequence[int], start: int) -> Iterator[Occurrence]:
        for number in range(bisect_left(positions, start), len(positions)):
            yield self._occurrences[positions[number] - self._base]

    def _sort(self) -> None:
        if self._base - self._sorted_from > MAX_RECORDED:
            self._sorted.clear()  # it also holds positions that were dropped
            self._sorted_from = self._sorted_to = self._base
        for position in range(max(self._sorted_to, self._base), self._base + len(self._occurrences)):
            occurrence = self._occurrences[position - self._base]
            self._sorted.setdefault(occurrence.only, {}).setdefault(occurrence.event, []).append(position)
        self._sorted_to = self._base + len(self._occurrences)

    def counts(self) -> Counter[str]:
        """The number of recorded events by label. The label `PodPopped` counts the pods."""
        counted = Counter(occurrence.event.label for occurrence in self._occurrences)
        if self._starts:
            counted["PodPopped"] = len(self._starts)
        return counted

    @property
    def recorded(self) -> int:
        """The number of events in the list."""
        return len(self._occurrences)

    def __contains__(self, uid: str) -> bool:
        return uid in self._starts

    def __iter__(self) -> Iterator[str]:
        return iter(self._starts)
