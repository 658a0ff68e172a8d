"""LabelColumns: the nodes' labels, as one column of numbered values for each label key that a decision asks for.

Columns are computed when they are first read, and updated with each node from then on. Those of KEPT begin while there
are few nodes, because a pass over 100,000 of them would hold up a decision. The least recently used ones are dropped,
together with the numbers of their values. A key that no node has takes no memory, however many pods ask for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.node import HOSTNAME, Node

Int32s = NDArray[np.int32]
Labels = Mapping[str, str]

KEPT: Final = frozenset({HOSTNAME, "topology.kubernetes.io/zone"})
"""The keys of kube-scheduler's default spread constraints, which nearly every pod has."""
ABSENT: Final = -1
"""The value id for a node without the label."""
MAX_BYTES: Final = 32 << 20
"""The memory for columns. All labels that a node can have must find room, because one pod may ask for all of them."""
_LEAST_COLUMNS: Final = 64
_FEW_ROWS: Final = 1024
_NO_LABELS: Final[Labels] = {}
_NO_VALUES: Final[Mapping[str, int]] = {}
_UNUSED: Final = 64
"""This many values that no node has any more are kept in any case."""


def max_columns(capacity: int) -> int:
    """The maximum number of columns with this many rows."""
    return max(_LEAST_COLUMNS, MAX_BYTES // (4 * capacity))


class _Column:
    """The column of one key. `nodes`: how many nodes have each value, by its id."""

    __slots__ = ("ids", "nodes", "unused", "values", "view")

    def __init__(self, capacity: int) -> None:
        self.ids: Int32s = np.full(capacity, ABSENT, np.int32)
        self.view: Int32s | None = None
        self.values: dict[str, int] = {}
        self.nodes: list[int] = []
        self.unused = 0

    def fill(self, values: Sequence[str | None]) -> None:
        """Sets the values of all nodes at once, in a new column. None: the node lacks the label."""
        distinct = [value for value in dict.fromkeys(values) if value is not None]
        self.values = {value: number for number, value in enumerate(distinct)}
        numbers: dict[str | None, int] = {None: ABSENT}
        numbers.update(self.values)
        ids = np.fromiter(map(numbers.__getitem__, values), np.int32, len(values))
        self.ids[: len(ids)] = ids
        self.nodes = np.bincount(ids[ids != ABSENT], minlength=len(distinct)).tolist()

    def add(self, slot: int, value: str) -> None:
        number = self.values.get(value)
        if number is None:
            number = self.values[value] = len(self.values)
            self.nodes.append(0)
        elif not self.nodes[number]:
            self.unused -= 1
        self.nodes[number] += 1
        self.ids[slot] = number

    def remove(self, slot: int) -> None:
        number = int(self.ids[slot])
        self.ids[slot] = ABSENT
        self.nodes[number] -= 1
        self.unused += not self.nodes[number]

    @property
    def mostly_unused(self) -> bool:
        """True if most of its values are of nodes that are gone, or had another value before."""
        return self.unused > _UNUSED + len(self.values) // 2


class LabelColumns:
    """See the module. `nodes`: the table's nodes by row, which the caller changes before it calls `set_node`."""

    def __init__(self, nodes: Sequence[Node | None], capacity: int) -> None:
        self._nodes = nodes
        self._capacity = capacity
        self._columns: OrderedDict[str, _Column] = OrderedDict()
        self._nodes_with: dict[str, int] = {}
        """How many nodes have a label with this key."""
        self.keys: Final = self._nodes_with.keys()
        """The keys that any node has. Stays up to date."""
        self._absent: Int32s = np.full(0, ABSENT, np.int32)
        compact_regularly(self)

    def ids(self, key: str) -> Int32s:
        """int32[nodes], read-only: the id of the node's value, or ABSENT."""
        column = self._column(key)
        if column is None:
            return self._without_label()
        if column.view is None:
            column.view = column.ids[: len(self._nodes)]
            column.view.setflags(write=False)
        return column.view

    def values(self, key: str) -> Mapping[str, int]:
        """The ids of the values, 0 to len - 1. Some may be of nodes that are gone."""
        column = self._column(key)
        return _NO_VALUES if column is None else column.values

    def has_column(self, key: str) -> bool:
        """True if the key's column is there, so that reading it takes no pass over the nodes."""
        return key in self._columns

    def _column(self, key: str) -> _Column | None:
        column = self._columns.get(key)
        if column is not None:
            self._columns.move_to_end(key)
            return column
        if key not in self._nodes_with:
            return None
        column = self._columns[key] = _Column(self._capacity)
        column.fill([None if node is None else node.labels.get(key) for node in self._nodes])
        self._drop_oldest()
        return column

    def _without_label(self) -> Int32s:
        if len(self._absent) != len(self._nodes):
            self._absent = np.full(len(self._nodes), ABSENT, np.int32)
            self._absent.setflags(write=False)
        return self._absent

    # Writing

    def add_row(self, capacity: int) -> None:
        """A row was added. `capacity`: the number of rows that the columns must have."""
        more, self._capacity = capacity - self._capacity, capacity
        for column in self._columns.values():
            column.view = None
            if more:
                column.ids = np.pad(column.ids, (0, more), constant_values=ABSENT)
        if more:
            self._drop_oldest()

    def set_node(self, slot: int, before: Node | None, after: Node | None) -> None:
        """A node was added (`before` is None), changed or removed (`after` is None)."""
        old = _NO_LABELS if before is None else before.labels
        new = _NO_LABELS if after is None else after.labels
        if old == new:
            return
        self._count(old, new)
        for key in {**old, **new}:
            column, value = self._columns.get(key), new.get(key)
            if column is None:
                if key in KEPT and len(self._nodes) <= _FEW_ROWS:
                    self._column(key)
                continue
            if old.get(key) == value:
                continue
            if key in old:
                column.remove(slot)
            if value is not None:
                column.add(slot, value)
            if key not in self._nodes_with or column.mostly_unused:
                del self._columns[key]

    def _count(self, old: Labels, new: Labels) -> None:
        nodes_with = self._nodes_with
        for key in new:
            if key not in old:
                nodes_with[key] = nodes_with.get(key, 0) + 1
        for key in old:
            if key not in new:
                nodes_with[key] -= 1
                if not nodes_with[key]:
                    del nodes_with[key]

    def _drop_oldest(self) -> None:
        """Drops the least recently used columns, if there are too many for this number of rows."""
        while len(self._columns) > max_columns(self._capacity):
            self._columns.popitem(last=False)
