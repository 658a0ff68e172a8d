"""What changed between two versions of a pending pod, as a cluster event; and how a pod was resized, pending or not."""

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
    if before.resource_claims != after.resource_claims:
        action |= Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    action |= resize(before, after)
    if (
        before.node_affinity is not after.node_affinity
        or before.priority != after.priority
        or before.nominated_node_name != after.nominated_node_name
        or before.terminating != after.terminating
        or len(before.gates) != len(after.gates)
    ):
        action |= Action.UPDATE_POD_OTHER
    return ClusterEvent(POD, action) if action else None


def resize(before: PodInfo, after: PodInfo) -> Action:
    """Scaled down if any amount is less or gone, and up if any is more or new: a resize may be both."""
    action = Action(0)
    if before.requests is after.requests:
        return action
    old, new = before.requests.amounts, after.requests.amounts
    if any(name not in new or amount > new[name] for name, amount in old.items()):
        action |= Action.UPDATE_POD_SCALE_DOWN
    if any(name not in old or amount > old[name] for name, amount in new.items()):
        action |= Action.UPDATE_POD_SCALE_UP
    return action or Action.UPDATE_POD_OTHER
