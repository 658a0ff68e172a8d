"""Two event loops: the scheduler's, and the one of the server of health and metrics, which runs in a thread of its own.

A probe must be answered while the scheduler's loop decides about a pod, and must tell a loop that is busy from one that
is stuck. Only the scheduler's thread changes or reads the scheduler's state: the server asks it through
`SchedulerLoop.call`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from podwright.engine.process.steps import Steps, in_slices

T = TypeVar("T")

BEAT_SECONDS: Final = 1.0
"""How often the server's thread asks the scheduler's loop for a sign of life."""
STUCK_BEATS: Final = 60
"""The scheduler's loop counts as stuck after this many beats without an answer. An attempt to schedule a pod takes a
fraction of a beat.
"""


class SchedulerLoop:
    """The scheduler's loop, as seen by the server's thread.

    `unanswered` counts beats instead of seconds, so that a process that was stopped or a machine that slept is not
    taken for stuck.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """`loop` runs in another thread than the callers of all methods."""
        self._loop = loop
        self._answered = threading.Event()
        self._answered.set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.unanswered = 0
        """Beats in a row without an answer."""

    def beat(self) -> None:
        """Asks for a sign of life, unless the last question is still open."""
        if not self._answered.is_set():
            self.unanswered += 1
            return
        self.unanswered = 0
        self._answered.clear()
        with contextlib.suppress(TimeoutError):
            self._soon(self._answered.set)

    async def beat_for_ever(self) -> None:
        """Beats until the task is cancelled."""
        while True:
            self.beat()
            await asyncio.sleep(BEAT_SECONDS)

    @property
    def problem(self) -> str:
        """Why the loop counts as stuck; empty if it does not."""
        if self.unanswered < STUCK_BEATS:
            return ""
        return f"the scheduling loop has not run for {self.unanswered * BEAT_SECONDS:.0f} s"

    async def call(self, function: Callable[[], T], seconds: float) -> T:
        """Runs the function in the scheduler's thread, and returns its result. Raises TimeoutError, and what the
        function raises.
        """

        async def called() -> T:
            return function()

        return await self.run(called, seconds)

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T:
        """Like `call`, for a coroutine."""
        result = concurrent.futures.Future[T]()

        def finish(task: asyncio.Task[T]) -> None:
            if task.cancelled():
                result.set_exception(TimeoutError("it was cancelled"))
            elif (error := task.exception()) is not None:
                result.set_exception(error)
            else:
                result.set_result(task.result())

        def start() -> None:
            if result.set_running_or_notify_cancel():
                # Kopf must not take the task for its own (controllers/supervisor.py).
                task = asyncio.create_task(work(), name="podwright question of the server")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                task.add_done_callback(finish)

        self._soon(start)
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(result)

    async def compute(self, begin: Callable[[], Steps[T]], seconds: float) -> T:
        """Like `call`, for work in steps."""
        return await self.run(lambda: in_slices(begin()), seconds)

    def _soon(self, function: Callable[[], None]) -> None:
        """Raises TimeoutError if the loop has ended."""
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError as error:
            raise TimeoutError("the scheduling loop has ended") from error


class LoopThread:
    """A thread that runs an event loop. Its owner starts and stops it from another loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon, because it must not keep a process alive whose main thread has ended with an error.
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine in the thread, and returns its result. Raises what it raises."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def stop(self) -> None:
        """Ends the loop and waits for its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()
