"""How much of the free devices typical pods cannot use (fragments), and by how much a pod makes that more or less.

What is free on a node is a fragment for a pod that does not fit there. For one that fits, so is what is free of devices
that have too little for it. The fragments of a node are the mean over the workload: what runs, or what a policy gives.
Source: Weng et al., "Beware of Fragmentation", USENIX ATC '23.

A pod goes where fragments grow least and, counted by LEFT_COUNTS, where least is left of CPU and devices, relative to
the node that has most. Both are kept for each node, and computed again only for rows that have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import nlargest
from typing import Final, NamedTuple

import numpy as np

from podwright.core.framework.interface import Bools, Int64s, Slots
from podwright.core.objects.compaction import RecentCache
from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.plugins.shares.columns import Floats, ShareColumns, ShareDemand
from podwright.core.plugins.shares.kinds import ShareAsk
from podwright.core.state.cache import Cache

LEFT_COUNTS: Final = 0.04
"""How many devices of fragments outweigh the CPU, or all devices, of the largest node. On the trace openb, 0.02 to
0.065 made little difference, and 0.04 was best.
"""
MAX_DEMANDS: Final = 128
"""The most frequent demands count as the workload."""
ROWS_AT_ONCE: Final = 1024
_MAX_BYTES: Final = 32 << 20


class _State(NamedTuple):
    """The free resources in some rows. `free`, `size`: float64[rows, devices] by kind."""

    cpu: Int64s
    memory: Int64s
    free: list[Floats]
    size: list[Floats]


class _Workload:
    """The most frequent demands, and the asks of each kind that occur in them."""

    def __init__(self, counted: Mapping[ShareDemand, int], kinds: int) -> None:
        self.pods = sum(counted.values())
        chosen = nlargest(MAX_DEMANDS, counted, key=counted.__getitem__)
        weights = np.array([counted[each] for each in chosen], np.float64)
        self.weights = weights / max(weights.sum(), 1.0)
        self.cpu = np.array([each.cpu for each in chosen], np.int64)
        self.memory = np.array([each.memory for each in chosen], np.int64)
        self.counts = [np.array([each.asks[kind].devices for each in chosen], np.int64) for kind in range(kinds)]
        listed = [sorted({each.asks[kind].share for each in chosen}) for kind in range(kinds)]
        self.shares = [np.array(each) for each in listed]
        self.places = [
            np.array([listed[kind].index(each.asks[kind].share) for each in chosen], np.intp) for kind in range(kinds)
        ]

    def fragments(self, state: _State, scale: tuple[float, ...]) -> Floats:
        """float64[rows], in devices of the size `scale`."""
        if not self.pods:
            return np.zeros(len(state.cpu))
        ok = (state.cpu[:, None] >= self.cpu) & (state.memory[:, None] >= self.memory)
        kinds = []
        for free, size, shares, places, counts in zip(
            state.free, state.size, self.shares, self.places, self.counts, strict=True
        ):
            room = _room(free[:, None, :], size[:, None, :], shares[:, None])
            ok &= np.count_nonzero(room, axis=2)[:, places] >= counts
            there = free.clip(0)
            total = there.sum(axis=1)[:, None]
            usable = np.einsum("rsd,rd->rs", room, there)
            kinds.append((total, total - usable[:, places], self.weights * (counts > 0)))
        found: Floats = np.zeros(len(state.cpu))
        for (total, unusable, weights), each in zip(kinds, scale, strict=True):
            found += np.where(ok, unusable, total) @ weights / each
        return found


class Fragments:
    """See the module."""

    def __init__(self, cache: Cache, columns: ShareColumns, given: Mapping[ShareDemand, int], *, counted: bool) -> None:
        """`given`: the workload, with weights; empty: what runs. Unless fragments are `counted`, only what is left
        decides.
        """
        self._cache = cache
        self._columns = columns
        self._learns = counted and not given
        self._workload = _Workload(given if counted else {}, len(columns.devices))
        self._counted_at = -1
        self._largest: tuple[tuple[float, ...], ...] = ()
        """The CPU of the largest node; by kind, all devices of the largest node, and the largest device."""
        self._epoch = 0
        """Rises when all rows have to be computed again."""
        self._kept: RecentCache[ShareDemand | None, tuple[Floats, Int64s]] = RecentCache(MAX_DEMANDS, _MAX_BYTES)
        """By demand: its growth in each row, and the version of the row then. None: the fragments now."""

    def now(self) -> Floats:
        """float64[nodes]: the fragments of each node, in devices. Read-only. Raises TookLongError."""
        self._columns.sync()
        self._count()
        return self._current(None, lambda rows: self._workload.fragments(self._state(rows), self._largest[2]))

    def growth(self, demand: ShareDemand) -> Floats:
        """float64[nodes], in devices: the less, the better. Infinite where the demand does not fit. Read-only. Raises
        TookLongError.
        """
        now = self.now()
        return self._current(demand, lambda rows: self._growth(demand, rows, now[rows]))

    def _count(self) -> None:
        """Counts the workload again once a half of it has changed."""
        table, columns = self._cache.table, self._columns
        sizes = [np.where(np.isinf(each.size), 0.0, each.size) for each in columns.devices]
        largest = (
            (float(table.allocatable(CPU).max(initial=1)),),
            tuple(float(size.sum(axis=1).max(initial=1)) for size in sizes),
            tuple(float(size.max(initial=1)) for size in sizes),
        )
        if largest != self._largest:
            self._largest = largest
            self._epoch += 1
        if self._learns and columns.changes - self._counted_at > self._workload.pods // 2:
            self._counted_at = columns.changes
            self._workload = _Workload(columns.running, len(columns.devices))
            self._epoch += 1

    def _current(self, key: ShareDemand | None, compute: Callable[[Slots], Floats]) -> Floats:
        versions = self._columns.versions + self._epoch
        found = self._kept.get(key)
        if found is None or len(found[0]) != len(versions):
            found = np.empty(len(versions)), np.full(len(versions), -1, np.int64)
            self._kept.put(key, found, 2 * found[0].nbytes)
        values, seen = found
        stale = np.flatnonzero(seen != versions)
        for start in range(0, len(stale), ROWS_AT_ONCE):
            rows = stale[start : start + ROWS_AT_ONCE]
            values[rows] = compute(rows)
            seen[rows] = versions[rows]
            if start + ROWS_AT_ONCE < len(stale):
                self._cache.deadline.point()
        return values

    def _state(self, rows: Slots) -> _State:
        table, devices = self._cache.table, self._columns.devices
        cpu, memory = ((table.allocatable(each) - table.requested(each))[rows] for each in (CPU, MEMORY))
        return _State(cpu, memory, [each.free[rows] for each in devices], [each.size[rows] for each in devices])

    def _growth(self, demand: ShareDemand, rows: Slots, now: Floats) -> Floats:
        before = self._state(rows)
        ok = (before.cpu >= demand.cpu) & (before.memory >= demand.memory)
        free = []
        for ask, own, size in zip(demand.asks, before.free, before.size, strict=True):
            left, fits = _without(own, size, ask)
            ok &= fits
            free.append(left)
        after = _State(before.cpu - demand.cpu, before.memory - demand.memory, free, before.size)
        (cpu,), devices, _ = self._largest
        left = after.cpu / cpu + sum(
            each.clip(0).sum(axis=1) / most for each, most in zip(after.free, devices, strict=True)
        )
        growth = self._workload.fragments(after, self._largest[2]) - now
        return np.where(ok, growth + LEFT_COUNTS * left, np.inf)


def _room(free: Floats, size: Floats, shares: Floats | float) -> Bools:
    """The devices that have room for a share."""
    return free >= (np.where(np.isinf(shares), size, shares))


def _without(free: Floats, size: Floats, ask: ShareAsk) -> tuple[Floats, Bools]:
    """Returns what is free after the fullest devices with room give what is asked; bool[rows]: enough devices have
    room.
    """
    if not ask.devices:
        return free, np.ones(len(free), np.bool_)
    room = _room(free, size, ask.share)
    given = np.argsort(np.where(room, free, np.inf), axis=1, kind="stable")[:, : ask.devices]
    left = free.copy()
    rows = np.arange(len(free))[:, None]
    left[rows, given] -= np.minimum(ask.share, free[rows, given])
    return left, room.sum(axis=1) >= ask.devices
