"""TaintToleration: rejects nodes with NoSchedule or NoExecute taints that the pod does not tolerate.

Each PreferNoSchedule taint that the pod does not tolerate lowers the score. For each list of tolerations the result is
a column, which is kept for further pods. If the pod tolerates all taints in the cluster, no column is computed. Source:
the Kubernetes documentation, "Taints and Tolerations".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from podwright.core.framework.cluster_events import NODE, POD, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.cost import ORDINARY, Cost
from podwright.core.framework.explaining import NodeChange, PodChange, Why, editable
from podwright.core.framework.helpers import normalize_by_greatest, rejected_alike
from podwright.core.framework.interface import (
    CycleState,
    EnqueueExtensions,
    Feasible,
    FilterPlugin,
    FilterResult,
    Handle,
    Int64s,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from podwright.core.framework.status import Status, unresolvable
from podwright.core.objects.compaction import RecentCache
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.taints import PREFER_NO_SCHEDULE, Taint, Tolerations
from podwright.core.objects.wording import listed
from podwright.core.state.columns.matching import count_intolerable, intolerable_column, tolerated_column, tolerates_all
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

_UNTOLERATED: Final = unresolvable("node(s) had untolerated taint(s)")
_MAX_CACHED: Final = 1024
_NOT_READY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class _UntoleratedTaints(NamedTuple):
    """True if any of the nodes' taint lists has untolerated taints: hard ones, and PreferNoSchedule ones. `version`: of
    the lists.
    """

    version: int
    hard: bool
    soft: bool


class TaintToleration(Plugin, PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions):
    """See the module."""

    name = "TaintToleration"
    reason = "UntoleratedTaint"
    remoteness = 2.5
    scope = Scope.NODE
    normalizes_numbers = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._compare = handle.features.enabled("TaintTolerationComparisonOperators")
        self._by_tolerations: RecentCache[Tolerations, _UntoleratedTaints] = RecentCache(_MAX_CACHED // 2)

    def costs(self, pod: PodInfo) -> Iterable[Cost]:
        return (Cost(number, "tolerations", 5e-6),) if (number := len(pod.tolerations.items)) > ORDINARY else ()

    def hints(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), self._node_hint),
            EventHint(ClusterEvent(POD, Action.UPDATE_POD_TOLERATION)),
        )

    def pre_filter(self, _state: CycleState, _pod: PodInfo) -> None:
        return None

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None if self._tolerates(pod, node.present) else _UNTOLERATED

    def verdict_key(self, pod: PodInfo) -> Hashable:
        return pod.tolerations

    def filter_all(self, _state: CycleState, pod: PodInfo, table: NodeTable) -> FilterResult | None:
        if not self._untolerated_taints(pod.tolerations, table).hard:
            return None
        column = tolerated_column(self.handle.cache.derived, pod.tolerations, compare=self._compare)
        return rejected_alike(column, _UNTOLERATED)

    def pre_score(self, _state: CycleState, _pod: PodInfo, _feasible: Feasible) -> None:
        return None

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return count_intolerable(node.present.taints, pod.tolerations, compare=self._compare)

    def score_all(self, _state: CycleState, pod: PodInfo, feasible: Feasible) -> Int64s | int:
        if not self._untolerated_taints(pod.tolerations, feasible.table).soft:
            return 0
        return feasible.take(intolerable_column(self.handle.cache.derived, pod.tolerations, compare=self._compare))

    def normalize(self, _state: CycleState, _pod: PodInfo, scores: Int64s | int, _feasible: Feasible) -> Int64s | int:
        return normalize_by_greatest(scores, reverse=True)

    def why_not_here(self, pod: PodInfo, node: NodeInfo, _message: str) -> Why:
        taints = self._untolerated(pod, node.present)
        detail = f"taint{'' if len(taints) == 1 else 's'} {listed([*map(str, taints)])}"
        if any(taint.key in _NOT_READY for taint in taints):
            return Why("NodeNotReady", "the node is not ready", detail)
        return Why(text="the node has a taint that the pod does not tolerate", detail=detail)

    def changes_of_pod(self, pod: PodInfo, node: NodeInfo) -> Iterable[PodChange]:
        taints = self._untolerated(pod, node.present)
        if not taints or any(taint.managed for taint in taints):
            return
        made = editable(pod)
        added = [
            {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
            if taint.value
            else {"key": taint.key, "operator": "Exists", "effect": taint.effect}
            for taint in taints
        ]
        made["spec"]["tolerations"] = [*(made["spec"].get("tolerations") or ()), *added]
        yield PodChange(f"tolerate {' and '.join(map(str, taints))}", made)

    def change_of_node(self, pod: PodInfo, node: Node) -> NodeChange | None:
        unwanted = self._untolerated(pod, node)
        if not unwanted:
            return None
        names = " and ".join(map(str, unwanted))
        if any(taint.managed for taint in unwanted):
            text = f"node {node.name} is healthy again, which takes away {names}"
        else:
            text = f"take {names} away from node {node.name}"
        return NodeChange(text, replace(node, taints=tuple(each for each in node.taints if each not in unwanted)))

    def _untolerated(self, pod: PodInfo, node: Node) -> list[Taint]:
        """The taints that keep the pod off the node."""
        hard = (taint for taint in node.taints if taint.effect != PREFER_NO_SCHEDULE)
        return [taint for taint in hard if not pod.tolerations.tolerate(taint, compare=self._compare)]

    def _tolerates(self, pod: PodInfo, node: Node) -> bool:
        return tolerates_all(node.taints, pod.tolerations, compare=self._compare)

    def _untolerated_taints(self, tolerations: Tolerations, table: NodeTable) -> _UntoleratedTaints:
        found = self._by_tolerations.get(tolerations)
        if found is not None and found.version == table.taint_version:
            return found
        sets = table.taint_sets
        found = _UntoleratedTaints(
            table.taint_version,
            hard=any(not tolerates_all(taints, tolerations, compare=self._compare) for taints in sets),
            soft=any(count_intolerable(taints, tolerations, compare=self._compare) for taints in sets),
        )
        self._by_tolerations.put(tolerations, found)
        return found

    def _node_hint(self, pod: PodInfo, before: Node | None, after: Node) -> Hint:
        kept_out = before is None or not self._tolerates(pod, before)
        return Hint.QUEUE if kept_out and self._tolerates(pod, after) else Hint.SKIP
