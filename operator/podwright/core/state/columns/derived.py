"""Columns computed from the nodes themselves (never from what they carry), kept and repaired row by row.

A plugin asks for a column under a key that names all that the result depends on besides the node: an interned selector,
a toleration list. The key is kept alive with the column, so identity-compared parts are safe in it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.node import Node
from podwright.core.state.columns.table import NodeTable

KEPT_COLUMNS: Final = 512


@dataclass(slots=True)
class _Column:
    values: NDArray[Any]
    view: NDArray[Any]
    seq: int


class DerivedColumns:
    """An LRU of computed columns over one NodeTable."""

    def __init__(self, table: NodeTable, limit: int = KEPT_COLUMNS) -> None:
        self._table = table
        self._limit = limit
        self._columns: OrderedDict[Hashable, _Column] = OrderedDict()

    def get(
        self,
        key: Hashable,
        row: Callable[[Node], Any],
        dtype: type[np.generic],
        everything: Callable[[NodeTable], NDArray[Any]] | None = None,
    ) -> NDArray[Any]:
        """dtype[nodes], read-only: `row(node)` for each row, 0 for holes.

        `everything` computes the same for the whole table at once, where that is faster. An error from `row` passes
        through and nothing is kept.
        """
        table = self._table
        column = self._columns.get(key)
        if column is not None:
            if column.seq == table.static_changes.seq:
                self._columns.move_to_end(key)
                return column.view
            changed = table.static_changes.since(column.seq)
            if changed is not None and len(changed) <= table.size // 4 + 8:
                return self._repair(key, column, set(changed), row)
        return self._build(key, row, dtype, everything)

    def _build(
        self,
        key: Hashable,
        row: Callable[[Node], Any],
        dtype: type[np.generic],
        everything: Callable[[NodeTable], NDArray[Any]] | None,
    ) -> NDArray[Any]:
        table = self._table
        if everything is not None:
            values = everything(table).astype(dtype, copy=True)
        else:
            values = np.zeros(table.size, dtype)
            for slot, node in enumerate(table.nodes):
                if node is not None:
                    values[slot] = row(node)
        return self._keep(key, values, table.static_changes.seq)

    def _repair(self, key: Hashable, column: _Column, changed: set[int], row: Callable[[Node], Any]) -> NDArray[Any]:
        table = self._table
        values = column.values
        if len(values) < table.size:
            grown = np.zeros(table.size, values.dtype)
            grown[: len(values)] = values
            values = grown
        for slot in changed:
            node = table.nodes[slot]
            values[slot] = 0 if node is None else row(node)
        return self._keep(key, values, table.static_changes.seq)

    def _keep(self, key: Hashable, values: NDArray[Any], seq: int) -> NDArray[Any]:
        view = values.view()
        view.flags.writeable = False
        self._columns[key] = _Column(values, view, seq)
        self._columns.move_to_end(key)
        if len(self._columns) > self._limit:
            self._columns.popitem(last=False)
        return view
