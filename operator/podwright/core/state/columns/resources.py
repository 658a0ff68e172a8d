"""ResourceColumns: allocatable and requested amounts of all nodes, by resource.

CPU, memory, ephemeral storage and pods, and each further resource that many nodes offer, have two columns. Of a
resource that few nodes offer, only these nodes' rows and amounts are kept; its columns are computed when they are read.
A resource that no node offers takes no memory, whatever pods request: that is kept with the pods, in
`NodeInfo.requested`.

Invariant: memory is proportional to the number of pairs of a node and a resource that it offers, plus a few columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.items_by_key import drop
from podwright.core.objects.quantity import MAX_INT64
from podwright.core.objects.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

Int64s = NDArray[np.int64]
Rows = NDArray[np.intp]
Amounts = Mapping[str, int]

NOTHING: Final[Amounts] = {}
_NO_ROWS: Final[Mapping[int, int]] = {}
_ALWAYS: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
"""Resources that have columns even if no node offers them."""
_FEW: Final = 8
_FEW_SHARE: Final = 32


def few(capacity: int) -> int:
    """How many nodes are few, in a table with this capacity."""
    return max(_FEW, capacity // _FEW_SHARE)


class _Columns:
    """The columns of one resource, and how many nodes offer it."""

    __slots__ = ("allocatable", "nodes", "requested")

    def __init__(self, capacity: int) -> None:
        self.nodes = 0
        self.allocatable: Int64s = np.zeros(capacity, np.int64)
        self.requested: Int64s = np.zeros(capacity, np.int64)


class ResourceColumns:
    """See the module. `capacity`: the number of rows that the columns have."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._columns = {resource: _Columns(capacity) for resource in _ALWAYS}
        self._rare: dict[str, dict[int, int]] = {}
        """By resource that few nodes offer: the allocatable amount by row."""
        self._offered: list[Amounts] = []
        self._requested: list[Amounts] = []
        self._views: dict[tuple[str, str], Int64s] = {}
        compact_regularly(self)

    # Reading

    def allocatable(self, resource: str) -> Int64s:
        """int64[nodes], read-only: 0 if the node does not offer the resource."""
        view = self._views.get(("allocatable", resource))
        if view is not None:
            return view
        columns = self._columns.get(resource)
        if columns is not None:
            return self._keep_view("allocatable", resource, columns.allocatable)
        return self._computed(self._rare.get(resource, _NO_ROWS))

    def requested(self, resource: str) -> Int64s:
        """int64[nodes], read-only: the sum of the requests of the node's pods. May be 0 if the node does not offer the
        resource.
        """
        view = self._views.get(("requested", resource))
        if view is not None:
            return view
        columns = self._columns.get(resource)
        if columns is not None:
            return self._keep_view("requested", resource, columns.requested)
        requested = self._requested
        return self._computed({slot: requested[slot].get(resource, 0) for slot in self._rare.get(resource, ())})

    def few_offering(self, resource: str) -> Collection[int] | None:
        """The rows of the nodes that offer a resource, if they are few; None if they are many."""
        return None if resource in self._columns else self._rare.get(resource, _NO_ROWS).keys()

    def with_free(self, resource: str, amount: int, slots: Iterable[int]) -> list[int]:
        """Returns the rows whose node offers the resource and has this amount of it free. `amount` is positive."""
        offered, requested = self._offered, self._requested
        return [slot for slot in slots if offered[slot].get(resource, 0) - requested[slot].get(resource, 0) >= amount]

    def _keep_view(self, kind: str, resource: str, column: Int64s) -> Int64s:
        view = self._views[kind, resource] = column[: len(self._offered)]
        view.setflags(write=False)
        return view

    def _computed(self, amounts: Mapping[int, int]) -> Int64s:
        column = np.zeros(len(self._offered), np.int64)
        for slot, amount in amounts.items():
            column[slot] = min(amount, MAX_INT64)
        column.setflags(write=False)
        return column

    # Writing

    def add_row(self, capacity: int) -> None:
        """Adds a row without a node. `capacity`: the number of rows that the columns must have."""
        self._offered.append(NOTHING)
        self._requested.append(NOTHING)
        self._views.clear()
        if capacity > self._capacity:
            self._grow(capacity)

    def set_node(self, slot: int, offered: Amounts, requested: Amounts | None) -> None:
        """The row's node is new or has changed.

        `requested`: the sums over the node's pods, which the caller keeps up to date and reports to `write_requested`;
        None: the same mapping as before.
        """
        before = self._offered[slot]
        self._offered[slot] = offered
        if requested is not None:
            self._requested[slot] = requested
            self.write_requested(slot, self._columns)
        if before == offered:
            return
        for resource in before:
            if before[resource] and not offered.get(resource):
                self._withdraw(slot, resource)
        for resource, amount in offered.items():
            if amount and amount != before.get(resource):
                self._offer(slot, resource, amount, new=not before.get(resource))

    def clear_node(self, slot: int) -> None:
        """The row has no node any more."""
        self.set_node(slot, NOTHING, NOTHING)

    def write_requested(self, slot: int, resources: Iterable[str]) -> None:
        """The sums of these resources over the node's pods have changed. They are capped at the greatest int64."""
        columns, requested = self._columns, self._requested[slot]
        for resource in resources:
            column = columns.get(resource)
            if column is not None:
                column.requested[slot] = min(requested.get(resource, 0), MAX_INT64)

    def _offer(self, slot: int, resource: str, amount: int, *, new: bool) -> None:
        columns = self._columns.get(resource)
        if columns is not None:
            columns.nodes += new
            columns.allocatable[slot] = amount
            return
        rows = self._rare.setdefault(resource, {})
        rows[slot] = amount
        if len(rows) > few(self._capacity):
            self._make_columns(resource)

    def _withdraw(self, slot: int, resource: str) -> None:
        columns = self._columns.get(resource)
        if columns is None:
            drop(self._rare, resource, slot)
            return
        columns.nodes -= 1
        columns.allocatable[slot] = 0
        self._drop_columns_if_few(resource, columns)

    def _make_columns(self, resource: str) -> None:
        columns = self._columns[resource] = _Columns(self._capacity)
        rows = self._rare.pop(resource)
        columns.nodes = len(rows)
        for slot, amount in rows.items():
            columns.allocatable[slot] = amount
        for slot, requested in enumerate(self._requested):
            amount = requested.get(resource, 0)
            if amount:
                columns.requested[slot] = min(amount, MAX_INT64)

    def _drop_columns_if_few(self, resource: str, columns: _Columns) -> None:
        """Half of few, so that a resource that comes and goes on one node does not change its form each time."""
        if columns.nodes > few(self._capacity) // 2 or resource in _ALWAYS:
            return
        del self._columns[resource]
        self._views.pop(("allocatable", resource), None)
        self._views.pop(("requested", resource), None)
        slots = np.flatnonzero(columns.allocatable).tolist()
        if slots:
            self._rare[resource] = {slot: int(columns.allocatable[slot]) for slot in slots}

    def _grow(self, capacity: int) -> None:
        more = capacity - self._capacity
        self._capacity = capacity
        for resource, columns in list(self._columns.items()):
            columns.allocatable = np.pad(columns.allocatable, (0, more))
            columns.requested = np.pad(columns.requested, (0, more))
            self._drop_columns_if_few(resource, columns)
