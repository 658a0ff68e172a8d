"""Room for gangs that wait: which pods to move so that a gang can start.

    each member that the gang needs: a node as it is, else one with few pods in its way ─► these to other nodes
        ─► with all of them moved, the gang's own plan says where its members will be

A gang in one topology domain is tried in each domain, and gets the one with the fewest moves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from podwright.core.cycle import find_feasible
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools, CycleState
from podwright.core.gangs.capacity_bounds import emptied_domains
from podwright.core.gangs.decisions import GangPlacement
from podwright.core.gangs.plan import GangPlanner
from podwright.core.gangs.simulation import reserve
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.preemption.budgets import Budgets
from podwright.core.rebalance.checks import Refused, passes
from podwright.core.rebalance.movable import Movable, may_be_emptied
from podwright.core.rebalance.room import in_the_way, size_of
from podwright.core.rebalance.rules import RebalanceRules
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.transaction import CacheTransaction

MOST_NODES: Final = 32
"""So many nodes in a row whose pods cannot move end the search for a member's node."""
Targets = Mapping[str, str]
"""The node that each pod is to get, by uid, in the order of moves."""


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A gang, and the waiting members that it needs to start."""

    group: PodGroup
    members: Sequence[PodInfo]

    @property
    def name(self) -> str:
        return f"{self.group.namespace}/{self.group.name}"


def waiting_gang(cache: Cache, key: str) -> WaitingGang | None:
    """The gang of this key, if it needs room to start."""
    group = cache.groups.get(key)
    if group is None or not group.gang or group.composite or cache.groups.root_of(key) != key:
        return None
    needed = cache.groups.lacking(group)
    members = [pod for pod in cache.groups.members(key).unplaced() if not pod.gates]
    if not 0 < needed <= len(members):
        return None
    return WaitingGang(group, members if group.tree is not None else members[:needed])


def waiting_gangs(cache: Cache, rules: RebalanceRules) -> Sequence[WaitingGang]:
    """Those that the policy makes room for, the most important and oldest first."""
    names = [*rules.gangs]
    found = [
        gang
        for group in (cache.groups.all() if names else ())
        if any(name in ("*", f"{group.namespace}/*", f"{group.namespace}/{group.name}") for name in names)
        if (gang := waiting_gang(cache, group.key)) is not None
    ]
    return sorted(found, key=lambda gang: (-gang.members[0].priority, gang.members[0].creation, gang.name))


def places_of(gang: WaitingGang, framework: Framework, cache: Cache) -> Targets:
    """The nodes that the gang's own plan finds for its members; empty if it cannot start."""
    found = GangPlanner(framework=framework, cache=cache, group=gang.group, below=lambda _: 0).plan(gang.members)
    return {each.pod.uid: each.node_name for each in found.placements} if isinstance(found, GangPlacement) else {}


def seat(transaction: CacheTransaction, framework: Framework, members: Sequence[PodInfo], places: Targets) -> None:
    """Assumes the members on these nodes. Raises Refused."""
    for member in members:
        if (node := places.get(member.uid)) is None:
            continue
        info, state = transaction.cache.present(node), CycleState()
        try:
            if info is None or not passes(framework, member, state, info):
                raise Refused(f"node {node} has no room for pod {member.key} afterwards")
            if reserve(transaction, framework, state, member, node) is not None:
                raise Refused("a plugin refuses to reserve the node")
        except PluginError as error:
            raise Refused("a plugin failed") from error


@dataclass(slots=True)
class RoomSearch:
    """See the module. `move` moves pods off their nodes, none of them to one of `sources`, within the budgets, and
    raises Refused. `takes`: bool[nodes], those that may take pods; `closed`: nodes that take pods, so none of theirs
    move.
    """

    cache: Cache
    movable: Movable
    gang: WaitingGang
    framework: Framework
    takes: Bools
    sources: set[str]
    closed: set[str]
    budgets: Budgets
    move: Callable[[CacheTransaction, Sequence[PodInfo]], Targets]

    def moves(self, transaction: CacheTransaction) -> Targets:
        """The fewest moves that are found. Leaves everything as it was. Raises Refused."""
        best, why = None, "no other nodes take the pods that are in its way"
        for within in self._domains():
            start, restore = transaction.checkpoint(), self.budgets.restorer()
            sources, closed = set(self.sources), set(self.closed)
            try:
                found = self._seat_all(transaction, within)
                if best is None or len(found) < len(best):
                    best = found
            except Refused as error:
                why = str(error)
            finally:
                transaction.rollback(start)
                restore()
                self.sources.intersection_update(sources)
                self.closed.intersection_update(closed)
        if best is None:
            raise Refused(why)
        return best

    def _domains(self) -> Iterator[Bools]:
        group, members = self.gang.group, self.gang.members
        if not group.near.required:
            yield self.takes
            return
        for nodes in emptied_domains(self.framework, self.cache, group, members, len(members)):
            yield nodes & self.takes

    def _seat_all(self, transaction: CacheTransaction, within: Bools) -> Targets:
        moves: dict[str, str] = {}
        found: dict[tuple[tuple[str, int], ...], list[tuple[int, float, str]]] = {}
        for member in sorted(self.gang.members, key=lambda pod: sorted(pod.requests.amounts.items()), reverse=True):
            self.cache.deadline.point()
            if not self._seat_as_it_is(transaction, member, within):
                requests = {each: amount for each, amount in member.requests.amounts.items() if amount}
                key = tuple(sorted(requests.items()))
                if key not in found:
                    found[key] = self._by_moves(requests, within)
                moves |= self._seat_by_moves(transaction, member, requests, found[key])
        return moves

    def _seat_as_it_is(self, transaction: CacheTransaction, member: PodInfo, within: Bools) -> bool:
        """On the fullest node that takes it."""
        state = CycleState()
        try:
            search = find_feasible(self.framework, self.cache, member, state, within=within, take_nominated=False)
            slots = search.feasible.slots
            if not len(slots):
                return False
            table, fill = self.cache.table, np.zeros(len(slots))
            for resource, amount in member.requests.amounts.items():
                if amount:
                    share = table.requested(resource)[slots] / np.maximum(table.allocatable(resource)[slots], 1)
                    fill = np.maximum(fill, share)
            node = self.cache.node_at(int(slots[int(np.argmax(fill))])).name
            return reserve(transaction, self.framework, state, member, node) is None
        except PluginError as error:
            raise Refused("a plugin failed") from error

    def _by_moves(self, requests: Mapping[str, int], within: Bools) -> list[tuple[int, float, str]]:
        """A heap of the nodes on which moves make room for a pod with these requests."""
        found = list[tuple[int, float, str]]()
        for info in self.cache.nodes.values():
            self.cache.deadline.point()
            if info.node is not None and within[info.slot] and may_be_emptied(info.node):
                self._offer(found, info, requests)
        heapq.heapify(found)
        return found

    def _offer(self, found: list[tuple[int, float, str]], info: NodeInfo, requests: Mapping[str, int]) -> None:
        if info.name not in self.closed and (pods := in_the_way(info, requests, self.movable)):
            found.append((len(pods), sum(size_of(pod, requests) for pod in pods), info.name))

    def _seat_by_moves(
        self,
        transaction: CacheTransaction,
        member: PodInfo,
        requests: Mapping[str, int],
        found: list[tuple[int, float, str]],
    ) -> Targets:
        failed = 0
        while found and failed < MOST_NODES:
            info = self.cache.nodes[heapq.heappop(found)[2]]
            pods = () if info.name in self.closed else in_the_way(info, requests, self.movable)
            if not pods or not self._would_take(transaction, member, info, pods):
                continue
            before, restore = transaction.checkpoint(), self.budgets.restorer()
            self.sources.add(info.name)
            try:
                targets = self.move(transaction, pods)
                seat(transaction, self.framework, [member], {member.uid: info.name})
            except Refused:
                transaction.rollback(before)
                restore()
                self.sources.discard(info.name)
                failed += 1
                continue
            self.closed.update(targets.values())
            again: list[tuple[int, float, str]] = []
            self._offer(again, info, requests)
            for each in again:
                heapq.heappush(found, each)
            return targets
        raise Refused("no other nodes take the pods that are in its way")

    def _would_take(
        self, transaction: CacheTransaction, member: PodInfo, info: NodeInfo, pods: Sequence[PodInfo]
    ) -> bool:
        """True if the node takes the member without these pods."""
        before = transaction.checkpoint()
        transaction.remove(pods)
        try:
            return passes(self.framework, member, CycleState(), info)
        except PluginError:
            return False
        finally:
            transaction.rollback(before)
