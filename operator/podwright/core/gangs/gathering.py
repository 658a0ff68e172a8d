"""Gathering: a gang at the head of its queue that has found no room for long gets a reservation, so that smaller pods
do not take the room again and again.

Only a queue that will stay within its share, or its guarantee, gathers room. The room is where the gang could start
first (`start_times`). Other pods are placed there only if they declare to end before. One gang of each queue gathers
room at a time. All times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from podwright.core.gangs.run_times import run_times_of
from podwright.core.gangs.start_times import EarliestStart
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.queues.flavors import judged
from podwright.core.queues.queues import amount_text, queues_of
from podwright.core.queues.tree import add_amounts
from podwright.core.state.cache import Cache
from podwright.core.state.reservations import Reservation, Slot, gathered_name
from podwright.core.state.transaction import CacheTransaction

KEPT_SECONDS: Final = 600.0
"""For how long room is kept after the time at which the gang could start. Then the place is thought over."""
UNKNOWN_SECONDS: Final = 3600.0
"""For how long it is kept if that time is not known."""
AGAIN_SECONDS: Final = 60.0
"""After this time, a gang that cannot start anywhere is planned again."""


@dataclass(frozen=True, slots=True)
class DueGang:
    """A gang for which its queue is to gather room. `members`: those of the waiting ones that it needs to start."""

    queue: str
    group: PodGroup
    members: Sequence[PodInfo]


@dataclass(frozen=True, slots=True)
class _Gang:
    """A gang that gathers room: its key, the name of its reservation, and the uids of the pods that will have ended."""

    key: str
    reservation: str
    ended: frozenset[str]


class GatheringGangs:
    """Which gangs of a cache's queues gather room. The caller adds and removes their reservations."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._queues = queues_of(cache)
        self._gathering: dict[str, _Gang] = {}
        """By queue: the gang that gathers room."""
        self._vain: dict[str, float] = {}
        """By key of a gang that cannot start anywhere: when it is planned again."""

    def __bool__(self) -> bool:
        """False if there is nothing to look after."""
        return self._queues.active or bool(self._gathering)

    def held(self) -> Mapping[str, Reservation]:
        """The reservations of gangs, by name."""
        found = (self._cache.reservations.get(gang.reservation) for gang in self._gathering.values())
        return {reservation.name: reservation for reservation in found if reservation is not None}

    def take_over(self) -> Sequence[str]:
        """The gangs for which the cache has reservations go on gathering room. Returns the names of the reservations
        that are without their gang.
        """
        self._cache.reservations.join_parts()
        return [each.name for each in self._cache.reservations.gathered() if not self._adopts(each)]

    def _adopts(self, reservation: Reservation) -> bool:
        group = self._cache.groups.get(reservation.group)
        waiting = self._cache.groups.members(reservation.group).unplaced()
        same = group is not None and group.uid == reservation.group_uid
        queue = self._queues.queue_of(waiting[0]) if same and waiting and self._queues.active else ""
        if not queue or queue in self._gathering:
            return False
        infos = [self._cache.present(name) for name in {slot.node for slot in reservation.slots}]
        ended = frozenset(
            uid
            for info in infos
            if info is not None
            for uid, pod in info.pods.items()
            if pod.group != reservation.group and self._queues.queue_of(pod)
        )
        self._gathering[queue] = _Gang(reservation.group, reservation.name, ended)
        return True

    def release(self, now: float) -> Sequence[str]:
        """The names of the reservations of gangs that do not wait any more, or whose queue no longer gathers room."""
        self._vain = {key: due for key, due in self._vain.items() if due > now}
        released = []
        for queue, gang in [*self._gathering.items()]:
            rules = self._queues.get(queue) if self._queues.active else None
            held, group = self._cache.reservations.get(gang.reservation), self._cache.groups.get(gang.key)
            needed = () if group is None else self._needed(group)
            wanted = needed and rules is not None and rules.gather_after
            if held is None or not wanted or not self._is_still_owed(queue, needed, gang, held, now):
                released.append(gang.reservation)
                del self._gathering[queue]
        return released

    def idle(self) -> Sequence[str]:
        """The queues of which no gang gathers room."""
        return [name for name in self._queues.names() if name not in self._gathering] if self._queues.active else ()

    def due(self, queue: str, now: float) -> DueGang | None:
        """The gang at the head of this queue, if it has waited for long enough."""
        rules = self._queues.get(queue)
        if rules is None or not rules.gather_after:
            return None
        waiting = self._queues.waiting_pods(queue)
        head = min(waiting, key=lambda pod: (-pod.priority, pod.creation), default=None)
        group = self._cache.groups.of(head) if head is not None and head.group else None
        if group is None or self._vain.get(group.key, now) > now:
            return None
        members, needed = self._needed(group), self._cache.groups.lacking(group)
        since = min((pod.creation for pod in members), default=inf)
        if not 0 < needed <= len(members) or now < since + rules.gather_after:
            return None
        if any(self._cache.nominator.node_of(pod.uid) for pod in members):
            return None  # its victims are on their way out
        return None if self._queues.bound_together(members, needed) else DueGang(queue, group, members)

    def may_end(self) -> Iterable[PodInfo]:
        """The running pods of all queues."""
        return [pod for name in self._queues.names() for pod in self._queues.placed_pods(name)]

    def gather(self, due: DueGang, start: EarliestStart | None, now: float) -> Reservation | None:
        """The reservation with which the gang gathers room. None: it cannot start anywhere, or not within what its
        queue is entitled to, or it does not wait any more.
        """
        group = due.group
        nodes = [] if start is None else [start.nodes.get(pod.uid, "") for pod in due.members]
        if start is None or not self._is_owed(due.queue, due.members, nodes, start.ended):
            self._vain[group.key] = now + AGAIN_SECONDS
            return None
        if self._cache.groups.get(group.key) != group or not self._cache.groups.members(group.key).unplaced():
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
        self._gathering[due.queue] = _Gang(group.key, reservation.name, start.ended)
        return reservation

    def _needed(self, group: PodGroup) -> Sequence[PodInfo]:
        """Of the waiting members, at most as many as the gang needs to start. None once it has started."""
        waiting = self._cache.groups.members(group.key).unplaced()
        return [pod for pod in waiting if not pod.gates][: self._cache.groups.lacking(group)]

    def _is_still_owed(
        self, queue: str, members: Sequence[PodInfo], gang: _Gang, held: Reservation, now: float
    ) -> bool:
        """`_is_owed`, also when pods have been placed there meanwhile that end before."""
        nodes = [slot.node for slot in held.slots]
        pods = [pod for name in {*nodes} if (info := self._cache.present(name)) for pod in info.pods.values()]
        end_of = run_times_of(self._cache).end_of
        ending = [pod for pod in pods if end_of(pod, now) <= held.until]
        with CacheTransaction(self._cache) as transaction:
            transaction.remove([pod for pod in ending if not self._queues.queue_of(pod)])  # they lessen what all share
            return self._is_owed(queue, members, nodes, gang.ended.union(pod.uid for pod in ending))

    def _is_owed(self, name: str, members: Sequence[PodInfo], nodes: Sequence[str], ended: Collection[str]) -> bool:
        """True if the queue and those above it stay within the larger of share and guarantee with these members on
        these nodes, when these pods have ended.
        """
        tree, amounts = self._queues.shared_out(), dict[str, int]()
        for pod, node in zip(members, nodes, strict=False):
            add_amounts(amounts, judged(tree.tracked(self._queues.amounts_on(pod, node))))
        freed: dict[str, dict[str, int]] = {}
        for uid in ended:
            if (info := self._cache.placement(uid)) is not None:
                pod = info.pods[uid]
                for above in self._queues.path(self._queues.queue_of(pod)):
                    add_amounts(freed.setdefault(above, {}), tree.tracked(self._queues.placed_amounts(pod)))
        queue = tree.get(name)
        return queue is not None and all(
            above.held.get(resource, 0) - freed.get(above.spec.name, {}).get(resource, 0) + amount
            <= above.entitled(resource)
            for above in queue.path
            for resource, amount in amounts.items()
        )


def slot_for(pod: PodInfo, node: str) -> Slot:
    """Room for the pod on the node."""
    return Slot(node, {name: amount_text(name, amount) for name, amount in pod.requests.amounts.items() if amount})
