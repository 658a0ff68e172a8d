"""Pods that would have to move: the fewest on a node that make room, if all of them fit on other nodes.

The victims are chosen by the dry run of preemption, so budgets and importance count as they do there. Pods of
DaemonSets and static pods do not move, and no PodDisruptionBudget is broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo, belongs_to_node
from podwright.core.preemption.budgets import StoredBudgets
from podwright.core.preemption.evaluator import Candidate, select_victims
from podwright.core.preemption.units import ABOVE_ALL, units_below
from podwright.core.state.nodeinfo import NodeInfo
from podwright.simulator.explain.changes.trials import Trials
from podwright.simulator.trial import Trial

SINGLES: Final = 100
"""How many pods of a node are tried alone."""
MOST_MOVED: Final = 10


@dataclass(frozen=True, slots=True)
class Moves:
    """Pods with the nodes where they fit instead, and the node where the pod then goes."""

    pods: Sequence[tuple[PodInfo, str]]
    node: str


def moves_from(trials: Trials, framework: Framework, state: CycleState, pod: PodInfo, node: NodeInfo) -> Moves | None:
    """Returns the pods to move off the node; None if no moves help. `state`: of the pod's PreFilter. Raises
    PluginError.
    """
    found = _in_the_way(trials, framework, state, pod, node)
    return None if found is None else _elsewhere(trials, pod, found)


def _in_the_way(
    trials: Trials, framework: Framework, state: CycleState, pod: PodInfo, node: NodeInfo
) -> Sequence[PodInfo] | None:
    cache = trials.cache
    budgets = StoredBudgets(cache.store).rules()
    movable = [other for other in node.pods.values() if not belongs_to_node(other)]
    movable.sort(key=lambda other: (other.priority, sum(other.requests.amounts.values()), other.key))
    for some in (*([other] for other in movable[:SINGLES]), movable):
        units = units_below(ABOVE_ALL, some, cache)
        found = select_victims(framework, state, pod, node, cache, budgets, trials.cluster.world.now(), potential=units)
        if isinstance(found, Candidate) and found.victims and not found.violations and len(found.victims) <= MOST_MOVED:
            return found.victims
    return None


def _elsewhere(trials: Trials, pod: PodInfo, victims: Sequence[PodInfo]) -> Moves | None:
    """Places the pod, then the victims on other nodes. Then proves that the pod fits where they are."""
    moved = []
    with Trial(trials.cluster) as trial:
        trial.evict(victims)
        if not trials.place_in(trial, pod):
            return None
        for victim in victims:
            other = "" if victim.terminating else trials.place_again(trial, victim)
            if not (other or victim.terminating):
                return None
            moved.append((victim, other))
    with Trial(trials.cluster) as trial:
        trial.evict(victims)
        for victim, other in moved:
            if other and not trials.place_again(trial, victim, only=other):
                return None
        placed = trials.place_in(trial, pod)
    return Moves(moved, placed) if placed else None
