"""Allocatable and used amounts of the resources that a plugin scores, as float64 columns prepared for its formula.

float64 holds whole numbers up to 2⁵³ exactly. A truncated quotient of up to 100 of such numbers equals the int64 result
if the divisor is below 2⁴⁶ (64 Ti): a quotient that is not whole is at least 1/2⁴⁶ away from a whole number, and the
rounding error is smaller. Nodes with more than 2⁴⁶ of a resource are `oversized`. The caller computes them in whole
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.interface import Slots
from podwright.core.objects.node import Node
from podwright.core.objects.resources import CPU, MEMORY, PODS
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo

Floats = NDArray[np.float64]

OVERSIZE: Final = 2**46
FEW: Final = 4
"""Up to this many changed rows are written one by one."""
MANY_SHARE: Final = 8
"""If more than one row in this many has changed, all are written again."""

Base = Callable[[Any, Any], Any]
"""(allocatable, used) → the part of a formula that does not depend on the pod. Works on numbers and arrays."""


class Rows(NamedTuple):
    """Some rows of the table. All arrays are float64[resources, rows].

    `base` is the result of `Base`. `present` is 0 where a node lacks a resource and 1 elsewhere; None if no node lacks
    any. `allocatable` is 1 where the resource is missing.
    """

    base: Floats
    allocatable: Floats
    present: Floats | None

    @property
    def length(self) -> int:
        return int(self.base.shape[1])

    def of(self, places: Sequence[int]) -> Rows:
        """The rows of these resources only, in this order."""
        if len(places) == len(self.base):
            return self
        chosen = list(places)
        present = None if self.present is None else self.present[chosen]
        return Rows(self.base[chosen], self.allocatable[chosen], present)


def used_of(node: NodeInfo, resource: str, *, defaults: bool) -> int:
    """The amount that the node's pods use. `defaults`: with scoring's defaults for CPU and memory."""
    if defaults:
        if resource == CPU:
            return node.scoring_cpu
        if resource == MEMORY:
            return node.scoring_memory
    if resource == PODS:
        return len(node.pods)
    return node.requested.get(resource, 0)


class ResourceRows:
    """See the module. `resources` may include PODS, the number of pods."""

    def __init__(self, cache: Cache, resources: Sequence[str], base: Base, *, defaults: bool) -> None:
        self._cache = cache
        self._resources = tuple(resources)
        self._base = base
        self._defaults = defaults
        self._seq = -1
        self._nodes: list[Node | None] = []
        self._base_columns: list[Floats] = []
        self._present = np.empty((0, 0))
        self._missing = 0
        self._rows = Rows(np.empty((0, 0)), np.empty((0, 0)), None)
        self.oversized: set[int] = set()

    def all_rows(self) -> Rows:
        """All rows of the table, current. Empty rows count as nodes without resources."""
        self._sync()
        return self._rows

    def some(self, slots: Slots) -> Rows:
        """The rows of these slots, current."""
        self._sync()
        base, allocatable, present = self._rows
        if present is not None:
            present = present.take(slots, axis=1)
        return Rows(base.take(slots, axis=1), allocatable.take(slots, axis=1), present)

    def _sync(self) -> None:
        table = self._cache.table
        log = table.usage_changes
        seq = log.seq
        if self._seq == seq:
            return
        changed = log.since(self._seq) if self._seq >= 0 and len(self._nodes) == table.size else None
        if changed is None:
            self._rebuild()
        elif len(changed) == 1:
            self._write(changed[0])
        elif len(slots := set(changed)) <= FEW:
            for slot in slots:
                self._write(slot)
        elif len(slots) <= table.size // MANY_SHARE:
            self._write_many(slots)
        else:
            self._rebuild()
        self._seq = seq

    def _rebuild(self) -> None:
        table = self._cache.table
        allocatable = np.empty((len(self._resources), table.size))
        used = np.empty_like(allocatable)
        for i, resource in enumerate(self._resources):
            allocatable[i] = table.allocatable(resource)
            used[i] = self._used_column(resource)
        base = self._base(allocatable, used)
        self.oversized = set(np.flatnonzero((allocatable >= OVERSIZE).any(axis=0)).tolist())
        missing = allocatable == 0
        allocatable[missing] = 1
        missing &= table.valid
        self._missing = int(np.count_nonzero(missing))
        self._present = np.where(missing, 0.0, 1.0)
        self._rows = Rows(base, allocatable, self._present if self._missing else None)
        self._base_columns = list(base)
        self._nodes = list(table.nodes)

    def _used_column(self, resource: str) -> NDArray[np.int64]:
        table = self._cache.table
        if self._defaults and resource == CPU:
            return table.scoring_cpu
        if self._defaults and resource == MEMORY:
            return table.scoring_memory
        return table.pods if resource == PODS else table.requested(resource)

    def _write(self, slot: int) -> None:
        node = self._cache.table.nodes[slot]
        if node is not self._nodes[slot]:
            self._write_node(slot, node)
        if node is None:
            return
        info, base, defaults = self._cache.node_at(slot), self._base, self._defaults
        for column, resource in zip(self._base_columns, self._resources, strict=True):
            column[slot] = base(node.allocatable.get(resource, 0), used_of(info, resource, defaults=defaults))

    def _write_many(self, slots: Collection[int]) -> None:
        table = self._cache.table
        for slot in slots:
            if table.nodes[slot] is not self._nodes[slot]:
                self._write_node(slot, table.nodes[slot])
        rows = np.fromiter(slots, np.intp, len(slots))
        for column, resource in zip(self._base_columns, self._resources, strict=True):
            allocatable = table.allocatable(resource)[rows].astype(np.float64)
            column[rows] = self._base(allocatable, self._used_column(resource)[rows])

    def _write_node(self, slot: int, node: Node | None) -> None:
        """Writes the values that depend on the node alone."""
        self._nodes[slot] = node
        self.oversized.discard(slot)
        for i, resource in enumerate(self._resources):
            allocatable = 0 if node is None else node.allocatable.get(resource, 0)
            if allocatable >= OVERSIZE:
                self.oversized.add(slot)
            present = 1.0 if allocatable or node is None else 0.0
            self._missing += int(self._present[i, slot] - present)
            self._present[i, slot] = present
            self._rows.allocatable[i, slot] = allocatable or 1
            self._rows.base[i, slot] = self._base(allocatable, 0)
        self._rows = self._rows._replace(present=self._present if self._missing else None)
