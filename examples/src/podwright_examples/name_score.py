"""namescore: prefers the feasible node whose name comes first, or last if the args say so.

It is easy to predict where a pod will go, which makes this a good first plugin to try.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from podwright.core.framework.helpers import normalize_by_greatest
from podwright.core.framework.interface import CycleState, Feasible, Handle, Int64s, Plugin, Scope, ScorePlugin
from podwright.core.objects.pod import PodInfo
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo


@dataclass(frozen=True)
class NameScoreArgs:
    """The end of the alphabet that the plugin prefers."""

    prefer: Literal["first", "last"] = "first"


class NameScore(Plugin, ScorePlugin):
    """See the module."""

    name = "namescore"
    scope = Scope.NODE
    args_type = NameScoreArgs

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._epoch = -1
        self._ranks = np.zeros(0, np.int64)

    def score(self, _state: CycleState, _pod: PodInfo, node: NodeInfo) -> int:
        names = (name for name in self.handle.cache.table.names if name)
        if self.args.prefer == "first":
            return sum(name > node.name for name in names)
        return sum(name < node.name for name in names)

    def score_all(self, _state: CycleState, _pod: PodInfo, feasible: Feasible) -> Int64s:
        table = feasible.table
        if table.epoch != self._epoch:
            self._epoch, self._ranks = table.epoch, self._rank(table)
        return feasible.take(self._ranks)

    def normalize(self, _state: CycleState, _pod: PodInfo, scores: Int64s, _feasible: Feasible) -> Int64s | int:
        return normalize_by_greatest(scores)

    def _rank(self, table: NodeTable) -> Int64s:
        """int64[nodes]: how many names come after the node's name, or before it."""
        order = sorted(np.flatnonzero(table.valid), key=lambda slot: table.names[slot])
        ranks = np.zeros(table.size, np.int64)
        ranks[order] = np.arange(len(order))
        return len(order) - 1 - ranks if self.args.prefer == "first" else ranks
