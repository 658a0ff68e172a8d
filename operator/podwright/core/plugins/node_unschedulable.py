"""NodeUnschedulable: rejects cordoned nodes for pods that do not tolerate them.

The pod must tolerate the taint node.kubernetes.io/unschedulable with effect NoSchedule and an empty value, even if the
node does not have this taint.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Final

from podwright.core.framework.cluster_events import NODE, POD, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.explaining import NodeChange, Why
from podwright.core.framework.helpers import rejected_alike
from podwright.core.framework.interface import (
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    FilterResult,
    Handle,
    Plugin,
    PreFilterPlugin,
    Scope,
)
from podwright.core.framework.status import Status, unresolvable
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.taints import NO_SCHEDULE, Taint
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

_CORDONED: Final = unresolvable("node(s) were unschedulable")
_TAINT: Final = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


class NodeUnschedulable(Plugin, PreFilterPlugin, FilterPlugin, EnqueueExtensions):
    """See the module."""

    name = "NodeUnschedulable"
    reason = "Cordoned"
    remoteness = 1.6
    scope = Scope.NODE

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._compare = handle.features.enabled("TaintTolerationComparisonOperators")

    def hints(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), _node_hint),
            EventHint(ClusterEvent(POD, Action.UPDATE_POD_TOLERATION), self._pod_hint),
        )

    def pre_filter(self, _state: CycleState, _pod: PodInfo) -> None:
        return None

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return _CORDONED if node.present.unschedulable and not self._tolerates(pod) else None

    def why_not_here(self, _pod: PodInfo, _node: NodeInfo, _message: str) -> Why:
        return Why(detail="it is cordoned")

    def change_of_node(self, _pod: PodInfo, node: Node) -> NodeChange:
        left = tuple(taint for taint in node.taints if taint.key != _TAINT.key)
        return NodeChange(f"uncordon node {node.name}", replace(node, unschedulable=False, taints=left))

    def verdict_key(self, pod: PodInfo) -> Hashable:
        return pod.tolerations

    def filter_all(self, _state: CycleState, pod: PodInfo, table: NodeTable) -> FilterResult | None:
        if not table.cordoned or self._tolerates(pod):
            return None
        return rejected_alike(~table.unschedulable, _CORDONED)

    def _tolerates(self, pod: PodInfo) -> bool:
        return pod.tolerations.tolerate(_TAINT, compare=self._compare)

    def _pod_hint(self, _pod: PodInfo, _before: PodInfo | None, after: PodInfo) -> Hint:
        return Hint.QUEUE if self._tolerates(after) else Hint.SKIP


def _node_hint(_pod: PodInfo, before: Node | None, after: Node) -> Hint:
    was_closed = before is None or before.unschedulable
    return Hint.QUEUE if was_closed and not after.unschedulable else Hint.SKIP
