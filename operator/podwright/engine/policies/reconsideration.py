"""Retries the waiting pods about which another policy, or another generation of it, now decides. Many pods are compared
in slices. Changes during the slices are handled after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from podwright.core.queue import SchedulingQueue
from podwright.engine.process.steps import UNFINISHED, Steps, run_slice


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
        self._running: Steps[None] | None = None

    def begin(self, namespaces: Collection[str] | None) -> None:
        """Begins after the policies of these namespaces have changed; None: of all."""
        if namespaces is None:
            self._all = True
        else:
            self._namespaces.update(namespaces)
        if self._running is None:
            self._running = self._steps()
            self._run(self._running)

    def _run(self, steps: Steps[None]) -> None:
        if run_slice(steps, self._clock) is UNFINISHED:
            asyncio.get_running_loop().call_soon(self._run, steps)
        else:
            self._running = None
        self._wake()

    def _steps(self) -> Steps[None]:
        while self._all or self._namespaces:
            namespaces = None if self._all else frozenset(self._namespaces)
            self._all = False
            self._namespaces.clear()
            yield from self._queue.reconsider_moved(namespaces)
