"""One pod's score as a recipe for `_kept_rows`: all rows or some in float64, single and oversized ones by the rule itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from podwright.core.framework.interface import Int64s, Slots
from podwright.core.plugins._resource_rows import ResourceRows, Rows
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo


class ScoreRecipe:
    """`of_node` is the rule, `of_rows(rows, slots, out)` writes the same for some rows (`slots` None: for all)."""

    def __init__(
        self,
        cache: Cache,
        columns: ResourceRows,
        of_node: Callable[[NodeInfo], int],
        of_rows: Callable[[Rows, Slots | None, Int64s], None],
    ) -> None:
        self._cache = cache
        self._columns = columns
        self._of_node = of_node
        self._of_rows = of_rows

    def all(self, out: Int64s) -> None:
        self._of_rows(self._columns.everything(), None, out)
        for slot in self._columns.oversized:
            out[slot] = self.one(self._cache.node_at(slot))

    def some(self, slots: Slots) -> Int64s:
        out = np.empty(len(slots), np.int64)
        self._of_rows(self._columns.some(slots), slots, out)
        if self._columns.oversized:
            for position, slot in enumerate(slots.tolist()):
                if slot in self._columns.oversized:
                    out[position] = self.one(self._cache.node_at(slot))
        return out

    def one(self, node: NodeInfo) -> int:
        return self._of_node(node)
