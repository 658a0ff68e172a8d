"""NodeTable: allocatable and requested resources, labels and taints of all nodes as columns.

A node keeps its slot (row) as long as it exists. The slot of a removed node is a hole (`valid` is False, all amounts
are 0) until a new node reuses it. Columns are returned as read-only views of `size` rows. A view shows later writes
only until `size` or the capacity changes, so get it again for each decision. `resources`, `labels` and `taint_sets`
hold what depends on names that users choose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.node import Node
from podwright.core.objects.quantity import MAX_INT64
from podwright.core.objects.resources import PODS
from podwright.core.objects.taints import Taint
from podwright.core.state.columns.change_log import ChangeLog
from podwright.core.state.columns.labels import ABSENT, LabelColumns
from podwright.core.state.columns.resources import NOTHING, Amounts, ResourceColumns
from podwright.core.state.columns.taint_sets import TaintSets

__all__ = ["ABSENT", "NodeTable"]

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bools = NDArray[np.bool_]
Slots = NDArray[np.intp]

_START_CAPACITY: Final = 64
_COUNTS: Final = ("scoring_cpu", "scoring_memory", "pods")


class NodeTable:
    """See the module. `static_changes` logs changes of nodes themselves; `usage_changes` also logs changes of their
    pods, and `label_changes` only nodes that come or go and changes of labels and taints: most updates are of images.
    """

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self.names: list[str] = []
        self.nodes: list[Node | None] = []
        self.static_changes = ChangeLog()
        self.usage_changes = ChangeLog()
        self.label_changes = ChangeLog()
        self.epoch = 0
        """Increases when a node is added, updated or removed."""
        self.cordoned = 0
        """The number of nodes that are unschedulable."""
        self.membership = 0
        """Increases when a node is added or removed: until then, `slots_of` the same names are the same."""
        self._capacity = _START_CAPACITY
        self._holes: list[int] = []
        self._slots: dict[str, int] = {}
        self._columns: dict[str, NDArray[Any]] = {}
        self._views: dict[str, NDArray[Any]] = {}
        self._taints = TaintSets()
        self.taint_version = self._taints.version
        """Rises whenever `taint_sets` changes."""
        self._labels = LabelColumns(self.nodes, self._capacity)
        self.label_keys = self._labels.keys
        """The keys of the labels that any node has. Stays up to date."""
        self._resources = ResourceColumns(self._capacity)
        self.write_usage: Final = self._resources.write_requested
        """(slot, resources): the node's pods request other amounts of these resources than before. Only for the cache.
        """
        for name, dtype in (("valid", np.bool_), ("unschedulable", np.bool_), ("taints", np.int32)):
            self._columns[name] = np.zeros(self._capacity, dtype)
        for name in _COUNTS:
            self._columns[name] = np.zeros(self._capacity, np.int64)

    # Reading

    @property
    def valid(self) -> Bools:
        """bool[nodes]: the row has a node."""
        return self._view("valid")

    @property
    def full(self) -> bool:
        """True if every row has a node."""
        return self.count == self.size

    @property
    def unschedulable(self) -> Bools:
        return self._view("unschedulable")

    @property
    def taints(self) -> Int32s:
        """int32[nodes]: positions in `taint_sets`."""
        return self._view("taints")

    @property
    def taint_sets(self) -> Sequence[tuple[Taint, ...]]:
        """The distinct taint lists of the nodes, and some empty ones."""
        return self._taints.lists

    @property
    def pods(self) -> Int64s:
        """int64[nodes]: the number of pods on the node, including assumed ones."""
        return self._view("pods")

    @property
    def scoring_cpu(self) -> Int64s:
        """int64[nodes]: requested milli-CPU, with the defaults of scoring."""
        return self._view("scoring_cpu")

    @property
    def scoring_memory(self) -> Int64s:
        """int64[nodes]: requested bytes of memory, with the defaults of scoring."""
        return self._view("scoring_memory")

    def allocatable(self, resource: str) -> Int64s:
        """int64[nodes]: 0 if the node does not offer the resource."""
        return self._resources.allocatable(resource)

    def requested(self, resource: str) -> Int64s:
        """int64[nodes]: the sum of the requests of the node's pods. May be 0 if the node does not offer the
        resource.
        """
        return self._resources.requested(resource)

    def offers(self, resource: str) -> bool:
        """True if any node offers the resource."""
        slots = self._resources.few_offering(resource)
        return bool(self.allocatable(resource).any()) if slots is None else bool(slots)

    def few_offering(self, resource: str) -> Collection[int] | None:
        """The slots of the nodes that offer a resource, if they are few (or none); None if they are many."""
        return self._resources.few_offering(resource)

    def with_free(self, resource: str, amount: int, slots: Iterable[int]) -> list[int]:
        """Returns the slots whose node offers the resource and has this amount of it free. `amount` is positive. For
        few slots.
        """
        return self._resources.with_free(resource, amount, slots)

    @property
    def allowed_pods(self) -> Int64s:
        return self._resources.allocatable(PODS)

    def labels(self, key: str) -> Int32s:
        """int32[nodes]: the id of the node's value of this label, or ABSENT (-1). See `label_values`."""
        return self._labels.ids(key)

    def label_values(self, key: str) -> Mapping[str, int]:
        """The values of this label with their ids, 0 to len - 1. Some may be of nodes that are gone. Ids are valid
        until `epoch` changes.
        """
        return self._labels.values(key)

    def has_label_column(self, key: str) -> bool:
        """True if `labels` can answer without reading all nodes."""
        return self._labels.has_column(key)

    def slot_of(self, name: str) -> int | None:
        """The row of the node with this name, or None."""
        return self._slots.get(name)

    def slots_of(self, names: Sequence[str]) -> Slots:
        """intp[names]: the rows of the nodes with these names, -1 without a node."""
        return np.fromiter(map(self._slots.get, names, repeat(-1)), np.intp, len(names))

    def _view(self, name: str) -> NDArray[Any]:
        view = self._views.get(name)
        if view is None:
            view = self._columns[name][: self.size]
            view.setflags(write=False)
            self._views[name] = view
        return view

    # Writing, only for the cache

    def add(self, node: Node, requested: Amounts = NOTHING) -> int:
        """Adds a new node and returns its slot.

        `requested`: the sums over the node's pods. The caller changes this mapping with the pods, and then calls
        `write_usage`.
        """
        if self._holes:
            slot = self._holes.pop()
        else:
            slot = self.size
            if slot == self._capacity:
                self._grow()
            self.size += 1
            self.names.append("")
            self.nodes.append(None)
            self._views.clear()
            self._resources.add_row(self._capacity)
            self._labels.add_row(self._capacity)
        self.count += 1
        self.membership += 1
        self._columns["valid"][slot] = True
        self._write(slot, node, requested)
        return slot

    def update(self, slot: int, node: Node) -> None:
        self._write(slot, node, None)

    def remove(self, slot: int) -> None:
        """Removes the node. Its slot becomes an empty hole."""
        before = self.nodes[slot]
        assert before is not None, f"slot {slot} has no node"
        for column in self._columns.values():
            column[slot] = 0
        self.nodes[slot] = None
        self.names[slot] = ""
        del self._slots[before.name]
        self.cordoned -= before.unschedulable
        self._taints.remove(before.taints)
        self._renumber_taints()
        self._resources.clear_node(slot)
        self._labels.set_node(slot, before, None)
        self.count -= 1
        self.membership += 1
        self.label_changes.append(slot)
        self._holes.append(slot)
        self._changed(slot)

    def set_counts(self, slot: int, pods: int, scoring_cpu: int, scoring_memory: int) -> None:
        self._columns["pods"][slot] = pods
        self._columns["scoring_cpu"][slot] = min(scoring_cpu, MAX_INT64)
        self._columns["scoring_memory"][slot] = min(scoring_memory, MAX_INT64)
        self.usage_changes.append(slot)

    def set_counts_of(
        self, slots: Sequence[int], *, pods: Sequence[int], scoring_cpu: Sequence[int], scoring_memory: Sequence[int]
    ) -> None:
        """`set_counts` for several rows."""
        rows = np.array(slots, np.intp)
        self._columns["pods"][rows] = pods
        self._columns["scoring_cpu"][rows] = [min(amount, MAX_INT64) for amount in scoring_cpu]
        self._columns["scoring_memory"][rows] = [min(amount, MAX_INT64) for amount in scoring_memory]
        self.usage_changes.extend(slots)

    def _write(self, slot: int, node: Node, requested: Amounts | None) -> None:
        """`requested` None: the same mapping as before."""
        before = self.nodes[slot]
        self.nodes[slot] = node
        self.names[slot] = node.name
        self._slots[node.name] = slot
        self._columns["unschedulable"][slot] = node.unschedulable
        self.cordoned += node.unschedulable - (before is not None and before.unschedulable)
        if before is None or before.taints != node.taints or before.labels != node.labels:
            self.label_changes.append(slot)
        if before is None or before.taints != node.taints:
            self._columns["taints"][slot] = self._taints.add(node.taints)
            if before is not None:
                self._taints.remove(before.taints)
            self._renumber_taints()
        self._resources.set_node(slot, node.allocatable, requested)
        self._labels.set_node(slot, before, node)
        self._changed(slot)

    def _renumber_taints(self) -> None:
        new = self._taints.renumber()
        if new is not None:
            self._columns["taints"][:] = new[self._columns["taints"]]
        self.taint_version = self._taints.version

    def _changed(self, slot: int) -> None:
        self.epoch += 1
        self.static_changes.append(slot)
        self.usage_changes.append(slot)

    def _grow(self) -> None:
        for name, column in self._columns.items():
            self._columns[name] = np.pad(column, (0, self._capacity))
        self._capacity *= 2
        self._views.clear()
