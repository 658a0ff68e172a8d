"""Cluster events and queueing hints: which changes may help a pod that a plugin rejected."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import Enum, IntFlag
from functools import cache
from typing import Any, Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import WORKLOAD_API
from podwright.core.objects.watched_kinds import STORED_KINDS


class Action(IntFlag):
    """Kinds of changes to an object."""

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
    UPDATE_NODE_IMAGES = 65536
    """Not an event in kube-scheduler, whose filters do not read images."""
    UPDATE = sum(value for name, value in vars().items() if name.startswith("UPDATE_"))
    ALL = ADD | DELETE | UPDATE


NODE: Final = "Node"
POD: Final = "Pod"
"""The unscheduled pod itself that waits."""
UNSCHEDULED_POD: Final = "UnscheduledPod"
"""Another member of the pod's group, waiting or placed. Reported once the group has enough members. Only GangScheduling
uses it.
"""
ASSIGNED_POD: Final = "AssignedPod"
SIGNAL: Final = "Signal"
"""A number that comes from outside. Reported once for all nodes whose numbers have changed."""
TIME: Final = "Time"
"""A new minute. Its objects are the minutes before and after, counted since 1970 in UTC."""
QUEUE: Final = "SchedulingQueue"
"""A queue of the cluster. Reported without objects."""
ANY: Final = "*"


_GROUPS: Final = {
    **{watched.kind: watched.group for watched in STORED_KINDS if watched.group.endswith(".k8s.io")},
    **dict.fromkeys(("ResourceClaim", "ResourceSlice"), "resource.k8s.io"),
    **dict.fromkeys(("PodGroup", "CompositePodGroup"), WORKLOAD_API),
}
"""The API groups that event labels name, as in kube-scheduler. Plugins may register hints for kinds that are not
watched.
"""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A kind (NODE, POD, ASSIGNED_POD, UNSCHEDULED_POD, a kind in the object store, or ANY) and one or more actions."""

    resource: str
    action: Action

    @property
    def label(self) -> str:
        """Its label in metrics, as in kube-scheduler: `NodeAdd`, `TargetPodUpdatePodLabel`,
        `storage.k8s.io/CSINodeUpdate`.
        """
        return _label(self.resource, self.action)

    @property
    def parts(self) -> Sequence[ClusterEvent]:
        """One event for each action."""
        return tuple(ClusterEvent(self.resource, part) for part in self.action)

    def matches(self, happened: ClusterEvent) -> bool:
        """True if this registration covers an event that happened."""
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
"""(the waiting pod, the object before or None, the object after or None) → whether the event may help the pod."""


@dataclass(frozen=True, slots=True)
class HintKeys:
    """Which pods an event may help at all, so that the function of a hint is not called for all others.

    `of_event`: (the object before or None, the object after or None) → the key of these pods, a frozenset of such keys,
    or a function that says of a key whether it is one of theirs; None: all pods. `of_pod`: the keys of a waiting pod.
    Source: `PreQueueingHintFn` in kube-scheduler.
    """

    of_event: Callable[[Any, Any], Hashable | None]
    of_pod: Callable[[PodInfo], Iterable[Hashable]]


@dataclass(frozen=True, slots=True)
class EventHint:
    """An event, and optionally a function that decides whether it helps the pod. Without one, every such event requeues
    the pod.
    """

    event: ClusterEvent
    function: HintFunction | None = None
    opens_gate: bool = True
    """True if the event may change the plugin's answer at PreEnqueue. If not, the event does not retry pods that the
    plugin keeps out of the active queue.
    """
    keys: HintKeys | None = None
    """None: the event may help any pod."""
