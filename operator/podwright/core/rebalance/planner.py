"""Planner: a local search for steps that each gain something, tried in one transaction that is rolled back.

    candidate: pods of a node, or a pod to repair ─► each of its pods: off its node, on the fullest node that passes
        all filters ─► no budget violated, nobody else's constraints broken, gain enough ─► the step stays; else undone

Invariants: a node that gives pods away takes none, and none is given away from a node that took some, so at no time do
two pods need the same room. Each step makes the weighted sum of empty nodes and of pods that pass their filters
greater, with room that is asked for, and nothing else moves pods here; so at rest, plans become empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

import numpy as np

from podwright.core.cycle import find_feasible
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools, CycleState
from podwright.core.gangs.simulation import reserve
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.preemption.budgets import Budgets, StoredBudgets
from podwright.core.rebalance.checks import Refused, passes
from podwright.core.rebalance.dependants import Dependants, again_uid
from podwright.core.rebalance.fragments import DeviceFragments
from podwright.core.rebalance.gangs import RoomSearch, WaitingGang, places_of, seat, waiting_gang, waiting_gangs
from podwright.core.rebalance.movable import Movable, View, may_be_emptied, may_take, to_move
from podwright.core.rebalance.room import Room
from podwright.core.rebalance.rules import (
    EMPTY_NODES,
    FEWEST_FRAGMENTS,
    MAKE_ROOM,
    REPAIR_VIOLATIONS,
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
_CONSTRAINTS: Final = ("PodTopologySpread", "InterPodAffinity")
_EPSILON: Final = 1e-9
_NO_TARGETS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class _Candidate:
    pods: Sequence[PodInfo]
    sources: Sequence[NodeInfo]
    goal: GoalType


class RebalancePlanner:
    """See the module. Plans once, or proves steps of an earlier plan, on the cache as it is."""

    def __init__(self, cache: Cache, rules: RebalanceRules, view: View) -> None:
        self._cache = cache
        self._rules = rules
        self._view = view
        budgets = StoredBudgets(cache.store, cache.deadline.point).rules()
        self._budgets = Budgets(budgets, by_eviction=True)
        self._movable = Movable(cache, rules, view, budgets)
        self._dependants = Dependants(cache, partial(self.is_broken, only=_CONSTRAINTS))
        self._quick = False
        self._takes = cache.table.valid.copy()
        self._takes[[info.slot for info in cache.nodes.values() if info.node and not may_take(info.node)]] = False
        self._sources: set[str] = set()
        self._targets: set[str] = set()
        self._left = rules.max_moves
        self._room = Room(cache, rules, self._movable, self._takes)
        self._fragments = DeviceFragments(cache, rules, view)
        self._held: Counter[tuple[HeldBackKind, str]] = Counter()

    def plan(self) -> RebalancePlan:
        """The steps that gain most for their moves first."""
        steps: list[Step] = []
        with CacheTransaction(self._cache) as transaction:
            if REPAIR_VIOLATIONS in self._rules.weights:
                for pod in self.broken_pods(transaction):
                    self._add(transaction, self._repair(pod), steps)
            if MAKE_ROOM in self._rules.weights:
                for info, pods in self._room.candidates():
                    if info.name not in self._targets:
                        self._add(transaction, _Candidate(pods, [info], MAKE_ROOM), steps)
                failed = Counter[str]()
                for gang in waiting_gangs(self._cache, self._rules):
                    if failed[gang.group.namespace] >= MOST_GANGS:
                        why = f"are behind {MOST_GANGS} others of their namespace that get no room"
                        self._held["pod group", why] += 1
                    elif not self._make_room_for(transaction, gang, steps):
                        failed[gang.group.namespace] += 1
            if EMPTY_NODES in self._rules.weights:
                steps += self._emptied(transaction)
            if FEWEST_FRAGMENTS in self._rules.weights:
                self._mend(transaction, steps)
        held = [HeldBack(what, count, reason) for (what, reason), count in self._held.most_common()]
        return RebalancePlan(self._rules.name, steps, held)

    def prove(self, step: Step, *, quick: bool = False) -> str:
        """Why the moves that are left of this step cannot be made as planned any more; "" if they can. `quick`: asks
        only whether the pods may move and get their nodes, without reading all placed pods.
        """
        self._quick = quick
        if not self._rules.is_open(self._view.now):
            return "the time window of the policy is over"
        pods, infos = [], dict[str, NodeInfo]()
        for move in step.moves:
            info = self._cache.present(move.source)
            pod = None if info is None else info.pods.get(move.uid)
            if info is None or pod is None:
                return f"pod {move.pod} is not on node {move.source} any more"
            if why := self._movable.why_not(pod):
                return f"pod {move.pod} {why}"
            if not may_be_emptied(info.present):
                return f"node {info.name} is cordoned, has a taint of its state, or is about to be removed"
            infos[info.name] = info
            pods.append(pod)
        for each in filter(None, map(self._cache.present, step.empties)):
            if len(to_move(each)) != sum(move.source == each.name for move in step.moves):
                return f"other pods have come to node {each.name}"
        targets = {move.uid: move.target for move in step.moves}
        with CacheTransaction(self._cache) as transaction:
            try:
                if step.gang:
                    self._prove_gang(transaction, step, pods, targets)
                    return ""
                if step.makes_room:  # what has begun to leave makes room, too
                    leaving = [pod for info in infos.values() for pod in info.pods.values() if pod.terminating]
                    transaction.remove(leaving)
                self._try(transaction, _Candidate(pods, [*infos.values()], _goal_of(step)), targets)
            except Refused as error:
                return str(error)
        return ""

    # Candidates

    def broken_pods(self, transaction: CacheTransaction) -> Sequence[PodInfo]:
        """The placed pods that do not pass their filters on their nodes."""
        pods = [pod for info in self._cache.nodes.values() if info.node is not None for pod in info.pods.values()]
        return [pod for pod in pods if not pod.terminating and self.is_broken(transaction, pod)]

    def _repair(self, pod: PodInfo) -> _Candidate | None:
        source = self._cache.placement(pod.uid)
        if source is None or source.name in self._targets or not may_be_emptied(source.present):
            return None
        if why := self._movable.why_not(pod):
            self._held["pod", f"{why}, and does not pass its filters on its node"] += 1
            return None
        return _Candidate([pod], [source], REPAIR_VIOLATIONS)

    def _mend(self, transaction: CacheTransaction, steps: list[Step]) -> None:
        """Adds steps of one move each that leave fewer fragments of devices."""
        failed = 0
        for info, pod in self._fragments.candidates():
            if failed >= MOST_FAILED or not self._left:
                break
            if info.name in self._targets or not may_be_emptied(info.present):
                continue
            if why := self._movable.why_not(pod):
                self._held["pod", f"{why}, and might leave fewer fragments elsewhere"] += 1
                continue
            slots = self._other_nodes(pod, info.name)
            target = {pod.uid: self._fragments.best(pod, slots)} if slots else _NO_TARGETS
            added = slots and self._add(transaction, _Candidate([pod], [info], FEWEST_FRAGMENTS), steps, target)
            failed = 0 if added else failed + 1

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

    def _emptied(self, transaction: CacheTransaction) -> Sequence[Step]:
        start, steps, failed = transaction.checkpoint(), list[Step](), 0
        for info in self._nodes_to_empty():
            if failed >= MOST_FAILED or not self._left or self._enough_empty():
                break
            if info.name not in self._targets:
                failed = (
                    0 if self._add(transaction, _Candidate(to_move(info), [info], EMPTY_NODES), steps) else failed + 1
                )
        mergeable = not self._rules.empty_count  # else any empty node of that size will do
        while mergeable and self._left and (merged := self._merged(transaction)) is not None:
            steps.append(merged)
        if steps and self._would_be_taken(steps):
            transaction.rollback(start)
            self._held["node", "pods wait that would take the room"] += len(steps)
            return []
        return steps

    def _enough_empty(self) -> bool:
        """True if as many nodes are empty as the policy keeps empty."""
        count = self._rules.empty_count
        infos = (info for info in (self._cache.nodes.values() if count else ()) if self._is_worth_emptying(info))
        return bool(count) and sum(not to_move(info) for info in infos) >= count

    def _is_worth_emptying(self, info: NodeInfo) -> bool:
        offers = self._rules.empty_offers.items()
        return (
            info.node is not None
            and may_be_emptied(info.node)
            and all(info.allocatable(each) >= amount for each, amount in offers)
        )

    def _nodes_to_empty(self) -> Sequence[NodeInfo]:
        """Those with the fewest pods to move first, of these the least used."""
        found: list[tuple[int, float, str, NodeInfo]] = []
        fill = self._fill((CPU, MEMORY))
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

    def _merged(self, transaction: CacheTransaction) -> Step | None:
        """A step that empties several small nodes by filling an empty one that is larger."""
        before, restore, failed = transaction.checkpoint(), self._budgets.restorer(), 0
        sources, targets = set(self._sources), set(self._targets)
        moves, gain, emptied, weight = list[Move](), 0, list[str](), self._rules.weights[EMPTY_NODES]
        room = self._room.total()
        nodes = [info for info in self._cache.nodes.values() if info.node is not None and may_be_emptied(info.node)]
        for info in sorted(nodes, key=lambda each: (self._sizes[each.slot], len(each.pods), each.name)):
            pods = to_move(info)
            if failed >= MOST_FAILED or info.name in self._targets or info.name in self._sources or not pods:
                continue
            start, undo = transaction.checkpoint(), self._budgets.restorer()
            try:
                if len(moves) + len(pods) > self._left or any(map(self._movable.why_not, pods)):
                    continue
                found, worth = self._moved(transaction, pods, _NO_TARGETS)
                if emptied and worth < 0:
                    raise Refused("would need another empty node")
            except Refused:
                transaction.rollback(start)
                undo()
                failed += 1
                continue
            self._sources.add(info.name)
            self._targets.update(move.target for move in found)
            emptied.append(info.name)
            moves += found
            gain += worth + weight
        gain += self._rules.weights.get(MAKE_ROOM, 0) * (self._room.total() - room)
        if gain > 0 and gain + _EPSILON >= self._rules.min_gain * len(moves):
            self._left -= len(moves)
            return Step(moves, gain, emptied)
        transaction.rollback(before)
        restore()
        self._dependants.forget()
        self._sources, self._targets = sources, targets
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

    def _would_be_taken(self, steps: Sequence[Step]) -> bool:
        """True if a pod that waits would start on a node that these steps empty."""
        waiting = [pod for pod in self._view.waiting if not pod.gates and self._cache.placement(pod.uid) is None]
        within = np.zeros(self._cache.table.size, np.bool_)
        within[self._cache.table.slots_of([name for step in steps for name in step.empties])] = True
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

    def _make_room_for(self, transaction: CacheTransaction, gang: WaitingGang, steps: list[Step]) -> bool:
        """Adds a step after which the gang has room, if it has none yet. Later steps leave it that room. Returns whether
        it has room.
        """
        framework = self._view.framework_of(gang.members[0])
        if framework is None:
            self._held[
                "pod group", "is of another scheduler, or of a policy with extenders, rules or plugins of others"
            ] += 1
            return False
        before, restore = transaction.checkpoint(), self._budgets.restorer()
        try:
            places = places_of(gang, framework, self._cache)
            step = None if places else self._gang_step(transaction, gang, framework)
            seat(transaction, framework, gang.members, places if step is None else step.places)
        except Refused as error:
            transaction.rollback(before)
            restore()
            self._dependants.forget()
            self._held["pod group", str(error)] += 1
            return False
        if step is not None:
            steps.append(step)
            self._sources.update(move.source for move in step.moves)
            self._targets.update(move.target for move in step.moves)
            self._left -= len(step.moves)
        return True

    def _gang_step(self, transaction: CacheTransaction, gang: WaitingGang, framework: Framework) -> Step:
        """Raises Refused; the caller rolls back."""

        def move(transaction: CacheTransaction, pods: Sequence[PodInfo]) -> Mapping[str, str]:
            moves, _ = self._moved(transaction, pods, _NO_TARGETS)
            return {move.uid: move.target for move in moves}

        search = RoomSearch(
            cache=self._cache,
            movable=self._movable,
            gang=gang,
            framework=framework,
            takes=self._takes,
            sources=self._sources,
            closed=self._targets,
            budgets=self._budgets,
            move=move,
        )
        targets = search.moves(transaction)
        if len(targets) > self._left:
            raise Refused("needs more moves than maxMoves allows")
        pods = [info.pods[uid] for uid in targets if (info := self._cache.placement(uid)) is not None]
        moves, gain = self._moved(transaction, pods, targets)
        if not (places := places_of(gang, framework, self._cache)):
            raise Refused("its own plan finds no room after the moves")
        gain += self._rules.weights[MAKE_ROOM] * len(gang.members)
        if gain <= 0 or gain + _EPSILON < self._rules.min_gain * len(moves):
            raise Refused("the gain is too small")
        return Step(moves, gain, gang=gang.group.key, places=places)

    def _prove_gang(
        self, transaction: CacheTransaction, step: Step, pods: Sequence[PodInfo], targets: Mapping[str, str]
    ) -> None:
        """Raises Refused if these moves do not make the room."""
        gang = waiting_gang(self._cache, step.gang)
        if gang is None or not all(member.uid in step.places for member in gang.members):
            raise Refused(f"{step.for_gang} does not wait any more, or has other pods")
        framework = self._view.framework_of(gang.members[0])
        if framework is None:
            raise Refused("the policy of the pod group has changed")
        nodes = filter(None, map(self._cache.present, {*step.places.values()}))
        transaction.remove([pod for info in nodes for pod in info.pods.values() if pod.terminating])
        self._moved(transaction, pods, targets)
        seat(transaction, framework, gang.members, step.places)

    # Steps

    def _add(
        self,
        transaction: CacheTransaction,
        candidate: _Candidate | None,
        steps: list[Step],
        targets: Mapping[str, str] = _NO_TARGETS,
    ) -> bool:
        """Adds the candidate's step, if there is one, and leaves its pods where they would be."""
        if candidate is None:
            return False
        what: HeldBackKind = "pod" if candidate.goal in (REPAIR_VIOLATIONS, FEWEST_FRAGMENTS) else "node"
        before, restore = transaction.checkpoint(), self._budgets.restorer()
        try:
            if len(candidate.pods) > self._left:
                raise Refused("needs more moves than maxMoves allows")
            step = self._try(transaction, candidate, targets)
        except Refused as error:
            transaction.rollback(before)
            restore()
            self._dependants.forget()
            self._held[what, str(error)] += 1
            return False
        self._sources.update(info.name for info in candidate.sources)
        self._targets.update(move.target for move in step.moves)
        self._left -= len(step.moves)
        steps.append(step)
        return True

    def _try(self, transaction: CacheTransaction, candidate: _Candidate, targets: Mapping[str, str]) -> Step:
        """The step, whose pods are where they would be afterwards. `targets`: the nodes by uid, if they are known.
        Raises Refused; the caller rolls back.
        """
        room, fragments = (0, 0.0) if self._quick else (self._room.total(), self._fragments.total())
        moves, gain = self._moved(transaction, candidate.pods, targets)
        weights = self._rules.weights
        if not self._quick:
            gain += weights.get(EMPTY_NODES, 0) * sum(not to_move(info) for info in candidate.sources)
            gain += weights.get(MAKE_ROOM, 0) * (self._room.total() - room) + self._fragments.worth(fragments)
            if gain <= 0 or gain + _EPSILON < self._rules.min_gain * len(moves):
                raise Refused("the gain is too small")
        names, goal = [info.name for info in candidate.sources], candidate.goal
        return Step(
            moves,
            gain,
            empties=names if goal == EMPTY_NODES else (),
            makes_room=names[0] if goal == MAKE_ROOM else "",
            mends=names[0] if goal == FEWEST_FRAGMENTS else "",
        )

    def _moved(
        self, transaction: CacheTransaction, pods: Sequence[PodInfo], targets: Mapping[str, str]
    ) -> tuple[Sequence[Move], int]:
        """The moves of these pods, the largest first, and the gain by nodes that have pods for the first time, and by
        pods that pass their filters again. `targets`, and what it raises: see `_try`.
        """
        opened, moves, repaired, weights = set[str](), list[Move](), 0, self._rules.weights
        sources = {info.name for pod in pods if (info := self._cache.placement(pod.uid)) is not None}
        for pod in sorted(pods, key=lambda pod: (-pod.requests.scoring_cpu, -pod.requests.scoring_memory)):
            self._cache.deadline.point()
            source = self._cache.placement(pod.uid)
            assert source is not None, "a pod that may move has a node"
            noticing = [] if self._quick else self._dependants.noticing(pod)
            repairs = REPAIR_VIOLATIONS in weights
            own = repairs and self.is_broken(transaction, pod)
            before = self._dependants.broken(transaction, noticing, pod.uid, moved=False) if noticing else {}
            transaction.remove([pod])
            target, used = self._place(transaction, pod, sources, targets.get(pod.uid, ""))
            if not used:
                opened.add(target)
            after = self._dependants.broken(transaction, noticing, pod.uid, moved=True) if noticing else {}
            if not after.keys() <= before.keys():
                raise Refused("a constraint of another pod would be broken")
            mended = [each for uid, each in before.items() if repairs and uid not in after]
            repaired += own + sum(not self.is_broken(transaction, each) for each in mended)
            assert pod.owner is not None
            owner = f"{pod.owner.kind}/{pod.owner.name}"
            moves.append(Move(pod.uid, pod.key, owner, pod.owner.uid, source.name, target))
        if not self._budgets.spend(pods):
            raise Refused("a PodDisruptionBudget allows no disruption")
        return moves, weights.get(REPAIR_VIOLATIONS, 0) * repaired - weights.get(EMPTY_NODES, 0) * len(opened)

    def _place(
        self, transaction: CacheTransaction, pod: PodInfo, sources: Collection[str], target: str
    ) -> tuple[str, bool]:
        """The node that the pod gets, and whether it had other pods to move. `target`: the only node that it may get;
        "": any but `sources`.
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
                fill = self._fill((CPU, MEMORY, *pod.requests.amounts))[slots]
                fullest = (
                    slots[fill == fill.max()] if len(slots) else slots
                )  # of these, such as empty ones, the largest
                chosen = cache.node_at(int(fullest[int(np.argmax(self._sizes[fullest]))])) if len(slots) else None
            if chosen is None:
                raise Refused("no other node takes all of its pods")
            used = bool(to_move(chosen))
            if reserve(transaction, framework, state, again, chosen.name) is not None:
                raise Refused("a plugin refuses to reserve the node")
        except PluginError as error:
            raise Refused("a plugin failed") from error
        if not self._quick:
            self._dependants.add(again)
        return chosen.name, used

    def _within(self, sources: Collection[str]) -> Bools:
        """bool[nodes]: those that may take pods from these."""
        within = self._takes.copy()
        within[self._cache.table.slots_of([*sources, *self._sources])] = False
        return within

    def _fill(self, resources: Iterable[str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """float64[nodes]: the greatest share of these resources that pods request."""
        table = self._cache.table
        shares = np.zeros(table.size)
        for resource in resources:
            np.maximum(shares, table.requested(resource) / np.maximum(table.allocatable(resource), 1), out=shares)
        return shares

    # Constraints

    def is_broken(self, transaction: CacheTransaction, pod: PodInfo, only: Collection[str] = ()) -> bool:
        """True if the pod does not pass its filters on its node. `only`: those of these plugins; empty: all."""
        self._cache.deadline.point()
        framework, info = self._view.framework_of(pod), self._cache.placement(pod.uid)
        if framework is None or info is None or info.node is None:
            return False
        again, state, before = created_again(pod), CycleState(), transaction.checkpoint()
        transaction.remove([pod])
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
            transaction.rollback(before)


def _goal_of(step: Step) -> GoalType:
    if step.mends:
        return FEWEST_FRAGMENTS
    return MAKE_ROOM if step.makes_room else EMPTY_NODES if step.empties else REPAIR_VIOLATIONS


def created_again(pod: PodInfo) -> PodInfo:
    """The pod that its controller creates in its place, as it waits."""
    return replace(
        pod, uid=again_uid(pod.uid), node_name="", nominated_node_name="", phase="Pending", start_time=None, raw=None
    )
