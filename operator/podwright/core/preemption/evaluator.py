"""The dry run for a single pod: on a candidate node, remove all potential victims, then reprieve as many as possible.

Source of the rules: the Kubernetes documentation, "Pod Priority and Preemption", and kube-scheduler's behaviour.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import Final

from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState
from podwright.core.framework.status import Status, unresolvable
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.budgets import BudgetRules
from podwright.core.preemption.queue_claims import QueueClaim
from podwright.core.preemption.units import Unit, complete, importance, split_by_budget, units_below
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo

NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_PRIORITY_SHIFT: Final = 2**31


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node where preemption makes the pod fit. `victims`: the most important first. `violations`: of budgets."""

    node_name: str
    victims: tuple[PodInfo, ...]
    violations: int


@dataclass(slots=True)
class DryRun:
    """The result of a dry run: candidates by node, why other nodes are not candidates, and what went wrong."""

    candidates: dict[str, Candidate] = field(default_factory=dict)
    rejected: dict[str, Status] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    """Nodes on which no pod has to be evicted, because an extender and not a filter has rejected them."""


def select_victims(
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    node: NodeInfo,
    cache: Cache,
    budgets: BudgetRules,
    now: float,
    chosen: AbstractSet[str] = frozenset(),
    *,
    potential: Sequence[Unit] | None = None,
    claim: QueueClaim | None = None,
) -> Candidate | Status:
    """The victims to evict for `pod` to fit on `node`, or why no eviction helps. Changes none of its arguments.

    If a victim belongs to a group that is evicted as a whole, the members on other nodes are victims, too. `chosen`:
    the uids of pods that are victims in any case. `potential`: the units that may be evicted; None: those of lower
    priority. `claim`: has taken them; those that are not victims are given back.
    """
    potential = units_below(pod.priority, node.pods.values(), cache) if potential is None else [*potential]
    if not potential:
        return unresolvable(NO_VICTIMS)
    copy = _NodeCopy(framework, state.clone(), pod, node.clone(), cache)
    for unit in potential:
        copy.remove(unit)
    rejection = copy.filter()
    if rejection is not None:
        return rejection
    key = importance(now) if claim is None else claim.importance
    potential.sort(key=key)
    violating, others = split_by_budget(potential, budgets)
    victims = []
    violations = 0
    for unit, count in (*violating, *((unit, 0) for unit in others)):
        if chosen.isdisjoint(other.uid for other in unit.pods):
            copy.add(unit)
            if copy.filter() is None and (claim is None or claim.give_back(unit)):
                continue
            copy.remove(unit)
        victims.append(unit)
        violations += count
    victims.sort(key=key)
    return Candidate(node.name, complete(victims), violations)


@dataclass(slots=True)
class _NodeCopy:
    """A copy of one node and of the pod's state, with potential victims removed and added.

    This is no `CacheTransaction`, for two reasons. A transaction would write the node table and every count of placed
    pods for each pod removed, on hundreds of nodes for each preemptor. And the copy counts host ports as
    kube-scheduler's dry run does.
    """

    framework: Framework
    state: CycleState
    pod: PodInfo
    node: NodeInfo
    cache: Cache

    def remove(self, unit: Unit) -> None:
        for other in unit.pods:
            node = self.node if unit.whole is None else self._node_of(other)
            if node is self.node:
                node.remove(other)
            self.framework.remove_pod(self.state, self.pod, other, node)

    def add(self, unit: Unit) -> None:
        for other in unit.pods:
            node = self.node if unit.whole is None else self._node_of(other)
            if node is self.node:
                node.add(other)
            self.framework.add_pod(self.state, self.pod, other, node)

    def filter(self) -> Status | None:
        return self.framework.filter_node_with_nominated(self.state, self.pod, self.node)

    def _node_of(self, other: PodInfo) -> NodeInfo:
        node = self.cache.placement(other.uid)
        return self.node if node is None or node.name == self.node.name else node


def acceptable(candidates: Sequence[Candidate], now: float) -> list[Candidate]:
    """The best candidates. Several remain only if no criterion tells them apart.

    The criteria, in order: fewest budget violations; lowest priority of the most important victim; lowest sum of
    priorities, each shifted to be positive; fewest victims; latest start of the earliest-started victim among those of
    the highest priority.
    """
    costs = [_cost(candidate, now) for candidate in candidates]
    least = min(costs, default=None)
    return [candidate for candidate, cost in zip(candidates, costs, strict=True) if cost == least]


def _cost(candidate: Candidate, now: float) -> tuple[float, ...]:
    victims = candidate.victims
    priorities = [victim.priority for victim in victims]
    first = max(priorities)
    starts = [now if each.start_time is None else each.start_time for each in victims if each.priority == first]
    shifted = sum(priority + _PRIORITY_SHIFT for priority in priorities)
    return candidate.violations, victims[0].priority, shifted, len(victims), -min(starts)
