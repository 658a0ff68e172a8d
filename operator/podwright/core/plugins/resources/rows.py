"""Allocatable and used amounts of the resources that a plugin scores, as float64 columns prepared for its formula.

float64 holds whole numbers up to 2⁵³ exactly. A truncated quotient of up to 100 of such numbers equals the int64 result
if the divisor is below 2⁴⁶ (64 Ti): a quotient that is not whole is at least 1/2⁴⁶ away from a whole number, and the
rounding error is smaller. Nodes with more than 2⁴⁶ of a resource are `oversized`. The caller computes them in whole
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
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
FEW_ROWS: Final = 64
"""Up to this many rows, arrays of the same shape as the rows are kept."""
FEW: Final = 4
"""Up to this many changed rows are written one by one."""
MANY_SHARE: Final = 8
"""If more than one row in this many has changed, all are written again."""

Base = Callable[[Any, Any], Any]
"""(allocatable, used) → the part of a formula that does not depend on the pod. Works on numbers and arrays."""


class Column:
    """A number for each resource, to be combined with rows. For few rows, it has as many: NumPy takes three times as
    long for a shape that it has to stretch.
    """

    __slots__ = ("_one", "_wide")

    def __init__(self, numbers: Sequence[float]) -> None:
        self._one = np.array(numbers, np.float64).reshape(-1, 1)
        self._wide: Floats | None = None

    def of(self, rows: int) -> Floats:
        """float64[resources, rows], or [resources, 1]."""
        if rows > FEW_ROWS:
            return self._one
        if self._wide is None:
            self._wide = np.repeat(self._one, FEW_ROWS, 1)
        return self._wide[:, :rows]


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


Used = Callable[[NodeInfo], int]


def used_of(resource: str, *, defaults: bool) -> Used:
    """A function for the amount that a node's pods use. `defaults`: with scoring's defaults for CPU and memory."""
    if defaults and resource == CPU:
        return attrgetter("scoring_cpu")
    if defaults and resource == MEMORY:
        return attrgetter("scoring_memory")
    if resource == PODS:
        return lambda node: len(node.pods)
    return lambda node: node.requested.get(resource, 0)


class ResourceRows:
    """See the module. `resources` may include PODS, the number of pods."""

    def __init__(self, cache: Cache, resources: Sequence[str], base: Base, *, defaults: bool) -> None:
        self._cache = cache
        self._table = cache.table
        self._resources = tuple(resources)
        self._used = [used_of(resource, defaults=defaults) for resource in resources]
        self._base = base
        self._defaults = defaults
        self._seq = -1
        self._nodes: list[Node | None] = []
        self._columns: list[tuple[Floats, str, Used]] = []
        """The rows of `base`, each with its resource."""
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
        base = self.some_bases(slots)
        _, allocatable, present = self._rows
        if present is not None:
            present = present.take(slots, 1)
        return Rows(base, allocatable.take(slots, 1), present)

    def some_bases(self, slots: Slots) -> Floats:
        """Only the `base` of them."""
        self._sync()
        return self._rows.base.take(slots, 1)

    def _sync(self) -> None:
        table = self._table
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
        table = self._table
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
        self._columns = list(zip(base, self._resources, self._used, strict=True))
        self._nodes = list(table.nodes)

    def _used_column(self, resource: str) -> NDArray[np.int64]:
        table = self._table
        if self._defaults and resource == CPU:
            return table.scoring_cpu
        if self._defaults and resource == MEMORY:
            return table.scoring_memory
        return table.pods if resource == PODS else table.requested(resource)

    def _write(self, slot: int) -> None:
        node = self._table.nodes[slot]
        if node is not self._nodes[slot]:
            self._write_node(slot, node)
        if node is None:
            return
        info, base, offered = self._cache.node_at(slot), self._base, node.allocatable
        for column, resource, used in self._columns:
            column[slot] = base(offered.get(resource, 0), used(info))

    def _write_many(self, slots: Collection[int]) -> None:
        table = self._table
        for slot in slots:
            if table.nodes[slot] is not self._nodes[slot]:
                self._write_node(slot, table.nodes[slot])
        rows = np.fromiter(slots, np.intp, len(slots))
        for column, resource, _ in self._columns:
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
