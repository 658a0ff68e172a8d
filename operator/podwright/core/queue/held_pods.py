"""HeldPods: active pods that `pop` leaves out, because what their attempts need is in use: one lane for each such
thing.

`release` gives back the first pod of a lane, in the queue's order.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from podwright.core.queue.heap import KeyedHeap
from podwright.core.queue.queued_pod import QueuedPod


class HeldPods:
    """See the module."""

    def __init__(self) -> None:
        self._lanes: dict[Hashable, KeyedHeap[QueuedPod]] = {}
        self._lane_of: dict[str, Hashable] = {}

    def push(self, queued: QueuedPod, rank: Any, lane: Hashable) -> None:
        """Holds a pod."""
        self._lanes.setdefault(lane, KeyedHeap()).push(queued.uid, rank, queued)
        self._lane_of[queued.uid] = lane

    def update(self, queued: QueuedPod, rank: Any) -> bool:
        """Gives a held pod another rank. False if it is not held."""
        if queued.uid not in self._lane_of:
            return False
        self._lanes[self._lane_of[queued.uid]].push(queued.uid, rank, queued)
        return True

    def remove(self, uid: str) -> None:
        """An unknown pod is not an error."""
        lane = self._lane_of.pop(uid, None)
        if lane is not None:
            self._lanes[lane].remove(uid)
            self._drop_if_empty(lane)

    def pop(self, lane: Hashable) -> tuple[QueuedPod, Any] | None:
        """Removes the first pod of a lane. The pod and its rank, or None."""
        heap = self._lanes.get(lane)
        head = None if heap is None else heap.peek()
        if head is None:
            return None
        rank, queued = head
        self.remove(queued.uid)
        return queued, rank

    def _drop_if_empty(self, lane: Hashable) -> None:
        if not self._lanes[lane]:
            del self._lanes[lane]
        if not self._lane_of:
            self._lane_of.clear()

    @property
    def lanes(self) -> Sequence[Hashable]:
        """The lanes that hold pods."""
        return [*self._lanes]

    def __len__(self) -> int:
        return len(self._lane_of)
