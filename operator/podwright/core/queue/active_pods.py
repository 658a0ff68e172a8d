"""ActivePods: the pods that are ready for an attempt, in the queue's order, with a lane for the costly ones.

A child process decides about costly pods (`engine.planning`). What they still take of the loop's time, or of the API
server's, gets at most `SHARE`: after 100 ms, the lane is closed for more than a second, and the other pods go first,
whatever their order. While the lane is open, a costly pod takes its turn in the queue's order: it waits for no ordinary
pod that sorts after it.

Of the costly pods, every second turn goes to the one that has waited in the lane the longest. In the queue's order
alone, one pod of high priority that is rejected again and again would keep all others out: its backoff is over before
the lane opens. So a costly pod waits for at most 2n attempts, where n is the number of pods in the lane when it came. A
pod that an ordinary pod precedes does not use such a turn, but goes to the end of the line, so that it holds up none
behind it.

If no ordinary pod was active for IDLE_SECONDS, the lane takes up to ADVANCE_SECONDS of its share in advance: no
ordinary pod has to be protected then, and a few costly pods in a row need not wait for each other. Of any minute, it
still gets a tenth at most.

Right after the start the lane is closed, until no other pod is active or `START_SECONDS` are over: the process first
does the work that it was restarted for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final

from podwright.core.objects.compaction import compact_regularly
from podwright.core.queue.fair_pods import FairPods, QueueOrder
from podwright.core.queue.heap import KeyedHeap
from podwright.core.queue.held_pods import HeldPods
from podwright.core.queue.queued_pod import QueuedPod

SHARE: Final = 0.08
"""The lane's share of the time. With what its pods cost in the queue and on the way to it, that is at most a tenth."""
CLOSED: Final = 1.0 / SHARE - 1.0
"""How long the lane is closed for each second of attempts in it, in seconds."""
IDLE_SECONDS: Final = 1.0
ADVANCE_SECONDS: Final = 1.2
"""Seconds of attempts. With the share of a minute, 4.8 seconds, that is a tenth of it."""
START_SECONDS: Final = 10.0
"""After the first pod is popped, costly pods wait this long at most for the ordinary ones."""


class ActivePods:
    """See the module."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ordinary: KeyedHeap[QueuedPod] | FairPods = KeyedHeap()
        self.fair: FairPods | None = None
        """The ordinary pods, if queues order them."""
        self._costly: KeyedHeap[QueuedPod] = KeyedHeap()
        self._line: OrderedDict[str, tuple[Any, QueuedPod]] = OrderedDict()
        """The costly pods and their ranks, by uid. The one that has waited the longest is the first."""
        self._line_is_next = False
        """True if the next turn in the lane goes to the pod that has waited the longest."""
        self._held = HeldPods()
        self.opens_at: float | None = None
        """When the lane opens or has opened; None until it opens for the first time."""
        self.is_busy = False
        """True if pods of the lane are being decided, so that no others are popped."""
        self._started_at: float | None = None
        self._last_ordinary = 0.0
        """When the last pod that is not costly was popped or removed."""
        compact_regularly(self)

    def order_by(self, order: QueueOrder | None) -> None:
        """From now on, ordinary pods are ordered by their queues, or, with None, only as QueueSort orders them."""
        entries = [*self._ordinary.entries()]
        self.fair = None if order is None else FairPods(order)
        self._ordinary = KeyedHeap() if self.fair is None else self.fair
        for entry in entries:
            self._ordinary.push(*entry)

    def push(self, queued: QueuedPod, rank: Any) -> None:
        """Adds a pod, or gives it another rank. Its lane depends on whether it is costly now. A held pod stays held."""
        if self._held and self._held.update(queued, rank):
            return
        if queued.costly:
            self._ordinary.remove(queued.uid)
            self._costly.push(queued.uid, rank, queued)
            self._line[queued.uid] = rank, queued
        else:
            if self._line:
                self._leave_lane(queued.uid)
            self._ordinary.push(queued.uid, rank, queued)

    def remove(self, uid: str) -> None:
        if self._ordinary.remove(uid) is not None:
            self._last_ordinary = self._clock()
        self._leave_lane(uid)
        if self._held:
            self._held.remove(uid)

    def hold(self, queued: QueuedPod, rank: Any, lane: Hashable) -> None:
        """Adds a pod that `pop` leaves out until it is released. See HeldPods."""
        self._held.push(queued, rank, lane)

    def release(self, lane: Hashable) -> bool:
        """Lets `pop` return the first pod held in this lane. False if the lane holds no pod."""
        found = self._held.pop(lane)
        if found is not None:
            self.push(*found)
        return found is not None

    @property
    def held_lanes(self) -> Sequence[Hashable]:
        """The lanes in which pods are held."""
        return self._held.lanes

    def _leave_lane(self, uid: str) -> None:
        if self._costly.remove(uid) is None:
            return
        del self._line[uid]
        if not self._line:
            self.compact()

    def compact(self) -> None:
        """Frees the capacity that the line needed when it was longer."""
        self._line = OrderedDict(self._line)

    def pop(self) -> QueuedPod | None:
        """Removes the pod whose turn it is, and returns it, or None."""
        if self.opens_at is None:
            self._start()
        if not self._costly or not self._costly_goes_first():
            ordinary = self._ordinary.pop()
            if ordinary is not None:
                self._last_ordinary = self._clock()
            return ordinary
        return self.pop_costly()

    def pop_costly(self) -> QueuedPod | None:
        """Removes the pod of the lane whose turn it is, and returns it, or None."""
        queued = self._costly_first()
        if queued is None:
            return None
        if self._line_is_next:
            oldest = next(iter(self._line))
            if oldest != queued.uid:
                self._line.move_to_end(oldest)
        self._line_is_next = not self._line_is_next
        self._leave_lane(queued.uid)
        return queued

    def first(self) -> QueuedPod | None:
        """The pod whose turn it is, or None."""
        if self._costly and self._costly_goes_first():
            return self._costly_first()
        head = self._ordinary.peek()
        return None if head is None else head[1]

    def _costly_first(self) -> QueuedPod | None:
        """The costly pod whose turn it is, if the lane's first pod goes before all ordinary ones."""
        if self._line_is_next and self._line:
            rank, oldest = next(iter(self._line.values()))
            head = self._ordinary.peek()
            if head is None or bool(rank < head[0]):
                return oldest
        first = self._costly.peek()
        return None if first is None else first[1]

    def _costly_goes_first(self) -> bool:
        head, costly = self._ordinary.peek(), self._costly.peek()
        if self.is_busy or costly is None or self.opens_at is None or self._clock() < self._open_from(self.opens_at):
            return False
        return head is None or bool(costly[0] < head[0])

    def _open_from(self, opens_at: float) -> float:
        """When the lane opens if no ordinary pod comes: at `opens_at`, or earlier if no ordinary pod has to be
        protected.
        """
        if self._ordinary:
            return opens_at
        return min(opens_at, max(self._last_ordinary + IDLE_SECONDS, opens_at - ADVANCE_SECONDS * CLOSED))

    def _start(self) -> None:
        """Opens the lane for the first time, if it is time."""
        now = self._clock()
        if self._started_at is None:
            self._started_at = now
        if not self._ordinary or now >= self._started_at + START_SECONDS:
            self.opens_at = now

    def charge(self, seconds: float) -> None:
        """An attempt at a costly pod, or what else counts to the lane's share, took that long, and ends now."""
        if self.opens_at is not None:
            self.opens_at = max(self._clock() - seconds, self.opens_at) + seconds / SHARE

    def due(self, now: float) -> float | None:
        """The clock time from which on `pop` returns a pod; None if there is no pod."""
        if self._ordinary:
            return now
        if not self._costly or self.is_busy:
            return None
        return now if self.opens_at is None else max(now, self._open_from(self.opens_at))

    @property
    def costly(self) -> int:
        """The number of pods in the lane."""
        return len(self._costly)

    def __iter__(self) -> Iterator[QueuedPod]:
        """The ordinary pods, in no particular order, then those in the lane of costly pods. Not those that are held."""
        yield from self._ordinary
        yield from self._costly

    def __len__(self) -> int:
        return len(self._ordinary) + len(self._costly) + len(self._held)
