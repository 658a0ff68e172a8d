"""TeamNodes: nodes with a team label accept only pods of that team, and these pods prefer them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.helpers import rejected_alike
from podwright.core.framework.interface import (
    MAX_SCORE,
    CycleState,
    EnqueueExtensions,
    Feasible,
    FilterPlugin,
    FilterResult,
    Int64s,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from podwright.core.framework.status import SKIP, Status, unresolvable
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.state.columns.table import ABSENT, NodeTable
from podwright.core.state.nodeinfo import NodeInfo

OTHER_TEAM: Final = unresolvable("node(s) belonged to another team")


@dataclass(frozen=True)
class TeamNodesArgs:
    """`pluginConfig` of TeamNodes."""

    label: str = field(
        default="team",
        metadata={"description": "The label that names a team, on nodes and on pods.", "schema": {"minLength": 1}},
    )
    exempt_teams: tuple[str, ...] = ()

    def validate(self, where):
        if "" in self.exempt_teams:
            yield f"{where}.exemptTeams", "a team's name must not be empty"


class TeamNodes(Plugin, PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions):
    """See the module."""

    name = "TeamNodes"
    scope = Scope.NODE
    args_type = TeamNodesArgs

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        team = pod.labels.get(self.args.label)
        if team in self.args.exempt_teams:
            return SKIP
        state.data[self.name] = team
        return None

    def filter(self, state: CycleState, _pod: PodInfo, node: NodeInfo) -> Status | None:
        team = node.present.labels.get(self.args.label)
        return None if team in (None, state.data[self.name]) else OTHER_TEAM

    def verdict_key(self, pod: PodInfo) -> Hashable:
        return (pod.labels.get(self.args.label),)

    def filter_all(self, state: CycleState, _pod: PodInfo, table: NodeTable) -> FilterResult:
        teams = table.labels(self.args.label)  # int32[nodes]: ids of values, ABSENT without the label
        mine = table.label_values(self.args.label).get(state.data[self.name], ABSENT)
        return rejected_alike((teams == ABSENT) | (teams == mine), OTHER_TEAM)

    def pre_score(self, _state: CycleState, pod: PodInfo, _feasible: Feasible) -> Status | None:
        return None if self.args.label in pod.labels else SKIP

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        label = self.args.label
        return MAX_SCORE if node.present.labels.get(label) == pod.labels[label] else 0

    def score_all(self, _state: CycleState, pod: PodInfo, feasible: Feasible) -> Int64s | int:
        label = self.args.label
        mine = feasible.table.label_values(label).get(pod.labels[label])
        if mine is None:
            return 0
        return np.where(feasible.take(feasible.table.labels(label)) == mine, MAX_SCORE, 0).astype(np.int64)

    def hints(self) -> Sequence[EventHint]:
        return [EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self._helps)]

    def _helps(self, pod: PodInfo, _before: Node | None, after: Node) -> Hint:
        team = after.labels.get(self.args.label)
        return Hint.QUEUE if team in (None, pod.labels.get(self.args.label)) else Hint.SKIP
