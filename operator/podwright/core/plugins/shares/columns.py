"""The free part of each device of all nodes, as columns, and the requests of the pods on the nodes.

A row is rewritten, and its version rises, when its node, a pod on it, or the use of its devices changes. A sync of many
rows may pause, and resumes where it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.interface import Int64s
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.plugins.shares.kinds import ShareAsk, SharedDevices
from podwright.core.state.cache import Cache

Floats = NDArray[np.float64]
_ROWS_BETWEEN_POINTS: Final = 64


class ShareDemand(NamedTuple):
    """Milli-CPU, bytes of memory, and what is asked of each kind of devices."""

    cpu: int
    memory: int
    asks: tuple[ShareAsk, ...]

    @property
    def of_devices(self) -> bool:
        """True if it asks for devices."""
        return any(ask.devices for ask in self.asks)


class DeviceColumns:
    """The devices of one kind: float64[nodes, devices] each. Where a node has fewer, `free` is -1 and `size`
    infinite.
    """

    def __init__(self) -> None:
        self.free = np.full((0, 1), -1.0)
        self.size = np.full((0, 1), np.inf)

    def grow(self, rows: int, devices: int) -> None:
        added = ((0, max(rows - self.free.shape[0], 0)), (0, max(devices - self.free.shape[1], 0)))
        self.free = np.pad(self.free, added, constant_values=-1.0)
        self.size = np.pad(self.size, added, constant_values=np.inf)


class ShareColumns:
    """See the module. `devices`: one for each kind; `versions`: int64[nodes]."""

    def __init__(self, cache: Cache, kinds: Sequence[SharedDevices]) -> None:
        self._cache = cache
        self._kinds = kinds
        self._of_claims = any(not kind.resource for kind in kinds)
        self.devices = [DeviceColumns() for _ in kinds]
        self.versions: Int64s = np.zeros(0, np.int64)
        self.running: Counter[ShareDemand] = Counter()
        """How many pods on the nodes ask for devices in this way."""
        self.changes = 0
        """How many pods have come to `running`, or left it."""
        self._on: dict[int, Counter[ShareDemand]] = {}
        """By row: its part of `running`."""
        self._seq = -1
        self._index_seen: Int64s = np.zeros(0, np.int64)
        self._pending: dict[int, None] = {}

    def demand(self, pod: PodInfo) -> ShareDemand:
        amounts = pod.requests.amounts
        asks = tuple([kind.ask(pod, self._cache) for kind in self._kinds])
        return ShareDemand(amounts.get(CPU, 0), amounts.get(MEMORY, 0), asks)

    def sync(self) -> None:
        """Writes the rows that have changed. Raises TookLongError."""
        table = self._cache.table
        log = table.usage_changes
        changed = log.since(self._seq) if self._seq >= 0 else None
        self._pending.update(dict.fromkeys(range(table.size) if changed is None else changed))
        self._seq = log.seq
        if missing := table.size - len(self.versions):
            self.versions = np.pad(self.versions, (0, missing))
            for each in self.devices:
                each.grow(table.size, 0)
        if self._of_claims:
            self._note_use()
        while self._pending:
            for slot in [*self._pending][:_ROWS_BETWEEN_POINTS]:
                self._write(slot)
                del self._pending[slot]
            if self._pending:
                self._cache.deadline.point()

    def _note_use(self) -> None:
        index = self._cache.devices.index
        index.refresh()
        seen = np.pad(self._index_seen, (0, len(index.versions) - len(self._index_seen)), constant_values=-1)
        self._pending.update(dict.fromkeys(np.flatnonzero(seen != index.versions).tolist()))
        self._index_seen = index.versions.copy()

    def _write(self, slot: int) -> None:
        node = None if self._cache.table.nodes[slot] is None else self._cache.node_at(slot)
        self.versions[slot] += 1
        for kind, columns in zip(self._kinds, self.devices, strict=True):
            found = [] if node is None else kind.devices(node, self._cache)
            columns.grow(0, len(found))
            columns.free[slot], columns.size[slot] = -1.0, np.inf
            if found:
                columns.free[slot, : len(found)], columns.size[slot, : len(found)] = zip(*found, strict=True)
        demands = [] if node is None else map(self.demand, node.pods.values())
        now = Counter(each for each in demands if each.of_devices)
        before = self._on.pop(slot, None) or Counter()
        if now != before:
            self.changes += (now - before).total() + (before - now).total()
            self.running += now - before
            self.running -= before - now
        if now:
            self._on[slot] = now

    def lacking(self, demand: ShareDemand) -> Int64s:
        """int64[nodes]: 0 where single devices have room for what is asked of resources; else 2 · i + 1 for the first
        kind that has no room, and 1 more if the node has too few devices. Of claims, others know.
        """
        codes = np.zeros(len(self.versions), np.int64)
        for i, (kind, ask, columns) in enumerate(zip(self._kinds, demand.asks, self.devices, strict=True)):
            if ask.devices and kind.resource:
                lacks = (columns.free >= ask.share).sum(axis=1) < ask.devices
                lacks &= (columns.free[:, 0] >= 0) & (codes == 0)
                codes[lacks] = 2 * i + 1
                codes[lacks & ((columns.free >= 0).sum(axis=1) < ask.devices)] += 1
        return codes
