"""What the engine asks of the outside. `podwright.kube` is the real side; tests bring their own.

Everything here but `Cluster` (see core/framework/interface.py) returns at once and is carried out behind the bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from podwright.core.framework.interface import Cluster
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PLUGINS_API, WORKLOAD_API, PodGroup
from podwright.engine.metrics.metrics import Metrics

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"


@dataclass(frozen=True, slots=True)
class Regarding:
    """What an event is about: a pod of which no PodInfo could be made, or another object."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    scheduler_name: str
    kind: str = "Pod"
    api_version: str = "v1"

    @classmethod
    def group(cls, group: PodGroup, scheduler_name: str) -> Regarding:
        """A pod group whose members ask for this scheduler."""
        metadata = group.raw.get("metadata") or {}
        version = str(group.raw.get("apiVersion") or _GROUP_VERSIONS[group.api])
        changed = str(metadata.get("resourceVersion") or "")
        return cls(group.namespace, group.name, group.uid, changed, scheduler_name, "PodGroup", version)


_GROUP_VERSIONS = {WORKLOAD_API: f"{WORKLOAD_API}/v1beta1", PLUGINS_API: f"{PLUGINS_API}/v1alpha1"}
"""What a group's apiVersion is taken for where the object as it was listed does not say."""


def kind_of(preemptor: PodInfo | Regarding) -> str:
    """How a preemptor is called in texts and metrics: pod or podgroup."""
    return preemptor.kind.lower() if isinstance(preemptor, Regarding) else "pod"


def preempted_by(preemptor: PodInfo | Regarding, where: str) -> str:
    """What the event says to the victim."""
    return f"Preempted by {kind_of(preemptor)} {preemptor.uid} on node {where}"


def preempting(preemptor: PodInfo | Regarding) -> str:
    """What the victim's condition says."""
    return f"{preemptor.scheduler_name}: preempting to accommodate a higher priority {kind_of(preemptor)}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the condition PodScheduled=False is to say: reason Unschedulable or SchedulerError, and the full text."""

    reason: str
    message: str


class Recorder(Protocol):
    """Events for people to read."""

    def record(
        self,
        regarding: PodInfo | Regarding,
        kind: Literal["Normal", "Warning"],
        reason: str,
        action: str,
        note: str,
        related: PodInfo | Regarding | None = None,
    ) -> None:
        """Posts an event of events.k8s.io/v1 when there is time. Never blocks and never fails."""

    def forget(self, uid: str) -> None:
        """What was said of it is over: the pod is gone, or has a node."""


class StatusWriter(Protocol):
    """The status of pending pods."""

    def seen(self, uid: str, raw: Mapping[str, Any]) -> None:
        """The pod as it is; what it says already is not written again."""

    def forget(self, uid: str) -> None:
        """The pod is gone or has a node: nothing is written for it any more."""

    def write(self, pod: PodInfo, verdict: Verdict | None, nominated_node: str | None) -> None:
        """Sets the condition PodScheduled=False and `nominatedNodeName` ("" clears it); None leaves either as it is."""


class GroupWriter(Protocol):
    """The status of pod groups. A condition that was True once is not written as False any more."""

    def scheduled(self, group: PodGroup) -> None:
        """The group was placed: its condition PodGroupInitiallyScheduled becomes True."""

    def not_scheduled(self, group: PodGroup, verdict: Verdict) -> None:
        """The group was not placed: the condition becomes False, with the verdict's reason and message."""

    def disrupted(self, group: PodGroup, message: str) -> None:
        """All its pods are being preempted: the condition DisruptionTarget, reason PreemptionByScheduler, becomes True."""


class NoGroups:
    """A GroupWriter where there are no pod groups."""

    def scheduled(self, group: PodGroup) -> None: ...

    def not_scheduled(self, group: PodGroup, verdict: Verdict) -> None: ...

    def disrupted(self, group: PodGroup, message: str) -> None: ...


class Evictor(Protocol):
    """Removes pods in favour of others."""

    def evict(
        self, victim: PodInfo, preemptor: PodInfo | Regarding, node_name: str, done: Callable[[bool], None]
    ) -> None:
        """Marks the victim and deletes it, if its uid still is that one.

        `done(True)`: its deletion has begun, or it was gone already. `done(False)`: it could not be deleted.
        """


@dataclass(frozen=True, slots=True)
class Ports:
    """All ports, as the engine's parts get them."""

    cluster: Cluster
    recorder: Recorder
    status: StatusWriter
    evictor: Evictor
    groups: GroupWriter = field(default_factory=NoGroups)
    metrics: Metrics = field(default_factory=Metrics)
