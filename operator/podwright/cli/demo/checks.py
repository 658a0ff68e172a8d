"""What must be true after each act. Placements are judged by simple rules over the nodes, not by the scheduler's own code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from podwright.cli.demo.scene import DemoPod, Finding, Scene, fits, usage
from podwright.core.state.nodeinfo import NodeInfo

ROUNDING: Final = 0.011
"""Scores are whole hundredths, so nodes that are so much alike are equal."""


def decided_by(pods: Sequence[DemoPod], policy: str, generation: int) -> Finding:
    """Each pod's annotation names the policy, and the node that the pod is really on."""
    wrong = [
        pod.name
        for pod in pods
        if (pod.decision.get("policy"), pod.decision.get("generation")) != (policy, generation)
        or pod.decision.get("node") != pod.node
    ]
    text = f"{policy}, generation {generation}" if generation else policy
    found = f"not so for {', '.join(wrong)}" if wrong else f"all {len(pods)} say so"
    return Finding(f"{_group(pods)}: decided by {text}", found, bool(pods) and not wrong)


def packed(scene: Scene, pods: Sequence[DemoPod], request: Mapping[str, int]) -> Finding:
    """MostAllocated fills one node before it starts the next: at most one of the pods' nodes has room for another."""
    infos = _nodes_of(scene, pods)
    roomy = [info.name for info in infos if fits(info, request)]
    found = f"{len(pods)} pods on {_count(infos)}"
    if len(roomy) > 1:
        found += f", and {', '.join(roomy)} still have room"
    return Finding(f"{_group(pods)}: packed, one node filled before the next", found, len(roomy) <= 1)


def emptiest(scene: Scene, pods: Sequence[DemoPod], request: Mapping[str, int], slack: float) -> Finding:
    """LeastAllocated levels: no pod is on a node that is fuller than another node would be with that pod on it."""
    infos = _nodes_of(scene, pods)
    fullest = max(infos, key=lambda info: usage(info, {}))
    best = min((usage(info, request) for info in scene.usable() if fits(info, request)), default=1.0)
    holds = usage(fullest, {}) <= best + ROUNDING + slack
    found = f"{len(pods)} pods on {_count(infos)}"
    if not holds:
        found += f", but {fullest.name} is {usage(fullest, {}):.0%} full where {best:.0%} could be had"
    return Finding(f"{_group(pods)}: spread, always to the emptiest node", found, holds)


def selected(scene: Scene, pods: Sequence[DemoPod], selector: Mapping[str, str]) -> Finding:
    """The pods are on nodes with these labels."""
    wrong = [
        pod.name
        for pod in pods
        for info in _nodes_of(scene, [pod])
        if any(info.present.labels.get(key) != value for key, value in selector.items())
    ]
    text = ", ".join(f"{key.rpartition('/')[2]}={value}" for key, value in selector.items())
    found = f"not so for {', '.join(wrong)}" if wrong else "on " + ", ".join(pod.node for pod in pods)
    return Finding(f"{_group(pods)}: on nodes with {text}", found, not wrong)


def unplaced(pod: DemoPod, nodes: int) -> Finding:
    """The pod is on no node, and its event says why, node by node."""
    holds = not pod.node and pod.why.startswith(f"0/{nodes} nodes are available: ") and "Insufficient cpu" in pod.why
    found = f"on {pod.node}" if pod.node else pod.why.partition(". ")[0] or "no FailedScheduling event"
    return Finding(f"{pod.name}: stays pending, and its event says why", found, holds)


def not_overcommitted(scene: Scene) -> Finding:
    """No node of ours has more asked of it than it has."""
    own = {pod.node for pod in scene.pods.values() if pod.node}
    over = [info.name for info in scene.nodes() if info.name in own and not _within(info)]
    return Finding(
        "no node is over-committed", ", ".join(over) or f"{len(own)} nodes with our pods looked at", not over
    )


def _within(info: NodeInfo) -> bool:
    amounts = all(amount <= info.allocatable(name) for name, amount in info.requested.items() if amount)
    return amounts and len(info.pods) <= info.allocatable("pods")


def _nodes_of(scene: Scene, pods: Sequence[DemoPod]) -> list[NodeInfo]:
    return [scene.cache.nodes[name] for name in sorted({pod.node for pod in pods})]


def _count(infos: Sequence[NodeInfo]) -> str:
    names = ", ".join(info.name for info in infos)
    return f"{len(infos)} node{'s'[: len(infos) != 1]}" + (f" ({names})" if len(infos) <= 3 else "")


def _group(pods: Sequence[DemoPod]) -> str:
    return pods[0].group if pods else "nothing"
