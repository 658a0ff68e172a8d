"""Joint: members that do not fit one after the other are planned all at once, as an integer program.

    by counting, could they fit? ─► the program ─► a solver, in a process of its own ─► a solution
        ─► each member goes through all filters ─┬─► a placement ─► once more, closer together
                                                 └─► one is refused: without it there, again

The result is a placement, a proof that none exists, or the bound that ended the search before either. If filters refuse
a solution, nothing can be proved, because the program does not contain all their rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from podwright.core.cycle import Fault, Placement, RandomBelow
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Int64s
from podwright.core.framework.program import Solver, TooLargeError
from podwright.core.gangs.branches import MOST_WORK, Branch, branch_of, parts_of
from podwright.core.gangs.capacity_bounds import CapacityBounds, why_infeasible
from podwright.core.gangs.decisions import GangFault, GangPlacement
from podwright.core.gangs.joint_program import JointProgram
from podwright.core.gangs.rules import STARVED
from podwright.core.gangs.simulation import Simulation
from podwright.core.objects.closeness import Closeness
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.state.cache import Cache
from podwright.core.state.transaction import CacheTransaction

SECONDS: Final = 5.0
"""How long solvers may work for one plan."""
CLOSER_SECONDS: Final = 1.0
"""The most of these seconds that are spent on placing members closer together."""
MAX_ROUNDS: Final = 20
MAX_WORK: Final = MOST_WORK // 4
"""How much is tried with solutions, in nodes looked at, before no further pass over refused pods begins: seconds."""
COUNTED: Final = "there is no placement of all that are needed, by counting"
PROVED: Final = "there is no placement of all that are needed, which is proved"
NOT_FOUND: Final = "planning jointly found no placement"
IN_TIME: Final = f"{NOT_FOUND} in {SECONDS:g} s of solving"
IN_ROUNDS: Final = f"{NOT_FOUND} among {MAX_ROUNDS} solutions"
IN_WORK: Final = f"{NOT_FOUND}: members were tried as often as they may be"
REFUSED: Final = f"{NOT_FOUND}: filters refuse the solutions of the program"
NOT_PLANNED: Final = "members were not planned jointly: "
TOO_LARGE: Final = NOT_PLANNED + "they and the nodes are too many"
NO_PROCESS: Final = NOT_PLANNED + "there is no process for that"


@dataclass(frozen=True, slots=True)
class Joint:
    """See the module."""

    framework: Framework
    cache: Cache
    group: PodGroup
    near: Closeness
    below: RandomBelow
    solve: Solver

    def plan(self, pods: Sequence[PodInfo]) -> GangPlacement | GangFault | str:
        """Returns a placement of the waiting members, or why there is no placement. Leaves the cache as it was."""
        if len(pods) < 2 or (needed := self.cache.groups.lacking(self.group)) > len(pods):
            return ""
        bounds = CapacityBounds(self.framework, self.cache, pods, crowded=True)
        if why_infeasible(self.group, self.cache, bounds) is not None:
            return COUNTED
        deadline = self.cache.deadline
        deadline.expect(SECONDS)
        if deadline.check is not None:
            return NO_PROCESS
        try:
            return self._jointly(pods, max(1, needed))
        except TooLargeError:
            return TOO_LARGE

    def _jointly(self, pods: Sequence[PodInfo], least: int) -> GangPlacement | GangFault | str:
        try:
            joint = JointProgram(self.framework, self.cache, self.branch(pods), least).build()
        except ValueError as error:
            return NOT_PLANNED + str(error)
        except PluginError as error:
            return GangFault(self.group, error.plugin, str(error))
        return self._search(joint, pods)

    def branch(self, pods: Sequence[PodInfo]) -> Branch:
        return branch_of(self.cache, self.group, pods, self.near)

    def _search(self, joint: JointProgram, pods: Sequence[PodInfo]) -> GangPlacement | GangFault | str:
        left, work = SECONDS, 0
        for number in range(MAX_ROUNDS):
            answer = self.solve(joint.program(), left)
            left -= answer.seconds
            if answer.found is None:
                if answer.proved:
                    return REFUSED if number else PROVED
                return (NOT_PLANNED + answer.problem if answer.problem else IN_TIME) + STARVED * answer.starved
            decision = self.check(joint, answer.found, pods)
            if isinstance(decision, GangPlacement):
                return self._closer(joint, answer.found, decision, pods, left)
            if not isinstance(decision, int):
                return decision
            work += decision
            if left <= 0:
                return IN_TIME
            if work > MAX_WORK:
                return IN_WORK
        return IN_ROUNDS

    def _closer(
        self, joint: JointProgram, found: Int64s, decision: GangPlacement, pods: Sequence[PodInfo], left: float
    ) -> GangPlacement:
        """The decision about this solution, or one that is closer, or in a fuller domain."""
        try:
            if left <= 0 or not joint.prefer_close():
                return decision
            answer = self.solve(joint.program(joint.placed(found)), min(left, CLOSER_SECONDS))
        except (ValueError, TooLargeError):
            return decision
        if answer.found is None or joint.spread(answer.found) >= joint.spread(found):
            return decision
        closer = self.check(joint, answer.found, pods)
        if isinstance(closer, GangPlacement) and len(closer.placements) >= len(decision.placements):
            return closer
        return decision

    def check(self, joint: JointProgram, found: Int64s, pods: Sequence[PodInfo]) -> GangPlacement | GangFault | int:
        """The placement, if all members pass the filters. Otherwise the program learns which do not, and the work of
        finding that out is returned.
        """
        with CacheTransaction(self.cache) as transaction:
            simulation = Simulation(framework=self.framework, transaction=transaction, below=self.below)
            wanted = [*joint.placed(found)]
            left = take_places(simulation, wanted)
            if isinstance(left, Fault):
                return GangFault(self.group, left.plugin, left.message)
            if left:
                placed = Counter(slot for pod, slot in wanted if pod.uid in simulation.assumed)
                for slot in {slot for _, slot in left}:
                    joint.refuse(slot, found, placed[slot])
                return simulation.work
            branch = self.branch(pods)
            _count(branch, simulation.assumed)
            simulation.reject_others(pods)
            parts = dict(parts_of(branch)) if self.group.composite else {}
        return GangPlacement(self.group, simulation.placements, simulation.rejections, parts)


def take_places(simulation: Simulation, wanted: Sequence[tuple[PodInfo, int]]) -> Sequence[tuple[PodInfo, int]] | Fault:
    """Schedules each pod on the node with this slot, in an order in which the filters let them, if passes within
    MAX_WORK find one. Returns those that they refuse.
    """
    cache, left = simulation.transaction.cache, wanted
    while left and simulation.work <= MAX_WORK:
        refused = []
        for pod, slot in left:
            cache.deadline.point()
            simulation.within = np.arange(cache.table.size) == slot
            decision = simulation.schedule(pod)
            if isinstance(decision, Fault):
                return decision
            if not isinstance(decision, Placement):
                refused.append((pod, slot))
        if len(refused) == len(left):
            break
        left = refused  # each may have waited for another one
    simulation.within = None
    return left


def _count(branch: Branch, placed: dict[str, None]) -> int:
    gained = sum(pod.uid in placed for pod in branch.untried) + sum(_count(child, placed) for child in branch.children)
    branch.gain(gained)
    return gained
