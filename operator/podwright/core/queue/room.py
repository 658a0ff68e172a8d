"""Which waiting pods an event retries, so that a little room does not retry all who wait for some.

An event that gives the group of a pod no room does not retry the pod. Of the pods that a bound of their queue holds
back, an event retries only as many as the bound admits together, in the order of turns. If one of them does not use its
room, it is offered to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Protocol

from podwright.core.objects.pod import PodInfo
from podwright.core.queue.queued_pod import Place, QueuedPod

RoomCheck = Callable[[PodInfo], frozenset[str] | None]
"""The plugins because of which the pod's group has no room now, so that an attempt would fail; None if it may have
room.
"""


class RoomWaiters(Protocol):
    """The bounds of queues, and the pods that are tried again because these let them start."""

    ended_promises: dict[Any, PodInfo]
    """Empty if `take_ended_promises` has none to return."""

    @property
    def plugin(self) -> str:
        """The plugin in whose name bounds refuse pods."""

    def kind_of(self, pod: PodInfo) -> Hashable:
        """Pods of one kind that request the same are admitted alike."""

    def queue_of(self, pod: PodInfo) -> str:
        """The name of the pod's queue; empty if it has none that it may use."""

    def top_of(self, pod: PodInfo) -> str:
        """The highest queue above the pod's queue."""

    def holds_room(self, pod: PodInfo) -> bool:
        """True if room is held for the pod, which therefore does not wait for others."""

    def gathers_room(self, pod: PodInfo) -> bool:
        """True if the pod's group gathers room. So an event retries it only when it has room, and at once then."""

    def admits(self, pod: PodInfo) -> bool:
        """True if no bound forbids the pod to start beside those that are tried again."""

    def bound_of(self, pod: PodInfo) -> Hashable:
        """The bound that holds the pod back, or its gang as a whole, and what pods have in common that it holds alike.
        None if none does.
        """

    def take_changed_bounds(self) -> Collection[str]:
        """The uids of waiting pods of which `bound_of` may not be what it was, whoever holds how much. Each is returned
        once.
        """

    def take_ended_promises(self) -> Sequence[PodInfo]:
        """The pods that lost their nomination since the last call, or took it to another queue, and did not get a node
        in the queue that had it.
        """

    def refuses(self, bound: Any, pod: PodInfo) -> bool:
        """True if it is clear from this bound alone, which has held the pod back, that it is not admitted. So it is for
        all pods with this bound, except those of `take_changed_bounds`.
        """

    def still_holds(self, bound: Any, pod: PodInfo) -> bool:
        """True if this bound holds the pod back beside those that are tried again, or if none does."""

    def turn_path(self, pod: PodInfo) -> Sequence[str]:
        """The pod's queue, its parent, and so on. Empty for a pod without a queue in which pods may start."""

    def turn_key(self, name: str) -> Any:
        """Sorts the queues with the same parent by whose turn it is, if the pods that are tried again had started."""

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
    """Yields the pods whose last rejection names a bound that no longer holds them back, although another one does.
    They are retried to name that one. A group names what it lacks as a whole.
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


class _Line:
    """A queue with pods that might be tried again, or one above it. Sorted by what was so when they were last looked
    at.
    """

    __slots__ = ("below", "known", "pods")

    def __init__(self) -> None:
        self.known: dict[str, _Line] = {}
        """By name: the queues right below."""
        self.below: list[tuple[Any, str, _Line]] = []
        """A heap of these, with their keys."""
        self.pods: list[tuple[Any, int, _Alike]] = []
        """A heap of its pods: of those that are admitted alike."""


class _Alike:
    """Pods of one kind that request the same, or a group. `ranked`: a heap of them, once they may be tried."""

    __slots__ = ("pods", "ranked")

    def __init__(self) -> None:
        self.pods: list[QueuedPod] = []
        self.ranked: list[tuple[Any, int, QueuedPod]] | None = None

    def any_of(self, waits: Callable[[QueuedPod], bool]) -> QueuedPod | None:
        """One that still waits, the first if they are ranked. Forgets others that do not wait any more."""
        while self.ranked is None and self.pods and not waits(self.pods[-1]):
            self.pods.pop()
        while self.ranked and not waits(self.ranked[0][2]):
            heappop(self.ranked)
        if self.ranked is None:
            return self.pods[-1] if self.pods else None
        return self.ranked[0][2] if self.ranked else None

    def rank(self, rank: Callable[[QueuedPod], Any]) -> list[tuple[Any, int, QueuedPod]]:
        if self.ranked is None:
            self.ranked = [(rank(queued), index, queued) for index, queued in enumerate(self.pods)]
            heapify(self.ranked)
            self.pods.clear()
        return self.ranked


class HeldBack:
    """Pods that bounds hold back. To ask for the next of them again and again costs their kinds, not their number."""

    def __init__(self, held: Iterable[QueuedPod], *, rank: Callable[[QueuedPod], Any], turns: RoomWaiters) -> None:
        """Within a queue, `rank` sorts them."""
        self._rank, self._turns = rank, turns
        self._alike: dict[Hashable, _Alike] = {}
        for queued in held:
            pod = queued.pod
            key = pod.group or (turns.kind_of(pod), id(pod.requests))
            if (alike := self._alike.get(key)) is None:
                alike = self._alike[key] = _Alike()
            alike.pods.append(queued)

    def in_turn(self, check: RoomCheck, waits: Callable[[QueuedPod], bool]) -> Iterator[QueuedPod]:
        """Yields the pods that their bounds admit now, in the order of turns. A group comes as a whole. `waits`: false
        for a pod that is to be left out from now on.

        The caller says `try_again` for each that it does retry, before it asks for the next. For the next, the depth of
        the tree is looked at, not all its queues: all that are below one that is nearer to its limit now have another
        turn.
        """
        turns = self._turns
        top, keys = _Line(), dict[str, Any]()  # keys by queue, until a pod is tried again
        refused = dict[Hashable, bool]()  # by bound of gangs, until then

        def key_of(name: str) -> Any:
            if name not in keys:
                keys[name] = turns.turn_key(name)
            return keys[name]

        def is_refused(queued: QueuedPod) -> bool:
            if not queued.pod.group:
                return turns.refuses(queued.bound, queued.pod)
            if queued.bound not in refused:
                refused[queued.bound] = turns.refuses(queued.bound, queued.pod)
            return refused[queued.bound]

        for number, (key, alike) in enumerate([*self._alike.items()]):
            queued = alike.any_of(waits)
            if queued is None:
                del self._alike[key]
            elif not is_refused(queued) and (queued.pod.group or turns.admits(queued.pod)):
                line = top
                for name in reversed(turns.turn_path(queued.pod)):
                    if name not in line.known:
                        line.known[name] = _Line()
                        heappush(line.below, (key_of(name), name, line.known[name]))
                    line = line.known[name]
                heappush(line.pods, (alike.rank(self._rank)[0][0], number, alike))
        while top.pods or top.below:
            line = top
            while line.below and not line.pods:
                key, name, below = line.below[0]
                if (now := key_of(name)) != key:
                    heapreplace(line.below, (now, name, below))
                elif below.pods or below.below:
                    line = below
                else:
                    heappop(line.below)
            if not line.pods:
                continue  # no pods are left there
            _, number, alike = heappop(line.pods)
            queued, ranked = alike.any_of(waits), alike.rank(self._rank)
            if queued is None or is_refused(queued):
                continue  # those that are tried again need the room
            if queued.pod.group:
                if not lacks_room(queued, check):
                    members = [member for _, _, member in sorted(ranked)]
                    ranked.clear()
                    yield from filter(waits, members)
                    keys.clear()
                    refused.clear()
            elif turns.admits(queued.pod):
                heappop(ranked)
                if ranked:
                    heappush(line.pods, (ranked[0][0], number, alike))
                yield queued
                keys.clear()
                refused.clear()
