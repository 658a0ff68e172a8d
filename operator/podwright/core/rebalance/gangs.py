"""Room for gangs that wait: which pods to move so that a gang can start.

    each member that the gang needs: a node as it is, else one with few pods in its way ─► these to other nodes
        ─► with all of them moved, the gang's own plan says where its members will be

A gang in one topology domain is tried in each domain, and gets the one with the fewest moves; so is each part of a
group that has parts.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from math import inf
from typing import Final

import numpy as np

from podwright.core.cycle import find_feasible
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools, CycleState
from podwright.core.gangs.branches import Branch, branch_of
from podwright.core.gangs.capacity_bounds import CapacityBounds, emptied_domains
from podwright.core.gangs.decisions import GangPlacement
from podwright.core.gangs.gathering import slot_for
from podwright.core.gangs.plan import GangPlanner
from podwright.core.gangs.simulation import reserve
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.rebalance.checks import Refused, passes
from podwright.core.rebalance.movable import Movable, may_be_emptied
from podwright.core.rebalance.room import fill_of, in_the_way, size_of
from podwright.core.rebalance.rules import RebalanceRules
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.reservations import Reservation, rebalancing_name
from podwright.core.state.transaction import CacheTransaction

MOST_NODES: Final = 32
"""The search for a member's node ends after this many nodes in a row whose pods cannot move."""
MOST_DOMAINS: Final = 32
"""In how many domains a group is tried; `MOST_OF_PARTS`: each of its parts."""
MOST_OF_PARTS: Final = 8
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
    if group is None or not group.gang or cache.groups.root_of(key) != key:
        return None
    needed, all_members = cache.groups.lacking(group), cache.groups.members(key)
    members = [pod for pod in all_members.unplaced() if not pod.gates]
    if not 0 < needed <= len(members):
        return None
    if all_members.levels is None:
        return WaitingGang(group, members[:needed])
    try:
        branch = branch_of(cache, group, members, group.near)
    except InvalidObjectError:  # which the gang's own plan names
        return None
    return WaitingGang(group, next(branch.in_order())) if branch.reach >= 0 else None


def waiting_gangs(cache: Cache, rules: RebalanceRules) -> Sequence[WaitingGang]:
    """Returns the gangs that the policy makes room for, the most important and oldest first."""
    names = frozenset(rules.gangs)
    found = [
        gang
        for group in (cache.groups.all() if names else ())
        if not names.isdisjoint(("*", f"{group.namespace}/*", f"{group.namespace}/{group.name}"))
        if (gang := waiting_gang(cache, group.key)) is not None
    ]
    return sorted(found, key=lambda gang: (-gang.members[0].priority, gang.members[0].creation, gang.name))


def fewest_moves(cache: Cache, gang: WaitingGang, largest: Mapping[str, int]) -> int:
    """No fewer moves make room for the members, by their requests alone. `largest`: of each resource, the most that a
    pod that moves has.
    """
    amounts = [pod.requests.amounts for pod in gang.members]
    least = {each: min(of.get(each, 0) for of in amounts) for each in amounts[0]}
    least = {each: amount for each, amount in least.items() if amount}
    if not least:
        return 0
    table = cache.table
    fit = [(table.allocatable(each) - table.requested(each)) // amount for each, amount in least.items()]
    lacking = len(amounts) - int(np.maximum(np.min(fit, axis=0), 0)[table.valid].sum())
    for_each = max(1, *(-(-largest.get(each, 0) // amount) for each, amount in least.items()))
    return max(0, -(-lacking // for_each))


def places_of(gang: WaitingGang, framework: Framework, cache: Cache) -> Targets:
    """The nodes that the gang's own plan finds for its members; empty if it cannot start."""
    found = GangPlanner(framework=framework, cache=cache, group=gang.group, below=lambda _: 0).plan(gang.members)
    return {each.pod.uid: each.node_name for each in found.placements} if isinstance(found, GangPlacement) else {}


def places_in_held_room(gang: WaitingGang, framework: Framework, cache: Cache, seats: Targets) -> Targets:
    """The same, once these nodes are held for its members: none takes the room of a larger one."""
    held = [replace(each, name=f"planned {each.name}") for each in room_of(gang, cache, seats, inf)]
    for reservation in held:
        cache.reservations.set(reservation)
    try:
        return places_of(gang, framework, cache)
    finally:
        for reservation in held:
            cache.reservations.remove(reservation.name)


def room_of(gang: WaitingGang, cache: Cache, places: Targets, until: float) -> Sequence[Reservation]:
    """The room of the gang on these nodes: a Reservation for each group that its members name."""
    by_group: dict[str, list[PodInfo]] = {}
    for pod in gang.members:
        if pod.uid in places:
            by_group.setdefault(pod.group, []).append(pod)
    return [
        Reservation(
            name=rebalancing_name(group.uid),
            namespace=group.namespace,
            until=until,
            slots=[slot_for(pod, places[pod.uid]) for pod in pods],
            priority=max(pod.priority for pod in gang.members),
            group=key,
            group_uid=group.uid,
        )
        for key, pods in by_group.items()
        if (group := cache.groups.get(key)) is not None
    ]


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
    raises Refused, as `point` does once there is no more time. `takes`: bool[nodes], those that may take pods;
    `closed`: nodes that take pods, so none of theirs move. `undoer` gives a function, to be called once, after which
    all of this and the cluster are as they are now.
    """

    transaction: CacheTransaction
    movable: Movable
    gang: WaitingGang
    framework: Framework
    takes: Bools
    sources: set[str]
    closed: set[str]
    undoer: Callable[[], Callable[[], None]]
    point: Callable[[], None]
    move: Callable[[Sequence[PodInfo]], Targets]
    seats: dict[str, str] = field(default_factory=dict)

    def moves(self) -> tuple[Targets, Targets]:
        """The fewest moves that are found, and the nodes of the members then. Leaves everything as it was. Raises
        Refused.
        """
        group, undo = self.gang.group, self.undoer()
        try:
            branch = branch_of(self.transaction.cache, group, self.gang.members, group.near)
            return self._seat_branch(branch, self.takes, MOST_DOMAINS), self.seats
        except InvalidObjectError as error:
            raise Refused(str(error)) from error
        finally:
            undo()

    def _seat_branch(self, branch: Branch, within: Bools, most: int) -> Targets:
        """Seats the branch in the domain with the fewest moves, of at most `most` domains that it may be in. Raises
        Refused.
        """
        if not branch.near.required:
            return self._seat_parts(branch, within)
        best: tuple[int, Bools] | None = None
        why, pods = "no other nodes take the pods that are in its way", branch.all_untried
        cache = self.transaction.cache
        domains = emptied_domains(CapacityBounds(self.framework, cache, pods), cache, branch.near, len(pods))
        for nodes in islice(domains, most):
            undo = self.undoer()
            try:
                moves = len(self._seat_parts(branch, nodes & within))
                best = best if best is not None and best[0] <= moves else (moves, nodes)
            except Refused as error:
                why = str(error)
            finally:
                undo()
        if best is None:
            raise Refused(why)
        return self._seat_parts(branch, best[1] & within)

    def _seat_parts(self, branch: Branch, within: Bools) -> Targets:
        moves = self._seat_all(branch.untried, within)
        for part in branch.children:
            if part.all_untried:
                moves |= self._seat_branch(part, within, MOST_OF_PARTS)
        return moves

    def _seat_all(self, members: Sequence[PodInfo], within: Bools) -> dict[str, str]:
        moves: dict[str, str] = {}
        found: dict[tuple[tuple[str, int], ...], list[tuple[int, float, str]]] = {}
        for member in sorted(members, key=lambda pod: sorted(pod.requests.amounts.items()), reverse=True):
            self.point()
            if not self._seat_as_it_is(member, within):
                requests = {each: amount for each, amount in member.requests.amounts.items() if amount}
                key = tuple(sorted(requests.items()))
                if key not in found:
                    found[key] = self._by_moves(requests, within)
                moves |= self._seat_by_moves(member, requests, found[key])
        return moves

    def _seat_as_it_is(self, member: PodInfo, within: Bools) -> bool:
        """On the fullest node that takes it."""
        cache, state = self.transaction.cache, CycleState()
        try:
            search = find_feasible(
                self.framework, self.transaction.cache, member, state, within=within, take_nominated=False
            )
            slots = search.feasible.slots
            if not len(slots):
                return False
            requested = [resource for resource, amount in member.requests.amounts.items() if amount]
            node = cache.node_at(int(slots[int(np.argmax(fill_of(cache.table, requested)[slots]))])).name
            self.seats[member.uid] = node
            return reserve(self.transaction, self.framework, state, member, node) is None
        except PluginError as error:
            raise Refused("a plugin failed") from error

    def _by_moves(self, requests: Mapping[str, int], within: Bools) -> list[tuple[int, float, str]]:
        """A heap of the nodes on which moves make room for a pod with these requests."""
        found = list[tuple[int, float, str]]()
        for info in self.transaction.cache.nodes.values():
            self.transaction.cache.deadline.point()
            if info.node is not None and within[info.slot] and may_be_emptied(info.node):
                self._offer(found, info, requests)
        heapq.heapify(found)
        return found

    def _offer(self, found: list[tuple[int, float, str]], info: NodeInfo, requests: Mapping[str, int]) -> None:
        if info.name not in self.closed and (pods := in_the_way(info, requests, self.movable)):
            found.append((len(pods), sum(size_of(pod, requests) for pod in pods), info.name))

    def _seat_by_moves(
        self, member: PodInfo, requests: Mapping[str, int], found: list[tuple[int, float, str]]
    ) -> Targets:
        failed = 0
        while found and failed < MOST_NODES:
            info = self.transaction.cache.nodes[heapq.heappop(found)[2]]
            pods = () if info.name in self.closed else in_the_way(info, requests, self.movable)
            if not pods or not self._would_take(member, info, pods):
                continue
            undo = self.undoer()
            self.sources.add(info.name)
            try:
                targets = self.move(pods)
                seat(self.transaction, self.framework, [member], {member.uid: info.name})
                self.seats[member.uid] = info.name
            except Refused:
                undo()
                failed += 1
                continue
            self.closed.update(targets.values())
            again: list[tuple[int, float, str]] = []
            self._offer(again, info, requests)
            for each in again:
                heapq.heappush(found, each)
            return targets
        raise Refused("no other nodes take the pods that are in its way")

    def _would_take(self, member: PodInfo, info: NodeInfo, pods: Sequence[PodInfo]) -> bool:
        """True if the node takes the member without these pods."""
        before = self.transaction.checkpoint()
        self.transaction.remove(pods)
        try:
            return passes(self.framework, member, CycleState(), info)
        except PluginError:
            return False
        finally:
            self.transaction.rollback(before)
