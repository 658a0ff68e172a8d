"""NodeNameScore: prefers nodes whose names come first in byte order.

Of n feasible nodes, the one with k feasible names after its own scores 100 · k // (n - 1); a single node scores 100.
The raw score is the number of names in the whole cluster that come after the node's. (The plugin NodeName is a filter.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from podwright.core.framework.interface import (
    MAX_SCORE,
    CycleState,
    Feasible,
    Handle,
    Int64s,
    Plugin,
    Scope,
    ScorePlugin,
)
from podwright.core.objects.pod import PodInfo
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo


class NodeNameScore(Plugin, ScorePlugin):
    """See the module."""

    name = "NodeNameScore"
    scope = Scope.NODE

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._after = np.zeros(0, np.int64)
        self._names: list[str] = []
        self._epoch = -1

    def score(self, _state: CycleState, _pod: PodInfo, node: NodeInfo) -> int:
        return sum(1 for other in self.handle.cache.table.names if other.encode() > node.name.encode())

    def score_all(self, _state: CycleState, _pod: PodInfo, feasible: Feasible) -> Int64s:
        return feasible.take(self._column(feasible.table))

    def normalize(self, _state: CycleState, _pod: PodInfo, scores: Int64s, feasible: Feasible) -> Int64s:
        if len(scores) <= 1:
            return np.full(len(scores), MAX_SCORE, np.int64)
        seen = np.zeros(feasible.table.size, np.int64)
        seen[scores] = 1
        behind = np.cumsum(seen) - 1
        ranked: Int64s = behind[scores] * MAX_SCORE // (len(scores) - 1)
        return ranked

    def _column(self, table: NodeTable) -> Int64s:
        """int64[nodes]: the number of names after each node's. Kept until nodes are added or removed."""
        if self._epoch != table.epoch:
            self._epoch = table.epoch
            if self._names != table.names:
                self._names = list(table.names)
                order = sorted(range(table.size), key=lambda slot: self._names[slot].encode(), reverse=True)
                self._after = np.zeros(table.size, np.int64)
                self._after[order] = np.arange(table.size)
        return self._after
