"""Retries the waiting pods that a change of a queue may help, once for all changes of one turn of the event loop."""

from __future__ import annotations

import asyncio

from podwright.core.framework.cluster_events import QUEUE, Action, ClusterEvent
from podwright.core.queues.queues import queues_of
from podwright.engine.state import EngineState


class QueueChanges:
    """See the module."""

    def __init__(self, state: EngineState) -> None:
        self._queue = state.queue
        self._wake = state.wake
        self._due = False
        queues = queues_of(state.cache)
        queues.pending = lambda: [queued.pod for queued in map(state.queue.get, state.queue.uids()) if queued]
        queues.listen(self._changed)

    def _changed(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._retry)

    def _retry(self) -> None:
        self._due = False
        self._queue.move(ClusterEvent(QUEUE, Action.UPDATE_OTHER))
        self._wake()
