"""A cache of columns that are computed from nodes alone, not from their pods. Changed rows are updated one by one.

The key of a column contains everything that it depends on besides the node, such as an interned selector. The cache
holds the key as long as the column, so it may contain objects that are compared by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.compaction import RecentCache
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.node import Node
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.deadline import never

MAX_COLUMNS: Final = 1024
MAX_BYTES: Final = 64 << 20
_WORTH_UPDATING: Final = 4
"""A column is updated row by row if at most one row in this many has changed; otherwise it is built again."""
_WORTH_UPDATING_VECTORISED: Final = 256
"""The same for a column that is built without a call for each row."""


@dataclass(slots=True)
class _Column:
    values: NDArray[Any]
    view: NDArray[Any]
    seq: int


class DerivedColumns:
    """A cache of computed columns over one NodeTable."""

    def __init__(self, table: NodeTable, limit: int = MAX_COLUMNS, pause: Callable[[], None] = never) -> None:
        """`limit`: at most this many columns are kept. `pause`: for what computes a column in a long loop, where an
        attempt may pause.
        """
        self.pause = pause
        self._table = table
        self._columns: RecentCache[Hashable, _Column] = RecentCache(limit // 2, MAX_BYTES // 2)

    def get(
        self,
        key: Hashable,
        row: Callable[[Node], Any],
        dtype: type[np.generic],
        whole_table: Callable[[NodeTable], NDArray[Any]] | None = None,
    ) -> NDArray[Any]:
        """dtype[nodes], read-only: `row(node)` for each row, 0 for holes.

        Functions of other modules, such as other versions of a plugin, have columns of their own under the same key.
        `whole_table`, if given, computes all rows at once. If `row` raises, the error propagates and nothing is cached.
        """
        table = self._table
        key = getattr(row, "__module__", None), key
        column = self._columns.get(key)
        if column is not None:
            if column.seq == table.static_changes.seq:
                return column.view
            changed = table.static_changes.since(column.seq)
            share = _WORTH_UPDATING if whole_table is None else _WORTH_UPDATING_VECTORISED
            if changed is not None and len(changed) <= table.size // share + 8:
                return self._update(key, column, set(changed), row)
        return self._build(key, row, dtype, whole_table)

    def clear(self) -> None:
        """Drops all columns: code with other meanings for the same keys may ask for them from now on."""
        self._columns.clear()

    def _build(
        self,
        key: Hashable,
        row: Callable[[Node], Any],
        dtype: type[np.generic],
        whole_table: Callable[[NodeTable], NDArray[Any]] | None,
    ) -> NDArray[Any]:
        table = self._table
        if whole_table is not None:
            values = whole_table(table).astype(dtype, copy=True)
        else:
            values = np.zeros(table.size, dtype)
            for slot, node in enumerate(table.nodes):
                if node is not None:
                    values[slot] = row(node)
        return self._store(key, values, table.static_changes.seq)

    def _update(self, key: Hashable, column: _Column, changed: set[int], row: Callable[[Node], Any]) -> NDArray[Any]:
        table = self._table
        values = column.values
        if len(values) < table.size:
            values = np.pad(values, (0, table.size - len(values)))
        for slot in changed:
            node = table.nodes[slot]
            values[slot] = 0 if node is None else row(node)
        return self._store(key, values, table.static_changes.seq)

    def _store(self, key: Hashable, values: NDArray[Any], seq: int) -> NDArray[Any]:
        view = values.view()
        view.setflags(write=False)
        self._columns.put(key, _Column(values=values, view=view, seq=seq), values.nbytes)
        return view
