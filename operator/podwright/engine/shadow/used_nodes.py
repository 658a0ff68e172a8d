"""UsedNodes: which nodes have pods that are neither static nor of a DaemonSet, kept up to date with a cache, and how
much of the nodes is requested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.items_by_key import count
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo, belongs_to_node
from podwright.core.state.cache import Cache
from podwright.core.state.observers import PlacementObserver


class CacheChanges(Protocol):
    """Called with what changes in a cache. The cache has already changed, except that a node that is removed is still
    there.
    """

    def pod_changed(self, uid: str) -> None: ...

    def node_changed(self, name: str) -> None: ...


class UsedNodes(PlacementObserver):
    """See the module. The cache has one. `listeners` learn of each change."""

    def __init__(self) -> None:
        self.listeners: list[CacheChanges] = []
        self._pods: dict[int, int] = {}
        """How many such pods there are in each row of the node table that has any."""

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def rows(self) -> list[int]:
        """The rows of these nodes."""
        return [*self._pods]

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        if not belongs_to_node(pod):
            count(self._pods, slot, 1)
        for listener in self.listeners:
            listener.pod_changed(pod.uid)

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        if not belongs_to_node(pod):
            count(self._pods, slot, -1)
        for listener in self.listeners:
            listener.pod_changed(pod.uid)

    def node_set(self, slot: int, before: Node | None, after: Node | None) -> None:
        node = after or before
        if node is not None:
            for listener in self.listeners:
                listener.node_changed(node.name)


@dataclass(frozen=True, slots=True)
class ClusterUsage:
    """`allocated`: by resource, the share of all nodes' that is requested; `utilisation`: of the nodes in use. From 0
    to 1.
    """

    nodes: int
    in_use: int
    allocated: Mapping[str, float]
    utilisation: Mapping[str, float]


def usage_of(cache: Cache, used: UsedNodes, resources: Sequence[str]) -> ClusterUsage:
    """How much of the cache's nodes is requested."""
    table, rows = cache.table, np.array(used.rows, np.intp)
    allocated: dict[str, float] = {}
    utilisation: dict[str, float] = {}
    for name in resources:
        offered, requested = table.allocatable(name), table.requested(name)
        allocated[name] = _share(int(requested.sum()), int(offered.sum()))
        utilisation[name] = _share(int(requested[rows].sum()), int(offered[rows].sum()))
    return ClusterUsage(table.count, len(rows), allocated, utilisation)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
