"""Crowds: how many pods are nominated to each node, and what they request, as arrays.

So that filters can compare a pod with all nominated pods at once. What has changed is found by the counters of the
nominator and the node table, and all rows are built again then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.pod import PodInfo
from podwright.core.state.columns.table import Int64s, NodeTable, Slots
from podwright.core.state.nominator import Nominator, Rank

LARGEST: Final = 1 << 61
"""Larger sums count as this, so that no difference of two amounts exceeds an int64."""
MAX_RANKS: Final = 32


class Crowd:
    """The nodes to which pods are nominated that go before those of one rank, by row of the table, and these pods."""

    def __init__(self, rows: Iterable[tuple[int, list[PodInfo]]]) -> None:
        found = [*rows]
        self.slots: Slots = np.array([slot for slot, _ in found], np.intp)
        self.pods: Int64s = np.array([len(pods) for _, pods in found], np.int64)
        self._pods = [pods for _, pods in found]
        self._requested: dict[str, Int64s] = {}

    def requested(self, resource: str) -> Int64s:
        """int64[rows]: what the nominated pods request."""
        known = self._requested.get(resource)
        if known is None:
            sums = (sum([pod.requests.amounts.get(resource, 0) for pod in pods]) for pods in self._pods)
            known = self._requested[resource] = np.array([min(amount, LARGEST) for amount in sums], np.int64)
        return known


class Crowds:
    """See the module."""

    def __init__(self, nominator: Nominator, table: NodeTable) -> None:
        self._nominator = nominator
        self._table = table
        self._of: dict[Rank, Crowd] = {}
        self._version = (-1, -1)
        compact_regularly(self)

    def of(self, pod: PodInfo) -> Crowd:
        """The pods that this pod must leave room for, and perhaps itself."""
        version = (self._nominator.changes, self._table.membership)
        if version != self._version or len(self._of) >= MAX_RANKS:
            self._of, self._version = {}, version
        rank = self._nominator.rank(pod)
        known = self._of.get(rank)
        if known is None:
            known = self._of[rank] = Crowd(self._rows(rank))
        return known

    def _rows(self, rank: Rank) -> Iterable[tuple[int, list[PodInfo]]]:
        for name in self._nominator.nodes():
            slot = self._table.slot_of(name)
            pods = self._nominator.before_rank(rank, self._nominator.on(name))
            if slot is not None and pods:
                yield slot, pods

    def compact(self) -> None:
        """Drops the pods that were nominated earlier."""
        self._of = {}
