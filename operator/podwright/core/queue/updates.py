"""What changed between two versions of a pending pod, as a cluster event; and how a pod was resized, pending or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from podwright.core.framework.cluster_events import POD, Action, ClusterEvent
from podwright.core.objects.pod import PodInfo

_BOOKKEEPING: Final = ("managedFields", "resourceVersion", "generation")
_CLAIMS: Final = ("resourceClaimStatuses", "extendedResourceClaimStatus")
_NO_BODY: Final[Mapping[str, Any]] = {}


def pod_update(before: PodInfo, after: PodInfo) -> ClusterEvent | None:
    """The event for an update of a waiting pod, or None if nothing but its status or its bookkeeping changed.

    What none of the special actions is for is UPDATE_POD_OTHER: only hints for any update of the pod are asked about it.
    """
    action = Action(0)
    if before.labels is not after.labels:
        action |= Action.UPDATE_POD_LABEL
    if before.tolerations is not after.tolerations:
        action |= Action.UPDATE_POD_TOLERATION
    if before.gates and not after.gates:
        action |= Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    if _claims(before) != _claims(after):
        action |= Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    action |= resize(before, after)
    if (
        before.node_affinity is not after.node_affinity
        or before.priority != after.priority
        or before.nominated_node_name != after.nominated_node_name
        or before.terminating != after.terminating
        or len(before.gates) != len(after.gates)
        or (not action and _said_otherwise(before, after))
    ):
        action |= Action.UPDATE_POD_OTHER
    return ClusterEvent(POD, action) if action else None


def _said_otherwise(before: PodInfo, after: PodInfo) -> bool:
    """Something of the pod changed that only plugins of others may look at: an annotation, say. Its status is ours to write."""
    old, new = before.raw, after.raw
    if old is None or new is None or old is new:
        return False
    return old.get("spec") != new.get("spec") or _noted(old["metadata"]) != _noted(new["metadata"])


def _noted(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in metadata.items() if name not in _BOOKKEEPING}


def _claims(pod: PodInfo) -> Sequence[Any]:
    """Which ResourceClaims were made for the pod; nothing of a pod without a raw body."""
    status = (pod.raw or _NO_BODY).get("status") or _NO_BODY
    return [status.get(field) for field in _CLAIMS]


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
