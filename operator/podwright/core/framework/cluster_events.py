"""Cluster events and queueing hints: which changes may help a pod that a plugin rejected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, IntFlag
from functools import cache
from typing import Any, Final

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import WORKLOAD_API
from podwright.core.objects.watched_kinds import STORED_KINDS


class Action(IntFlag):
    """What happened to an object."""

    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_POD_LABEL = 256
    UPDATE_POD_SCALE_DOWN = 512
    UPDATE_POD_TOLERATION = 1024
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 2048
    UPDATE_POD_OTHER = 4096
    UPDATE_OTHER = 8192
    UPDATE_POD_SCALE_UP = 16384
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 32768
    UPDATE = 65535 & ~3
    ALL = ADD | DELETE | UPDATE


NODE: Final = "Node"
POD: Final = "Pod"
"""An unscheduled pod, the one that waits."""
UNSCHEDULED_POD: Final = "UnscheduledPod"
"""Another member of a pod group, waiting or placed, which only GangScheduling asks for; told once there are enough of them."""
ASSIGNED_POD: Final = "AssignedPod"
ANY: Final = "*"


_GROUPS: Final = {
    **{watched.kind: watched.group for watched in STORED_KINDS if watched.group.endswith(".k8s.io")},
    **dict.fromkeys(("ResourceClaim", "ResourceSlice"), "resource.k8s.io"),
    **dict.fromkeys(("PodGroup", "CompositePodGroup"), WORKLOAD_API),
}
"""The API group that a label names before the kind, as in kube-scheduler; a plugin may register hints for kinds that are not watched."""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A kind (NODE, ASSIGNED_POD, POD, a kind of the store, ANY) and what may have happened to it."""

    resource: str
    action: Action

    @property
    def label(self) -> str:
        """What metrics call it, as kube-scheduler does: `NodeAdd`, `TargetPodUpdatePodLabel`, `storage.k8s.io/CSINodeUpdate`."""
        return _label(self.resource, self.action)

    @property
    def parts(self) -> Sequence[ClusterEvent]:
        """Of several changes at once, each by itself."""
        return tuple(ClusterEvent(self.resource, part) for part in self.action)

    def matches(self, happened: ClusterEvent) -> bool:
        """Whether this registration covers an event that happened."""
        return self.resource in (ANY, happened.resource) and bool(self.action & happened.action)


_LABELS: Final = {
    action: "".join(word.title() for word in (action.name or "").split("_"))
    for action in Action
    if not (action.name or "").endswith("OTHER")
} | {Action.ALL: "All"}


@cache
def _label(resource: str, action: Action) -> str:
    kind = "TargetPod" if resource == POD else resource
    group = _GROUPS.get(resource)
    return f"{f'{group}/' if group else ''}{kind}{_LABELS.get(action, 'Update')}"


class Hint(Enum):
    SKIP = "QueueSkip"
    QUEUE = "Queue"


HintFunction = Callable[[PodInfo, Any, Any], Hint]
"""(the waiting pod, the object before or None, the object after or None) → whether the event may help it."""


@dataclass(frozen=True, slots=True)
class EventHint:
    """An event, and optionally a closer look at it; without one, every such event queues the pod."""

    event: ClusterEvent
    function: HintFunction | None = None
