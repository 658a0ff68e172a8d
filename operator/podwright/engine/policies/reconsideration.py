"""Retries the waiting pods about which another policy, or another generation of it, now decides. Many pods are compared
in slices. Changes during the slices are handled after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import Final

from podwright.core.queue import SchedulingQueue

SLICE_SECONDS: Final = 0.003
"""How long pods are compared with the policies before other tasks get a turn."""


class Reconsideration:
    """See the module. `wake`: tells the engine's loop that there may be a pod to schedule."""

    def __init__(self, queue: SchedulingQueue, clock: Callable[[], float], wake: Callable[[], None]) -> None:
        self._queue = queue
        self._clock = clock
        self._wake = wake
        self._namespaces: set[str] = set()
        """The namespaces whose policies have changed since the pods were compared."""
        self._all = False
        """True if the policies of all namespaces have changed."""
        self._running: Iterator[None] | None = None
        """The pods that are still to be compared."""

    def begin(self, namespaces: Collection[str] | None) -> None:
        """Begins after the policies of these namespaces have changed; None: of all."""
        if namespaces is None:
            self._all = True
        else:
            self._namespaces.update(namespaces)
        if self._running is None:
            self._run()

    def _run(self) -> None:
        ends = self._clock() + SLICE_SECONDS
        while self._running is not None or self._all or self._namespaces:
            if self._running is None:
                self._running = self._queue.reconsider_moved(None if self._all else frozenset(self._namespaces))
                self._all = False
                self._namespaces.clear()
            for _ in self._running:
                if self._clock() >= ends:
                    self._wake()
                    asyncio.get_running_loop().call_soon(self._run)
                    return
            self._running = None
        self._wake()
