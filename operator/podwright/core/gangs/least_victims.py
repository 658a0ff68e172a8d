"""LeastVictims: the fewest and least important victims of a gang, by an integer program.

    what may leave, as far as counting leaves it ─► the program of members, nodes and units ─► a solver ─► all filters
        ─► a reprieve, of what the program lets stay first ─► the better of this and of what was found before

Better is who violates fewer budgets, then whose most important victim is less important (for a queue: first whose
queues are further above their shares), then who evicts fewer pods, then less important ones: kube-scheduler's order
for nodes. All domains and all units are looked at together, where `gang_preemption` takes the first that fits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest
from math import inf
from typing import Final

import numpy as np

from podwright.core.framework.errors import PluginError
from podwright.core.framework.interface import Bools, Int64s
from podwright.core.framework.program import Floats, TooLargeError
from podwright.core.gangs.branches import both
from podwright.core.gangs.capacity_bounds import CapacityBounds, why_infeasible
from podwright.core.gangs.decisions import GangPlacement, GangPreemption
from podwright.core.gangs.evictions import Evictions, Ranks, cost_of, ranks_of
from podwright.core.gangs.gang_preemption import Found, Try, potential_victims_of, priority_of, select_victims
from podwright.core.gangs.joint import MAX_ROUNDS, MAX_WORK, Joint
from podwright.core.gangs.joint_program import JointProgram
from podwright.core.gangs.potential_victims import ClaimedVictims, PotentialVictims
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import PODS
from podwright.core.preemption.units import ABOVE_ALL, Unit, split_by_budget, units_below
from podwright.core.state.cache import Cache
from podwright.core.state.transaction import CacheTransaction

MOST_UNITS: Final = 2_000
"""The most units and nodes together that a solver can search in the time."""
SECONDS: Final = 2.0
"""How long solvers may work for one preemption."""


def fewest_by_counting(cache: Cache, bounds: CapacityBounds, units: Sequence[Unit]) -> int:
    """Returns a lower bound on the units that must leave for the members of `bounds`; 0 if members differ, or units are
    not single pods. For one more member on a node, each pod is counted as freeing what the largest one holds.
    """
    if len(bounds.templates) > 1 or any(len(unit.pods) > 1 for unit in units):
        return 0
    needs = [(each, amount, bounds.free(each)) for each, amount in (*bounds.templates[0].requests, (PODS, 1))]
    most: dict[int, dict[str, int]] = {}
    for unit in units:
        pod = unit.pods[0]
        if (info := cache.placement(pod.uid)) is not None:
            held = most.setdefault(info.slot, {})
            for each, amount in _held(pod).items():
                held[each] = max(amount, held.get(each, 0))
    room, emptied = bounds.per_node(), bounds.per_node(emptied=True)
    costs: list[int] = []
    for slot, held in most.items():
        cache.deadline.point()
        left = 0
        for members in range(int(room[slot]) + 1, min(int(emptied[slot]), bounds.members) + 1):
            lacking = [(members * amount - int(free[slot]), held.get(each, 0)) for each, amount, free in needs]
            if any(lack > 0 and not largest for lack, largest in lacking):
                break
            before, left = left, max(-(-lack // largest) for lack, largest in lacking if lack > 0)
            costs.append(left - before)
    return sum(nsmallest(bounds.members - int(room.sum()), costs))


@dataclass(frozen=True, slots=True)
class LeastVictims:
    """See the module. `now`: seconds since the epoch."""

    joint: Joint
    now: float

    def improve(self, attempt: Try, found: Found) -> Found:
        """Returns `found`, or something better. `attempt`: the one that found it, or the first that failed. Leaves the
        cache as it was.
        """
        cache, group, bounds = self.joint.cache, self.joint.group, attempt.bounds
        if why_infeasible(group, cache, bounds, emptied=True) is not None:
            return found
        whole = replace(attempt, within=attempt.there, inside=attempt.inside and isinstance(found, GangPreemption))
        potential = potential_victims_of(self.joint.framework, cache, whole, priority_of(group, bounds.pods))
        if isinstance(potential, str):
            return found
        units = self._in_question(potential, found, bounds.pods)
        if not units:
            return found
        cache.deadline.expect(2 * SECONDS)
        if cache.deadline.check is not None:
            return found
        if potential.claim is not None:
            potential.claim.release([*potential.claim.taken])
        few, left, best = self._up_to_lowest(bounds, units, ranks_of(potential.claim)), SECONDS, found
        for these in (few, units) if len(few) < len(units) else (units,):
            within = both(attempt.there, self._nearest(bounds, these, found))
            better, left = self._solved(replace(whole, within=within), potential, these, bounds, found, left)
            if isinstance(better, GangPreemption) and isinstance(best, GangPreemption):
                better = min(best, better, key=lambda each: self._cost(potential, each))
            if better is not found:
                best = better
            # Others may do where these do not, or without violating a budget.
            if isinstance(best, GangPlacement) or (best is not found and not self._violates(potential, best)):
                break
        return best

    def _violates(self, potential: PotentialVictims | ClaimedVictims, found: Found) -> bool:
        return isinstance(found, GangPreemption) and self._cost(potential, found)[1] > 0

    def _up_to_lowest(
        self, bounds: CapacityBounds, units: Sequence[Unit], ranks: Callable[[Unit], Ranks]
    ) -> Sequence[Unit]:
        """The units up to the lowest rank with which, by counting, there may be room."""
        cache, group = self.joint.cache, self.joint.group
        levels = sorted({ranks(unit)[0] for unit in units})

        def up_to(level: int) -> Sequence[Unit]:
            return [unit for unit in units if ranks(unit)[0] <= levels[level]]

        def may_do(level: int) -> bool:
            with CacheTransaction(cache) as transaction:
                transaction.remove([pod for unit in up_to(level) for pod in unit.pods])
                return why_infeasible(group, cache, bounds) is None

        return up_to(bisect_left(range(len(levels) - 1), True, key=may_do))

    def _nearest(self, bounds: CapacityBounds, units: Sequence[Unit], found: Found) -> Bools | None:
        """bool[nodes]: where the fewest units leave for a member, if they are too many to look at all; None: all nodes.
        Of domains those first where that is least for all members.
        """
        cache = self.joint.cache
        on: dict[int, list[PodInfo]] = {}
        for unit in units:
            for pod in unit.pods:
                if (info := cache.placement(pod.uid)) is not None:
                    on.setdefault(info.slot, []).append(pod)
        if len(on) + len(units) <= MOST_UNITS:
            return None
        fewest = np.where(bounds.per_node() > 0, 0.0, inf)
        lacking = bounds.lacking()
        for slot, pods in on.items():
            cache.deadline.point()
            if fewest[slot]:
                fewest[slot] = _fewest({each: int(amounts[slot]) for each, amounts in lacking.items()}, pods)
        fewest[bounds.per_node(emptied=True) == 0] = inf
        order = np.argsort(fewest, kind="stable")
        if self.joint.group.near.required:
            codes = cache.topologies.tree(self.joint.group.near).bound.codes
            order = order[np.argsort(_by_domain(fewest, codes, bounds.members)[order], kind="stable")]
        looked_at = np.cumsum([1 + len(on.get(slot, ())) for slot in order.tolist()]) <= MOST_UNITS
        within: Bools = np.zeros(len(fewest), np.bool_)
        within[order[looked_at]] = True
        within &= fewest < inf
        if isinstance(found, GangPreemption):
            within[[cache.nodes[name].slot for name in found.nominations.values()]] = True
        return within

    def _in_question(
        self, potential: PotentialVictims | ClaimedVictims, found: Found, members: Sequence[PodInfo]
    ) -> Sequence[Unit]:
        """Returns the units that a better answer may evict; empty if `found` cannot be improved."""
        units = potential.candidates
        if not isinstance(found, GangPreemption):
            return units
        ranks = ranks_of(potential.claim)
        _, violations, *ranked = self._cost(potential, found)
        if violations:
            return units
        staying = [unit for unit in units if not all(pod.terminating for pod in unit.pods)]
        lowest = min(map(ranks, staying), default=())
        if not ranked or (ranked[-2] == 1 and tuple(ranked[:-2]) == lowest):
            return ()
        if potential.claim is None and tuple(ranked[:-2]) == lowest and len(found.nominations) == len(members):
            cache, leaving = self.joint.cache, [pod for unit in units for pod in unit.pods if pod.terminating]
            with CacheTransaction(cache) as transaction:
                transaction.remove(leaving)
                left = CapacityBounds(self.joint.framework, cache, members, crowded=True)
                if ranked[-2] <= fewest_by_counting(cache, left, [each for each in staying if ranks(each) == lowest]):
                    return ()
        return [unit for unit in units if ranks(unit)[0] <= ranked[0]]

    def _cost(self, potential: PotentialVictims | ClaimedVictims, found: GangPreemption) -> tuple[int, ...]:
        """The lower the better: how many members are not nominated, then the cost of the victims."""
        units = units_below(ABOVE_ALL, found.victims, self.joint.cache)
        units.sort(key=potential.importance(self.now))
        violations = 0
        if potential.claim is None:
            violations = sum(count for _, count in split_by_budget(units, potential.budgets)[0])
        return (-len(found.nominations), *cost_of(units, ranks_of(potential.claim), violations))

    def _solved(
        self,
        attempt: Try,
        potential: PotentialVictims | ClaimedVictims,
        units: Sequence[Unit],
        bounds: CapacityBounds,
        found: Found,
        left: float,
    ) -> tuple[Found, float]:
        """An answer with these units, else `found`, and how much of the time is left."""
        joint, pods = self.joint, bounds.pods
        cache = joint.cache
        least = max(1, cache.groups.lacking(joint.group))
        if isinstance(found, GangPreemption):
            least = len(found.nominations)
        evictions = Evictions(cache, units, potential.budgets, potential.claim)
        with CacheTransaction(cache) as transaction:
            transaction.remove([pod for unit in units for pod in unit.pods])
            if why_infeasible(joint.group, cache, bounds) is not None:
                return found, left
            try:
                program = JointProgram(
                    joint.framework, cache, joint.branch(pods), least, within=attempt.within, evictions=evictions
                ).build()
            except (ValueError, TooLargeError, PluginError):
                return found, left
            start = self._start(pods, found)
            work = 0
            for _ in range(MAX_ROUNDS):
                answer = joint.solve(program.program(*start), left)
                left -= answer.seconds
                if answer.found is None:
                    return found, left
                chosen = {pod.uid for unit in evictions.leaving(answer.found) for pod in unit.pods}
                transaction.rollback()
                leaving = potential
                if potential.claim is not None:
                    potential.claim.release([*potential.claim.taken])
                    leaving = ClaimedVictims(cache, potential.claim, None, only=chosen)
                    if {pod.uid for pod in leaving.pods} != chosen:
                        return found, left
                transaction.remove(leaving.pods)
                decision = joint.check(program, answer.found, pods)
                if isinstance(decision, GangPlacement):
                    placements = decision.placements
                    preemption = select_victims(joint.framework, transaction, placements, leaving, self.now, chosen)
                    return preemption or decision, left
                if not isinstance(decision, int) or left <= 0 or (work := work + decision) > MAX_WORK:
                    return found, left
        return found, left

    def _start(self, pods: Sequence[PodInfo], found: Found) -> tuple[Sequence[tuple[PodInfo, int]], Sequence[PodInfo]]:
        """Where the solver may begin: members with the slots of nodes, and victims."""
        if not isinstance(found, GangPreemption):
            return (), ()
        nodes = self.joint.cache.nodes
        placed = [(pod, nodes[found.nominations[pod.uid]].slot) for pod in pods if pod.uid in found.nominations]
        return placed, found.victims


def _held(pod: PodInfo) -> Mapping[str, int]:
    return {**pod.requests.amounts, PODS: 1}


def _fewest(lacking: Mapping[str, int], pods: Sequence[PodInfo]) -> float:
    """How many of these pods must leave until nothing lacks; infinite if all are not enough."""
    left = {resource: amount for resource, amount in lacking.items() if amount > 0}
    whole = dict(left)

    def share(pod: PodInfo) -> float:
        held = _held(pod)
        return sum(min(1.0, held.get(resource, 0) / amount) for resource, amount in whole.items())

    for number, pod in enumerate(sorted(pods, key=share, reverse=True)):
        if not left:
            return number
        held = _held(pod)
        left = {each: rest for each, amount in left.items() if (rest := amount - held.get(each, 0)) > 0}
    return inf if left else len(pods)


def _by_domain(fewest: Floats, codes: Int64s, members: int) -> Floats:
    """float[nodes]: how many leave for so many members in the domain of each node, one member on a node."""
    order = np.lexsort((fewest, codes))
    ordered = codes[order]
    counts = (np.arange(len(order)) - np.searchsorted(ordered, ordered) < members) & (ordered >= 0)
    totals = np.append(np.bincount(ordered[counts], fewest[order][counts], int(codes.max(initial=-1)) + 1), inf)
    found: Floats = totals[codes]
    return found
