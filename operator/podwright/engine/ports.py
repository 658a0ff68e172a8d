"""The ports: what the engine needs from the outside. `podwright.kube` implements them; tests bring fakes.

All calls but those of `Cluster` (core/framework/interface.py) and `PodReader` return at once. Their requests are sent
later, after Bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal, Protocol, TypeVar

from podwright.api.configuration.extenders import DefinedExtender
from podwright.core.framework.interface import Cluster
from podwright.core.framework.program import Solver
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import (
    COMPOSITE_API,
    GROVE_API,
    KAI_API,
    MADE_API,
    NAMED_OTHERWISE,
    PLUGINS_API,
    VOLCANO_API,
    WORKLOAD_API,
    PodGroup,
)
from podwright.engine.process.forks import Children, InProcess
from podwright.engine.raw_objects import RawObjects
from podwright.engine.records.metrics import Metrics

T = TypeVar("T")

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
WAITING_FOR_QUOTA = "WaitingForQuota"
"""Only a bound of the pod's queue rejects it. Autoscalers make nodes for pods with the reason Unschedulable alone."""


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object of an event where there is no PodInfo: an invalid pod, or an object of another kind."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    scheduler_name: str
    kind: str = "Pod"
    api_version: str = "v1"

    @classmethod
    def group(cls, group: PodGroup, scheduler_name: str) -> Regarding:
        """The reference to a pod group whose members ask for this scheduler name."""
        metadata = group.raw.get("metadata") or {}
        version = str(group.raw.get("apiVersion") or _GROUP_VERSIONS[group.api])
        changed = str(metadata.get("resourceVersion") or "")
        kind = str(group.raw["kind"]) if group.api == MADE_API else NAMED_OTHERWISE.get(group.api, "PodGroup")
        return cls(group.namespace, group.owner or group.name, group.uid, changed, scheduler_name, kind, version)


_GROUP_VERSIONS = {
    WORKLOAD_API: f"{WORKLOAD_API}/v1beta1",
    COMPOSITE_API: f"{WORKLOAD_API}/v1alpha3",
    PLUGINS_API: f"{PLUGINS_API}/v1alpha1",
    VOLCANO_API: f"{VOLCANO_API}/v1beta1",
    KAI_API: f"{KAI_API}/v2alpha2",
    GROVE_API: f"{GROVE_API}/v1alpha1",
}
"""The apiVersion of a group whose raw object, as listed, has none."""


def kind_of(preemptor: PodInfo | Regarding) -> str:
    """The preemptor's kind in events and metrics: pod or podgroup."""
    if not isinstance(preemptor, Regarding):
        return "pod"
    return preemptor.kind.lower() if preemptor.kind in NAMED_OTHERWISE.values() else "podgroup"


def preempted_by(preemptor: PodInfo | Regarding, where: str) -> str:
    """The note of the victim's event."""
    return f"Preempted by {kind_of(preemptor)} {preemptor.uid} on node {where}"


def preempting(preemptor: PodInfo | Regarding) -> str:
    """The message of the victim's condition."""
    return f"{preemptor.scheduler_name}: preempting to accommodate a higher priority {kind_of(preemptor)}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Reason (Unschedulable, WaitingForQuota or SchedulerError) and full message of a condition that is False."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class EvictionEvent:
    """The event of a pod that is evicted without preemption."""

    reason: str
    action: str
    note: str


class Recorder(Protocol):
    """Writes Kubernetes events."""

    def record(
        self,
        regarding: PodInfo | Regarding,
        kind: Literal["Normal", "Warning"],
        reason: str,
        action: str,
        note: str,
        policy: str = "",
        reporter: str = "",
    ) -> None:
        """Queues an event of events.k8s.io/v1. Never blocks and never fails. It has no `related` object, like
        kube-scheduler's: readers of the event may not be allowed to read that object.

        `reporter`: the scheduler name that reports it; empty: that of the object. `policy`: name and generation of the
        policy that decided, for an annotation; empty if no policy did.
        """

    def forget(self, uid: str) -> None:
        """Ends the pod's series of events, because the pod is deleted or has a node."""


class StatusWriter(Protocol):
    """Writes the status of pending pods."""

    def seen(self, uid: str, raw: Mapping[str, Any]) -> None:
        """Remembers the pod's current status, which is not written again."""

    def forget(self, uid: str) -> None:
        """Writes nothing more for the pod, because it is deleted or has a node."""

    def write(self, pod: PodInfo, verdict: Verdict | None, nominated_node: str | None) -> None:
        """Sets the condition PodScheduled=False and `nominatedNodeName` ("" clears it); None leaves the field
        unchanged.
        """


class GroupWriter(Protocol):
    """Writes the status of pod groups. A condition that was True once is never set to False again."""

    def scheduled(self, group: PodGroup) -> None:
        """Sets the condition PodGroupInitiallyScheduled to True."""

    def not_scheduled(self, group: PodGroup, verdict: Verdict) -> None:
        """Sets the condition PodGroupInitiallyScheduled to False, with the verdict's reason and message."""

    def below_minimum(self, group: PodGroup, verdict: Verdict) -> None:
        """Fewer than the minimum of a gang have a node, or will have one soon. If the group was scheduled once, another
        condition says so: it is False until `scheduled`.
        """

    def disrupted(self, group: PodGroup, message: str) -> None:
        """Sets the condition DisruptionTarget to True, reason PreemptionByScheduler: all pods of the group are
        preempted.
        """


class NoGroups:
    """A GroupWriter that writes nothing."""

    def scheduled(self, group: PodGroup) -> None: ...

    def not_scheduled(self, group: PodGroup, verdict: Verdict) -> None: ...

    def below_minimum(self, group: PodGroup, verdict: Verdict) -> None: ...

    def disrupted(self, group: PodGroup, message: str) -> None: ...


class Evictor(Protocol):
    """Evicts victims of preemption."""

    def evict(
        self,
        victim: PodInfo,
        preemptor: PodInfo | Regarding,
        node_name: str,
        done: Callable[[bool], None],
        *,
        within_budgets: bool = False,
        event: EvictionEvent | None = None,
        wanted: Callable[[], bool] | None = None,
    ) -> None:
        """Sets the victim's condition and deletes it, if it still has this uid. `event`: None for a preemption.

        Then calls `done`, with True if the deletion has begun or the pod was gone already, with False if it failed.
        `within_budgets`: it fails if it would violate a PodDisruptionBudget, and once it is no longer `wanted`.
        """


class PodReader(Protocol):
    """Reads pods back whose Binding failed or was not confirmed."""

    async def read(self, pod: PodInfo, parse: Callable[[Mapping[str, Any] | None], T]) -> T:
        """Returns what `parse` makes of the object that has the pod's name now, or of None without one.

        Any error is retried, also one that `parse` raises: without an answer the pod would be neither in the queue nor
        on its node.
        """


class ExtenderError(Exception):
    """A call of an extender failed. The message is kube-scheduler's. At most MAX_EXTENDER_TEXT bytes of it are kept: an
    extender may have written it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(bounded(message))


MAX_EXTENDER_TEXT: Final = 8 << 10
"""The most bytes of a text of an extender. An object of the API server, in whose status it is written, has 1.5 MB at
most.
"""


def bounded(text: str) -> str:
    """The beginning of a text that somebody else has written: at most MAX_EXTENDER_TEXT bytes of UTF-8."""
    if len(text) * 4 <= MAX_EXTENDER_TEXT:
        return text
    return text[:MAX_EXTENDER_TEXT].encode("utf-8", "replace")[:MAX_EXTENDER_TEXT].decode("utf-8", "ignore")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterAnswer:
    """The nodes that an extender keeps, all of them among those that it was asked about, and its messages about others,
    by node name.
    """

    kept: Sequence[str]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]
    """Nodes on which preemption is no help. They take precedence over `failed`."""


@dataclass(frozen=True, slots=True)
class NodeVictims:
    """The uids of the pods to evict from one node, the most important first, and how many of them violate a
    PodDisruptionBudget.
    """

    uids: Sequence[str]
    violations: int


class Extender(Protocol):
    """An HTTP server that filters, scores, chooses victims or binds. Each call raises ExtenderError, and ends within
    its timeout.

    `nodes`: names. The adapter takes everything else about nodes and pods from `raw`.
    """

    defined: DefinedExtender

    async def filter(self, pod: PodInfo, nodes: Sequence[str], raw: RawObjects) -> FilterAnswer:
        """Asks which of the nodes to keep."""

    async def prioritize(self, pod: PodInfo, nodes: Sequence[str], raw: RawObjects) -> Mapping[str, int]:
        """Asks for scores of nodes. Returns what to add to the total scores, by node: weighted, and on the scale of
        plugins' scores. It may contain unknown nodes.
        """

    async def preempt(
        self, pod: PodInfo, victims: Mapping[str, NodeVictims], raw: RawObjects
    ) -> Mapping[str, NodeVictims]:
        """Asks which nodes and victims remain. The answer is not checked here."""

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Lets the extender bind the pod."""

    async def close(self) -> None:
        """Closes its connections."""


class Intake(Protocol):
    """The source of changes of the cluster for the engine."""

    def hold_back(self) -> None:
        """Holds back what arrives, until `go_on`. Meanwhile no more is read than fits into the buffers of
        connections.
        """

    def go_on(self) -> None:
        """Hands over what was held back, in its order."""


class FreeIntake:
    """An intake that holds nothing back."""

    def hold_back(self) -> None: ...

    def go_on(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """All ports. The engine hands them to each of its parts."""

    cluster: Cluster
    pods: PodReader
    recorder: Recorder
    status: StatusWriter
    evictor: Evictor
    groups: GroupWriter = field(default_factory=NoGroups)
    metrics: Metrics
    intake: Intake = field(default_factory=FreeIntake)
    children: Children = field(default_factory=InProcess)
    """Where long decisions are made."""
    solve: Solver | None = None
    """Solves what gangs are planned jointly with. None: nothing does."""
    extenders: Mapping[str, Extender] = field(default_factory=dict)
    """By name."""
