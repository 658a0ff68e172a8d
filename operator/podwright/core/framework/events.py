"""Cluster events and queueing hints: which changes may help a pod that a plugin rejected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntFlag
from typing import Any, Final

from podwright.core.objects.pod import PodInfo


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
    UPDATE = 4 | 8 | 16 | 32 | 64 | 128 | 256 | 512 | 1024 | 2048 | 4096 | 8192
    ALL = ADD | DELETE | UPDATE


NODE: Final = "Node"
POD: Final = "Pod"
"""An unscheduled pod, the one that waits."""
ASSIGNED_POD: Final = "AssignedPod"
ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A kind (NODE, ASSIGNED_POD, POD, a kind of the store, ANY) and what may have happened to it."""

    resource: str
    action: Action

    @property
    def label(self) -> str:
        """What metrics call it, as kube-scheduler does: `NodeAdd`, `AssignedPodDelete`, `TargetPodUpdatePodLabel`."""
        return f"{'TargetPod' if self.resource == POD else self.resource}{_LABELS.get(self.action, 'Update')}"

    def matches(self, happened: ClusterEvent) -> bool:
        """Whether this registration covers an event that happened."""
        return self.resource in (ANY, happened.resource) and bool(self.action & happened.action)


_LABELS: Final = {
    action: "".join(word.title() for word in (action.name or "").split("_"))
    for action in Action
    if not (action.name or "").endswith("OTHER")
} | {Action.ALL: "All"}


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
