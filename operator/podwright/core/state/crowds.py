"""Crowds: how many pods are nominated to each node, and what they request, as arrays.

So that filters can compare a pod with all nominated pods at once. What has changed is found by the counters of the
nominator and the node table. Only the rows of nodes to which other pods are nominated are built again then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.pod import PodInfo
from podwright.core.state.columns.table import Int64s, NodeTable, Slots
from podwright.core.state.nominator import Nominator, Rank, reservation_of

LARGEST: Final = 1 << 61
"""Larger sums count as this, so that no difference of two amounts exceeds an int64."""
MAX_RANKS: Final = 32


class _Row:
    """The pods on one node. `at`: `Nominator.changed_at` when they were found."""

    __slots__ = ("at", "pods", "sums")

    def __init__(self, at: int, pods: Sequence[PodInfo]) -> None:
        self.at = at
        self.pods = pods
        self.sums: dict[str, int] = {}

    def requested(self, resource: str) -> int:
        known = self.sums.get(resource)
        if known is None:
            amount = sum([pod.requests.amounts.get(resource, 0) for pod in self.pods])
            known = self.sums[resource] = min(amount, LARGEST)
        return known


class Crowd:
    """The nodes to which pods are nominated that go before those of one rank, by row of the table, and these pods."""

    def __init__(self, rows: Iterable[tuple[int, _Row]]) -> None:
        found = [*rows]
        self._rows = [row for _, row in found]
        self.slots: Slots = np.array([slot for slot, _ in found], np.intp)
        self.pods: Int64s = np.array([len(row.pods) for row in self._rows], np.int64)
        self._requested: dict[str, Int64s] = {}

    def requested(self, resource: str) -> Int64s:
        """int64[rows]: what the nominated pods request."""
        known = self._requested.get(resource)
        if known is None:
            known = np.array([row.requested(resource) for row in self._rows], np.int64)
            self._requested[resource] = known
        return known


class Crowds:
    """See the module."""

    def __init__(self, nominator: Nominator, table: NodeTable) -> None:
        self._nominator = nominator
        self._table = table
        self._of: dict[tuple[Rank, bool], Crowd] = {}
        """By rank, and whether only slots of reservations count."""
        self._rows: dict[tuple[Rank, bool], dict[str, _Row]] = {}
        """By these and node."""
        self._version = (-1, -1)
        compact_regularly(self)

    def of(self, pod: PodInfo, *, only_slots: bool = False) -> Crowd:
        """The pods that this pod must leave room for, and perhaps itself. `only_slots`: of reservations."""
        version = (self._nominator.changes, self._table.membership)
        if version != self._version:
            self._of, self._version = {}, version
        if len(self._rows) >= MAX_RANKS:
            self.compact()
        key = self._nominator.rank(pod), only_slots
        known = self._of.get(key)
        if known is None:
            rows = self._rows[key] = self._rows_of(*key)
            slots = ((self._table.slot_of(name), row) for name, row in rows.items() if row.pods)
            known = self._of[key] = Crowd((slot, row) for slot, row in slots if slot is not None)
        return known

    def _rows_of(self, rank: Rank, only_slots: bool) -> dict[str, _Row]:
        before, nominator = self._rows.get((rank, only_slots), {}), self._nominator
        rows = {}
        for name, at in nominator.changed_at.items():
            row = before.get(name)
            if row is None or row.at != at:
                pods = nominator.before_rank(rank, nominator.on(name))
                row = _Row(at, [pod for pod in pods if reservation_of(pod)] if only_slots else pods)
            rows[name] = row
        return rows

    def compact(self) -> None:
        """Drops the pods that were nominated earlier."""
        self._of, self._rows = {}, {}
