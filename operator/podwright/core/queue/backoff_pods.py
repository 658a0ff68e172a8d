"""BackoffPods: the pods that wait until their backoff is over, and of which some may leave early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podwright.core.queue.heap import KeyedHeap
from podwright.core.queue.queued_pod import QueuedPod


class BackoffPods:
    """Backoffs end on whole seconds; of those that end together, the pod that sorts first leaves first.

    While no other pod is due, a rejected pod leaves early. A costly pod, and one whose attempt ended in an error, does
    not.
    """

    def __init__(self) -> None:
        self._rejected: KeyedHeap[QueuedPod] = KeyedHeap()
        self._others: KeyedHeap[QueuedPod] = KeyedHeap()

    def push(self, queued: QueuedPod, rank: Any) -> None:
        """Adds a pod, or updates it. `rank` is its rank among the active pods."""
        self.remove(queued.uid)
        heap = self._rejected if queued.rejectors and not queued.costly else self._others
        heap.push(queued.uid, (queued.backoff_until, rank), queued)

    def remove(self, uid: str) -> None:
        self._rejected.remove(uid)
        self._others.remove(uid)

    def pop_early(self) -> QueuedPod | None:
        """Removes the first of the pods that may leave early, and returns it, or None."""
        return self._rejected.pop()

    def pop_expired(self, now: float) -> Iterator[QueuedPod]:
        """Removes the pods whose backoff is over, and returns them."""
        for heap in (self._rejected, self._others):
            while (head := heap.peek()) is not None and not head[1].backing_off(now):
                heap.remove(head[1].uid)
                yield head[1]

    def due(self, now: float) -> float | None:
        """The clock time from which on a pod can leave; None if there is no pod."""
        if self._rejected:
            return now
        head = self._others.peek()
        return None if head is None else float(head[0][0]) + 1.0

    def __len__(self) -> int:
        return len(self._rejected) + len(self._others)
