"""KeptColumns: the results of operations, kept and refreshed for the rows that have changed since.

The key of a column has the values of everything that it depends on besides the nodes. The least recently used columns are dropped.
Invariant: a kept column equals one that is computed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.cel_columns.nodes import NodeColumns
from podwright.core.cel_columns.reads import Reads
from podwright.core.cel_columns.run import Operation, Run
from podwright.core.cel_columns.vectors import Bools, Codes, ErrorTexts, Vec, as_vec
from podwright.core.objects.compaction import RecentCache
from podwright.core.state.cache import Cache

MAX_BYTES: Final = 64 << 20
_MAX_COLUMNS: Final = 1 << 16
_WORTH_UPDATING: Final = 4
"""A column is refreshed if at most one row in so many has changed, else it is computed anew."""
_ENTRY_BYTES: Final = 1_000
"""What a column costs besides its rows."""


Variables = Mapping[str, object]


@dataclass(slots=True)
class Column:
    """The result on all rows. Its arrays are never changed in place.

    `failing`: a row with a node whose result is an error, or None. `seq`: the change of the node table after which it is out of date.
    """

    vec: Vec
    texts: ErrorTexts
    failing: int | None
    seq: int

    @property
    def sound(self) -> Bools:
        """bool[nodes]: the result is no error."""
        errors = self.vec.errors
        return np.ones(len(self.vec.data), np.bool_) if errors is None else errors == 0

    @property
    def passing(self) -> Bools:
        """bool[nodes]: the result is true."""
        errors = self.vec.errors
        found: Bools = self.vec.data if errors is None else self.vec.data & (errors == 0)
        return found


class KeptColumns:
    """See the module. All policies of a cache share one."""

    def __init__(self, nodes: NodeColumns, max_bytes: int = MAX_BYTES) -> None:
        self.nodes = nodes
        self.errors = ErrorTexts()
        self._columns: RecentCache[Hashable, Column] = RecentCache(_MAX_COLUMNS // 2, max_bytes // 2)

    def __len__(self) -> int:
        return len(self._columns)

    def column(self, operation: Operation, key: Hashable, variables: Callable[[], Variables]) -> Column:
        """The up-to-date result of an operation on all rows. `key`: the values of the variables, as far as the operation reads them.

        `variables` is only called if something has to be computed.
        """
        table = self.nodes.table
        column = self._columns.get((operation, key))
        if column is not None:
            log = table.usage_changes if operation.reads.usage else table.static_changes
            if column.seq == log.seq:
                return column
            if not operation.reads & Reads.PLACED:
                changed = log.since(column.seq)
                if changed is not None and len(changed) <= table.size // _WORTH_UPDATING + 8:
                    rows = np.array(sorted(set(changed)), np.intp)
                    return self._keep(operation, key, self._refreshed(column.vec, rows, operation, variables()))
        return self._keep(operation, key, self._computed(operation, None, variables()))

    def of_nodes(self, operation: Operation) -> Vec:
        """The result on all rows of an operation that depends on nothing but the nodes themselves."""
        return self.column(operation, (), dict).vec

    def _computed(self, operation: Operation, rows: NDArray[np.intp] | None, variables: Variables) -> Vec:
        run = self._run(rows, variables)
        with np.errstate(all="ignore"):  # what overflows or divides by zero is found and becomes an error
            return as_vec(operation.run(run), run.count)

    def _run(self, rows: NDArray[np.intp] | None, variables: Variables) -> Run:
        if self.errors.full:
            self.errors = ErrorTexts()
            self._columns.clear()
        return Run(self.nodes, rows, variables, self.errors, self)

    def _keep(self, operation: Operation, key: Hashable, vec: Vec) -> Column:
        table = self.nodes.table
        failing = np.flatnonzero((vec.errors != 0) & table.valid)[:1].tolist() if vec.errors is not None else []
        seq = (table.usage_changes if operation.reads.usage else table.static_changes).seq
        column = Column(vec, self.errors, failing[0] if failing else None, seq)
        size = vec.data.nbytes + (0 if vec.errors is None else vec.errors.nbytes) + 64 * len(vec.table)
        self._columns.put((operation, key), column, size + _ENTRY_BYTES)
        return column

    def _refreshed(self, before: Vec, rows: NDArray[np.intp], operation: Operation, variables: Variables) -> Vec:
        size = self.nodes.table.size
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
