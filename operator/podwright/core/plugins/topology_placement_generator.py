"""TopologyPlacementGenerator: queueing hints for pod groups with a topology constraint.

In all profiles the gang planner (core/gangs) does the plugin's work: it places such a group into one domain. So the
hints also count in all profiles. kube-scheduler's plugin has no hints, so every event requeues such a group there.
"""

from __future__ import annotations

from collections.abc import Sequence

from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.interface import EnqueueExtensions, Plugin
from podwright.core.objects.closeness import HYPER_NODES
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
        """Helps if a node joined a domain of the group, or a node in a domain has more of a resource. Which labels
        parts of the group, and levels of a Topology, go by is not looked up: any that changes may help these.
        """
        group = self.handle.cache.groups.of(pod)
        keys = () if group is None or group.near.topology == HYPER_NODES else group.near.required
        if group is None or not all(key in after.labels for key in keys):
            return Hint.SKIP
        if before is None or any(before.labels.get(key) != after.labels[key] for key in keys):
            return Hint.QUEUE
        if before.labels != after.labels and (not keys or group.near.topology):
            return Hint.QUEUE
        more = any(amount > before.allocatable.get(name, 0) for name, amount in after.allocatable.items())
        return Hint.QUEUE if more else Hint.SKIP
