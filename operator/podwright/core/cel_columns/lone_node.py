"""LoneNode: one node, perhaps one that a dry run has changed, as columns with one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from podwright.core.cel_columns.limits import node_limit
from podwright.core.cel_columns.nodes import Amounts, NodeView, Texts, TextTable
from podwright.core.cel_columns.vectors import Bools, Rows
from podwright.core.state.cache import Cache
from podwright.core.state.columns.table import ABSENT
from podwright.core.state.nodeinfo import NodeInfo


class LoneNode:
    """See the module. `view`: the node with the fields that the operation reads; `cache`: of its cluster."""

    def __init__(self, view: NodeView, cache: Cache) -> None:
        self.view = view
        self.deadline = cache.deadline
        self.cache = cache
        self.size = 1
        self.limit = node_limit(cache.table.size)
        self.names: Sequence[str] = (view["name"],)
        self.unschedulable: Bools = np.array([view["unschedulable"]], np.bool_)

    @property
    def pods(self) -> NDArray[np.int64]:
        """int64[1]: how many pods the node has."""
        return np.array([len(self.view.info.pods)], np.int64)

    @property
    def taints(self) -> NDArray[np.int32]:
        """int32[1]: the position of the node's taints in `taint_lists`."""
        return np.zeros(1, np.int32)

    @property
    def taint_lists(self) -> Sequence[Sequence[Mapping[str, str]]]:
        return (self.view["taints"],)

    def signal(self, name: str) -> NDArray[np.float64]:
        """float64[1]"""
        return np.array([self.cache.signals.value(name, self.view.info.name)])

    def texts(self, field: str, key: str) -> Texts:
        """A label, an annotation or a condition."""
        value = self.view[field].get(key)
        if value is None:
            return Texts(np.full(1, ABSENT, np.int32), TextTable.of({}))
        return Texts(np.zeros(1, np.int32), TextTable.of({value: 0}))

    def amounts(self, field: str, key: str, _rows: Rows | None) -> Amounts:
        """The size of an image, or an amount of a resource."""
        value = self.view[field].get(key)
        return Amounts(np.array([value or 0], np.int64), np.array([value is not None], np.bool_))

    def valid(self, _rows: Rows | None) -> Bools:
        return np.ones(1, np.bool_)

    def node_at(self, _slot: int) -> NodeInfo:
        return self.view.info
