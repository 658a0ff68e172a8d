"""What changed between two versions of a pending pod, as a cluster event."""

from __future__ import annotations

from podwright.core.framework.events import POD, Action, ClusterEvent
from podwright.core.objects.pod import PodInfo


def pod_update(before: PodInfo, after: PodInfo) -> ClusterEvent | None:
    """The event for an update of a waiting pod, or None if nothing changed that scheduling looks at."""
    action = Action(0)
    if before.labels is not after.labels:
        action |= Action.UPDATE_POD_LABEL
    if before.tolerations is not after.tolerations:
        action |= Action.UPDATE_POD_TOLERATION
    if before.gates and not after.gates:
        action |= Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    if before.requests is not after.requests:
        less = all(amount <= before.requests.amounts.get(name, 0) for name, amount in after.requests.amounts.items())
        action |= Action.UPDATE_POD_SCALE_DOWN if less else Action.UPDATE_POD_OTHER
    if (
        before.node_affinity is not after.node_affinity
        or before.priority != after.priority
        or before.resource_claims != after.resource_claims
        or before.nominated_node_name != after.nominated_node_name
        or before.terminating != after.terminating
        or len(before.gates) != len(after.gates)
    ):
        action |= Action.UPDATE_POD_OTHER
    return ClusterEvent(POD, action) if action else None
