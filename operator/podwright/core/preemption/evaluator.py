"""The dry run: on each candidate node, take off all pods of lower priority, then reprieve as many as possible.

Source of the rules: the Kubernetes documentation, "Pod Priority and Preemption", and kube-scheduler's behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from podwright.core.framework.interface import CycleState
from podwright.core.framework.status import Status, unresolvable
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.units import Unit, importance, split_by_budget, units_below
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo

NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_PRIORITY_SHIFT: Final = 2**31


class FilterRunner(Protocol):
    """The part of the framework's runtime that a dry run needs."""

    def filter_node_with_nominated(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None: ...

    def nominated_before(self, pod: PodInfo, node_name: str) -> Sequence[PodInfo]: ...

    def verdict_key(self, state: CycleState, pod: PodInfo) -> Hashable | None: ...

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
    cache: Cache,
    budgets: Iterable[Mapping[str, Any]],
    now: float,
) -> Candidate | Status:
    """The pods that must leave for `pod` to fit on `node`, or why no eviction helps. Changes none of what it is given.

    With a pod of a group that goes as a whole, its other members go on whatever nodes they are.
    """
    potential = units_below(pod.priority, node.pods.values(), cache)
    if not potential:
        return unresolvable(NO_VICTIMS)
    stage = _Stage(runner, state.clone(), pod, node.clone(), cache)
    for unit in potential:
        stage.take_off(unit)
    rejection = stage.rejection()
    if rejection is not None:
        return rejection
    potential.sort(key=importance(now))
    violating, others = split_by_budget(potential, budgets)
    victims = []
    violations = 0
    for unit, count in (*violating, *((unit, 0) for unit in others)):
        stage.put_back(unit)
        if stage.rejection() is not None:
            stage.take_off(unit)
            victims.append(unit)
            violations += count
    victims.sort(key=importance(now))
    return Candidate(node.name, tuple(victim for unit in victims for victim in unit.pods), violations)


@dataclass(slots=True)
class _Stage:
    """A node, and a pod's state, that may be changed. Other nodes are not: only this one is filtered."""

    runner: FilterRunner
    state: CycleState
    pod: PodInfo
    node: NodeInfo
    cache: Cache

    def take_off(self, unit: Unit) -> None:
        for other in unit.pods:
            home = self.node if unit.whole is None else self._home(other)
            if home is self.node:
                home.remove(other)
            self.runner.remove_pod(self.state, self.pod, other, home)

    def put_back(self, unit: Unit) -> None:
        for other in unit.pods:
            home = self.node if unit.whole is None else self._home(other)
            if home is self.node:
                home.add(other)
            self.runner.add_pod(self.state, self.pod, other, home)

    def rejection(self) -> Status | None:
        return self.runner.filter_node_with_nominated(self.state, self.pod, self.node)

    def _home(self, other: PodInfo) -> NodeInfo:
        home = self.cache.placement(other.uid)
        return self.node if home is None or home.name == self.node.name else home


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
