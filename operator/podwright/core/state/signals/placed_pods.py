"""PlacedPods: when pods were placed, as long as the samples of a signal may not show them yet.

Invariant: a pod that is taken off its node and put back, as in a dry run that is rolled back, keeps its original
placement time and row. What was taken off is remembered until `forget`, which also drops the rows of pods that were
only tried out. Memory is proportional to the pods that were placed within the horizon.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU, MEMORY

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
CHUNK: Final = 4096
MAX_GONE: Final = 1 << 16
"""How many pods that have left their nodes are remembered."""
FORGOTTEN_AT_ONCE: Final = 8
"""How many chunks one call of `forget` drops, which takes milliseconds."""
MAX_AMOUNT: Final = 2**44
"""The cap on each amount of a pod: sums over half a million such pods are exact."""


class PlacedDemand(NamedTuple):
    """A pod: when it was placed, and what scoring takes it to request. `time` is -inf if that was before the
    horizon.
    """

    time: float
    amounts: Mapping[str, int]


class _Chunk:
    """Some pods, in the order in which they were added. A pod that is gone has the row -1."""

    __slots__ = ("amounts", "count", "newest", "slots", "times", "uids")

    def __init__(self) -> None:
        self.count = 0
        self.newest = -inf
        self.uids: list[str] = []
        self.times: Floats = np.zeros(CHUNK)
        self.slots: NDArray[np.intp] = np.full(CHUNK, -1, np.intp)
        self.amounts: dict[str, Int64s] = {CPU: np.zeros(CHUNK, np.int64), MEMORY: np.zeros(CHUNK, np.int64)}


class PlacedPods:
    """See the module."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[_Chunk, int]] = {}
        self._gone: dict[str, tuple[_Chunk, int] | None] = {}
        """By uid, the row of a pod that is on no node any more; None if it was placed before the horizon."""
        self._chunks: deque[_Chunk] = deque()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def rows(self) -> int:
        """How many rows are kept, also of pods that are gone."""
        return sum(chunk.count for chunk in self._chunks)

    def added(self, pod: PodInfo, slot: int, time: float, horizon: float) -> PlacedDemand:
        """The pod is on the node in this row, since `time` if it has not been there before. Times before the horizon
        are never requested.
        """
        kept = None
        if pod.uid in self._gone:
            kept = self._gone.pop(pod.uid)
            time = -inf if kept is None else float(kept[0].times[kept[1]])
        requests = pod.requests
        amounts = {
            CPU: min(requests.scoring_cpu, MAX_AMOUNT),
            MEMORY: min(requests.scoring_memory, MAX_AMOUNT),
        }
        if time < horizon:
            return PlacedDemand(-inf, amounts)
        chunk, place = kept or self._new_row(pod.uid, time)
        chunk.slots[place] = slot
        for name, amount in amounts.items():
            chunk.amounts[name][place] = amount
        self._places[pod.uid] = (chunk, place)
        return PlacedDemand(time, amounts)

    def removed(self, uid: str) -> PlacedDemand | None:
        """The pod is on no node any more. None if it was placed before the horizon."""
        found = self._places.pop(uid, None)
        if len(self._gone) >= MAX_GONE:
            self._gone.clear()
        if found is None:
            self._gone[uid] = None
            return None
        self._gone[uid] = found
        chunk, place = found
        chunk.slots[place] = -1
        return PlacedDemand(
            float(chunk.times[place]), {name: int(amounts[place]) for name, amounts in chunk.amounts.items()}
        )

    def forget(self, before: float) -> None:
        """Drops what was placed before this time, and what is off its node. What is much is dropped in several
        calls.
        """
        self._gone = {}
        self._drop_last_rows()
        for _ in range(FORGOTTEN_AT_ONCE):
            if not self._chunks or self._chunks[0].newest >= before:
                return
            chunk = self._chunks.popleft()
            for uid in chunk.uids:
                found = self._places.get(uid)
                if found is not None and found[0] is chunk:
                    del self._places[uid]

    def _new_row(self, uid: str, time: float) -> tuple[_Chunk, int]:
        if not self._chunks or self._chunks[-1].count == CHUNK:
            self._chunks.append(_Chunk())
        chunk = self._chunks[-1]
        place = chunk.count
        chunk.count += 1
        chunk.newest = max(chunk.newest, time)
        chunk.uids.append(uid)
        chunk.times[place] = time
        return chunk, place

    def _drop_last_rows(self) -> None:
        """Drops the rows of pods that are gone, after that of the last pod that is not."""
        while self._chunks:
            chunk = self._chunks[-1]
            there = np.flatnonzero(chunk.slots[: chunk.count] >= 0)
            chunk.count = int(there[-1]) + 1 if len(there) else 0
            del chunk.uids[chunk.count :]
            if chunk.count:
                return
            self._chunks.pop()

    def sums(self, resource: str, since: Floats) -> Int64s:
        """int64[rows]: what the pods on each row request that were placed after `since`, float64[rows]."""
        found = np.zeros(len(since), np.int64)
        for chunk in self._chunks:
            slots = chunk.slots[: chunk.count]
            there = np.flatnonzero(slots >= 0)
            there = there[chunk.times[there] > since[slots[there]]]
            np.add.at(found, slots[there], chunk.amounts[resource][there])
        return found
