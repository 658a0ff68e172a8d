"""Hypothesis: what if … these nodes came or went, these pods, this policy. Plain data; `changes` applies it to a trial.

A drained or removed node's pods are recreated, as their controllers would do, and wait for another node. Pods of
DaemonSets and static pods are not recreated: they stay on a drained node, and disappear with a removed one. A node that
is added like another one gets copies of its DaemonSets' pods. Where `kubectl drain` would not evict a pod, the result
has a blocker, and the simulation goes on as if the pod were evicted. Pods of queues in state Drain are evicted, too,
unless a budget keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final

from podwright.core.framework.args import ArgsError, decode, encode
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import Raw

MAX_NODES: Final = 20_000
"""The most nodes that one hypothesis may add."""
MAX_PODS: Final = 200_000
"""The most pods that one hypothesis may add."""
_SCALABLE: Final = {
    "deploy": "Deployment",
    "deployment": "Deployment",
    "deployments": "Deployment",
    "rs": "ReplicaSet",
    "replicaset": "ReplicaSet",
    "replicasets": "ReplicaSet",
    "sts": "StatefulSet",
    "statefulset": "StatefulSet",
    "statefulsets": "StatefulSet",
    "rc": "ReplicationController",
    "job": "Job",
    "jobs": "Job",
}


Stopped = Callable[[], bool]

TIME_IS_UP: Final = "the time for this request is up"


class HypothesisError(ValueError):
    """A hypothesis cannot be tried. The message names the field, the flag or the object."""


def never() -> bool:
    """Never stops. For simulations without a deadline."""
    return False


@dataclass(frozen=True, slots=True)
class AddedNodes:
    """`count` nodes like the named one, or like `template`, a v1.Node."""

    count: int = 1
    like: str = ""
    template: Raw | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """A workload that gets another number of pods. `kind`: as `kubectl scale` takes it; the object has the canonical
    form, such as Deployment. Raises HypothesisError.
    """

    kind: str
    name: str
    replicas: int
    namespace: str = "default"

    def __post_init__(self) -> None:
        kind = _SCALABLE.get(self.kind.lower())
        if kind is None or not self.name or not self.namespace:
            raise HypothesisError(
                f"scale: {self.kind}/{self.namespace}/{self.name} names no workload that can be scaled"
            )
        if not 0 <= self.replicas <= MAX_PODS:
            raise HypothesisError(f"scale: {self.replicas} is not a number of pods from 0 to {MAX_PODS:,}")
        object.__setattr__(self, "kind", kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """See the module. Changes apply in the order of the fields. `name` is for the reader of the result."""

    name: str = ""
    policies: Sequence[Raw] = ()
    """SchedulerPolicies, each in place of one of the same name."""
    remove_policies: Sequence[str] = ()
    """Names of SchedulerPolicies."""
    objects: Sequence[Raw] = ()
    """Objects of other kinds that scheduling depends on, such as PersistentVolumeClaims and SchedulingQueues."""
    set_fields: Sequence[str] = ()
    """Other values of fields of queues: `queue/ml/nvidia.com/gpu/limit=64` or `queue/ml/state=Hold`."""
    add_nodes: Sequence[AddedNodes] = ()
    remove_nodes: Sequence[str] = ()
    drain: Sequence[str] = ()
    scale: Sequence[Scale] = ()
    pods: Sequence[Raw] = ()
    """Further pending pods: v1.Pods, or workloads with a template."""
    retry_pending: bool = True
    """True if pods that are pending already are tried, too."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """Why `kubectl drain`, or the drain of a queue, would not evict a pod."""

    pod: PodInfo
    node_name: str
    why: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that the hypothesis makes wait. `cause`: added, scaled, drained or removed; `came_from`: its node
    before.
    """

    pod: PodInfo
    cause: str
    came_from: str = ""


@dataclass(slots=True)
class AppliedHypothesis:
    """The changes of a hypothesis. `gone`: pods that left without being recreated. `stopped`: returns True to stop."""

    waiting: list[Waiting] = field(default_factory=list)
    blockers: list[Blocker] = field(default_factory=list)
    gone: list[PodInfo] = field(default_factory=list)
    added_nodes: list[str] = field(default_factory=list)
    removed_nodes: list[str] = field(default_factory=list)
    drained_nodes: list[str] = field(default_factory=list)
    stopped: Stopped = never

    def go_on(self) -> None:
        """Raises HypothesisError once the time is up. Call it before each change."""
        if self.stopped():
            raise HypothesisError(TIME_IS_UP)


def hypothesis_of(raw: object, where: str) -> Hypothesis:
    """The hypothesis that the JSON describes. An entry of `scale` may be a text. Raises HypothesisError, which names
    the field.
    """
    if isinstance(raw, Mapping) and isinstance(raw.get("scale"), list):
        raw = {**raw, "scale": [_as_object(item, f"{where}.scale[{i}]") for i, item in enumerate(raw["scale"])]}
    try:
        return decode(Hypothesis, raw, where)
    except ArgsError as error:
        raise HypothesisError(str(error)) from error


def _as_object(scale: object, where: str) -> object:
    try:
        return encode(parse_scale(scale)) if isinstance(scale, str) else scale
    except HypothesisError as error:
        raise HypothesisError(f"{where}: {error}") from error


def parse_scale(text: str, namespace: str = "default") -> Scale:
    """`deploy/x=50`, or `deploy/namespace/x=50`. Raises HypothesisError."""
    target, _, count = text.rpartition("=")
    kind, *names = target.split("/")
    if kind.lower() not in _SCALABLE or len(names) not in (1, 2) or not all(names):
        raise HypothesisError(f"scale: {text!r} is not of the form deploy/name=50 or deploy/namespace/name=50")
    if not count.isdecimal() or len(count) > 9:
        raise HypothesisError(f"scale: {text!r}: {count!r} is not a number of pods from 0 to {MAX_PODS:,}")
    *own, name = names
    return Scale(kind, name, int(count), own[0] if own else namespace)
