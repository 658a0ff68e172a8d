"""KeptColumns: the results of operations, kept and refreshed for the rows that have changed since.

The key of a column has the values of everything that it depends on besides the nodes. The least recently used columns
are dropped. Invariant: a kept column equals one that is recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel_columns.nodes import NodeColumns
from podwright.core.cel_columns.reads import Reads
from podwright.core.cel_columns.run import Operation, Run, result_of
from podwright.core.cel_columns.vectors import Bools, Codes, ErrorTexts, Vec, VecKind, held_bytes
from podwright.core.objects.compaction import RecentCache
from podwright.core.objects.dataclass import dataclass
from podwright.core.state.cache import Cache
from podwright.core.state.columns.change_log import ChangesOfBoth, RowChanges
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

MAX_BYTES: Final = 64 << 20
_MAX_COLUMNS: Final = 1 << 16
_WORTH_UPDATING: Final = 4
"""A column is refreshed if at most one row in this many has changed; otherwise it is recomputed."""
ENTRY_BYTES: Final = 1_000
"""The bytes of a column besides its rows."""


MAX_GROUP_BYTES: Final = 32 << 20
_MAX_GROUPS: Final = 1 << 14
Variables = Mapping[str, object]
_Known = tuple[Operation, Hashable, int]
"""The key of a column: its operation, what else the result depends on, and the cost limit for one node."""
OneNode = Callable[[NodeInfo], object]
"""The result for one node: a bool or a number. Raises EvaluationError."""
Estimate = Callable[[NodeTable], float]
FEW_ROWS: Final = 4
"""Up to this many nodes are evaluated one by one, which takes less time than operations over columns."""


@dataclass(slots=True)
class Column:
    """The result on all rows. Its arrays are never changed in place.

    `failing`: a row with a node whose result is an error, or None. `passing`: bool[nodes], for expressions of type
    bool: the result is true. `log`: of the changes that can put the column out of date; `seq`: what of them it knows.
    """

    vec: Vec
    texts: ErrorTexts
    failing: int | None
    passing: Bools
    log: RowChanges
    seq: Hashable

    @property
    def sound(self) -> Bools:
        """bool[nodes]: the result is no error."""
        errors = self.vec.errors
        return np.ones(len(self.vec.data), np.bool_) if errors is None else errors == 0


class KeptColumns:
    """See the module. All policies of a cache share one."""

    def __init__(self, nodes: NodeColumns, max_bytes: int = MAX_BYTES) -> None:
        self.nodes = nodes
        self.errors = ErrorTexts()
        self._running = 0
        """Runs that have not ended: they have codes of `errors`."""
        self._columns: RecentCache[Hashable, Column] = RecentCache(_MAX_COLUMNS // 2, max_bytes // 2)
        self.groups: RecentCache[Hashable, Any] = RecentCache(_MAX_GROUPS // 2, MAX_GROUP_BYTES // 2)
        """Results of several expressions together, by key. The caller that adds a result gives its size in bytes."""

    def __len__(self) -> int:
        return len(self._columns)

    def clear(self) -> None:
        """Forgets all results."""
        self._columns.clear()
        self.groups.clear()

    def column(
        self,
        operation: Operation,
        key: Hashable,
        variables: Callable[[], Variables],
        one: OneNode | None = None,
        estimate: Estimate | None = None,
    ) -> Column:
        """The up-to-date result of an operation on all rows. `key`: the values of the variables, as far as the
        operation reads them.

        `variables` is only called if something has to be computed. `one` gives the result for a single node, which is
        faster for few. `estimate`: of the seconds for all rows.
        """
        known = operation, key, self.nodes.limit
        column = self._columns.get(known)
        if column is not None:
            if column.seq == column.log.seq:
                return column
            if not operation.reads & Reads.PLACED:
                changed = column.log.since(column.seq)
                if changed is not None and len(changed) <= self.nodes.table.size // _WORTH_UPDATING + 8:
                    rows = set(changed)
                    if one is not None and len(rows) <= FEW_ROWS and self._asked(known, column, rows, one):
                        return column
                    return self._keep(known, self._refreshed(column.vec, sorted(rows), operation, variables()))
        self.nodes.deadline.expect(0.0 if estimate is None else estimate(self.nodes.table))
        return self._keep(known, self._computed(operation, None, variables()))

    def _asked(self, known: _Known, column: Column, rows: set[int], one: OneNode) -> bool:
        """Brings a column up to date with the results of single nodes. False if one of them is an error, or the table
        has grown.
        """
        nodes, data = self.nodes.table.nodes, column.vec.data
        if len(data) != len(nodes) or column.vec.errors is not None:
            return False
        try:
            values = {slot: one(self.nodes.cache.node_at(slot)) for slot in rows if nodes[slot] is not None}
        except EvaluationError:
            return False
        seq = column.log.seq
        is_double = column.vec.kind is VecKind.DOUBLE  # 0.0 and -0.0 are equal, and differ
        if is_double or any(data[slot] != value for slot, value in values.items()):
            data = data.copy()
            for slot, value in values.items():
                data[slot] = value
            data.setflags(write=False)
            column.vec = Vec(column.vec.kind, data)
            column.passing = data
        column.seq = seq
        return True

    def of_nodes(self, operation: Operation) -> Vec:
        """The result on all rows of an operation that depends on nothing but the nodes themselves."""
        return self.column(operation, (), dict).vec

    def _computed(self, operation: Operation, rows: NDArray[np.intp] | None, variables: Variables) -> Vec:
        if self.errors.full and not self._running:
            self.errors = ErrorTexts()
            self._columns.clear()
        run = Run(self.nodes, rows, variables, self.errors, self)
        self._running += 1
        try:
            return result_of(operation, run)
        finally:
            self._running -= 1

    def _keep(self, known: _Known, vec: Vec) -> Column:
        table = self.nodes.table
        log = changes_of(known[0].reads, self.nodes.cache)
        errors, failing, passing = vec.errors, [], vec.data
        if errors is not None:
            wrong = errors != 0
            failing = np.flatnonzero(wrong & table.valid)[:1].tolist()
            if vec.kind is VecKind.BOOL:
                passing = vec.data & ~wrong
        column = Column(vec, self.errors, failing[0] if failing else None, passing, log, log.seq)
        size = vec.data.nbytes + (0 if errors is None else errors.nbytes + passing.nbytes)
        self._columns.put(known, column, size + held_bytes((known[1], vec.table)) + ENTRY_BYTES)
        return column

    def _refreshed(self, before: Vec, changed: Sequence[int], operation: Operation, variables: Variables) -> Vec:
        size, rows = self.nodes.table.size, np.array(changed, np.intp)
        new = self._computed(operation, rows, variables)
        if new.kind is not before.kind or len(before.table) + len(new.table) > 2 * size + 64:
            if new.errors is None or not new.errors.all():
                return self._computed(operation, None, variables)
            new = Vec(before.kind, np.zeros(len(rows), before.kind.value), new.errors, ())
        data, table = new.data, before.table
        if new.table and before.table is not new.table:
            table, data = (*before.table, *new.table), data + np.int32(len(before.table))
        return Vec(
            before.kind, _written(before.data, rows, data, size), _errors(before.errors, rows, new.errors, size), table
        )


def changes_of(reads: Reads, cache: Cache) -> RowChanges:
    """The changes that can change a result."""
    log: RowChanges = cache.table.usage_changes if reads.usage else cache.table.static_changes
    return ChangesOfBoth(log, cache.signals.changes) if reads & Reads.SIGNALS else log


def _errors(before: Codes | None, rows: NDArray[np.intp], new: Codes | None, size: int) -> Codes | None:
    if before is None and new is None:
        return None
    old = np.zeros(size, np.int32) if before is None else before
    found: Codes = _written(old, rows, np.int32(0) if new is None else new, size)
    return found


def _written(before: NDArray[Any], rows: NDArray[np.intp], values: Any, size: int) -> NDArray[Any]:
    """A copy with other values in these rows."""
    found = before.copy() if len(before) == size else np.zeros(size, before.dtype)
    if len(before) != size:
        found[: len(before)] = before
    found[rows] = values
    return found


def kept_columns(cache: Cache) -> KeptColumns:
    """The kept columns of a cache, which all policies share."""
    return cache.extension(KeptColumns, lambda: KeptColumns(NodeColumns(cache)))
