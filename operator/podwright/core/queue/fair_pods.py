"""FairPods: the active pods of queues of teams. The next pod is the first one of the queue whose turn it is.

At each level of the tree, a heap holds the queues that have active pods at or below them, sorted by the key of the
queue; equal ones by how long they have waited for a turn. A change of a queue costs the depth of the tree times the
logarithm of its neighbours. Within a queue, pods are in the order of the QueueSort plugin. So are pods without a queue,
which go before the pod whose turn it is if that one does not sort before them. A pod that comes is put in its queue
when the next pod is asked for: while lists of queues and pods are read, no tree of queues is needed. For many pods,
`sort` does that in steps.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from math import ceil
from typing import Any, Final, Protocol

from podwright.core.objects.compaction import compact_regularly
from podwright.core.queue.heap import KeyedHeap
from podwright.core.queue.queued_pod import QueuedPod
from podwright.core.queue.room import RoomWaiters

KEYS_PER_STEP: Final = 16
"""How many queues' keys are read at a time after the capacity has changed."""
MANY: Final = 512
"""More pods than these are put in their queues in steps."""
PODS_PER_STEP: Final = 64
"""How many pods are put in their queues at a time. After queues have moved, at least one pod is popped for each such
step before many pods are put in their queues again: who changes queues all the time holds up no pods.
"""


class QueueOrder(RoomWaiters, Protocol):
    """Whose turn it is. `Turns` in core/queues is one."""

    @property
    def structure(self) -> int:
        """Rises when paths may have changed."""

    def order_key(self, name: str) -> tuple[Any, ...]:
        """Sorts the queues with the same parent. Raises KeyError if there is no such queue."""

    @property
    def capacity_changes(self) -> int:
        """Differs from its last value when the keys of all queues may have changed."""

    def take_changed(self) -> Iterable[str]:
        """The queues whose keys may have changed since the last call. For all, see `capacity_changes`."""


class _Line:
    """A queue that has active pods, or is above one that has. `key`: sorts it among its neighbours. `since`: the number
    of its last turn, or of when it came. It has either `pods` or queues `below`; only the top may have both.
    """

    __slots__ = ("below", "key", "name", "parent", "pods", "since")

    def __init__(self, name: str, parent: _Line | None, *, key: tuple[Any, ...] = (), since: int = 0) -> None:
        self.name = name
        self.parent = parent
        self.key = key
        self.since = since
        self.below: KeyedHeap[_Line] = _NO_LINES
        self.pods: KeyedHeap[QueuedPod] = _NO_PODS
        """Both are made when they are needed."""


_NO_LINES: Final[KeyedHeap[_Line]] = KeyedHeap()
_NO_PODS: Final[KeyedHeap[QueuedPod]] = KeyedHeap()
"""Shared empty heaps, which stay empty."""


class FairPods:
    """See the module. It has the methods of a KeyedHeap of pods."""

    def __init__(self, order: QueueOrder) -> None:
        self._order = order
        self._top = _Line("", None)
        """Above all queues. Its pods are those without a queue."""
        self._lines: dict[str, _Line] = {}
        """The others, by name of the queue."""
        self._line_of: dict[str, _Line | None] = {}
        """By uid of all pods. None: in no line yet."""
        self._come: dict[str, tuple[Any, QueuedPod]] = {}
        """By uid: the pods, with their ranks, that are to be put in their lines, first or again."""
        self._dissolved: list[_Line] = []
        """Lines from before paths changed, whose pods are to be put in their lines again."""
        self._pops_due = 0
        """If there are many pods, so many are popped before paths are read again. Until then, lines may be where their
        queues were, and a line with lines below may have pods.
        """
        self._now = 0
        self._moved: set[_Line] = set()
        """The queues that are not yet sorted by their key and their last turn."""
        self._structure = self._capacity = -1
        self._outdated: list[str] = []
        """The queues whose keys have not been read since the capacity changed, the next one last."""
        compact_regularly(self)

    def push(self, uid: str, rank: Any, queued: QueuedPod) -> None:
        """Adds a pod, or gives it another rank or queue."""
        self._line_of.setdefault(uid, None)
        self._come[uid] = rank, queued

    def remove(self, uid: str) -> QueuedPod | None:
        """Removes the pod and returns it; None if it is not here."""
        line = self._line_of.pop(uid, None)
        come = self._come.pop(uid, None) if self._come else None
        found = None if line is None else self._leave(line, uid)
        return found if come is None else come[1]

    def _leave(self, line: _Line, uid: str) -> QueuedPod | None:
        found = line.pods.remove(uid)
        while line.parent is not None and not line.pods and not line.below:
            if self._lines.get(line.name) is line:
                del self._lines[line.name]
            self._moved.discard(line)
            line.parent.below.remove(line.name)
            line = line.parent
        return found

    def peek(self) -> tuple[Any, QueuedPod] | None:
        """Returns the rank of the next pod, and the pod; None if no pod is active."""
        if len(self._line_of) <= 1 and len(self._come) == len(self._line_of):
            return next(iter(self._come.values()), None)  # no other pod is there, so it is nobody else's turn
        self._refresh()
        line, other = self._top, self._top.pods.peek()
        while (first := line.below.peek()) is not None:
            line = first[1]
        found = line.pods.peek()
        return found if other is None or (found is not None and bool(found[0] < other[0])) else other

    def pop(self) -> QueuedPod | None:
        """Removes the next pod and returns it; None if no pod is active."""
        head = self.peek()
        if head is None:
            return None
        line: _Line | None = self._line_of[head[1].uid]
        while line is not None and line.parent is not None:
            self._now += 1
            line.since = self._now
            self._moved.add(line)
            line = line.parent
        self._pops_due -= 1
        return self.remove(head[1].uid)

    @property
    def is_unsorted(self) -> bool:
        """True if many pods are to be put in their queues, so that `sort` is to be called before the next one is asked
        for.
        """
        if len(self._come) > MANY or self._dissolved:
            return True
        return len(self._line_of) > MANY and self._pops_due <= 0 and self._structure != self._order.structure

    def sort(self) -> Generator[None, None, None]:
        """Puts the pods in their queues. Yields between two steps, in which everything may change."""
        while self.is_unsorted:
            self._refresh(PODS_PER_STEP)
            yield

    def entries(self) -> Iterator[tuple[str, Any, QueuedPod]]:
        """The uids, ranks and pods."""
        for line in (self._top, *self._lines.values(), *self._dissolved):
            yield from (entry for entry in line.pods.entries() if entry[0] not in self._come)
        yield from ((uid, *come) for uid, come in self._come.items())

    def __contains__(self, uid: str) -> bool:
        return uid in self._line_of

    def __len__(self) -> int:
        return len(self._line_of)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for _, _, queued in self.entries())

    # Internals

    def _line(self, path: Sequence[str]) -> _Line:
        """The queue with this path, which has a line from now on, as have those above it."""
        line = self._lines.get(path[0])
        if line is None:
            key = self._order.order_key(path[0])
            parent = self._line(path[1:]) if len(path) > 1 else self._top
            self._now += 1
            line = self._lines[path[0]] = _Line(path[0], parent, key=key, since=self._now)
            if parent.below is _NO_LINES:
                parent.below = KeyedHeap()
            parent.below.push(line.name, (*line.key, line.since), line)
        return line

    def _refresh(self, most: int = sys.maxsize) -> None:
        """Reads the keys that may have changed, sorts the queues that have had a turn, and puts pods in their lines, at
        most so many.
        """
        order, lines = self._order, self._lines
        changed, structure = order.take_changed(), order.structure
        if self._structure != structure and (self._pops_due <= 0 or len(self._line_of) <= MANY):
            self._structure = structure
            self._pops_due = ceil((len(self._line_of) - len(self._come)) / PODS_PER_STEP)
            self._dissolved += (self._top, *lines.values())
            self._top = _Line("", None)
            for known in (lines, self._moved):
                known.clear()
        if not self._outdated and self._capacity != order.capacity_changes:
            self._capacity, self._outdated = order.capacity_changes, [*lines]
        if self._outdated:
            changed = {*changed, *self._outdated[-KEYS_PER_STEP:]}
            del self._outdated[-KEYS_PER_STEP:]
        for name in changed if lines else ():
            line = lines.get(name)
            if line is None:
                continue
            try:
                key = order.order_key(name)
            except KeyError:
                continue  # the queue is gone, and its pods are put in other lines later
            if key != line.key:
                line.key = key
                self._moved.add(line)
        for line in self._moved:
            if line.parent is not None:
                line.parent.below.push(line.name, (*line.key, line.since), line)
        self._moved.clear()
        if self._dissolved:
            self._dissolve(most)
        for uid, (rank, queued) in [*islice(self._come.items(), most)] if self._come else ():
            self._put(uid, rank, queued)
            del self._come[uid]

    def _dissolve(self, most: int) -> None:
        while self._dissolved and most > 0:
            pods = self._dissolved[-1].pods
            if (head := pods.peek()) is None:
                self._dissolved.pop()
                continue
            uid = head[1].uid
            pods.remove(uid)
            self._line_of[uid] = None
            self._come.setdefault(uid, head)
            most -= 1

    def _put(self, uid: str, rank: Any, queued: QueuedPod) -> None:
        try:
            path = self._order.turn_path(queued.pod)
            line = self._line(path) if path else self._top
        except Exception:  # noqa: BLE001 -- of a policy. The pod's attempt raises it again and reports it
            line = self._top
        before = self._line_of[uid]
        if before is not line:
            if before is not None:
                self._leave(before, uid)
            self._line_of[uid] = line
            if line.pods is _NO_PODS:
                line.pods = KeyedHeap()
        line.pods.push(uid, rank, queued)
