"""Reachability: which nodes reach the slices that are not local to one node.

Nodes that reach the same of them are in one group. Groups are found on columns, once for each change of such slices or
of the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.devices.slices import PoolId, Reach, ResourceSlice
from podwright.core.state.columns import DerivedColumns, NodeTable
from podwright.core.state.columns.matching import affinity_column

Bools = NDArray[np.bool_]
Slots = NDArray[np.intp]

_MANY_CODES: Final = 1 << 60


def reached_by(table: NodeTable, derived: DerivedColumns, source: ResourceSlice) -> Bools:
    """bool[nodes]: the nodes that reach the slice."""
    if not source.per_device:
        return _covered(table, derived, source.reach)
    rows = np.zeros(table.size, np.bool_)
    for reach in dict.fromkeys(device.reach for device in source.devices):
        if reach.node_name:
            slot = table.slot_of(reach.node_name)
            if slot is not None:
                rows[slot] = True
        else:
            rows |= _covered(table, derived, reach)
    return rows


def reached_by_any(table: NodeTable, derived: DerivedColumns, reach: Reach, rows: Bools) -> bool:
    """True if any of these nodes is among those of `reach`. rows: bool[nodes]."""
    if reach.node_name:
        slot = table.slot_of(reach.node_name)
        return slot is not None and bool(rows[slot])
    return bool((_covered(table, derived, reach) & rows).any())


def _covered(table: NodeTable, derived: DerivedColumns, reach: Reach) -> Bools:
    if reach.node_name:
        rows = np.zeros(table.size, np.bool_)
        slot = table.slot_of(reach.node_name)
        if slot is not None:
            rows[slot] = True
        return rows
    if reach.all_nodes:
        return table.valid
    if reach.selector is None:
        return np.zeros(table.size, np.bool_)
    return affinity_column(derived, reach.selector)


class SharedReach:
    """The groups of nodes for the slices of this moment. `slices`: those that are not local to one node, in their
    order.
    """

    def __init__(self, slices: Sequence[ResourceSlice], *, table: NodeTable, derived: DerivedColumns) -> None:
        self._masks = {source.name: reached_by(table, derived, source) for source in slices}
        codes = np.zeros(table.size, np.int64)
        distinct = 1
        for mask in self._masks.values():
            codes = codes * 2 + mask
            distinct *= 2
            if distinct > _MANY_CODES // 2:
                _, codes = np.unique(codes, return_inverse=True)
                distinct = table.size + 1
        _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
        self._group_of = groups
        self._slices: list[tuple[ResourceSlice, ...] | None] = [None] * len(first)
        self._first = first
        self._all = tuple(slices)

    def of(self, slot: int) -> tuple[ResourceSlice, ...]:
        """The slices that the node in this row reaches."""
        group = int(self._group_of[slot])
        found = self._slices[group]
        if found is None:
            first = self._first[group]
            found = self._slices[group] = tuple(s for s in self._all if self._masks[s.name][first])
        return found

    def of_pool(self, pool_id: PoolId) -> Slots:
        """The rows of the nodes that reach a slice of the pool."""
        masks = [self._masks[s.name] for s in self._all if s.pool_id == pool_id]
        return np.flatnonzero(np.logical_or.reduce(masks)) if masks else np.empty(0, np.intp)
