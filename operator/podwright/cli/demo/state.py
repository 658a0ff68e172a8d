"""The state of the demo: the cluster's nodes and their pods, the demo's own pods and their decisions, and the check
results.

`set_cluster` refreshes everything; `set_pods` refreshes only the given pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import orjson

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.resources import CPU
from podwright.core.objects.taints import PREFER_NO_SCHEDULE
from podwright.core.objects.volumes import ZONE
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.engine.records.decision_annotation import ANNOTATION

_NO_DECISION: Final[Mapping[str, Any]] = {}


@dataclass(slots=True)
class DemoPod:
    """A pod of the demo. `uid` is empty until the pod exists, `node` until it is bound. `failure` is the note of
    FailedScheduling.
    """

    name: str
    group: str
    uid: str = ""
    node: str = ""
    decision: Mapping[str, Any] = field(default_factory=lambda: _NO_DECISION)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """An expectation, what was found, and whether that meets the expectation."""

    expected: str
    found: str
    holds: bool


class DemoState:
    """The state that steps change and displays render; see the module."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.pods: dict[str, DemoPod] = {}
        self.results: list[CheckResult] = []
        self.edit_title = ""
        self.edit: list[str] = []
        """Lines of the edited policy, as a diff."""
        self._namespace = ""

    def set_cluster(
        self, nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]], namespace: str
    ) -> None:
        """Replaces all nodes and pods. `namespace` is the one of the demo's own pods."""
        self.cache = Cache()
        self._namespace = namespace
        for raw in nodes:
            self.cache.set_node(parse_node(raw))
        self.set_pods(pods)

    def set_pods(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Updates these pods. For the demo's own pods, this also reads their decisions."""
        for raw in pods:
            pod = parse_pod(raw)
            self.cache.set_pod(pod)
            own = self.pods.get(pod.name) if pod.namespace == self._namespace else None
            if own is None:
                continue
            own.uid, own.node = pod.uid, pod.node_name
            annotation = (raw["metadata"].get("annotations") or {}).get(ANNOTATION)
            if annotation:
                own.decision = orjson.loads(annotation)

    def add_pod(self, name: str, group: str) -> DemoPod:
        """Adds a pod of the demo, before it is created."""
        self.pods[name] = pod = DemoPod(name, group)
        return pod

    def group(self, group: str) -> list[DemoPod]:
        """The demo's pods of a group, in order of creation."""
        return [pod for pod in self.pods.values() if pod.group == group]

    def shares(self, info: NodeInfo) -> list[tuple[str, int]]:
        """The milli-CPU requested on a node by each group of the demo's pods; all other pods come first, as group
        ''.
        """
        shares: dict[str, int] = {"": 0} | {pod.group: 0 for pod in self.pods.values()}
        for pod in info.pods.values():
            own = self.pods.get(pod.name) if pod.namespace == self._namespace else None
            shares[own.group if own else ""] += pod.requests.amounts.get(CPU, 0)
        return [(group, cpu) for group, cpu in shares.items() if cpu]

    def nodes(self) -> list[NodeInfo]:
        """All nodes, sorted by name."""
        return sorted((info for info in self.cache.nodes.values() if info.node is not None), key=lambda info: info.name)

    def usable(self) -> list[NodeInfo]:
        """The nodes that accept pods without tolerations."""
        return [info for info in self.nodes() if takes_pods(info)]

    def zones(self) -> dict[str, list[NodeInfo]]:
        """The usable nodes by zone; nodes without a zone are under ''."""
        zones: dict[str, list[NodeInfo]] = {}
        for info in self.usable():
            zones.setdefault(info.present.labels.get(ZONE, ""), []).append(info)
        return dict(sorted(zones.items()))


def takes_pods(info: NodeInfo) -> bool:
    """True if a node is neither cordoned, nor terminating, nor has taints that repel pods."""
    node = info.present
    hard = any(taint.effect != PREFER_NO_SCHEDULE for taint in node.taints)
    return not node.unschedulable and not hard and not node.terminating


def free(info: NodeInfo, resource: str) -> int:
    """The unrequested amount of a resource, in milli-CPU or bytes."""
    return info.allocatable(resource) - info.requested.get(resource, 0)


def fits(info: NodeInfo, request: Mapping[str, int]) -> bool:
    """True if the node has room for one more pod with this request."""
    room = all(free(info, resource) >= amount for resource, amount in request.items())
    return room and len(info.pods) < info.allocatable("pods")


def usage(info: NodeInfo, more: Mapping[str, int], resources: Sequence[str] = ("cpu", "memory")) -> float:
    """The mean requested fraction of the resources, with `more` added. LeastAllocated and MostAllocated score by it."""
    parts = [(info.requested.get(r, 0) + more.get(r, 0)) / max(1, info.allocatable(r)) for r in resources]
    return sum(parts) / len(parts)


def reason(pod: DemoPod) -> str:
    """A short reason for the pod's placement, from its decision, or for the lack of one."""
    if not pod.node:
        return pod.failure or "waiting"
    decision = pod.decision
    if not decision:
        return "no decision recorded"
    parts = [f"score {decision['score']}"] if "score" in decision else []
    runner_up = decision.get("runnerUp")
    if runner_up is None:
        parts.append("the only feasible node")
    elif runner_up["score"] == decision["score"]:
        parts.append(f"tied with {runner_up['node']}")
    else:
        parts.append(f"runner-up {runner_up['node']} ({runner_up['score']})")
    feasible = [f"{decision['feasible']}/{decision['nodes']} feasible"]
    rejected = [f"{plugin} rejected {count}" for plugin, count in decision.get("rejected", {}).items()]
    return "; ".join([", ".join(parts), ", ".join(feasible + rejected)])


def policy_of(pod: DemoPod) -> str:
    """The policy that placed the pod, and its generation."""
    if not pod.decision:
        return ""
    generation = pod.decision.get("generation")
    return f"{pod.decision['policy']}" + (f", gen. {generation}" if generation else "")
