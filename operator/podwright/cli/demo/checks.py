"""The checks after each step. They judge placements by simple rules, independent of the scheduler's own code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from podwright.cli.demo.state import CheckResult, DemoPod, DemoState, fits, usage
from podwright.core.state.nodeinfo import NodeInfo

ROUNDING: Final = 0.011
"""Plugins score in integers of 0 to 100, so nodes whose usage differs by less than this can have equal scores."""


def decided_by(pods: Sequence[DemoPod], policy: str, generation: int) -> CheckResult:
    """Each pod's decision annotation names this policy and the node that the pod runs on."""
    wrong = [
        pod.name
        for pod in pods
        if (pod.decision.get("policy"), pod.decision.get("generation")) != (policy, generation)
        or pod.decision.get("node") != pod.node
    ]
    text = f"{policy}, generation {generation}" if generation else policy
    found = f"not {', '.join(wrong)}" if wrong else f"all {len(pods)} pods"
    return CheckResult(f"{_group(pods)}: decided by {text}", found, bool(pods) and not wrong)


def packed(state: DemoState, pods: Sequence[DemoPod], request: Mapping[str, int]) -> CheckResult:
    """MostAllocated fills one node before it uses the next: at most one of the pods' nodes has room for another pod."""
    infos = _nodes_of(state, pods)
    roomy = [info.name for info in infos if fits(info, request)]
    found = f"{len(pods)} pods on {_count(infos)}"
    if len(roomy) > 1:
        found += f", but {', '.join(roomy)} still have room"
    return CheckResult(f"{_group(pods)}: packed, one node filled before the next", found, len(roomy) <= 1)


def emptiest(state: DemoState, pods: Sequence[DemoPod], request: Mapping[str, int], slack: float) -> CheckResult:
    """LeastAllocated balances: no pod is on a node that is fuller than another node would be with that pod added."""
    infos = _nodes_of(state, pods)
    fullest = max(infos, key=lambda info: usage(info, {}))
    best = min((usage(info, request) for info in state.usable() if fits(info, request)), default=1.0)
    holds = usage(fullest, {}) <= best + ROUNDING + slack
    found = f"{len(pods)} pods on {_count(infos)}"
    if not holds:
        found += f", but {fullest.name} is {usage(fullest, {}):.0%} full, and {best:.0%} was possible"
    return CheckResult(f"{_group(pods)}: spread, each to the emptiest node", found, holds)


def selected(state: DemoState, pods: Sequence[DemoPod], selector: Mapping[str, str]) -> CheckResult:
    """All pods are on nodes with these labels."""
    wrong = [
        pod.name
        for pod in pods
        for info in _nodes_of(state, [pod])
        if any(info.present.labels.get(key) != value for key, value in selector.items())
    ]
    text = ", ".join(f"{key.rpartition('/')[2]}={value}" for key, value in selector.items())
    found = f"not {', '.join(wrong)}" if wrong else ", ".join(pod.node for pod in pods)
    return CheckResult(f"{_group(pods)}: on nodes with {text}", found, not wrong)


def has_device(pod: DemoPod, claim: Mapping[str, Any], node: str) -> CheckResult:
    """The claim has the GPU of this node and is reserved for the pod, which is there and whose decision names the
    GPU.
    """
    status = claim.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    devices = ["/".join((each["driver"], each["pool"], each["device"])) for each in results]
    holds = (
        [each["pool"] for each in results] == [node]
        and pod.node == node
        and pod.decision.get("devices") == devices
        and [entry["uid"] for entry in status.get("reservedFor") or ()] == [pod.uid]
    )
    return CheckResult(
        f"{pod.name}: on the node that has the GPU, which is its own", ", ".join(devices) or "no device", holds
    )


def unplaced(pod: DemoPod, nodes: int) -> CheckResult:
    """The pod is on no node, and its event gives the reason for every node."""
    holds = (
        not pod.node
        and pod.failure.startswith(f"0/{nodes} nodes are available: ")
        and "Insufficient cpu" in pod.failure
    )
    found = f"on {pod.node}" if pod.node else pod.failure.partition(". ")[0] or "no FailedScheduling event"
    return CheckResult(f"{pod.name}: stays pending, and its event says why", found, holds)


def not_overcommitted(state: DemoState) -> CheckResult:
    """No node with pods of the demo is overcommitted."""
    own = {pod.node for pod in state.pods.values() if pod.node}
    over = [info.name for info in state.nodes() if info.name in own and not _within(info)]
    return CheckResult("no node is overcommitted", ", ".join(over) or f"{len(own)} nodes checked", not over)


def _within(info: NodeInfo) -> bool:
    amounts = all(amount <= info.allocatable(name) for name, amount in info.requested.items() if amount)
    return amounts and len(info.pods) <= info.allocatable("pods")


def _nodes_of(state: DemoState, pods: Sequence[DemoPod]) -> list[NodeInfo]:
    return [state.cache.nodes[name] for name in sorted({pod.node for pod in pods})]


def _count(infos: Sequence[NodeInfo]) -> str:
    names = ", ".join(info.name for info in infos)
    return f"{len(infos)} node{'s'[: len(infos) != 1]}" + (f" ({names})" if len(infos) <= 3 else "")


def _group(pods: Sequence[DemoPod]) -> str:
    return pods[0].group if pods else "nothing"
