"""Planner: a local search for steps that each gain something, tried in one transaction that is rolled back.

    candidate: pods of a node, or a pod to repair ─► each of its pods: off its node, on the fullest node that passes
        all filters ─► no budget violated, nobody else's constraints broken, gain enough ─► the step stays; else undone

Where a solver is there and the case is small, the best moves are searched for as well (`exact`), and the better ones
stay. Invariants: a node that gives pods away takes none, and none is given away from a node that took some, so at no
time do two pods need the same room. Each step makes the weighted sum of empty nodes and of pods that pass their filters
greater, with room that is asked for, and nothing else moves pods here; so at rest, plans become empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from podwright.core.cycle import find_feasible
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools, CycleState, Int64s
from podwright.core.gangs.simulation import reserve
from podwright.core.objects.control_flow import ControlFlowError
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.objects.wording import counted
from podwright.core.preemption.budgets import Budgets, StoredBudgets
from podwright.core.rebalance.checks import Refused, passes
from podwright.core.rebalance.dependants import Dependants, created_again, template_of
from podwright.core.rebalance.exact import ExactSearch
from podwright.core.rebalance.fragments import DeviceFragments
from podwright.core.rebalance.gangs import (
    MOST_DOMAINS,
    RoomSearch,
    Targets,
    WaitingGang,
    fewest_moves,
    places_in_held_room,
    places_of,
    seat,
    waiting_gang,
    waiting_gangs,
)
from podwright.core.rebalance.movable import NOT_PROVABLE, Movable, View, may_be_emptied, may_take, to_move
from podwright.core.rebalance.moves_program import Asked, EmptiedNodes, RoomForGang, RoomForPods
from podwright.core.rebalance.room import Room, fill_of
from podwright.core.rebalance.rules import (
    EMPTY_NODES,
    FEWEST_FRAGMENTS,
    MAKE_ROOM,
    NO_BUDGET,
    OF_SYSTEM,
    OUT_OF_REACH,
    REPAIR_VIOLATIONS,
    WARNINGS,
    GoalType,
    HeldBack,
    HeldBackKind,
    Move,
    RebalancePlan,
    RebalanceRules,
    Step,
)
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.transaction import CacheTransaction

MOST_FAILED: Final = 100
"""After so many candidates in a row that lead to no step, the search for nodes to empty ends."""
MOST_GANGS: Final = 32
"""After so many gangs of a namespace that get no room, the others of this namespace are not looked into."""
MOST_WAITING: Final = 100
"""Nodes are not emptied while more pods than this wait: whether these would take the nodes is not looked into."""
PLAN_SECONDS: Final = 12.0
"""After this time, a plan has the steps that were found until then. `LATE_SECONDS`: nothing is searched exactly, since
the local search is made again after that.
"""
LATE_SECONDS: Final = 4.0
CONSTRAINTS: Final = ("PodTopologySpread", "InterPodAffinity")
_EPSILON: Final = 1e-9
_TOO_MANY_MOVES: Final = "needs more moves than maxMoves allows"
_LATER: Final = "gets room later, because maxMoves allows no more moves now"
_OVER: Final = f"the plan has taken {PLAN_SECONDS:g} s before"
_NO_ROOM: Final = "its moves would make no room"
_NO_TARGETS: Final[Mapping[str, str]] = {}


class _OverError(ControlFlowError):
    """The plan has taken its time."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    pods: Sequence[PodInfo]
    sources: Sequence[NodeInfo]
    goal: GoalType


class RebalancePlanner:
    """See the module. Plans once, or proves steps of an earlier plan, on the cache as it is."""

    def __init__(self, cache: Cache, rules: RebalanceRules, view: View) -> None:
        self._cache = cache
        self._transaction = CacheTransaction(cache)
        self._rules = rules
        self._view = view
        budgets = StoredBudgets(cache.store, cache.deadline.point).rules()
        self._budgets = Budgets(budgets, by_eviction=True)
        self._movable = Movable(cache, rules, view, budgets)
        self._dependants = Dependants(cache, self.broken_of)
        self._begun = self._quick = self._searches = False
        self._takes = cache.table.valid.copy()
        self._takes[[info.slot for info in cache.nodes.values() if info.node and not may_take(info.node)]] = False
        self._sources: set[str] = set()
        self._targets: set[str] = set()
        self._left = rules.max_moves
        self._room = Room(cache, rules, self._movable, self._takes)
        self._fragments = DeviceFragments(cache, rules, view)
        self._exact = ExactSearch(cache, view.solve)
        self._held: Counter[tuple[HeldBackKind, str]] = Counter()

    def plan(self) -> RebalancePlan:
        """The steps that gain most for their moves first."""
        steps: list[Step] = []
        self._searches = True
        with self._transaction:
            if REPAIR_VIOLATIONS in self._rules.weights:
                for pod in self.broken_pods():
                    if candidate := self._alone(pod, REPAIR_VIOLATIONS, "does not pass its filters on its node"):
                        self._add(candidate, steps)
            if MAKE_ROOM in self._rules.weights:
                steps += self._room_steps()
                failed = Counter[str]()
                for gang in waiting_gangs(self._cache, self._rules):
                    if failed[gang.group.namespace] >= MOST_GANGS:
                        why = f"are behind {MOST_GANGS} others of their namespace that get no room"
                        self._held["pod group", why] += 1
                    elif self._is_over():
                        self._held["pod group", _OVER] += 1
                    elif not self._make_room_for(gang, steps):
                        failed[gang.group.namespace] += 1
            if EMPTY_NODES in self._rules.weights:
                steps += self._emptied()
            if FEWEST_FRAGMENTS in self._rules.weights:
                self._mend(steps)
        self._held["pod", NO_BUDGET] = len(self._movable.without_budget)
        self._held["pod", OF_SYSTEM] = 0 if self._rules.matches_all else self._selected_of_system()
        held = [HeldBack(what, count, reason) for (what, reason), count in self._held.most_common() if count]
        held.sort(key=lambda each: not each.reason.startswith((*WARNINGS,)))
        return RebalancePlan(self._rules.name, steps, held, self._exact.outcome)

    def prove(self, step: Step, *, begun: bool = False, only: Move | None = None) -> str:
        """Why the moves that are left of this step cannot be made as planned any more; "" if they can. `begun`: others
        were made, so these need not gain enough by themselves. `only`: asks whether this one can be made, of the others
        no more than whether their pods are where they were, and reads no other pods.
        """
        self._begun, self._quick = begun, only is not None
        if not self._rules.is_open(self._view.now):
            return "the time window of the policy is over"
        pods, infos, leaving = [], dict[str, NodeInfo](), Counter[str]()
        for move in step.moves:
            info = self._cache.present(move.source)
            pod = None if info is None else info.pods.get(move.uid)
            if info is None or pod is None:
                return f"pod {move.pod} is not on node {move.source} any more"
            leaving[info.name] += 1
            if leaving[info.name] == 1 and not may_be_emptied(info.present):
                return f"node {info.name} is cordoned, has a taint of its state, or is about to be removed"
            if only is not None and move.uid != only.uid:
                continue
            if why := self._movable.why_not(pod):
                return f"pod {move.pod} {why}"
            infos[info.name] = info
            pods.append(pod)
        for each in filter(None, map(self._cache.present, step.empties)):
            if len(to_move(each)) != leaving[each.name]:
                return f"other pods have come to node {each.name}"
        targets = {move.uid: move.target for move in step.moves}
        with self._transaction:
            try:
                if step.gang:
                    self._prove_gang(step, pods, targets)
                    return ""
                candidate = _Candidate(pods, [*infos.values()], _goal_of(step))
                if step.makes_room and only is None:
                    self._prove_room(step, candidate, targets)
                else:
                    self._try(candidate, targets)
            except Refused as error:
                return str(error)
        return ""

    def _prove_room(self, step: Step, candidate: _Candidate, targets: Mapping[str, str]) -> None:
        """Raises Refused if these moves do not make the room, or it is there without them. What has begun to leave
        makes room, too.
        """
        room, source = self._room, candidate.sources[0]
        if any(room.domain_of(info) != step.domain for info in candidate.sources):
            raise Refused(f"not all of its nodes are in {step.domain} any more")
        there = {info.name: [pod for pod in info.pods.values() if pod.terminating] for info in room.beside(source)}
        start = self._transaction.checkpoint()
        self._transaction.remove([pod for leaving in there.values() for pod in leaving])
        before = room.at(source)
        self._transaction.rollback(start)
        # Nothing moves to the sources. Elsewhere, what leaves still has its room.
        self._transaction.remove([pod for info in candidate.sources for pod in there.pop(info.name, ())])
        self._try(candidate, targets)
        self._transaction.remove([pod for leaving in there.values() for pod in leaving])
        wanted = room.count if step.domain else before + 1
        if not before < wanted <= room.at(source):
            raise Refused(_NO_ROOM)

    def _is_over(self) -> bool:
        return self._searches and self._view.elapsed() >= PLAN_SECONDS

    def _point(self) -> None:
        """A place in a long loop. Raises Refused once the plan has taken its time, so that nothing more is found."""
        self._cache.deadline.point()
        if self._is_over():
            raise Refused(_OVER)

    # Candidates

    def broken_pods(self) -> Sequence[PodInfo]:
        """The placed pods that do not pass their filters on their nodes."""
        pods = [pod for info in self._cache.nodes.values() if info.node is not None for pod in info.pods.values()]
        found = list[PodInfo]()
        for number, pod in enumerate(pods):
            if self._is_over():
                self._held["pod", _OVER] += len(pods) - number
                break
            if not pod.terminating and self.is_broken(pod):
                found.append(pod)
        return found

    def _selected_of_system(self) -> int:
        """How many pods of the system the policy selects, other than those of nodes."""
        matches, labels, found = self._rules.matches, self._cache.namespace_labels, 0
        for info in self._cache.nodes.values():
            self._cache.deadline.point()
            for pod in to_move(info):
                found += self._movable.is_of_system(pod) and matches(pod, labels(pod.namespace))
        return found

    def _alone(self, pod: PodInfo, goal: GoalType, why: str) -> _Candidate | None:
        """The candidate of this pod, if it may move. `why` it is to."""
        source = self._cache.placement(pod.uid)
        if source is None or source.name in self._targets or not may_be_emptied(source.present):
            return None
        if problem := self._movable.why_not(pod):
            self._held["pod", f"{problem}, and {why}"] += 1
            return None
        return _Candidate([pod], [source], goal)

    def _mend(self, steps: list[Step]) -> None:
        """Adds steps of one move each that leave fewer fragments of devices."""
        failed = 0
        for pod in self._fragments.candidates():
            if failed >= MOST_FAILED or not self._left:
                break
            if candidate := self._alone(pod, FEWEST_FRAGMENTS, "might leave fewer fragments elsewhere"):
                # It is chosen while the pod is on its node: the measure is of the pods that run.
                slots = self._other_nodes(pod, candidate.sources[0].name)
                target = {pod.uid: self._fragments.best(pod, slots)} if slots else _NO_TARGETS
                failed = 0 if slots and self._add(candidate, steps, target) else failed + 1

    def _other_nodes(self, pod: PodInfo, source: str) -> list[int]:
        framework = self._view.framework_of(pod)
        assert framework is not None, "a pod that may move has a policy"
        try:
            again, within = created_again(pod), self._within([source])
            found = find_feasible(framework, self._cache, again, CycleState(), within=within, take_nominated=False)
        except PluginError:
            return []
        slots: list[int] = found.feasible.slots.tolist()
        return slots

    def _room_steps(self) -> Sequence[Step]:
        def one_by_one() -> Sequence[Step]:
            steps, failed = list[Step](), 0
            for candidates in self._room.candidates():
                if failed >= MOST_DOMAINS:
                    break
                if self._room.level is not None:
                    step = self._together(candidates, MAKE_ROOM)
                    failed, steps = (0, [*steps, step]) if step is not None else (failed + 1, steps)
                for info, pods in candidates if self._room.level is None else ():
                    if info.name not in self._targets:
                        self._add(_Candidate(pods, [info], MAKE_ROOM), steps)
            return steps

        def all_at_once(asked: Asked) -> Sequence[Step]:
            targets, _ = self._exact.search(lambda: RoomForPods(self._cache, asked, self._room))
            return self._steps_of(targets, MAKE_ROOM, lambda source, _: {*filter(None, [self._room.domain_of(source)])})

        lacking = self._room.wanted - self._room.total()
        most = self._rules.weights[MAKE_ROOM] * lacking, -1
        steps = self._best(MAKE_ROOM, most, one_by_one, all_at_once) if lacking else ()
        if left := self._room.wanted - self._room.total():
            level, why = self._room.level, "no moves make room"
            what: HeldBackKind = "pod" if level is None else "domain"
            if level is not None and len(level) < self._rules.room_domains:
                why = f"the nodes have {counted(len(level), 'value')} of {self._rules.room_key}"
            elif not self._room.total(empty=True):
                why = f"no {'node' if level is None else 'domain'} is as large"
            elif self._held["node" if level is None else "domain", _TOO_MANY_MOVES]:
                why = ""
            left //= 1 if level is None else self._room.count
            self._held[what, f"{OUT_OF_REACH}{MAKE_ROOM}, but {why}" if why else _LATER] += left
        return steps

    def _emptied(self) -> Sequence[Step]:
        start, infos = self._transaction.checkpoint(), self._nodes_to_empty()
        most = min(len(infos), self._lacking_empty())
        if (missing := self._rules.empty_count - int(self._worth_emptying.sum())) > 0:
            self._held["node", f"{OUT_OF_REACH}{EMPTY_NODES}, but no other node offers as much"] += missing
        steps = self._best(
            EMPTY_NODES,
            (self._rules.weights[EMPTY_NODES] * most, -self._left),
            lambda: self._emptied_one_by_one(infos),
            lambda asked: self._emptied_at_once(asked, most),
            whole=infos,
        )
        if steps and self._would_be_taken([name for step in steps for name in step.empties]):
            self._transaction.rollback(start)
            self._held["node", "pods wait that would take the room"] += len(steps)
            return []
        return steps

    def _emptied_one_by_one(self, infos: Sequence[NodeInfo]) -> Sequence[Step]:
        steps, failed = list[Step](), 0
        for info in infos:
            if failed >= MOST_FAILED or not self._left or not self._lacking_empty():
                break
            if info.name not in self._targets:
                failed = 0 if self._add(_Candidate(to_move(info), [info], EMPTY_NODES), steps) else failed + 1
        mergeable = not self._rules.empty_count  # else any empty node of that size will do
        while mergeable and self._left and (merged := self._merged()) is not None:
            steps.append(merged)
        return steps

    def _emptied_at_once(self, asked: Asked, most: int) -> Sequence[Step]:
        empty = [info for info in self._cache.nodes.values() if self._counts_as_empty(info)]
        opened = np.zeros_like(asked.takes)
        opened[[info.slot for info in empty]] = True
        targets, _ = self._exact.search(lambda: EmptiedNodes(self._cache, asked, most, asked.takes & opened))
        names = {info.name for info in empty}
        return self._steps_of(
            targets, EMPTY_NODES, lambda _, pods: names.intersection(targets[pod.uid] for pod in pods)
        )

    def _steps_of(
        self, targets: Mapping[str, str], goal: GoalType, shared: Callable[[NodeInfo, Sequence[PodInfo]], set[str]]
    ) -> Sequence[Step]:
        """Adds the moves to these targets: a step for each node, or for all nodes that have something in common, which
        `shared` says of a node and its pods.
        """
        steps, together = list[Step](), list[tuple[set[str], list[NodeInfo], list[PodInfo]]]()
        for source, pods in self._by_source(targets):
            found, sources, moved = shared(source, pods), [source], [*pods]
            for other in [each for each in together if found & each[0]]:
                together.remove(other)
                found, sources, moved = found | other[0], [*other[1], *sources], [*other[2], *moved]
            together.append((found, sources, moved))
        for _, sources, moved in together:
            self._add(_Candidate(moved, sources, goal), steps, targets)
        return steps

    def _by_source(self, targets: Mapping[str, str]) -> Sequence[tuple[NodeInfo, Sequence[PodInfo]]]:
        """The pods that move, by their nodes."""
        found: dict[str, tuple[NodeInfo, list[PodInfo]]] = {}
        for uid in targets:
            info = self._cache.placement(uid)
            assert info is not None, "it was there when the search began"
            found.setdefault(info.name, (info, []))[1].append(info.pods[uid])
        return [*found.values()]

    def _lacking_empty(self) -> int:
        """How many more nodes are to be empty."""
        count = self._rules.empty_count
        return max(0, count - self._empty()) if count else len(self._cache.nodes)

    def _empty(self) -> int:
        return sum(map(self._counts_as_empty, self._cache.nodes.values()))

    def _counts_as_empty(self, info: NodeInfo) -> bool:
        return self._is_worth_emptying(info) and not to_move(info)

    def _is_worth_emptying(self, info: NodeInfo) -> bool:
        # Pods may be on a node that is gone or was never there: it has no row.
        return info.node is not None and bool(self._worth_emptying[info.slot])

    def _more_empty(self, more: int) -> int:
        """Returns the value of so many more empty nodes, which is negative if there are fewer."""
        weight, count = self._rules.weights.get(EMPTY_NODES, 0), self._rules.empty_count
        if weight and more and count:
            empty = self._empty()
            more = min(count, empty) - min(count, empty - more)
        return weight * more

    @cached_property
    def _worth_emptying(self) -> Bools:
        """bool[nodes]: those that count for EmptyNodes once they are empty."""
        worth, offers = np.zeros(self._cache.table.size, np.bool_), self._rules.empty_offers.items()
        for info in self._cache.nodes.values():
            if info.node is not None and may_be_emptied(info.node):
                worth[info.slot] = all(info.allocatable(each) >= amount for each, amount in offers)
        return worth

    def _nodes_to_empty(self) -> Sequence[NodeInfo]:
        """Returns the nodes to empty, those with the fewest pods to move first, then the least used."""
        found: list[tuple[int, float, str, NodeInfo]] = []
        fill = fill_of(self._cache.table, (CPU, MEMORY))
        for info in self._cache.nodes.values():
            self._cache.deadline.point()
            pods = to_move(info) if self._is_worth_emptying(info) else ()
            if not pods or info.name in self._targets:
                continue
            why = next(filter(None, map(self._movable.why_not, pods)), "")
            if why:
                self._held["node", f"has a pod that {why}"] += 1
            elif len(pods) * self._rules.min_gain > self._rules.weights[EMPTY_NODES] + _EPSILON:
                self._held["node", "has more pods than minGain allows to move"] += 1
            else:
                found.append((len(pods), float(fill[info.slot]), info.name, info))
        return [info for *_, info in sorted(found, key=lambda each: each[:3])]

    def _merged(self) -> Step | None:
        """A step that empties several small nodes by filling an empty one that is larger."""
        nodes = filter(self._is_worth_emptying, self._cache.nodes.values())
        candidates = (
            (info, pods)
            for info in sorted(nodes, key=lambda each: (self._sizes[each.slot], len(each.pods), each.name))
            if info.name not in self._sources and (pods := to_move(info)) and not any(map(self._movable.why_not, pods))
        )
        return self._together(candidates, EMPTY_NODES)

    def _together(self, candidates: Iterable[tuple[NodeInfo, Sequence[PodInfo]]], goal: GoalType) -> Step | None:
        """A step of all candidates whose pods get other nodes, if it gains enough."""
        undo_all, failed, why, before = self._undoer(), 0, "", self._measured()
        moves, repaired, opened, sources = list[Move](), 0, 0, dict[str, NodeInfo]()
        for info, pods in candidates:
            if failed >= MOST_FAILED:
                break
            if info.name in self._targets:
                continue
            undo, room = self._undoer(), self._room.at(info)
            try:
                if len(pods) > self._left:
                    raise Refused(_TOO_MANY_MOVES)
                found, better, filled = self._moved(pods)
                if sources and filled and goal == EMPTY_NODES:
                    raise Refused("would need another empty node")
                if goal == MAKE_ROOM and self._room.at(info) <= room:
                    raise Refused(_NO_ROOM)
            except Refused as error:
                undo()
                why = str(error)
                failed += 1
                continue
            sources[info.name] = info
            self._take(found, [info])
            moves += found
            repaired, opened, failed = repaired + better, opened + filled, 0
        try:
            return self._step(moves, (repaired, opened), [*sources.values()], goal, before)
        except Refused as error:
            undo_all()
            if goal == MAKE_ROOM and (moves or why):  # else its nodes take pods
                self._held["domain", why or str(error)] += 1
            return None

    @cached_property
    def _sizes(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """float64[nodes]: the sum of their shares of the largest amounts of resources that nodes have."""
        table = self._cache.table
        sizes = np.zeros(table.size)
        nodes = (info.node for info in self._cache.nodes.values() if info.node is not None)
        for resource in {name for node in nodes for name in node.allocatable}:
            amounts = table.allocatable(resource)
            sizes += amounts / max(1, int(amounts.max(initial=0)))
        return sizes

    def _would_be_taken(self, names: Sequence[str]) -> bool:
        """True if a pod that waits would start on one of these nodes, now that they are empty."""
        waiting = [pod for pod in self._view.waiting if not pod.gates and self._cache.placement(pod.uid) is None]
        within = np.zeros(self._cache.table.size, np.bool_)
        within[self._cache.table.slots_of(names)] = True
        return len(waiting) > MOST_WAITING or any(self._finds_room(pod, within) for pod in waiting)

    def _finds_room(self, pod: PodInfo, within: Bools) -> bool:
        framework = self._view.framework_of(pod)
        if framework is None:
            return True
        try:
            return bool(len(find_feasible(framework, self._cache, pod, CycleState(), within=within).feasible.slots))
        except PluginError:
            return True

    # Gangs

    def _make_room_for(self, gang: WaitingGang, steps: list[Step]) -> bool:
        """Adds a step after which the gang has room, if it has none yet. Later steps leave it that room. Returns
        whether it has room.
        """
        framework = self._view.framework_of(gang.members[0])
        if framework is None:
            self._held["pod group", NOT_PROVABLE] += 1
            return False
        undo = self._undoer()
        try:
            if places := self._places_of(gang, framework):
                seat(self._transaction, framework, gang.members, places)
                return True
        except Refused as error:
            undo()
            self._held["pod group", str(error)] += 1
            return False

        def exact(asked: Asked) -> Sequence[Step]:
            program = partial(RoomForGang, self._cache, asked, gang)
            return self._gang_steps(gang, framework, lambda: self._exact.search(program))

        most, fewest = (
            self._rules.weights[MAKE_ROOM] * len(gang.members),
            fewest_moves(self._cache, gang, self._largest),
        )
        found = self._best(
            MAKE_ROOM,
            (most, -max(1, fewest)),
            lambda: self._gang_steps(gang, framework, self._search_for(gang, framework)),
            exact,
            framework=framework,
        )
        steps += found
        return bool(found)

    def _places_of(self, gang: WaitingGang, framework: Framework, seats: Targets = _NO_TARGETS) -> Targets:
        """See `places_of`. `seats`: what is held for its members if it finds no room without. Raises Refused once the
        plan has taken its time.
        """
        try:
            with self._cache.deadline.bounded(self._end_late):
                places = places_of(gang, framework, self._cache)
                return places or (places_in_held_room(gang, framework, self._cache, seats) if seats else {})
        except _OverError:
            raise Refused(_OVER) from None

    def _end_late(self) -> None:
        if self._is_over():
            raise _OverError

    def _gang_steps(
        self, gang: WaitingGang, framework: Framework, search: Callable[[], tuple[Targets, Targets]]
    ) -> Sequence[Step]:
        """The step that moves pods as `search` says, if it is one. `search` gives these, and the nodes of members, and
        raises Refused.
        """
        undo, weights = self._undoer(), self._rules.weights
        try:
            targets, seats = search()
            if len(targets) > self._left:
                raise Refused(_TOO_MANY_MOVES)
            pods = [info.pods[uid] for uid in targets if (info := self._cache.placement(uid)) is not None]
            moves, gain, opened = self._moved(pods, targets)
            if not (places := self._places_of(gang, framework, seats)):
                raise Refused("its own plan finds no room after the moves")
            gain += weights[MAKE_ROOM] * len(gang.members) - weights.get(EMPTY_NODES, 0) * opened
            if gain <= 0 or gain + _EPSILON < self._rules.min_gain * len(moves):
                raise Refused("the gain is too small")
            seat(self._transaction, framework, gang.members, places)
        except Refused as error:
            undo()
            self._held["pod group", str(error)] += 1
            return []
        self._take(moves, [self._cache.nodes[move.source] for move in moves])
        return [Step(moves, gain, gang=gang.group.key, places=places)]

    @cached_property
    def _largest(self) -> Mapping[str, int]:
        """The largest amount of each resource that a placed pod has."""
        largest: dict[str, int] = {}
        for info in self._cache.nodes.values():
            self._cache.deadline.point()
            for pod in info.pods.values():
                for each, amount in pod.requests.amounts.items():
                    largest[each] = max(amount, largest.get(each, 0))
        return largest

    def _search_for(self, gang: WaitingGang, framework: Framework) -> Callable[[], tuple[Targets, Targets]]:
        def move(pods: Sequence[PodInfo]) -> Targets:
            return {move.uid: move.target for move in self._moved(pods)[0]}

        return RoomSearch(
            transaction=self._transaction,
            movable=self._movable,
            gang=gang,
            framework=framework,
            takes=self._takes,
            sources=self._sources,
            closed=self._targets,
            undoer=self._undoer,
            point=self._point,
            move=move,
        ).moves

    def _prove_gang(self, step: Step, pods: Sequence[PodInfo], targets: Mapping[str, str]) -> None:
        """Raises Refused if these moves do not make the room."""
        gang = waiting_gang(self._cache, step.gang)
        if gang is None or not all(member.uid in step.places for member in gang.members):
            raise Refused(f"{step.for_gang} does not wait any more, or has other pods")
        framework = self._view.framework_of(gang.members[0])
        if framework is None:
            raise Refused("the policy of the pod group has changed")
        nodes = filter(None, map(self._cache.present, {*step.places.values()}))
        self._transaction.remove([pod for info in nodes for pod in info.pods.values() if pod.terminating])
        self._moved(pods, targets)
        if not self._quick:
            seat(self._transaction, framework, gang.members, step.places)

    # Steps

    def _best(
        self,
        goal: GoalType,
        most: tuple[int, int],
        local: Callable[[], Sequence[Step]],
        exact: Callable[[Asked], Sequence[Step]],
        whole: Sequence[NodeInfo] | None = None,
        framework: Framework | None = None,
    ) -> Sequence[Step]:
        """Returns the steps of the local search, or of the exact one if they are better; leaves the pods moved. `most`:
        an upper bound on the gain, and on the negated number of moves. `whole`, `framework`: see `_asked`.
        """
        undo = self._undoer()
        steps = local()
        late = self._view.elapsed() >= LATE_SECONDS
        if _worth(steps) >= most or not self._exact.may_begin(late=late):
            return steps
        undo()
        undo, asked = self._undoer(), self._asked(goal, whole, framework)
        others = exact(asked) if asked is not None else ()
        self._exact.judge(better=(better := _worth(others) > _worth(steps)))
        if better:
            return others
        undo()
        self._searches = False  # it ended in its time before
        try:
            return local()
        finally:
            self._searches = True

    def _asked(self, goal: GoalType, whole: Sequence[NodeInfo] | None, framework: Framework | None) -> Asked | None:
        """Returns the input of the exact search; None if no pods may move. `whole`: the only nodes whose pods may move,
        all or none of a node's. `framework`: the only one of the pods; None: that of most pods.
        """
        nodes = [info for info in self._cache.nodes.values() if info.node is not None and may_be_emptied(info.node)]
        by_node = [
            [pod for pod in to_move(info) if whole is not None or not self._movable.why_not(pod)]
            for info in (nodes if whole is None else whole)
            if info.name not in self._targets and not _is_overcommitted(info)
        ]
        frameworks = Counter(self._view.framework_of(pod) for pods in by_node for pod in pods)
        framework = framework or next((each for each, _ in frameworks.most_common(1)), None)
        found = []
        for pods in by_node:
            own = [pod for pod in pods if self._view.framework_of(pod) is framework]
            found += own if whole is None or len(own) == len(pods) else []
        if framework is None or not found:
            return None
        takes = self._within(self._cache.nominator.nodes())  # what waits for its room there is not in the program
        weight, least = self._rules.weights[goal], self._rules.min_gain
        return Asked(found, framework, takes, self._budgets, self._left, weight, least)

    def _undoer(self) -> Callable[[], None]:
        """A function after which everything is as it is now. To be called once."""
        before, restore, moves = self._transaction.checkpoint(), self._budgets.restorer(), self._dependants.moves
        sources, targets, left, held = set(self._sources), set(self._targets), self._left, self._held.copy()

        def undo() -> None:
            self._transaction.rollback(before)
            restore()
            self._dependants.undo(moves)
            self._sources.intersection_update(sources)
            self._targets.intersection_update(targets)
            self._left, self._held = left, held

        return undo

    def _add(self, candidate: _Candidate, steps: list[Step], targets: Mapping[str, str] = _NO_TARGETS) -> bool:
        """Adds the candidate's step, if there is one, and leaves its pods where they would be."""
        what: HeldBackKind = "pod" if candidate.goal in (REPAIR_VIOLATIONS, FEWEST_FRAGMENTS) else "node"
        if self._is_over():
            self._held[what, _OVER] += 1
            return False
        undo = self._undoer()
        try:
            if len(candidate.pods) > self._left:
                raise Refused(_TOO_MANY_MOVES)
            step = self._try(candidate, targets)
        except Refused as error:
            undo()
            self._held[what, str(error)] += 1
            return False
        self._take(step.moves, candidate.sources)
        steps.append(step)
        return True

    def _take(self, moves: Sequence[Move], sources: Iterable[NodeInfo]) -> None:
        self._sources.update(info.name for info in sources)
        self._targets.update(move.target for move in moves)
        self._left -= len(moves)

    def _try(self, candidate: _Candidate, targets: Mapping[str, str]) -> Step:
        """The step, whose pods are where they would be afterwards. `targets`: the nodes by uid, if they are known.
        Raises Refused; the caller rolls back.
        """
        before = self._measured()
        moves, *worth = self._moved(candidate.pods, targets)
        return self._step(moves, worth, candidate.sources, candidate.goal, before)

    def _measured(self) -> tuple[int, float]:
        """The room and the fragments, which moves change."""
        return (0, 0.0) if self._quick else (self._room.total(), self._fragments.total())

    def _step(
        self,
        moves: Sequence[Move],
        worth: Sequence[int],
        sources: Sequence[NodeInfo],
        goal: GoalType,
        before: tuple[int, float],
    ) -> Step:
        """The step of these moves, which have been made. `worth`: what `_moved` says, `before`: what was measured.
        Raises Refused.
        """
        weights, (room, fragments), (gain, opened) = self._rules.weights, before, worth
        if not self._quick:
            made = self._room.total() - room
            if goal == MAKE_ROOM and made <= 0 and not self._begun:
                raise Refused(_NO_ROOM)
            emptied = [info.name for info in sources if self._counts_as_empty(info)] if EMPTY_NODES in weights else ()
            more = len(emptied) - opened
            if more > 0 and goal != EMPTY_NODES and self._would_be_taken(emptied):  # which `_emptied` looks into itself
                more = 0
            gain += self._more_empty(more) + weights.get(MAKE_ROOM, 0) * made + self._fragments.worth(fragments)
            if not self._begun and (gain <= 0 or gain + _EPSILON < self._rules.min_gain * len(moves)):
                raise Refused("the gain is too small")
        names = [info.name for info in sources]
        return Step(
            moves,
            gain,
            empties=names if goal == EMPTY_NODES else (),
            makes_room=names[0] if goal == MAKE_ROOM else "",
            domain=self._room.domain_of(sources[0]) if goal == MAKE_ROOM else "",
            mends=names[0] if goal == FEWEST_FRAGMENTS else "",
        )

    def _moved(
        self, pods: Sequence[PodInfo], targets: Mapping[str, str] = _NO_TARGETS
    ) -> tuple[Sequence[Move], int, int]:
        """The moves of these pods, the largest first, the gain by pods that pass their filters again, and how many
        nodes are not empty any more that were to be. `targets`, and what it raises: see `_try`.
        """
        opened, moves, repaired, weights = 0, list[Move](), 0, self._rules.weights
        sources = {info.name for pod in pods if (info := self._cache.placement(pod.uid)) is not None}
        for pod in sorted(pods, key=lambda pod: (-pod.requests.scoring_cpu, -pod.requests.scoring_memory)):
            self._point()
            source = self._cache.placement(pod.uid)
            assert source is not None, "a pod that may move has a node"
            noticing = [] if self._quick else self._dependants.noticing(pod)
            repairs = REPAIR_VIOLATIONS in weights
            own = repairs and self.is_broken(pod)
            before = self._dependants.broken(noticing, pod.uid, moved=False) if noticing else {}
            self._transaction.remove([pod])
            target, opens = self._place(pod, sources, targets.get(pod.uid, ""))
            opened += opens
            after = self._dependants.broken(noticing, pod.uid, moved=True) if noticing else {}
            if not after.keys() <= before.keys():
                raise Refused("a constraint of another pod would be broken")
            mended = [each for uid, each in before.items() if repairs and uid not in after]
            repaired += own + sum(not self.is_broken(each) for each in mended)
            assert pod.owner is not None
            owner = f"{pod.owner.kind}/{pod.owner.name}"
            moves.append(Move(pod.uid, pod.key, owner, pod.owner.uid, source.name, target, pod.requests.amounts))
        if not self._budgets.spend(pods):
            raise Refused("a PodDisruptionBudget allows no disruption")
        return moves, weights.get(REPAIR_VIOLATIONS, 0) * repaired, opened

    def _place(self, pod: PodInfo, sources: Collection[str], target: str) -> tuple[str, bool]:
        """The node that the pod gets, and whether that was to be empty. `target`: the only node that it may get; "":
        any but `sources`.
        """
        cache, framework = self._cache, self._view.framework_of(pod)
        assert framework is not None, "a pod that may move has a policy"
        again, state = created_again(pod), CycleState()
        try:
            if target:
                chosen = cache.present(target)
                if chosen is None or not (self._takes[chosen.slot] and passes(framework, again, state, chosen)):
                    raise Refused(f"node {target} does not take pod {pod.key} any more")
            else:
                within = self._within(sources)
                slots = find_feasible(
                    framework, cache, again, state, within=within, take_nominated=False
                ).feasible.slots
                if not len(slots):
                    raise Refused("no other node takes all of its pods")
                harmless = slots[~self._room.taken_by(again, cache.table.slots_of([*sources]))[slots]]
                slots = harmless if len(harmless) else slots
                chosen = self._fullest(pod, slots)
                if self._counts_as_empty(chosen) and len(others := slots[~self._worth_emptying[slots]]):
                    chosen = self._fullest(pod, others)
            opens = self._counts_as_empty(chosen)
            if reserve(self._transaction, framework, state, again, chosen.name) is not None:
                raise Refused("a plugin refuses to reserve the node")
        except PluginError as error:
            raise Refused("a plugin failed") from error
        if not self._quick:
            self._dependants.add(again)
        return chosen.name, opens

    def _fullest(self, pod: PodInfo, slots: Int64s) -> NodeInfo:
        """The fullest of these nodes, and of several such as empty ones the largest."""
        fill = fill_of(self._cache.table, (CPU, MEMORY, *pod.requests.amounts))[slots]
        fullest = slots[fill == fill.max()]
        return self._cache.node_at(int(fullest[int(np.argmax(self._sizes[fullest]))]))

    def _within(self, sources: Collection[str]) -> Bools:
        """bool[nodes]: those that may take pods from these."""
        within = self._takes.copy()
        within[self._cache.table.slots_of([*sources, *self._sources])] = False
        return within

    # Constraints

    def broken_of(self, pods: Sequence[PodInfo]) -> Collection[str]:
        """The uids of the pods whose required affinity or hard spread does not hold. What a template's filters know of
        the cluster is found out once, and each of its pods is taken off its node in a dry run.
        """
        found, states = set[str](), dict[Any, tuple[PodInfo, CycleState] | None]()
        for pod in pods:
            self._point()
            key, framework, info = template_of(pod), self._view.framework_of(pod), self._cache.placement(pod.uid)
            if framework is None or info is None or info.node is None:
                continue
            try:
                if key not in states:
                    again, state = created_again(pod), CycleState()
                    states[key] = None if framework.pre_filter(state, again).status is not None else (again, state)
                known = states[key]
                if known is None or pod.terminating:  # which filters do not count
                    broken = self.is_broken(pod, CONSTRAINTS)
                else:
                    again, state = known[0], known[1].clone()
                    framework.remove_pod(state, again, pod, info)
                    plugins = [plugin for plugin in framework.filter_plugins if plugin.name in CONSTRAINTS]
                    broken = framework.filter_node(state, again, info, plugins) is not None
            except PluginError:
                continue
            if broken:
                found.add(pod.uid)
        return found

    def is_broken(self, pod: PodInfo, only: Collection[str] = ()) -> bool:
        """True if the pod does not pass its filters on its node. `only`: those of these plugins; empty: all."""
        self._cache.deadline.point()
        framework, info = self._view.framework_of(pod), self._cache.placement(pod.uid)
        if framework is None or info is None or info.node is None:
            return False
        again, state, before = created_again(pod), CycleState(), self._transaction.checkpoint()
        self._transaction.remove([pod])
        try:
            if not only:
                return not passes(framework, again, state, info, alone=True)
            if framework.pre_filter(state, again).status is not None:
                return True
            plugins = [plugin for plugin in framework.filter_plugins if plugin.name in only]
            return framework.filter_node(state, again, info, plugins) is not None
        except PluginError:
            return False
        finally:
            self._transaction.rollback(before)


def _worth(steps: Sequence[Step]) -> tuple[int, int]:
    """The more, the better: the gain, then the fewer moves."""
    return sum(step.gain for step in steps), -sum(len(step.moves) for step in steps)


def _is_overcommitted(info: NodeInfo) -> bool:
    return any(amount > info.allocatable(resource) for resource, amount in info.requested.items())


def _goal_of(step: Step) -> GoalType:
    if step.mends:
        return FEWEST_FRAGMENTS
    return MAKE_ROOM if step.makes_room else EMPTY_NODES if step.empties else REPAIR_VIOLATIONS
