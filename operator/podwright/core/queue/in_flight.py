"""InFlight: the pods whose attempt is under way, and what happened meanwhile.

Attempts begin and end in about the same order, so what is recorded is one list, and each pod knows where in it it began. What
nobody in flight waits for is forgotten. Recording costs one append; only attempts that fail have the list sorted by event, so that
a thousand of them need not go through ten thousand events each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

from podwright.core.framework.cluster_events import ClusterEvent
from podwright.core.queue.hinting import Happened

MAX_RECORDED: Final = 10_000
"""Events kept for pods in flight. One that is in flight for longer counts as settled."""

_Positions = dict[ClusterEvent, list[int]]


class InFlight:
    """See the module. Positions count all that was ever recorded, from `_base` on it is kept."""

    def __init__(self) -> None:
        self._starts: OrderedDict[str, int] = OrderedDict()
        """By uid; the first is the oldest."""
        self._happened: list[Happened] = []
        self._base = 0
        self._sorted: dict[str, _Positions] = {}
        """Where each event is, by the uid of the one pod that it concerns; of the list up to `_sorted_to`. What was
        forgotten since `_sorted_from` is still in there."""
        self._sorted_from = self._sorted_to = 0

    def begin(self, uid: str) -> None:
        self._starts[uid] = self._base + len(self._happened)

    def record(self, happened: Happened) -> None:
        """Nothing if nobody is in flight who could want to know."""
        starts = self._starts
        if not starts or (happened.only and happened.only not in starts):
            return
        self._happened.append(happened)
        if len(self._happened) > MAX_RECORDED:
            self.end(next(iter(starts)))

    def end(self, uid: str) -> None:
        """The pod's flight is over, or what happens does not matter to it any more."""
        start = self._starts.pop(uid, None)
        if not self._starts:
            self._base += len(self._happened)
            self._happened.clear()
            self._sorted.clear()
        elif start == self._base and self._happened:
            oldest = next(iter(self._starts.values()))
            if oldest != start:
                del self._happened[: oldest - start]
                self._base = oldest

    def missed(self, uid: str) -> Iterator[tuple[ClusterEvent, Iterator[Happened]]]:
        """What happened since the pod's attempt began and may concern it: the distinct events, each with its occurrences."""
        start = self._starts.get(uid)
        if start is None:
            return
        self._sort()
        for only in ("", uid):
            for event, positions in self._sorted.get(only, {}).items():
                if positions[-1] >= start:
                    yield event, self._at(positions, start)

    def _at(self, positions: Sequence[int], start: int) -> Iterator[Happened]:
        for number in range(bisect_left(positions, start), len(positions)):
            yield self._happened[positions[number] - self._base]

    def _sort(self) -> None:
        if self._base - self._sorted_from > MAX_RECORDED:
            self._sorted.clear()  # it also has what is forgotten by now
            self._sorted_from = self._sorted_to = self._base
        for position in range(max(self._sorted_to, self._base), self._base + len(self._happened)):
            happened = self._happened[position - self._base]
            self._sorted.setdefault(happened.only, {}).setdefault(happened.event, []).append(position)
        self._sorted_to = self._base + len(self._happened)

    def counts(self) -> Counter[str]:
        """What is kept: events by label, and the pods themselves as `PodPopped`."""
        kept = Counter(happened.event.label for happened in self._happened)
        if self._starts:
            kept["PodPopped"] = len(self._starts)
        return kept

    @property
    def recorded(self) -> int:
        """How many events are kept."""
        return len(self._happened)

    def __contains__(self, uid: str) -> bool:
        return uid in self._starts

    def __iter__(self) -> Iterator[str]:
        return iter(self._starts)
