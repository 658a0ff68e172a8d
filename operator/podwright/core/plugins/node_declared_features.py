"""NodeDeclaredFeatures: pods that need features of the kubelet fit nodes that declare them in
`status.declaredFeatures`.

The needed features follow from the pod's spec. Most pods need none. Source: the Kubernetes documentation, "Node
Declared Features".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np

from podwright.core.framework.cluster_events import NODE, POD, Action, ClusterEvent, EventHint, Hint
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
from podwright.core.framework.status import SKIP, Status, unresolvable
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

_LACKING: Final = unresolvable("node(s) didn't match Pod's required features")
_STATE: Final = "NodeDeclaredFeatures"
_NOTHING: Final[frozenset[str]] = frozenset()


class NodeDeclaredFeatures(Plugin, PreFilterPlugin, FilterPlugin, EnqueueExtensions):
    """See the module."""

    name = "NodeDeclaredFeatures"
    reason = "MissingFeatures"
    scope = Scope.NODE
    feature_gate = "NodeDeclaredFeatures"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._enabled = handle.features.enabled(self.feature_gate)

    def hints(self) -> Sequence[EventHint]:
        if not self._enabled:
            return ()
        return (
            EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE), _node_hint),
            EventHint(ClusterEvent(POD, Action.UPDATE), _pod_hint),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        needed = pod.required_features if self._enabled else _NOTHING
        if not needed:
            return SKIP
        state.data[_STATE] = needed
        return None

    def filter(self, state: CycleState, _pod: PodInfo, node: NodeInfo) -> Status | None:
        needed: frozenset[str] = state.data.get(_STATE, _NOTHING)
        return None if needed <= node.present.declared_features else _LACKING

    def verdict_key(self, pod: PodInfo) -> Hashable:
        return pod.required_features

    def filter_all(self, state: CycleState, _pod: PodInfo, _table: NodeTable) -> FilterResult | None:
        needed: frozenset[str] = state.data.get(_STATE, _NOTHING)
        if not needed:
            return None
        column = self.handle.cache.derived.get(
            ("declared", needed), lambda node: needed <= node.declared_features, np.bool_
        )
        return rejected_alike(column, _LACKING)


def _node_hint(_pod: PodInfo, before: Node | None, after: Node) -> Hint:
    same = before is not None and before.declared_features == after.declared_features
    return Hint.SKIP if same else Hint.QUEUE


def _pod_hint(_pod: PodInfo, before: PodInfo, after: PodInfo) -> Hint:
    return Hint.SKIP if before.required_features == after.required_features else Hint.QUEUE
