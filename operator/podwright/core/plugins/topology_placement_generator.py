"""TopologyPlacementGenerator: known by name, so that a profile of kube-scheduler's can be taken over, and for its hints.

That a pod group stays in one domain of its topology constraint is the planner's work (core/gangs), whether a profile names
this plugin or not; so are its hints. kube-scheduler's has none, which means that every event counts there.
"""

from __future__ import annotations

from collections.abc import Sequence

from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.interface import EnqueueExtensions, Plugin
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo


class TopologyPlacementGenerator(Plugin, EnqueueExtensions):
    """See the module. What filters of members wait for is named by these: the group is rejected by them, too."""

    name = "TopologyPlacementGenerator"
    hints_when_disabled = True

    def hints(self) -> Sequence[EventHint]:
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        return (
            EventHint(ClusterEvent(ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)),
            EventHint(ClusterEvent(NODE, nodes), self._node_hint),
        )

    def _node_hint(self, pod: PodInfo, before: Node | None, after: Node) -> Hint:
        """Whether a domain of the group's key got a node, or a node in one has more of something."""
        group = self.handle.cache.groups.of(pod)
        key = "" if group is None else group.topology_key
        if not key or key not in after.labels:
            return Hint.SKIP
        if before is None or before.labels.get(key) != after.labels[key]:
            return Hint.QUEUE
        more = any(amount > before.allocatable.get(name, 0) for name, amount in after.allocatable.items())
        return Hint.QUEUE if more else Hint.SKIP
