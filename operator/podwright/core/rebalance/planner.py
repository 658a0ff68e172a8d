"""Planner: a local search for steps that each gain something, tried in one transaction that is rolled back.

    candidate: pods of a node, or a pod to repair ─► each of its pods: off its node, on the fullest node that passes
        all filters ─► no budget violated, nobody else's constraints broken, gain enough ─► the step stays; else undone

Invariants: a node that gives pods away takes none, and none is given away from a node that took some, so at no time do
two pods need the same room. Each step makes the weighted sum of empty nodes and of pods that pass their filters
greater, with room that is asked for, and nothing else moves pods here; so at rest, plans become empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np

from podwright.core.cycle import find_feasible
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools, CycleState
from podwright.core.gangs.simulation import reserve
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.preemption.budgets import Budgets, StoredBudgets
from podwright.core.rebalance.dependants import Dependants
from podwright.core.rebalance.movable import Movable, View, may_be_emptied, may_take, to_move
from podwright.core.rebalance.room import Room
from podwright.core.rebalance.rules import (
    EMPTY_NODES,
    MAKE_ROOM,
    REPAIR_VIOLATIONS,
    GoalType,
    HeldBack,
    Move,
    Plan,
    RebalanceRules,
    Step,
)
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.transaction import CacheTransaction

MOST_FAILED: Final = 100
"""After so many candidates in a row that lead to no step, the search for nodes to empty ends."""
MOST_WAITING: Final = 100
"""Nodes are not emptied while more pods than this wait: whether these would take the nodes is not looked into."""
_EPSILON: Final = 1e-9
_NO_TARGETS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class _Candidate:
    pods: Sequence[PodInfo]
    source: NodeInfo
    goal: GoalType


class _Refused(Exception):  # noqa: N818 -- an outcome, caught below
    """The candidate leads to no step. The message says why."""


class Planner:
    """See the module. Plans once, or proves steps of an earlier plan, on the cache as it is."""

    def __init__(self, cache: Cache, rules: RebalanceRules, view: View) -> None:
        self._cache = cache
        self._rules = rules
        self._view = view
        budgets = StoredBudgets(cache.store, cache.deadline.point).rules()
        self._budgets = Budgets(budgets, by_eviction=True)
        self._movable = Movable(cache, rules, view, budgets)
        self._quick = False
        self._takes = cache.table.valid.copy()
        self._takes[[info.slot for info in cache.nodes.values() if info.node and not may_take(info.node)]] = False
        self._sources: set[str] = set()
        self._targets: set[str] = set()
        self._left = rules.max_moves
        self._room = Room(cache, rules, self._movable, self._takes)
        self._held: Counter[tuple[Literal["node", "pod"], str]] = Counter()

    def plan(self) -> Plan:
        """The steps that gain most for their moves first."""
        steps: list[Step] = []
        with CacheTransaction(self._cache) as transaction:
            if REPAIR_VIOLATIONS in self._rules.weights:
                for pod in self.broken_pods(transaction):
                    self._add(transaction, self._repair(pod), steps)
            if MAKE_ROOM in self._rules.weights:
                for info, pods in self._room.candidates():
                    if info.name not in self._targets:
                        self._add(transaction, _Candidate(pods, info, MAKE_ROOM), steps)
            if EMPTY_NODES in self._rules.weights:
                steps += self._emptied(transaction)
        held = [HeldBack(what, count, reason) for (what, reason), count in self._held.most_common()]
        return Plan(self._rules.name, steps, held)

    @cached_property
    def _dependants(self) -> Dependants:
        return Dependants(self._cache)

    def prove(self, step: Step, *, quick: bool = False) -> str:
        """Why the moves that are left of this step cannot be made as planned any more; "" if they can. `quick`: asks
        only whether the pods may move and get their nodes, without reading all placed pods.
        """
        self._quick = quick
        pods = []
        for move in step.moves:
            info = self._cache.present(move.source)
            pod = None if info is None else info.pods.get(move.uid)
            if info is None or pod is None:
                return f"pod {move.pod} is not on node {move.source} any more"
            if why := self._movable.why_not(pod):
                return f"pod {move.pod} {why}"
            pods.append(pod)
        assert info is not None
        if not may_be_emptied(info.present):
            return f"node {info.name} is cordoned, has a taint of its state, or is about to be removed"
        if step.empties and len(to_move(info)) != len(pods):
            return f"other pods have come to node {step.empties}"
        with CacheTransaction(self._cache) as transaction:
            try:
                targets = {move.uid: move.target for move in step.moves}
                if step.makes_room:  # what has begun to leave makes room, too
                    transaction.remove([pod for pod in info.pods.values() if pod.terminating])
                goal: GoalType = MAKE_ROOM if step.makes_room else EMPTY_NODES if step.empties else REPAIR_VIOLATIONS
                self._try(transaction, _Candidate(pods, info, goal), targets)
            except _Refused as error:
                return str(error)
        return ""

    # Candidates

    def broken_pods(self, transaction: CacheTransaction) -> Sequence[PodInfo]:
        """The placed pods that do not pass their filters on their nodes."""
        pods = [pod for info in self._cache.nodes.values() if info.node is not None for pod in info.pods.values()]
        return [pod for pod in pods if not pod.terminating and self._is_broken(transaction, pod)]

    def _repair(self, pod: PodInfo) -> _Candidate | None:
        source = self._cache.placement(pod.uid)
        if source is None or source.name in self._targets or not may_be_emptied(source.present):
            return None
        if why := self._movable.why_not(pod):
            self._held["pod", f"{why}, and does not pass its filters on its node"] += 1
            return None
        return _Candidate([pod], source, REPAIR_VIOLATIONS)

    def _emptied(self, transaction: CacheTransaction) -> Sequence[Step]:
        start, steps, failed = transaction.checkpoint(), list[Step](), 0
        for info in self._nodes_to_empty():
            if failed >= MOST_FAILED or not self._left:
                break
            if info.name not in self._targets:
                failed = (
                    0 if self._add(transaction, _Candidate(to_move(info), info, EMPTY_NODES), steps) else failed + 1
                )
        if steps and self._would_be_taken(steps):
            transaction.rollback(start)
            self._held["node", "pods wait that would take the room"] += len(steps)
            return []
        return steps

    def _nodes_to_empty(self) -> Sequence[NodeInfo]:
        """Those with the fewest pods to move first, of these the least used."""
        found: list[tuple[int, float, str, NodeInfo]] = []
        fill = self._fill((CPU, MEMORY))
        for info in self._cache.nodes.values():
            self._cache.deadline.point()
            pods = to_move(info) if info.node is not None and may_be_emptied(info.node) else ()
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

    def _would_be_taken(self, steps: Sequence[Step]) -> bool:
        """True if a pod that waits would start on a node that these steps empty."""
        waiting = [pod for pod in self._view.waiting if not pod.gates]
        within = np.zeros(self._cache.table.size, np.bool_)
        within[self._cache.table.slots_of([step.empties for step in steps])] = True
        return len(waiting) > MOST_WAITING or any(self._finds_room(pod, within) for pod in waiting)

    def _finds_room(self, pod: PodInfo, within: Bools) -> bool:
        framework = self._view.framework_of(pod)
        if framework is None:
            return True
        try:
            return bool(len(find_feasible(framework, self._cache, pod, CycleState(), within=within).feasible.slots))
        except PluginError:
            return True

    # Steps

    def _add(self, transaction: CacheTransaction, candidate: _Candidate | None, steps: list[Step]) -> bool:
        """Adds the candidate's step, if there is one, and leaves its pods where they would be."""
        if candidate is None:
            return False
        what: Literal["node", "pod"] = "pod" if candidate.goal == REPAIR_VIOLATIONS else "node"
        before = transaction.checkpoint()
        try:
            if len(candidate.pods) > self._left:
                raise _Refused("needs more moves than maxMoves allows")
            step = self._try(transaction, candidate, _NO_TARGETS)
        except _Refused as error:
            transaction.rollback(before)
            self._held[what, str(error)] += 1
            return False
        self._sources.add(candidate.source.name)
        self._targets.update(move.target for move in step.moves)
        self._left -= len(step.moves)
        steps.append(step)
        return True

    def _try(self, transaction: CacheTransaction, candidate: _Candidate, targets: Mapping[str, str]) -> Step:
        """The step, whose pods are where they would be afterwards. `targets`: the nodes by uid, if they are known.
        Raises _Refused; the caller rolls back.
        """
        pods = sorted(candidate.pods, key=lambda pod: (-pod.requests.scoring_cpu, -pod.requests.scoring_memory))
        opened, moves, repaired, room = set[str](), list[Move](), 0, self._room.total()
        for pod in pods:
            self._cache.deadline.point()
            noticing = [] if self._quick else self._dependants.of(pod)
            repairs = REPAIR_VIOLATIONS in self._rules.weights
            before = self._broken(transaction, [*noticing, pod] if repairs else noticing)
            transaction.remove([pod])
            target, used = self._place(transaction, pod, candidate.source.name, targets.get(pod.uid, ""))
            if not used:
                opened.add(target)
            after = self._broken(transaction, noticing)
            if not after <= before:
                raise _Refused("a constraint of another pod would be broken")
            repaired += len(before - after)
            assert pod.owner is not None
            owner = f"{pod.owner.kind}/{pod.owner.name}"
            moves.append(Move(pod.uid, pod.key, owner, candidate.source.name, target))
        weights = self._rules.weights
        emptied = not to_move(candidate.source)
        gain = weights.get(EMPTY_NODES, 0) * (emptied - len(opened))
        gain += weights.get(REPAIR_VIOLATIONS, 0) * repaired
        gain += weights.get(MAKE_ROOM, 0) * (self._room.total() - room)
        if not self._quick and (gain <= 0 or gain + _EPSILON < self._rules.min_gain * len(moves)):
            raise _Refused("the gain is too small")
        if not self._budgets.spend(pods):
            raise _Refused("a PodDisruptionBudget allows no disruption")
        name, goal = candidate.source.name, candidate.goal
        return Step(moves, gain, name if goal == EMPTY_NODES else "", name if goal == MAKE_ROOM else "")

    def _place(self, transaction: CacheTransaction, pod: PodInfo, source: str, target: str) -> tuple[str, bool]:
        """The node that the pod gets, and whether it had other pods to move. `target`: the only node that it may get;
        "": any.
        """
        cache, framework = self._cache, self._view.framework_of(pod)
        assert framework is not None, "a pod that may move has a policy"
        again, state = created_again(pod), CycleState()
        try:
            if target:
                chosen = cache.present(target)
                if chosen is None or not (self._takes[chosen.slot] and _passes(framework, again, state, chosen)):
                    raise _Refused(f"node {target} does not take pod {pod.key} any more")
            else:
                within = self._within(source)
                slots = find_feasible(
                    framework, cache, again, state, within=within, take_nominated=False
                ).feasible.slots
                fill = self._fill((CPU, MEMORY, *pod.requests.amounts))[slots]
                chosen = cache.node_at(int(slots[int(np.argmax(fill))])) if len(slots) else None
            if chosen is None:
                raise _Refused("no other node takes all of its pods")
            used = bool(to_move(chosen))
            if reserve(transaction, framework, state, again, chosen.name) is not None:
                raise _Refused("a plugin refuses to reserve the node")
        except PluginError as error:
            raise _Refused("a plugin failed") from error
        if not self._quick:
            self._dependants.add(again)
        return chosen.name, used

    def _within(self, source: str) -> Bools:
        """bool[nodes]: those that may take pods from this one."""
        within = self._takes.copy()
        within[self._cache.table.slots_of([source, *self._sources])] = False
        return within

    def _fill(self, resources: Iterable[str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """float64[nodes]: the greatest share of these resources that pods request."""
        table = self._cache.table
        shares = np.zeros(table.size)
        for resource in resources:
            np.maximum(shares, table.requested(resource) / np.maximum(table.allocatable(resource), 1), out=shares)
        return shares

    # Constraints

    def _broken(self, transaction: CacheTransaction, pods: Iterable[PodInfo]) -> set[str]:
        """The uids of those that do not pass their filters on their nodes."""
        return {pod.uid for pod in pods if self._is_broken(transaction, pod)}

    def _is_broken(self, transaction: CacheTransaction, pod: PodInfo) -> bool:
        self._cache.deadline.point()
        framework, info = self._view.framework_of(pod), self._cache.placement(pod.uid)
        if framework is None or info is None or info.node is None:
            return False
        before = transaction.checkpoint()
        transaction.remove([pod])
        try:
            return not _passes(framework, created_again(pod), CycleState(), info, alone=True)
        except PluginError:
            return False
        finally:
            transaction.rollback(before)


def _passes(framework: Framework, pod: PodInfo, state: CycleState, info: NodeInfo, *, alone: bool = False) -> bool:
    """True if the pod passes all filters on the node. `alone`: without the pods that are nominated to it. Raises
    PluginError.
    """
    outcome = framework.pre_filter(state, pod)
    if outcome.status is not None or (outcome.node_names is not None and info.name not in outcome.node_names):
        return False
    check = framework.filter_node if alone else framework.filter_node_with_nominated
    return check(state, pod, info) is None


def created_again(pod: PodInfo) -> PodInfo:
    """The pod that its controller creates in its place, as it waits."""
    return replace(
        pod, uid=f"{pod.uid}/again", node_name="", nominated_node_name="", phase="Pending", start_time=None, raw=None
    )
