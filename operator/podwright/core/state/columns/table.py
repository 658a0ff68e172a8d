"""NodeTable: allocatable and requested resources, labels and taints of all nodes as columns.

A node keeps its slot (row) as long as it exists. The slot of a removed node is a hole (`valid` is False, all amounts are 0) until a
new node reuses it. Columns are returned as read-only views of `size` rows. A view shows later writes only until `size` or the
capacity changes, so get it again for each decision.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.node import Node
from podwright.core.objects.quantity import MAX_INT64
from podwright.core.objects.resources import PODS
from podwright.core.objects.taints import Taint
from podwright.core.state.columns.change_log import ChangeLog

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bools = NDArray[np.bool_]

ABSENT: Final = -1
"""The value id for a node without the label."""
MAX_LABEL_COLUMNS: Final = 256
_START_CAPACITY: Final = 64
_ZEROS: Final = ("zeros", "")


class NodeTable:
    """See the module. `static_changes` logs changes of nodes themselves; `usage_changes` also logs changes of their pods."""

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self.names: list[str] = []
        self.nodes: list[Node | None] = []
        self.static_changes = ChangeLog()
        self.usage_changes = ChangeLog()
        self.epoch = 0
        """Increases when a node is added, updated or removed."""
        self._capacity = _START_CAPACITY
        self._holes: list[int] = []
        self._columns: dict[tuple[str, str], NDArray[Any]] = {}
        self._views: dict[tuple[str, str], NDArray[Any]] = {}
        self._label_values: dict[str, dict[str, int]] = {}
        self._label_keys: OrderedDict[str, None] = OrderedDict()
        self._nodes_with_resource: Counter[str] = Counter()
        self._taint_ids: dict[tuple[Taint, ...], int] = {}
        self.taint_sets: list[tuple[Taint, ...]] = []
        """Distinct taint lists. `taints` contains positions in this list."""
        for name, dtype in (("valid", np.bool_), ("unschedulable", np.bool_), ("taints", np.int32)):
            self._columns[name, ""] = np.zeros(self._capacity, dtype)
        for name in ("scoring_cpu", "scoring_memory", "pods", "zeros"):
            self._columns[name, ""] = np.zeros(self._capacity, np.int64)

    # Reading

    @property
    def valid(self) -> Bools:
        """bool[nodes]: the row has a node."""
        return self._view(("valid", ""))

    @property
    def full(self) -> bool:
        """Whether every row has a node."""
        return self.count == self.size

    @property
    def unschedulable(self) -> Bools:
        return self._view(("unschedulable", ""))

    @property
    def taints(self) -> Int32s:
        """int32[nodes]: positions in `taint_sets`."""
        return self._view(("taints", ""))

    @property
    def pods(self) -> Int64s:
        """int64[nodes]: the number of pods on the node, including assumed ones."""
        return self._view(("pods", ""))

    @property
    def scoring_cpu(self) -> Int64s:
        """int64[nodes]: requested milli-CPU, with the defaults of scoring."""
        return self._view(("scoring_cpu", ""))

    @property
    def scoring_memory(self) -> Int64s:
        """int64[nodes]: requested bytes of memory, with the defaults of scoring."""
        return self._view(("scoring_memory", ""))

    def allocatable(self, resource: str) -> Int64s:
        """int64[nodes]: 0 if the node does not have the resource."""
        return self._amounts("allocatable", resource)

    def requested(self, resource: str) -> Int64s:
        """int64[nodes]: the sum of the requests of the node's pods."""
        return self._amounts("requested", resource)

    @property
    def allowed_pods(self) -> Int64s:
        return self._amounts("allocatable", PODS)

    def labels(self, key: str) -> Int32s:
        """int32[nodes]: the id of the node's value of this label, or ABSENT (-1). See `label_values`.

        The least recently used columns are dropped and rebuilt on demand. Ids of values do not change.
        """
        column = ("label", key)
        if key in self._label_keys:
            self._label_keys.move_to_end(key)
            return self._view(column)
        ids = np.full(self._capacity, ABSENT, np.int32)
        values = self._label_values.setdefault(key, {})
        for slot, node in enumerate(self.nodes):
            value = None if node is None else node.labels.get(key)
            if value is not None:
                ids[slot] = values.setdefault(value, len(values))
        self._columns[column] = ids
        self._label_keys[key] = None
        if len(self._label_keys) > MAX_LABEL_COLUMNS:
            oldest, _ = self._label_keys.popitem(last=False)
            del self._columns["label", oldest]
            self._views.pop(("label", oldest), None)
        return self._view(column)

    def label_values(self, key: str) -> Mapping[str, int]:
        """All values that this label ever had, with their ids: 0 to len - 1."""
        self.labels(key)
        return self._label_values[key]

    def _amounts(self, kind: str, resource: str) -> Int64s:
        key = (kind, resource)
        if key in self._columns:
            return self._view(key)
        if kind == "requested" or not self._nodes_with_resource.get(resource):
            # Pods may request any resource name. Only resources of some node or placed pod get a column.
            return self._view(_ZEROS)
        column = np.zeros(self._capacity, np.int64)
        for slot, node in enumerate(self.nodes):
            if node is not None:
                column[slot] = node.allocatable.get(resource, 0)
        self._columns[key] = column
        return self._view(key)

    def _view(self, key: tuple[str, str]) -> NDArray[Any]:
        view = self._views.get(key)
        if view is None:
            view = self._columns[key][: self.size]
            view.flags.writeable = False
            self._views[key] = view
        return view

    # Writing, only for the cache

    def add(self, node: Node) -> int:
        """Adds a new node and returns its slot."""
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
        self.count += 1
        self._columns["valid", ""][slot] = True
        self._write(slot, node)
        return slot

    def update(self, slot: int, node: Node) -> None:
        self._write(slot, node)

    def remove(self, slot: int) -> None:
        """Removes the node. Its slot becomes an empty hole."""
        for (kind, _), column in self._columns.items():
            column[slot] = ABSENT if kind == "label" else 0
        self._count_resources(slot, None)
        self.nodes[slot] = None
        self.names[slot] = ""
        self.count -= 1
        self._holes.append(slot)
        self._changed(slot)

    def set_usage(self, slot: int, resource: str, amount: int) -> None:
        """Sets `requested` of one resource, capped at the greatest int64."""
        column = self._columns.get(("requested", resource))
        if column is None:
            column = self._columns["requested", resource] = np.zeros(self._capacity, np.int64)
        column[slot] = min(amount, MAX_INT64)

    def set_counts(self, slot: int, pods: int, scoring_cpu: int, scoring_memory: int) -> None:
        self._columns["pods", ""][slot] = pods
        self._columns["scoring_cpu", ""][slot] = min(scoring_cpu, MAX_INT64)
        self._columns["scoring_memory", ""][slot] = min(scoring_memory, MAX_INT64)
        self.usage_changes.append(slot)

    def _count_resources(self, slot: int, node: Node | None) -> None:
        """Updates the number of nodes that have each resource, before `slot` gets this node."""
        before = self.nodes[slot]
        if before is not None:
            self._nodes_with_resource.subtract(before.allocatable.keys())
        if node is not None:
            self._nodes_with_resource.update(node.allocatable.keys())

    def _write(self, slot: int, node: Node) -> None:
        self._count_resources(slot, node)
        self.nodes[slot] = node
        self.names[slot] = node.name
        self._columns["unschedulable", ""][slot] = node.unschedulable
        taints = self._taint_ids.get(node.taints)
        if taints is None:
            taints = self._taint_ids[node.taints] = len(self.taint_sets)
            self.taint_sets.append(node.taints)
        self._columns["taints", ""][slot] = taints
        for (kind, key), column in self._columns.items():
            if kind == "allocatable":
                column[slot] = node.allocatable.get(key, 0)
            elif kind == "label":
                value = node.labels.get(key)
                values = self._label_values[key]
                column[slot] = ABSENT if value is None else values.setdefault(value, len(values))
        self._changed(slot)

    def _changed(self, slot: int) -> None:
        self.epoch += 1
        self.static_changes.append(slot)
        self.usage_changes.append(slot)

    def _grow(self) -> None:
        for key, column in self._columns.items():
            grown = np.full(2 * self._capacity, ABSENT if key[0] == "label" else 0, column.dtype)
            grown[: self._capacity] = column
            self._columns[key] = grown
        self._capacity *= 2
        self._views.clear()
