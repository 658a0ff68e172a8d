"""TopologyPlacementGenerator: queueing hints for pod groups with a topology constraint.

In all profiles the gang planner (core/gangs) does the plugin's work: it places such a group into one domain. So the
hints also count in all profiles. kube-scheduler's plugin has no hints, so every event requeues such a group there.
"""

from __future__ import annotations

from collections.abc import Sequence

from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.interface import EnqueueExtensions, Plugin
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo


class TopologyPlacementGenerator(Plugin, EnqueueExtensions):
    """See the module. The filters that reject members also reject the group, so their hints count for it as well."""

    name = "TopologyPlacementGenerator"
    hints_when_disabled = True

    def hints(self) -> Sequence[EventHint]:
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        return (
            EventHint(ClusterEvent(ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)),
            EventHint(ClusterEvent(NODE, nodes), self._node_hint),
        )

    def _node_hint(self, pod: PodInfo, before: Node | None, after: Node) -> Hint:
        """Helps if a node joined a domain of the group's topology key, or a node in a domain has more of a resource."""
        group = self.handle.cache.groups.of(pod)
        key = "" if group is None else group.topology_key
        if not key or key not in after.labels:
            return Hint.SKIP
        if before is None or before.labels.get(key) != after.labels[key]:
            return Hint.QUEUE
        more = any(amount > before.allocatable.get(name, 0) for name, amount in after.allocatable.items())
        return Hint.QUEUE if more else Hint.SKIP
