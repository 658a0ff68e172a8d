"""All that the demo knows of the cluster: nodes with what is on them, its own pods, their decisions, what was said and found.

Nodes and foreign pods are as they were when `set_cluster` was called last; own pods are as new as the last `take`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from podwright.cli.demo.objects import ZONE
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.resources import CPU
from podwright.core.objects.taints import PREFER_NO_SCHEDULE
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.engine.binding.decision_annotation import ANNOTATION

_NO_DECISION: Final[Mapping[str, Any]] = {}


@dataclass(slots=True)
class DemoPod:
    """One of our pods. `uid` is empty until it is there, `node` until it is bound; `why` is FailedScheduling's note."""

    name: str
    group: str
    uid: str = ""
    node: str = ""
    decision: Mapping[str, Any] = field(default_factory=lambda: _NO_DECISION)
    why: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One expectation, and what was found."""

    expected: str
    found: str
    holds: bool


class Scene:
    """See the module."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.pods: dict[str, DemoPod] = {}
        self.findings: list[Finding] = []
        self.act = ""
        self.edit_title = ""
        self.edit: list[str] = []
        """Lines of the edited policy, as a diff."""
        self._namespace = ""

    def set_cluster(
        self, nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]], namespace: str
    ) -> None:
        """Everything anew. `namespace` is the one of our own pods."""
        self.cache = Cache()
        self._namespace = namespace
        for raw in nodes:
            self.cache.set_node(parse_node(raw))
        self.take(pods)

    def take(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Pods as they are now; those that are ours are looked at closely."""
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

    def group(self, group: str) -> list[DemoPod]:
        """Our pods of a group, in the order in which they were created."""
        return [pod for pod in self.pods.values() if pod.group == group]

    def shares(self, info: NodeInfo) -> list[tuple[str, int]]:
        """Milli-CPU asked for on a node, by group of our pods; everybody else's pods come first, as group ''."""
        shares: dict[str, int] = {"": 0} | {pod.group: 0 for pod in self.pods.values()}
        for pod in info.pods.values():
            own = self.pods.get(pod.name) if pod.namespace == self._namespace else None
            shares[own.group if own else ""] += pod.requests.amounts.get(CPU, 0)
        return [(group, cpu) for group, cpu in shares.items() if cpu]

    def nodes(self) -> list[NodeInfo]:
        """All nodes, by name."""
        return sorted((info for info in self.cache.nodes.values() if info.node is not None), key=lambda info: info.name)

    def usable(self) -> list[NodeInfo]:
        """The nodes that take pods without tolerations."""
        return [info for info in self.nodes() if takes_pods(info)]

    def zones(self) -> dict[str, list[NodeInfo]]:
        """Usable nodes by zone; those without one under an empty name."""
        zones: dict[str, list[NodeInfo]] = {}
        for info in self.usable():
            zones.setdefault(info.present.labels.get(ZONE, ""), []).append(info)
        return dict(sorted(zones.items()))


def takes_pods(info: NodeInfo) -> bool:
    """Neither cordoned nor tainted against pods."""
    node = info.present
    hard = any(taint.effect != PREFER_NO_SCHEDULE for taint in node.taints)
    return not node.unschedulable and not hard and not node.terminating


def free(info: NodeInfo, resource: str) -> int:
    """What is left of a resource: milli-CPU, bytes."""
    return info.allocatable(resource) - info.requested.get(resource, 0)


def fits(info: NodeInfo, request: Mapping[str, int]) -> bool:
    """Whether one more pod with this request has room."""
    room = all(free(info, resource) >= amount for resource, amount in request.items())
    return room and len(info.pods) < info.allocatable("pods")


def usage(info: NodeInfo, more: Mapping[str, int], resources: Sequence[str] = ("cpu", "memory")) -> float:
    """The mean of the requested fractions, with `more` added: what LeastAllocated and MostAllocated look at."""
    parts = [(info.requested.get(r, 0) + more.get(r, 0)) / max(1, info.allocatable(r)) for r in resources]
    return sum(parts) / len(parts)


def why(pod: DemoPod) -> str:
    """Why the pod is where it is, in a few words, from its decision; or why it is nowhere."""
    if not pod.node:
        return pod.why or "waiting"
    decision = pod.decision
    if not decision:
        return "no decision was recorded"
    parts = [f"score {decision['score']}"]
    runner_up = decision.get("runnerUp")
    if runner_up is None:
        parts.append("no other was feasible")
    elif runner_up["score"] == decision["score"]:
        parts.append(f"tied with {runner_up['node']}")
    else:
        parts.append(f"next {runner_up['node']} ({runner_up['score']})")
    feasible = [f"{decision['feasible']}/{decision['nodes']} feasible"]
    rejected = [f"{plugin} rejected {count}" for plugin, count in decision.get("rejected", {}).items()]
    return "; ".join([", ".join(parts), ", ".join(feasible + rejected)])


def whose(pod: DemoPod) -> str:
    """The policy that decided, and its generation."""
    if not pod.decision:
        return ""
    generation = pod.decision.get("generation")
    return f"{pod.decision['policy']}" + (f", gen. {generation}" if generation else "")
