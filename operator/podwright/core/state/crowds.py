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
from podwright.core.state.nominator import Nominator, Rank

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
        self._of: dict[Rank, Crowd] = {}
        self._rows: dict[Rank, dict[str, _Row]] = {}
        """By rank and node."""
        self._version = (-1, -1)
        compact_regularly(self)

    def of(self, pod: PodInfo) -> Crowd:
        """The pods that this pod must leave room for, and perhaps itself."""
        version = (self._nominator.changes, self._table.membership)
        if version != self._version:
            self._of, self._version = {}, version
        if len(self._rows) >= MAX_RANKS:
            self.compact()
        rank = self._nominator.rank(pod)
        known = self._of.get(rank)
        if known is None:
            rows = self._rows[rank] = self._rows_of(rank)
            slots = ((self._table.slot_of(name), row) for name, row in rows.items() if row.pods)
            known = self._of[rank] = Crowd((slot, row) for slot, row in slots if slot is not None)
        return known

    def _rows_of(self, rank: Rank) -> dict[str, _Row]:
        before, nominator = self._rows.get(rank, {}), self._nominator
        rows = {}
        for name, at in nominator.changed_at.items():
            row = before.get(name)
            if row is None or row.at != at:
                row = _Row(at, nominator.before_rank(rank, nominator.on(name)))
            rows[name] = row
        return rows

    def compact(self) -> None:
        """Drops the pods that were nominated earlier."""
        self._of, self._rows = {}, {}
