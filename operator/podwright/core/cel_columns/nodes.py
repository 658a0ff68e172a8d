"""NodeColumns: what expressions read of the nodes, as columns over the node table, and of one node, as a value of CEL.

Labels, taints and amounts are the table's own columns. Annotations, conditions and images are numbered here, once they
are read. Invariant: a column and a Viewer say the same about each node.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podwright.core.cel_columns.limits import node_limit
from podwright.core.cel_columns.reads import FIELDS, Reads
from podwright.core.cel_columns.vectors import Bools, Rows
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.node import Node
from podwright.core.objects.quantity import MAX_INT64
from podwright.core.objects.resources import PODS
from podwright.core.objects.taints import Taint
from podwright.core.state.cache import Cache
from podwright.core.state.columns.table import ABSENT, NodeTable
from podwright.core.state.deadline import Deadline
from podwright.core.state.nodeinfo import NodeInfo

MAX_BYTES: Final = 32 << 20
"""The memory for numbered texts and for amounts."""
Int64s = NDArray[np.int64]


class TextTable(tuple[str, ...]):  # noqa: SLOT001 -- a tuple cannot have slots
    """Different texts, each with its position."""

    positions: Mapping[str, int]

    def index(self, value: Any, *_: Any) -> int:
        """Raises ValueError for an unknown text."""
        position = self.positions.get(value)
        if position is None:
            raise ValueError(value)
        return position

    @staticmethod
    def of(positions: Mapping[str, int]) -> TextTable:
        """`positions`: 0, 1, 2, … in this order."""
        table = TextTable(positions)
        table.positions = positions
        return table


class NameTable(Sequence[str]):
    """The names of all nodes by row, which the node table finds without a search."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def __len__(self) -> int:
        return self._table.size

    def __getitem__(self, position: Any) -> Any:
        return self._table.names[position]

    def index(self, value: Any, *_: Any) -> int:
        """Raises ValueError for an unknown name."""
        slot = self._table.slot_of(value)
        if slot is None:
            raise ValueError(value)
        return slot


class Texts(NamedTuple):
    """int32[nodes]: positions in the table, ABSENT for nodes without a text."""

    ids: NDArray[np.int32]
    table: TextTable


class Amounts(NamedTuple):
    """int64[nodes], and which nodes have an amount at all."""

    amounts: Int64s
    present: Bools


class NodeView(dict[str, Any]):
    """A node as a value of CEL. `info` is what it was made of."""

    __slots__ = ("info",)

    def __init__(self, fields: Mapping[str, Any], info: NodeInfo) -> None:
        super().__init__(fields)
        self.info = info


class _TextColumn:
    __slots__ = ("ids", "index", "seq")

    def __init__(self) -> None:
        self.ids: NDArray[np.int32] = np.zeros(0, np.int32)
        self.index: dict[str, int] = {}
        self.seq = -1


class _AmountColumn:
    __slots__ = ("amounts", "present", "seq")

    def __init__(self) -> None:
        self.amounts: Int64s = np.zeros(0, np.int64)
        self.present: Bools = np.zeros(0, np.bool_)
        self.seq = -1


class NodeColumns:
    """See the module."""

    view: None = None
    """Not a single node."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.table: NodeTable = cache.table
        self.names = NameTable(cache.table)
        self._texts: OrderedDict[tuple[str, str], _TextColumn] = OrderedDict()
        self._amounts: OrderedDict[tuple[str, str], _AmountColumn] = OrderedDict()
        self._tables: OrderedDict[tuple[str, str], TextTable] = OrderedDict()
        self._taints: tuple[int, Sequence[Sequence[Mapping[str, str]]]] = (-1, ())
        compact_regularly(self)

    def compact(self) -> None:
        """Drops the columns: those in use are made again in less than a millisecond each."""
        self._texts.clear()
        self._tables.clear()
        self._amounts.clear()

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.table.size

    @property
    def limit(self) -> int:
        """The cost limit of an evaluation on one node."""
        return node_limit(self.table.size)

    @property
    def deadline(self) -> Deadline:
        return self.cache.deadline

    def node_at(self, slot: int) -> NodeInfo:
        """The NodeInfo of a row. Raises KeyError for a row without a node."""
        return self.cache.node_at(slot)

    # Columns

    @property
    def unschedulable(self) -> Bools:
        return self.table.unschedulable

    @property
    def pods(self) -> Int64s:
        """int64[nodes]: how many pods each node has."""
        return self.table.pods

    @property
    def taints(self) -> NDArray[np.int32]:
        """int32[nodes]: positions in `taint_lists`."""
        return self.table.taints

    def signal(self, name: str) -> NDArray[np.float64]:
        """float64[nodes]"""
        return self.cache.signals.column(name)

    def texts(self, field: str, key: str) -> Texts:
        """A label, an annotation or a condition."""
        if field == "labels":
            return Texts(self.table.labels(key), self._table((field, key), self.table.label_values(key)))
        column = self._texts.get((field, key))
        if column is None:
            column = self._texts[field, key] = _TextColumn()
            self._bound(self._texts, 4)
        else:
            self._texts.move_to_end((field, key))
        if column.seq != self.table.static_changes.seq:
            self._number(column, field, key)
        return Texts(column.ids, self._table((field, key), column.index))

    def _table(self, key: tuple[str, str], positions: Mapping[str, int]) -> TextTable:
        """The texts in the order of their positions. More of them may be added to `positions`, but none changes."""
        known = self._tables.get(key)
        if known is None or known.positions is not positions or len(known) != len(positions):
            known = self._tables[key] = TextTable.of(positions)
            self._bound(self._tables, 8)
        return known

    def _number(self, column: _TextColumn, field: str, key: str) -> None:
        table = self.table
        changed = None if column.seq < 0 else table.static_changes.since(column.seq)
        fresh = changed is None or len(changed) > table.size // 4 + 8 or len(column.index) > 2 * table.size + 64
        index: dict[str, int] = {} if fresh else column.index
        ids = np.full(table.size, ABSENT, np.int32)
        if not fresh:
            ids[: len(column.ids)] = column.ids
        for slot in range(table.size) if changed is None or fresh else set(changed):
            node = table.nodes[slot]
            value = None if node is None else getattr(node, field).get(key)
            ids[slot] = ABSENT if value is None else index.setdefault(value, len(index))
        ids.setflags(write=False)
        column.ids, column.index, column.seq = ids, index, table.static_changes.seq

    def amounts(self, field: str, key: str, rows: Rows | None) -> Amounts:
        """The size of an image, or an amount of a resource that is allocatable, requested or free, in these rows."""
        stored = self._stored("images" if field == "images" else "allocatable", key)
        if rows is not None:
            stored = Amounts(stored.amounts[rows], stored.present[rows])
        if field in ("images", "allocatable"):
            return stored
        requested = self.table.pods if key == PODS else self.table.requested(key)
        if rows is not None:
            requested = requested[rows]
        if field == "free":
            return Amounts(stored.amounts - requested, stored.present)
        return Amounts(np.where(stored.present, requested, 0), stored.present)

    def _stored(self, field: str, key: str) -> Amounts:
        table = self.table
        column = self._amounts.get((field, key))
        if column is None:
            column = self._amounts[field, key] = _AmountColumn()
            self._bound(self._amounts, 9)
        else:
            self._amounts.move_to_end((field, key))
        if column.seq != table.static_changes.seq:
            changed = None if column.seq < 0 else table.static_changes.since(column.seq)
            amounts, present = np.zeros(table.size, np.int64), np.zeros(table.size, np.bool_)
            if changed is not None:
                amounts[: len(column.amounts)], present[: len(column.present)] = column.amounts, column.present
            for slot in range(table.size) if changed is None else set(changed):
                node = table.nodes[slot]
                value = None if node is None else getattr(node, field).get(key)
                amounts[slot] = 0 if value is None else min(value, MAX_INT64)
                present[slot] = value is not None
            amounts.setflags(write=False)
            present.setflags(write=False)
            column.amounts, column.present, column.seq = amounts, present, table.static_changes.seq
        return Amounts(column.amounts, column.present)

    def _bound(self, columns: OrderedDict[Any, Any], width: int) -> None:
        """Drops the least recently used columns, if there are too many for this number of rows."""
        most = max(16, MAX_BYTES // (2 * width * (self.table.size + 1)))
        while len(columns) > most:
            columns.popitem(last=False)

    @property
    def taint_lists(self) -> Sequence[Sequence[Mapping[str, str]]]:
        """The table's lists of taints as values of CEL."""
        version, found = self._taints
        if version != self.table.taint_version:
            found = [_taints_of(taints) for taints in self.table.taint_sets]
            self._taints = (self.table.taint_version, found)
        return found

    def valid(self, rows: Rows | None) -> Bools:
        """Which of the rows have a node."""
        return self.table.valid if rows is None else self.table.valid[rows]


class NodeViewer:
    """Shows nodes as values of CEL, with the fields that are read."""

    def __init__(self, reads: Reads) -> None:
        fields: list[tuple[str, Callable[[Node], object]]] = [
            ("labels", lambda node: node.labels),
            ("annotations", lambda node: node.annotations),
            ("taints", lambda node: _taints_of(node.taints)),
            ("conditions", lambda node: node.conditions),
            ("images", lambda node: dict(node.images)),
        ]
        self._fields = [(name, read) for name, read in fields if reads & FIELDS[name]]
        self._amounts = bool(reads & (Reads.ALLOCATABLE | Reads.USAGE))
        self._usage = bool(reads & Reads.USAGE)

    def of(self, info: NodeInfo) -> NodeView:
        """The node, which must exist."""
        node = info.present
        fields: dict[str, Any] = {"name": node.name, "unschedulable": node.unschedulable}
        for name, read in self._fields:
            fields[name] = read(node)
        if self._amounts:
            fields["allocatable"] = allocatable = _capped(node.allocatable)
            if self._usage:
                fields["podCount"] = len(info.pods)
                sums = info.requested
                fields["requested"] = requested = {name: min(sums.get(name, 0), MAX_INT64) for name in allocatable}
                if PODS in requested:
                    requested[PODS] = len(info.pods)
                fields["free"] = {name: amount - requested[name] for name, amount in allocatable.items()}
        return NodeView(fields, info)


def _capped(amounts: Mapping[str, int]) -> Mapping[str, int]:
    return (
        amounts if max(amounts.values(), default=0) <= MAX_INT64 else {k: min(v, MAX_INT64) for k, v in amounts.items()}
    )


def _taints_of(taints: Sequence[Taint]) -> list[Mapping[str, str]]:
    return [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in taints]
