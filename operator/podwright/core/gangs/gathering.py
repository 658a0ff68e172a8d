"""Gathering: gangs at the head of their queue that have found no room for long get reservations, so that smaller pods
do not take the room again and again.

Only a queue that will stay within its share, or its guarantee, gathers room. The room is where a gang could start
first (`start_times`). Other pods are placed there only if they declare to end before. The gangs of a queue gather room
in its order, each beside those before it, up to the first that cannot yet: so the order in which nodes become free does
not choose who starts, and no gang waits for room that one behind it has gathered later. All times are seconds since
the epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import inf
from typing import Final

from podwright.core.gangs.run_times import run_times_of
from podwright.core.gangs.start_times import EarliestStart
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.objects.resources import resource_list
from podwright.core.queues.amounts import amount_text
from podwright.core.queues.flavors import judged
from podwright.core.queues.queues import queues_of
from podwright.core.queues.tree import Queue, QueueTree, add_amounts
from podwright.core.state.cache import Cache
from podwright.core.state.reservations import Reservation, Slot, gathered_name
from podwright.core.state.transaction import CacheTransaction

KEPT_SECONDS: Final = 600.0
"""For how long room is kept after the time at which the gang could start. Then the place is thought over."""
UNKNOWN_SECONDS: Final = 3600.0
"""For how long it is kept if that time is not known."""
AGAIN_SECONDS: Final = 60.0
"""After this time, a gang that cannot start anywhere is planned again."""
MOST_GANGS: Final = 16
"""How many gangs of a queue gather room at a time."""


@dataclass(frozen=True, slots=True)
class DueGang:
    """A gang for which its queue is to gather room. `members`: those of the waiting ones that it needs to start."""

    queue: str
    group: PodGroup
    members: Sequence[PodInfo]


@dataclass(frozen=True, slots=True)
class _Gang:
    """A gang that gathers room: the name of its reservation, the uids of the pods that will have ended, and what is
    held on each node, whichever member comes there.
    """

    reservation: str
    ended: frozenset[str]
    needed: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class _Room:
    """Members on nodes, when these pods, by uid, have ended."""

    members: Sequence[PodInfo]
    nodes: Sequence[str]
    ended: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Sums:
    """The sums over several rooms: the members' requests, the amounts freed by pods that will have ended, by queue, and
    their uids.
    """

    requested: Mapping[str, int] = field(default_factory=dict)
    freed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()


class GatheringGangs:
    """Which gangs of a cache's queues gather room. The caller adds and removes their reservations."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._queues = queues_of(cache)
        self._gathering: dict[str, dict[str, _Gang]] = {}
        """By queue: the gangs that gather room, by key, in the order in which they began to."""
        self._vain: dict[str, tuple[str, float]] = {}
        """By queue: the gang that cannot start anywhere beside those, and when it is planned again."""
        compact_regularly(self)

    def __bool__(self) -> bool:
        """False if there is nothing to look after."""
        return self._queues.active or bool(self._gathering)

    def compact(self) -> None:
        """Forgets queues that are gone."""
        queues = self._queues
        self._vain = {name: vain for name, vain in self._vain.items() if queues.active and queues.get(name) is not None}

    def held(self) -> Mapping[str, Reservation]:
        """The reservations of gangs, by name."""
        gangs = (gang for each in self._gathering.values() for gang in each.values())
        found = (self._cache.reservations.get(gang.reservation) for gang in gangs)
        return {reservation.name: reservation for reservation in found if reservation is not None}

    def take_over(self) -> Sequence[str]:
        """The gangs for which the cache has reservations go on gathering room. Returns the names of the reservations
        that are without their gang.
        """
        self._cache.reservations.join_parts()
        gathered = sorted(self._cache.reservations.gathered(), key=self._turn)
        return [each.name for each in gathered if not self._adopts(each)]

    def _turn(self, reservation: Reservation) -> tuple[float, float]:
        """Returns the key by which the gangs of a queue are sorted."""
        waiting = self._cache.groups.members(reservation.group).unplaced()
        return min(map(_importance, waiting), default=(inf, inf))

    def _adopts(self, reservation: Reservation) -> bool:
        group = self._cache.groups.get(reservation.group)
        waiting = self._cache.groups.members(reservation.group).unplaced()
        same = group is not None and group.uid == reservation.group_uid
        queue = self._queues.queue_of(waiting[0]) if same and waiting and self._queues.active else ""
        if not queue or len(self._gathering.get(queue, ())) >= MOST_GANGS:
            return False
        infos = [self._cache.present(name) for name in {slot.node for slot in reservation.slots}]
        ended = frozenset(
            uid
            for info in infos
            if info is not None
            for uid, pod in info.pods.items()
            if self._cache.groups.key_of(pod) != reservation.group and self._queues.queue_of(pod)
        )
        self._gathering.setdefault(queue, {})[reservation.group] = _Gang(
            reservation.name,
            ended,
            _needed_on((slot.node, resource_list(slot.requests, "")) for slot in reservation.slots),
        )
        return True

    def release(self, now: float) -> Iterator[str]:
        """The names of the reservations of gangs that do not wait any more, or whose queue no longer gathers room.
        Empty between two steps, in which the cache may change: there may be many pods where room is held. What the
        steps find may be out of date, so before room is released, it is looked at in one piece.
        """
        for queue in [*self._gathering]:
            gathers = self._queues.gathers_after(queue)
            if gathers:
                owed, gangs, rooms = True, dict(self._gathering[queue]), dict[str, _Room]()
                for key, room in self._rooms_then(queue, gangs, now):
                    rooms[key] = room
                    yield ""
                for key in [key for key in gangs if key not in rooms]:
                    gang = gangs.pop(key)
                    if not [*self._rooms(queue, {key: gang})]:
                        del self._gathering[queue][key]
                        self._vain.pop(queue, None)  # whoever is next may have room now
                        yield gang.reservation
                for _, owed in self._verdicts(queue, gangs, rooms):
                    yield ""
                    if not owed:
                        break
                if owed and self._gathering[queue]:
                    continue
            gangs = self._gathering[queue]
            kept = self._still_owed(queue, gangs, now) if gathers else ()
            released = [gangs.pop(key).reservation for key in [*gangs] if key not in kept]
            if released:
                self._vain.pop(queue, None)  # whoever is next may have room now
            if not gangs:
                del self._gathering[queue]
            yield from released

    def names(self) -> Sequence[str]:
        """The queues whose gangs may gather room."""
        return self._queues.names() if self._queues.active else ()

    def due(self, queue: str, now: float) -> Iterator[DueGang]:
        """The gangs at the head of this queue that have waited for long enough and gather no room yet, in order. Ends
        unless `gather` finds room for one before the next is asked for.
        """
        after = self._queues.gathers_after(queue)
        if not after:
            return
        vain, again_at = self._vain.get(queue, ("", 0.0))
        while len(gangs := self._gathering.get(queue, {})) < MOST_GANGS:
            group = self._first(queue, but=gangs)
            if group is None or (group.key == vain and again_at > now):
                return
            if (due := self._due(queue, group, now - after)) is None:
                return
            yield due
            if group.key not in self._gathering.get(queue, {}):
                return

    def _first(self, queue: str, but: Collection[str]) -> PodGroup | None:
        """The group that waits first, but for these; None if a single pod comes before it. A queue may have very many
        pods, so they are not sorted.
        """
        groups, waiting = self._cache.groups, self._queues.waiting_pods(queue)
        others = (pod for pod in waiting if groups.key_of(pod) not in but) if but else waiting
        first = min(others, key=_importance, default=None)
        return groups.of(first) if first is not None and first.group else None

    def _due(self, queue: str, group: PodGroup, since: float) -> DueGang | None:
        """None unless the gang has waited since then, and only for room that nobody makes for it."""
        members, needed = self._needed(group), self._cache.groups.lacking(group)
        if not 0 < needed <= len(members) or min(pod.creation for pod in members) > since:
            return None
        if self._has_victims(members):
            return None
        return None if self._queues.bounds.together(members, needed) else DueGang(queue, group, members)

    def _has_victims(self, members: Iterable[PodInfo]) -> bool:
        """True if the members hold other room already, where their victims are on their way out."""
        return any(self._cache.nominator.node_of(pod.uid) for pod in members)

    def may_end(self) -> Iterator[PodInfo]:
        """The running pods of all queues, of each queue in the order in which they got their nodes. An attempt may
        pause at each.
        """
        for name in self._queues.names():
            for pod in self._queues.placed_in_order(name):
                self._cache.deadline.point()
                yield pod

    def gather(
        self, due: DueGang, start: EarliestStart | None, now: float
    ) -> Generator[None, None, Reservation | None]:
        """The reservation with which the gang gathers room, which the caller adds at once. None: it cannot start
        anywhere, or not within what its queue is entitled to, or it does not wait any more. Yields between two steps,
        in which the cache may change.
        """
        group = due.group
        nodes = [] if start is None else [start.nodes.get(pod.uid, "") for pod in due.members]
        owed = False
        if start is not None:
            sums, lacking = _Sums(), dict[str, int]()
            for key, room in self._rooms(due.queue, dict(self._gathering.get(due.queue, {}))):
                sums, lacking[key] = self._with(self._queues.shared_out(), sums, room), self._lacks(key)
                yield
            if any(self._lacks(key) != count for key, count in lacking.items()):
                return None  # others have begun to start
            tree = self._queues.shared_out()
            owed = self._is_owed(tree.get(due.queue), self._with(tree, sums, _Room(due.members, nodes, start.ended)))
        if start is None or not owed:
            self._vain[due.queue] = group.key, now + AGAIN_SECONDS
            return None
        waiting = self._cache.groups.members(group.key).unplaced()
        if self._cache.groups.get(group.key) != group or not waiting or self._has_victims(waiting):
            return None
        known = start.at < inf
        reservation = Reservation(
            name=gathered_name(group.uid),
            namespace=group.namespace,
            until=start.at + KEPT_SECONDS if known else now + UNKNOWN_SECONDS,
            slots=[slot_for(pod, node) for pod, node in zip(due.members, nodes, strict=True) if node],
            group=group.key,
            group_uid=group.uid,
            at=start.at if known else 0.0,
        )
        needed = _needed_on((node, pod.requests.amounts) for pod, node in zip(due.members, nodes, strict=True) if node)
        self._gathering.setdefault(due.queue, {})[group.key] = _Gang(reservation.name, start.ended, needed)
        return reservation

    def _lacks(self, key: str) -> int:
        group = self._cache.groups.get(key)
        return 0 if group is None else self._cache.groups.lacking(group)

    def _needed(self, group: PodGroup) -> Sequence[PodInfo]:
        """Returns the waiting members that the gang needs to start; empty once it has started."""
        waiting = self._cache.groups.members(group.key).unplaced()
        return [pod for pod in waiting if not pod.gates][: self._cache.groups.lacking(group)]

    def _rooms(self, queue: str, gangs: Mapping[str, _Gang]) -> Iterator[tuple[str, _Room]]:
        """By key: what is held for those of these gangs of the queue that still wait for it."""
        for key, gang in gangs.items():
            held, group = self._cache.reservations.get(gang.reservation), self._cache.groups.get(key)
            if held is None or group is None or held.group_uid != group.uid:
                continue
            members = self._needed(group)
            if members and self._queues.queue_of(members[0]) == queue and not self._has_victims(members):
                yield key, _Room(members, [slot.node for slot in held.slots], gang.ended)

    def _rooms_then(self, queue: str, gangs: Mapping[str, _Gang], now: float) -> Iterator[tuple[str, _Room]]:
        """The same, although pods may have been placed there meanwhile: those that end before, whoever placed them."""
        end_of = run_times_of(self._cache).end_of
        for key, room in self._rooms(queue, gangs):
            held = self._cache.reservations.get(gangs[key].reservation)
            until = 0.0 if held is None else held.until
            there = [pod for name in {*room.nodes} if (info := self._cache.present(name)) for pod in info.pods.values()]
            yield key, replace(room, ended=room.ended.union(pod.uid for pod in there if end_of(pod, now) <= until))

    def _still_owed(self, queue: str, gangs: Mapping[str, _Gang], now: float) -> Collection[str]:
        """The keys of those of these gangs that wait for room to which the queue is entitled."""
        rooms = dict(self._rooms_then(queue, gangs, now))
        ending = {uid: info for room in rooms.values() for uid in room.ended if (info := self._cache.placement(uid))}
        pods = [info.pods[uid] for uid, info in ending.items()]
        with CacheTransaction(self._cache) as transaction:
            transaction.remove([pod for pod in pods if not self._queues.queue_of(pod)])  # they lessen what all share
            return {key for key, owed in self._verdicts(queue, gangs, rooms) if owed}

    def _verdicts(
        self, queue: str, gangs: Mapping[str, _Gang], rooms: Mapping[str, _Room]
    ) -> Iterator[tuple[str, bool]]:
        """Each of these gangs by key, and True if it keeps its room: it waits for it, the room is there, and the queue
        is entitled to it beside the rooms before it.
        """
        sums = _Sums()
        for key, gang in gangs.items():
            owed, room = False, rooms.get(key)
            if room is not None and self._is_there(key, gang, room.ended):
                tree = self._queues.shared_out()
                more = self._with(tree, sums, room)
                owed = self._is_owed(tree.get(queue), more)
                sums = more if owed else sums
            yield key, owed

    def _is_there(self, key: str, gang: _Gang, ended: Collection[str]) -> bool:
        """False if the nodes are gone, or too small with the pods that stay, which other schedulers may place there."""
        for name, amounts in gang.needed.items():
            info = self._cache.present(name)
            staying = [] if info is None else [pod for uid, pod in info.pods.items() if uid not in ended]
            if any(self._cache.groups.key_of(pod) == key for pod in staying):
                continue  # the gang has begun to start there
            for resource, amount in amounts.items():
                taken = sum(pod.requests.amounts.get(resource, 0) for pod in staying)
                if info is None or info.allocatable(resource) < taken + amount:
                    return False
        return True

    def _with(self, tree: QueueTree, sums: _Sums, room: _Room) -> _Sums:
        """The sums with those of one more room."""
        queues, requested = self._queues, dict(sums.requested)
        claimed, alike = bool(queues.devices.classes), dict[tuple[int, str], Mapping[str, int]]()
        for pod, node in zip(room.members, room.nodes, strict=False):
            if (key := (id(pod.requests), node)) not in alike or claimed:
                alike[key] = judged(tree.tracked(queues.amounts_on(pod, node)))
            add_amounts(requested, alike[key])
        freed = {name: dict(amounts) for name, amounts in sums.freed.items()}
        alike.clear()
        for uid in room.ended - sums.ended:
            if (info := self._cache.placement(uid)) is not None:
                pod = info.pods[uid]
                if (key := (id(pod.requests), info.name)) not in alike or claimed:
                    alike[key] = tree.tracked(queues.placed_amounts(pod))
                for above in queues.path(queues.queue_of(pod)):
                    add_amounts(freed.setdefault(above, {}), alike[key])
        return _Sums(requested, freed, sums.ended | room.ended)

    @staticmethod
    def _is_owed(queue: Queue | None, sums: _Sums) -> bool:
        """True if the queue and those above it stay within the larger of share and guarantee with all of these
        members.
        """
        return queue is not None and all(
            above.held.get(resource, 0) - sums.freed.get(above.spec.name, {}).get(resource, 0) + amount
            <= above.entitled(resource)
            for above in queue.path
            for resource, amount in sums.requested.items()
        )


def _needed_on(rooms: Iterable[tuple[str, Mapping[str, int]]]) -> Mapping[str, Mapping[str, int]]:
    """The sum for each node."""
    needed: dict[str, dict[str, int]] = {}
    for node, amounts in rooms:
        add_amounts(needed.setdefault(node, {}), amounts)
    return needed


def _importance(pod: PodInfo) -> tuple[int, float]:
    """The order of the pods of a queue."""
    return -pod.priority, pod.creation


def slot_for(pod: PodInfo, node: str) -> Slot:
    """Room for the pod on the node."""
    return Slot(node, {name: amount_text(name, amount) for name, amount in pod.requests.amounts.items() if amount})
