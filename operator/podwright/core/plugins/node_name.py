"""NodeName: a pod with `spec.nodeName` fits that node only."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint
from podwright.core.framework.helpers import rejected_alike
from podwright.core.framework.interface import (
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    FilterResult,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    Scope,
)
from podwright.core.framework.status import Status, unresolvable
from podwright.core.objects.pod import PodInfo
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

_OTHER_NODE: Final = unresolvable("node(s) didn't match the requested node name")
_HINTS: Final = (EventHint(ClusterEvent(NODE, Action.ADD)),)


class NodeName(Plugin, PreFilterPlugin, FilterPlugin, EnqueueExtensions):
    """See the module."""

    name = "NodeName"
    reason = "NodeName"
    scope = Scope.NODE

    def hints(self) -> Sequence[EventHint]:
        return _HINTS

    def pre_filter(self, _state: CycleState, pod: PodInfo) -> PreFilterResult | None:
        return PreFilterResult(frozenset((pod.node_name,))) if pod.node_name else None

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None if pod.node_name in ("", node.name) else _OTHER_NODE

    def verdict_key(self, pod: PodInfo) -> Hashable:
        return pod.node_name

    def filter_all(self, _state: CycleState, pod: PodInfo, table: NodeTable) -> FilterResult | None:
        if not pod.node_name:
            return None
        ok = np.fromiter((name == pod.node_name for name in table.names), np.bool_, table.size)
        return rejected_alike(ok, _OTHER_NODE)
