"""Which waiting pods an event retries, so that a little room does not retry all who wait for some.

An event that gives the group of a pod no room does not retry the pod. Of the pods that a bound of their queue holds
back, an event retries only as many as the bound admits together, in the order of turns. If one of them does not use its
room, it is offered to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from typing import Any, Protocol

from podwright.core.objects.pod import PodInfo
from podwright.core.queue.queued_pod import Place, QueuedPod

RoomCheck = Callable[[PodInfo], frozenset[str] | None]
"""The plugins because of which the pod's group has no room now, so that an attempt would fail; None if it may have
room.
"""


class RoomWaiters(Protocol):
    """The bounds of queues, and the pods that are tried again because these let them start."""

    @property
    def plugin(self) -> str:
        """In whose name bounds refuse pods."""

    def kind_of(self, pod: PodInfo) -> Hashable:
        """Pods of one kind that request the same are admitted alike."""

    def queue_of(self, pod: PodInfo) -> str:
        """The name of the pod's queue; empty if it has none that it may use."""

    def top_of(self, pod: PodInfo) -> str:
        """The highest queue above the pod's queue."""

    def holds_room(self, pod: PodInfo) -> bool:
        """True if room is held for the pod, which therefore does not wait for others."""

    def admits(self, pod: PodInfo) -> bool:
        """True if no bound forbids the pod to start beside those that are tried again."""

    def bound_of(self, pod: PodInfo) -> Hashable:
        """The bound that holds the pod back, and what pods have in common that it holds alike. None if none does."""

    def still_holds(self, bound: Any, pod: PodInfo) -> bool:
        """True if this bound holds the pod back beside those that are tried again, or if none does."""

    def turn_of(self, pod: PodInfo) -> Any:
        """Sorts the pods that might be tried again by whose turn it is. Pods of one queue have the same."""

    def try_again(self, pod: PodInfo) -> None:
        """The pod is tried again because its bounds let it start. Its room is not offered to others meanwhile."""

    def tried(self, uid: str) -> bool:
        """The attempt at the pod is over. Returns whether it was tried again and did not use its room."""


def unchecked(_pod: PodInfo) -> None:
    """The check of a queue without groups."""


def lacks_room(queued: QueuedPod, check: RoomCheck) -> bool:
    """True to leave a rejected pod alone: its group has no room, and it waits for the events of all plugins that can
    change that.
    """
    return queued.place is Place.UNSCHEDULABLE and still_lacks_room(queued, check)


def still_lacks_room(queued: QueuedPod, check: RoomCheck) -> bool:
    """The same of a pod that is tried again."""
    if not queued.pod.group or queued.pending_plugins:
        return False
    plugins = check(queued.pod)
    return plugins is not None and plugins <= queued.unschedulable_plugins


def is_held(queued: QueuedPod, turns: RoomWaiters) -> bool:
    """True if a bound of its queue holds the pod back, so that it waits for its turn."""
    return (
        turns.plugin in queued.unschedulable_plugins
        and queued.place is Place.UNSCHEDULABLE
        and not turns.holds_room(queued.pod)
    )


def misled(held: Iterable[QueuedPod], turns: RoomWaiters) -> Iterator[QueuedPod]:
    """Those of the pods whose last rejection names a bound that does not hold them back any more, although another one
    does. They are retried to name that one. A group names what it lacks as a whole.
    """
    known: dict[Hashable, bool] = {}
    for queued in held:
        bound = queued.bound
        if bound is None or queued.pod.group or queued.place is not Place.UNSCHEDULABLE:
            continue
        if bound not in known:
            known[bound] = turns.still_holds(bound, queued.pod)
        if not known[bound]:
            yield queued


def in_turn(
    held: Iterable[QueuedPod], rank: Callable[[QueuedPod], Any], turns: RoomWaiters, check: RoomCheck
) -> Iterator[QueuedPod]:
    """Those of the pods that their bounds admit, in the order of turns, within a queue by `rank`. A group comes as a
    whole.

    The caller says `try_again` for each that it does retry, before it asks for the next.
    """
    alike: dict[Hashable, list[QueuedPod]] = {}
    known: dict[str, Any] = {}  # turns by queue, until a pod is tried again

    def turn_of(pod: PodInfo) -> Any:
        name = turns.queue_of(pod)
        if name not in known:
            known[name] = turns.turn_of(pod)
        return known[name]

    for queued in held:
        pod = queued.pod
        alike.setdefault(pod.group or (turns.kind_of(pod), id(pod.requests)), []).append(queued)
    heap = []
    for number, pods in enumerate(alike.values()):
        first = pods[0].pod
        if first.group or turns.admits(first):
            ranked = [(rank(queued), index, queued) for index, queued in enumerate(pods)]
            heapify(ranked)
            heap.append((turn_of(first), ranked[0][0], number, ranked))
    heapify(heap)
    while heap:
        turn, first_rank, number, ranked = heap[0]
        first = ranked[0][2].pod
        if (now := turn_of(first)) != turn:
            heapreplace(heap, (now, first_rank, number, ranked))
        elif first.group:
            heappop(heap)
            if not lacks_room(ranked[0][2], check):
                yield from (queued for _, _, queued in sorted(ranked))
                known.clear()
        elif not turns.admits(first):
            heappop(heap)
        else:
            queued = heappop(ranked)[2]
            if ranked:
                heapreplace(heap, (turn, ranked[0][0], number, ranked))
            else:
                heappop(heap)
            yield queued
            known.clear()
