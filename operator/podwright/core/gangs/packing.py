"""Packing: of pods that wait together, as many as possible get a node, the most important first. Moves no pod, unless
its policy lets the least important be evicted (`displacing`).

    one after the other ─► some do not fit ─► the program of all (`joint_program`) ─► a solver ─► all filters
        ─► the better of both ─► pods that are left are scheduled by themselves, and may preempt

Better is who places more of the highest priority, then of the next one, and so on. What the solver has proved says how
much more there could be. Source of the idea: Christensen, Giallorenzo, Mauro, "Priority Matters" (arXiv 2511.08373).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from podwright.core.cycle import Decision, Placement, RandomBelow, Rejection, schedule
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.program import Answer, Program, Solver, TooLargeError, with_grace
from podwright.core.gangs.branches import Branch
from podwright.core.gangs.decisions import Certificate, Packed
from podwright.core.gangs.displacing import Displacing
from podwright.core.gangs.joint import SECONDS, take_places
from podwright.core.gangs.joint_program import JointProgram
from podwright.core.gangs.simulation import Simulation
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.core.state.transaction import CacheTransaction, Checkpoint

TOO_LARGE: Final = "the pods and the nodes are too many"
OTHERS_SECONDS: Final = 10.0
"""How long pods that are left may be scheduled by themselves: searches for victims can take long. By the clock, because
a child process that gets little CPU would otherwise run into its own limit.
"""
NO_SOLVER: Final = "there is no solver"
NO_PROCESS: Final = "there is no process for the solver"
NO_TIME: Final = "the budget ended before a solver could begin"


@dataclass(frozen=True, slots=True)
class Packing:
    """See the module. `seconds`: how long a better placement is searched for; `clock`: the time, in seconds."""

    framework: Framework
    cache: Cache
    below: RandomBelow
    solve: Solver | None
    seconds: float
    clock: Callable[[], float]
    preempts_at: float | None = None
    """The time, in seconds since the epoch, if the least important pods may be evicted; None: none may."""

    def pack(self, pods: Sequence[PodInfo]) -> Packed:
        """Decides about these pods. Leaves the cache as it was."""
        pods = sorted(pods, key=lambda pod: -pod.priority)
        with CacheTransaction(self.cache) as transaction:
            begun = transaction.checkpoint()
            best = self._filled(transaction, (), pods)
            proof, problem = _Proof("Optimal"), ""
            if best.placed < len(pods) > 1:
                candidates = [best]
                bounds, problem, evicting = self._search(transaction, begun, candidates, pods)
                best = max(candidates, key=lambda each: _counts(each.assumed, pods))  # among equals the first
                going = {each.pod.uid for each in evicting if isinstance(each, Placement) or each.nominated_node}
                if (counts := _counts(going, pods)) > _counts(best.assumed, pods):
                    proof = _proof(pods, counts, bounds)
                    return Packed(evicting, len(going), proof.certificate, proof.more, problem)
                transaction.rollback(begun)
                take_places(self._simulation(transaction), [*map(self._place, best.placements)])
                proof = _proof(pods, _counts(best.assumed, pods), bounds)
            decisions = (*best.placements, *self._others(best, pods))
        return Packed(decisions, best.placed, proof.certificate, proof.more, problem)

    def _simulation(self, transaction: CacheTransaction) -> Simulation:
        return Simulation(framework=self.framework, transaction=transaction, below=self.below)

    def _place(self, placement: Placement) -> tuple[PodInfo, int]:
        return placement.pod, self.cache.nodes[placement.node_name].slot

    def _filled(
        self, transaction: CacheTransaction, found: Sequence[tuple[PodInfo, int]], pods: Sequence[PodInfo]
    ) -> Simulation:
        """Takes the found places, as far as the filters allow, then places the other pods one after the other."""
        simulation = self._simulation(transaction)
        take_places(simulation, found)
        simulation.within = None
        for pod in pods:
            if pod.uid not in simulation.assumed:
                self.cache.deadline.point()
                simulation.schedule(pod)
        return simulation

    def _search(
        self, transaction: CacheTransaction, begun: Checkpoint, candidates: list[Simulation], pods: Sequence[PodInfo]
    ) -> tuple[Sequence[int], str, tuple[Placement | Rejection, ...]]:
        """Adds candidates. Returns what the solver has proved, why it has not, and decisions that evict pods."""
        ends = self.clock() + self.seconds
        transaction.rollback(begun)
        try:
            joint = JointProgram(self.framework, self.cache, Branch(0, untried=pods), 0)
        except TooLargeError:
            return (), TOO_LARGE, ()
        except PluginError as error:
            return (), str(error), ()

        def add(places: Iterable[tuple[PodInfo, int]]) -> None:
            found = [*places]
            transaction.rollback(begun)
            candidates.append(self._filled(transaction, found, pods))

        def solve(program: Program) -> Answer:
            left = with_grace(ends - self.clock())
            return self.solve(program, left) if self.solve and left > 0 else Answer(problem=NO_TIME)

        tightly = [[*joint.tightly(largest_first=each)] for each in (True, False)]
        for places in tightly:
            if self.clock() < ends:
                add(places)
        if self.solve is None or max(each.placed for each in candidates) == len(pods):
            return (), "" if self.solve else NO_SOLVER, ()
        self.cache.deadline.expect(2 * SECONDS)
        if self.cache.deadline.check is not None:
            return (), NO_PROCESS, ()
        transaction.rollback(begun)
        try:
            joint.build()
        except TooLargeError:
            return (), TOO_LARGE, ()
        best = max(candidates, key=lambda each: _counts(each.assumed, pods))
        if self.preempts_at is not None:
            displacing = Displacing(self.framework, self.cache, self.below, pods, self.preempts_at)
            try:
                found, evicting = displacing.search(solve, [*map(self._place, best.placements)])
            except TooLargeError:
                found, evicting = None, ()
            if found is not None:
                return found.bounds, found.problem, evicting
        answer = solve(joint.program(map(self._place, best.placements)))
        if answer.found is not None:
            add(joint.placed(answer.found))
        return answer.bounds, answer.problem, ()

    def _others(self, best: Simulation, pods: Sequence[PodInfo]) -> Iterator[Decision]:
        ends = self.clock() + OTHERS_SECONDS
        for pod in pods:
            if pod.uid not in best.assumed:
                self.cache.deadline.point()
                if self.clock() > ends:
                    return
                decision = schedule(self.framework, self.cache, pod, self.below)
                yield decision
                if isinstance(decision, Rejection) and decision.victims:
                    return


@dataclass(frozen=True, slots=True)
class _Proof:
    certificate: Certificate
    more: int = 0


def _counts(those: Collection[str], pods: Sequence[PodInfo]) -> list[int]:
    """How many of the pods with these uids there are of each priority, the highest first."""
    placed = Counter(pod.priority for pod in pods if pod.uid in those)
    return [placed[priority] for priority in sorted({pod.priority for pod in pods}, reverse=True)]


def _proof(pods: Sequence[PodInfo], counts: Sequence[int], bounds: Sequence[int]) -> _Proof:
    """Returns the proof that `bounds` give, by descending priority. A priority with all its pods placed needs no
    proof.
    """
    totals = Counter(pod.priority for pod in pods)
    for number, (priority, count) in enumerate(zip(sorted(totals, reverse=True), counts, strict=True)):
        if count == totals[priority]:
            continue
        if number >= len(bounds):
            return _Proof("TimedOut")
        if count < bounds[number]:
            return _Proof("Bound", min(bounds[number], totals[priority]) - count)
    return _Proof("Optimal")
