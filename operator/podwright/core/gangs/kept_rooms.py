"""KeptRooms: how many members of one kind nodes and domains take, kept between plans and updated where rows changed.

A plan changes a few rows, and so does a pod that ends. What such a room says of nodes themselves holds until one of
them changes. Invariant: a kept room equals a newly computed one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

import numpy as np

from podwright.core.framework.interface import Bools, Int64s, Slots
from podwright.core.objects.compaction import RecentCache
from podwright.core.state.columns.change_log import ChangeLog
from podwright.core.state.topologies import DomainLevel

LEAST_NODES: Final = 2_048
"""With fewer nodes, computing all of them takes no longer than looking at the changes."""
MOST_ROOMS: Final = 64
MAX_BYTES: Final = 32 << 20
MOST_LEVELS: Final = 8
"""For so many levels a room has sums, of which each has a number for each domain."""


class KeptRoom:
    """Of members of one kind. `passing`: bool[nodes], by the filters of the node; `rejecting`: those that reject one;
    `fits`: int64[nodes], how many each node takes; valid until the next update.
    """

    __slots__ = ("_plugins", "_seq", "_sums", "epoch", "fits", "passing", "rejecting")

    def __init__(self, epoch: int, plugins: Sequence[object], passing: Bools, rejecting: frozenset[str]) -> None:
        """`epoch`: of the table; the room is of use until it rises. `plugins`: those whose ids are in the room's key,
        which no others get meanwhile.
        """
        self.epoch = epoch
        self._plugins = plugins
        self.passing = passing
        self.rejecting = rejecting
        self.fits: Int64s = np.zeros(0, np.int64)
        self._seq = -1
        self._sums: dict[DomainLevel, Int64s] = {}

    def update(self, log: ChangeLog, fitting: Callable[[Slots | slice], Int64s]) -> None:
        """`fitting`: computes `fits` of these rows."""
        rows = log.rows_since(self._seq) if self._seq >= 0 else None
        if rows is None or len(rows) > len(self.fits) // 8:
            self.fits, self._sums = fitting(slice(None)), {}
        elif len(rows):
            now = fitting(rows)
            more = now - self.fits[rows]
            self.fits[rows] = now
            for level, before in self._sums.items():
                sums = np.append(before, 0)  # of the rows in no domain
                np.add.at(sums, level.codes[rows], more)
                self._sums[level] = sums[:-1]
        self._seq = log.seq

    def sums(self, level: DomainLevel) -> Int64s:
        """int64[domains]: how many the nodes of each domain take. Stays as it is."""
        found = self._sums.get(level)
        if found is None:
            if len(self._sums) == MOST_LEVELS:
                self._sums.clear()
            found = self._sums[level] = level.sums(self.fits)
        return found


class KeptRooms(RecentCache[Hashable, KeptRoom]):
    """Those that were used last, by all that they depend on beside the nodes and their pods."""

    def __init__(self) -> None:
        super().__init__(MOST_ROOMS, MAX_BYTES)

    def keep(self, key: Hashable, room: KeptRoom) -> None:
        self.put(key, room, 32 * len(room.passing))
