"""The difference between two versions of a pending pod as a cluster event, and the direction of a resize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from podwright.core.framework.cluster_events import POD, Action, ClusterEvent
from podwright.core.objects.pod import PodInfo, body_of

_BOOKKEEPING: Final = ("managedFields", "resourceVersion", "generation")
_CLAIMS: Final = ("resourceClaimStatuses", "extendedResourceClaimStatus")
_NO_BODY: Final[Mapping[str, Any]] = {}


def pod_update(before: PodInfo, after: PodInfo) -> ClusterEvent | None:
    """The event for an update of a pending pod. None if only its status or its bookkeeping fields changed.

    A change without an action of its own is UPDATE_POD_OTHER, which concerns only hints that are registered for every
    update.
    """
    action = Action(0)
    if before.labels is not after.labels or before.group != after.group:
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
        or (not action and _raw_changed(before, after))
    ):
        action |= Action.UPDATE_POD_OTHER
    return ClusterEvent(POD, action) if action else None


def _raw_changed(before: PodInfo, after: PodInfo) -> bool:
    """True if something changed that only third-party plugins may read, such as an annotation. The status does not
    count.
    """
    old, new = body_of(before), body_of(after)
    if old is None or new is None or old is new:
        return False
    return old.get("spec") != new.get("spec") or _metadata_without_bookkeeping(
        old["metadata"]
    ) != _metadata_without_bookkeeping(new["metadata"])


def _metadata_without_bookkeeping(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in metadata.items() if name not in _BOOKKEEPING}


def _claims(pod: PodInfo) -> Sequence[Any]:
    """The ResourceClaims that were created for the pod; empty for a pod without its raw object."""
    status = (body_of(pod) or _NO_BODY).get("status") or _NO_BODY
    return [status.get(field) for field in _CLAIMS]


def resize(before: PodInfo, after: PodInfo) -> Action:
    """The actions of a resize: down if any amount is lower or gone, up if any is higher or new, both if both are so.

    UPDATE_POD_OTHER if only what scoring assumes has changed; no action if the requests are the same object.
    """
    action = Action(0)
    if before.requests is after.requests:
        return action
    old, new = before.requests.amounts, after.requests.amounts
    if any(name not in new or amount > new[name] for name, amount in old.items()):
        action |= Action.UPDATE_POD_SCALE_DOWN
    if any(name not in old or amount > old[name] for name, amount in new.items()):
        action |= Action.UPDATE_POD_SCALE_UP
    return action or Action.UPDATE_POD_OTHER
