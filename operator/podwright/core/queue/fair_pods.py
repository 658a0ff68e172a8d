"""FairPods: the active pods of queues of teams. The next pod is the first one of the queue whose turn it is.

At each level of the tree, a heap holds the queues that have active pods at or below them, sorted by the key of the
queue; equal ones by how long they have waited for a turn. A change of a queue costs the depth of the tree times the
logarithm of its neighbours. Within a queue, pods are in the order of the QueueSort plugin. So are pods without a queue,
which go before the pod whose turn it is if that one does not sort before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.pod import PodInfo
from podwright.core.queue.heap import KeyedHeap
from podwright.core.queue.queued_pod import QueuedPod
from podwright.core.queue.room import RoomWaiters

_NO_QUEUE: Final = ""


class QueueOrder(RoomWaiters, Protocol):
    """Whose turn it is. `Queues` in core/queues is one."""

    @property
    def structure(self) -> int:
        """Rises when paths may have changed."""

    def turn_path(self, pod: PodInfo) -> Sequence[str]:
        """The pod's queue, its parent, and so on. Empty for a pod without a queue."""

    def order_key(self, name: str) -> Any:
        """Sorts the queues with the same parent."""

    def take_changed(self) -> Iterable[str]:
        """The queues whose keys may have changed since the last call."""


class FairPods:
    """See the module. It has the methods of a KeyedHeap of pods."""

    def __init__(self, order: QueueOrder) -> None:
        self._order = order
        self._pods: dict[str, KeyedHeap[QueuedPod]] = {}
        """By queue."""
        self._queue_of: dict[str, str] = {}
        """By uid."""
        self._turns: dict[str, KeyedHeap[str]] = {}
        """By queue: those right below it that have active pods, or of which one below has."""
        self._keys: dict[str, Any] = {}
        """By queue in any of `_turns`: its key there."""
        self._since: dict[str, int] = {}
        """By queue in any of `_turns`: the number of its last turn, or of when it came."""
        self._now = 0
        self._moved: set[str] = set()
        """The queues that are not yet sorted by their key and their last turn."""
        self._parents: dict[str, str] = {}
        self._structure = order.structure
        compact_regularly(self)

    def push(self, uid: str, rank: Any, queued: QueuedPod) -> None:
        """Adds a pod, or gives it another rank or queue."""
        path = self._order.turn_path(queued.pod)
        name = path[0] if path else _NO_QUEUE
        if self._queue_of.get(uid, name) != name:
            self.remove(uid)
        self._queue_of[uid] = name
        if name not in self._pods:
            self._pods[name] = KeyedHeap()
            self._enter(path)
        self._pods[name].push(uid, rank, queued)

    def remove(self, uid: str) -> QueuedPod | None:
        """Removes the pod, and returns it; None if there is none."""
        name = self._queue_of.pop(uid, None)
        if name is None:
            return None
        pods = self._pods[name]
        found = pods.remove(uid)
        if not pods:
            del self._pods[name]
            self._leave(name)
        return found

    def peek(self) -> tuple[Any, QueuedPod] | None:
        """The rank of the next pod, and the pod; None if there is none."""
        self._refresh()
        others = self._pods.get(_NO_QUEUE)
        other = None if others is None else others.peek()
        if not self._turns:
            return other
        name = _NO_QUEUE
        while name in self._turns:
            first = self._turns[name].peek()
            assert first is not None, "a heap of queues without queues"
            name = first[1]
        found = self._pods[name].peek()
        assert found is not None, "a queue without pods"
        return found if other is None or bool(found[0] < other[0]) else other

    def pop(self) -> QueuedPod | None:
        """Removes the next pod, and returns it; None if there is none."""
        head = self.peek()
        if head is None:
            return None
        uid = head[1].uid
        name = self._queue_of[uid]
        found = self.remove(uid)
        while name in self._parents:
            self._turn(name)
            self._moved.add(name)
            name = self._parents[name]
        return found

    def entries(self) -> Iterator[tuple[str, Any, QueuedPod]]:
        """The uids, ranks and pods."""
        for pods in self._pods.values():
            yield from pods.entries()

    def __contains__(self, uid: str) -> bool:
        return uid in self._queue_of

    def __len__(self) -> int:
        return len(self._queue_of)

    def __iter__(self) -> Iterator[QueuedPod]:
        for pods in self._pods.values():
            yield from pods

    # Internals

    def _enter(self, path: Sequence[str]) -> None:
        for name, parent in zip(path, (*path[1:], _NO_QUEUE), strict=False):
            if name in self._parents:
                break
            self._parents[name] = parent
            self._turns.setdefault(parent, KeyedHeap())
            self._keys[name] = self._order.order_key(name)
            self._turn(name)
            self._sort(name)

    def _leave(self, name: str) -> None:
        while name and name not in self._turns:
            parent = self._parents.pop(name)
            del self._keys[name], self._since[name]
            self._turns[parent].remove(name)
            if self._turns[parent]:
                break
            del self._turns[parent]
            name = parent

    def _turn(self, name: str) -> None:
        """The queue has a turn now."""
        self._now += 1
        self._since[name] = self._now

    def _sort(self, name: str) -> None:
        self._turns[self._parents[name]].push(name, (self._keys[name], self._since[name]), name)

    def _refresh(self) -> None:
        """Reads the keys that may have changed, and sorts the queues that have had a turn."""
        changed = self._order.take_changed()
        if self._structure != self._order.structure:
            entries = [*self.entries()]
            for known in (self._pods, self._queue_of, self._turns, self._keys, self._since, self._parents, self._moved):
                known.clear()
            self._structure = self._order.structure
            for entry in entries:
                self.push(*entry)
            return
        for name in changed:
            if name in self._parents and (key := self._order.order_key(name)) != self._keys[name]:
                self._keys[name] = key
                self._moved.add(name)
        for name in self._moved:
            if name in self._parents:
                self._sort(name)
        self._moved.clear()
