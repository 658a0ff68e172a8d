"""Allocatable and used amounts of the resources that a plugin scores, as float64 columns ready for its formula.

float64 holds whole numbers up to 2⁵³ exactly, and a quotient up to 100 of such numbers, truncated, is int64's own as
long as the divisor is below 2⁴⁶ (64 Ti): one part in 2⁴⁶ is the least by which a quotient can miss a whole number, and
half a unit in the last place of 100 is less. Nodes with more than that of anything are listed as `oversized`, for the
caller to compute in whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.interface import Slots
from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo

Floats = NDArray[np.float64]

OVERSIZE: Final = 2**46

Base = Callable[[Any, Any], Any]
"""(allocatable, used) to the part of the formula that does not depend on the pod, for numbers and arrays."""


class Rows(NamedTuple):
    """Some rows. Arrays are float64[resources, rows].

    `base` is what `Base` made of them. A missing resource has `allocatable` 1; `present` is 0 there and 1 elsewhere,
    or None where no node lacks anything.
    """

    base: Floats
    allocatable: Floats
    present: Floats | None

    @property
    def length(self) -> int:
        return int(self.base.shape[1])


def used_of(node: NodeInfo, resource: str, *, defaults: bool) -> int:
    """What the node's pods use, with scoring's defaults for CPU and memory or without."""
    if defaults:
        if resource == CPU:
            return node.scoring_cpu
        if resource == MEMORY:
            return node.scoring_memory
    return node.requested.get(resource, 0)


class ResourceRows:
    """See the module."""

    def __init__(self, cache: Cache, resources: Sequence[str], base: Base, *, defaults: bool) -> None:
        self._cache = cache
        self._resources = tuple(resources)
        self._base = base
        self._defaults = defaults
        self._seq = -1
        self._rows = Rows(np.empty((0, 0)), np.empty((0, 0)), None)
        self._present = np.empty((0, 0))
        self._missing = 0
        self.oversized: set[int] = set()

    def everything(self) -> Rows:
        """All rows of the table, current; holes count as nodes that have one of everything."""
        self._sync()
        return self._rows if self._missing else self._rows._replace(present=None)

    def some(self, slots: Slots) -> Rows:
        """The rows of these slots, current."""
        self._sync()
        present = self._present[:, slots] if self._missing else None
        return Rows(self._rows.base[:, slots], self._rows.allocatable[:, slots], present)

    def _sync(self) -> None:
        table = self._cache.table
        log = table.usage_changes
        if self._seq == log.seq:
            return
        changed = log.since(self._seq) if self._seq >= 0 and self._rows.length == table.size else None
        slots = set(changed or ())
        if changed is None or len(slots) > 32:
            self._rebuild()
        else:
            for slot in slots:
                self._write(slot)
        self._seq = log.seq

    def _rebuild(self) -> None:
        table = self._cache.table
        allocatable = np.empty((len(self._resources), table.size))
        used = np.empty_like(allocatable)
        for i, resource in enumerate(self._resources):
            allocatable[i] = table.allocatable(resource)
            used[i] = self._used_column(resource)
        self.oversized = set(np.flatnonzero((allocatable >= OVERSIZE).any(axis=0)).tolist())
        missing = allocatable == 0
        allocatable[missing] = 1
        missing &= table.valid
        self._missing = int(np.count_nonzero(missing))
        self._present = np.where(missing, 0.0, 1.0)
        self._rows = Rows(self._base(allocatable, used), allocatable, self._present)

    def _used_column(self, resource: str) -> NDArray[np.int64]:
        table = self._cache.table
        if self._defaults and resource == CPU:
            return table.scoring_cpu
        if self._defaults and resource == MEMORY:
            return table.scoring_memory
        return table.requested(resource)

    def _write(self, slot: int) -> None:
        hole = self._cache.table.nodes[slot] is None
        node = None if hole else self._cache.node_at(slot)
        self.oversized.discard(slot)
        for i, resource in enumerate(self._resources):
            allocatable = 1 if node is None else node.allocatable(resource)
            used = 0 if node is None else used_of(node, resource, defaults=self._defaults)
            if allocatable >= OVERSIZE:
                self.oversized.add(slot)
            present = 1.0 if allocatable else 0.0
            self._missing += int(self._present[i, slot] - present)
            self._present[i, slot] = present
            self._rows.allocatable[i, slot] = allocatable or 1
            self._rows.base[i, slot] = self._base(allocatable or 1, used)
