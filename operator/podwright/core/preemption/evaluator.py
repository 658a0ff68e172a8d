"""The dry run: on each candidate node, take off all pods of lower priority, then reprieve as many as possible.

Source of the rules: the Kubernetes documentation, "Pod Priority and Preemption", and kube-scheduler's behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from podwright.core.framework.interface import CycleState
from podwright.core.framework.status import Status, unresolvable
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.budgets import split_by_budget
from podwright.core.state.nodeinfo import NodeInfo

NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_PRIORITY_SHIFT: Final = 2**31


class FilterRunner(Protocol):
    """The part of the framework's runtime that a dry run needs."""

    def filter_node_with_nominated(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None: ...

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None: ...

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None: ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which preemption works. `victims` from most to least important; `violations` of budgets."""

    node_name: str
    victims: tuple[PodInfo, ...]
    violations: int


@dataclass(slots=True)
class DryRun:
    """What the dry run found: candidates by node, and why the other nodes are none."""

    candidates: dict[str, Candidate] = field(default_factory=dict)
    rejected: dict[str, Status] = field(default_factory=dict)


def select_victims(
    runner: FilterRunner,
    state: CycleState,
    pod: PodInfo,
    node: NodeInfo,
    budgets: Iterable[Mapping[str, Any]],
    now: float,
) -> Candidate | Status:
    """The pods that must leave `node` for `pod`, or why no eviction helps. Changes neither `state` nor `node`."""
    potential = [other for other in node.pods.values() if other.priority < pod.priority]
    if not potential:
        return unresolvable(NO_VICTIMS)
    state, node = state.clone(), node.clone()
    for other in potential:
        node.remove(other)
        runner.remove_pod(state, pod, other, node)
    rejection = runner.filter_node_with_nominated(state, pod, node)
    if rejection is not None:
        return rejection
    potential.sort(key=importance(now))
    violating, others = split_by_budget(potential, budgets)
    victims: list[PodInfo] = []
    violations = 0
    for index, other in enumerate((*violating, *others)):
        node.add(other)
        runner.add_pod(state, pod, other, node)
        if runner.filter_node_with_nominated(state, pod, node) is not None:
            node.remove(other)
            runner.remove_pod(state, pod, other, node)
            victims.append(other)
            violations += index < len(violating)
    victims.sort(key=importance(now))
    return Candidate(node.name, tuple(victims), violations)


def importance(now: float) -> Callable[[PodInfo], tuple[int, float]]:
    """A sort key: most important first, that is greatest priority, then longest running. `now` in seconds."""

    def key(pod: PodInfo) -> tuple[int, float]:
        return -pod.priority, now if pod.start_time is None else pod.start_time

    return key


def acceptable(candidates: Sequence[Candidate], now: float) -> list[Candidate]:
    """The candidates that no criterion prefers another to.

    In this order: fewest budget violations; the least important most important victim; the least sum of priorities,
    each shifted to be positive; fewest victims; the latest start among the earliest of the most important victims.
    """
    left = list(candidates)
    for criterion in (_violations, _highest_priority, _priority_sum, _count, _earliest_start(now)):
        if len(left) < 2:
            break
        best = min(criterion(candidate) for candidate in left)
        left = [candidate for candidate in left if criterion(candidate) == best]
    return left


def _violations(candidate: Candidate) -> float:
    return candidate.violations


def _highest_priority(candidate: Candidate) -> float:
    return candidate.victims[0].priority


def _priority_sum(candidate: Candidate) -> float:
    return sum(victim.priority + _PRIORITY_SHIFT for victim in candidate.victims)


def _count(candidate: Candidate) -> float:
    return len(candidate.victims)


def _earliest_start(now: float) -> Callable[[Candidate], float]:
    def criterion(candidate: Candidate) -> float:
        highest = max(victim.priority for victim in candidate.victims)
        starts = [
            now if victim.start_time is None else victim.start_time
            for victim in candidate.victims
            if victim.priority == highest
        ]
        return -min(starts)

    return criterion
