"""Displacing: pods that are packed together may have others evicted, the least important, for as little as possible.

    all that is less important than some of the pods ─► the program of pods, nodes and units ─► a solver ─► all filters
        ─► a reprieve ─► each victim leaves for a pod of higher priority on its node

Of each priority as many are placed as can be. For that as few of the more important units leave as possible, before any
pod of a lower priority is looked at: so a pod never takes what only a more important one may take. No budget is
violated. Pods of queues, and those that never preempt, take the room that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from podwright.core.cycle import Fault, Placement, RandomBelow, Rejection, schedule
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import PostFilterResult
from podwright.core.framework.program import Answer, Program
from podwright.core.gangs.branches import Branch
from podwright.core.gangs.capacity_bounds import CapacityBounds
from podwright.core.gangs.decisions import GangPreemption
from podwright.core.gangs.evictions import Evictions
from podwright.core.gangs.gang_preemption import select_victims
from podwright.core.gangs.joint import take_places
from podwright.core.gangs.joint_program import JointProgram
from podwright.core.gangs.potential_victims import PotentialVictims
from podwright.core.gangs.simulation import Simulation
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.queue_claims import has_queue
from podwright.core.preemption.units import ABOVE_ALL, Unit, units_below
from podwright.core.state.cache import Cache
from podwright.core.state.transaction import CacheTransaction

Decisions = tuple[Placement | Rejection, ...]
MESSAGE: Final = "Packing evicts {count} pods for it on {node}."


class Displacing:
    """See the module. `pods`: those to place; `now`: seconds since the epoch."""

    def __init__(
        self, framework: Framework, cache: Cache, below: RandomBelow, pods: Sequence[PodInfo], now: float
    ) -> None:
        self._framework = framework
        self._cache = cache
        self._below = below
        self._pods = pods
        self._now = now
        self._highest = max((pod.priority for pod in pods if self._may_preempt(pod)), default=-ABOVE_ALL)

    def _may_preempt(self, pod: PodInfo) -> bool:
        return pod.preemption_policy != "Never" and not has_queue(self._cache, pod)

    def search(
        self, solve: Callable[[Program], Answer], start: Iterable[tuple[PodInfo, int]]
    ) -> tuple[Answer | None, Decisions]:
        """Returns the solver's answer, None without candidates for eviction, and the decisions, empty if no solution
        passes all filters. `start`: pods with the slots of nodes that they get without evictions. Raises TooLargeError.
        """
        bounds = CapacityBounds(self._framework, self._cache, self._pods)
        potential = PotentialVictims(self._framework, self._cache, self._pods, self._highest, bounds)
        units = sorted(potential.candidates, key=potential.importance(self._now))
        if not units:
            return None, ()
        evictions = Evictions(self._cache, units, potential.budgets, None, for_whom=self._may_preempt)
        with CacheTransaction(self._cache) as transaction:
            transaction.remove(potential.pods)
            program = JointProgram(self._framework, self._cache, Branch(0, untried=self._pods), 0, evictions=evictions)
            answer = solve(program.build().program(start))
            if (solution := answer.found) is None:
                return answer, ()
            answer = replace(answer, bounds=program.bounds(answer))
            chosen = {pod.uid for unit in evictions.leaving(solution) for pod in unit.pods}
            before = transaction.checkpoint()
            simulation = Simulation(framework=self._framework, transaction=transaction, below=self._below)
            left = take_places(simulation, [*program.placed(solution)])
            placements = simulation.placements
            transaction.rollback(before)
            if isinstance(left, Fault) or not chosen:
                return answer, () if isinstance(left, Fault) else placements
            found = select_victims(self._framework, transaction, placements, potential, self._now, chosen)
        if not isinstance(found, GangPreemption) or found.violations:
            return answer, ()
        return answer, self._decided(placements, found.victims)

    def _decided(self, placements: Sequence[Placement], victims: Sequence[PodInfo]) -> Decisions:
        """The decisions in an order in which they can be carried out: first pods that need no victims. None if a victim
        has nobody to leave for.
        """
        cache = self._cache
        wait: dict[str, tuple[Rejection, str]] = {}
        with CacheTransaction(cache) as transaction:
            simulation = Simulation(framework=self._framework, transaction=transaction, below=self._below)
            places = [(each.pod, cache.nodes[each.node_name].slot) for each in placements]
            left = take_places(simulation, places)
            if isinstance(left, Fault):
                return ()
            for pod, slot in left:
                decision = schedule(self._framework, cache, pod, self._below, preempt=False)
                if not isinstance(decision, Rejection):
                    return ()
                wait[pod.uid] = decision, cache.node_at(slot).name
        leaving: dict[str, list[PodInfo]] = {uid: [] for uid in wait}
        for unit in units_below(ABOVE_ALL, victims, cache):
            nodes = {info.name for pod in unit.pods if (info := cache.placement(pod.uid)) is not None}
            taker = next(self._takers(unit, nodes, wait), None)
            if taker is None:
                return ()
            leaving[taker] += unit.pods
        return (*simulation.placements, *(self._nominated(*wait[uid], pods) for uid, pods in leaving.items()))

    def _takers(self, unit: Unit, nodes: set[str], wait: dict[str, tuple[Rejection, str]]) -> Iterator[str]:
        for uid, (rejection, node) in wait.items():
            if node in nodes and rejection.pod.priority > unit.priority and self._may_preempt(rejection.pod):
                yield uid

    def _nominated(self, rejection: Rejection, node: str, victims: Sequence[PodInfo]) -> Rejection:
        text = MESSAGE.format(count=len(victims), node=node)
        return replace(
            rejection,
            message=f"{rejection.message} {text}",
            post_filter=PostFilterResult(node, tuple(victims)),
        )
