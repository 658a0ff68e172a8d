"""Background tasks: they run until they are cancelled, and are restarted when they fail. Their state is kept."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

from podwright.engine.process.interruption import cancel, is_interruption

log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]

RESTART_SECONDS: Final = 1.0


LOOP_SECONDS: Final = 60.0
LOOP_RESTARTS: Final = 3
"""A task that was restarted this often within LOOP_SECONDS fails again and again."""


class BackgroundTasks:
    """Tasks that run until they are cancelled, and are restarted whenever they end or fail."""

    def __init__(
        self, restarted: Callable[[str], None] = lambda _name: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`restarted` gets the name of each task that is restarted. `clock` gives seconds and never steps back."""
        self._tasks: list[asyncio.Task[None]] = []
        self._report = restarted
        self._clock = clock
        self._restarts: dict[str, deque[float]] = {}
        """When each task was restarted the last LOOP_RESTARTS times."""

    def start(self, name: str, work: Work) -> asyncio.Task[None]:
        """Runs `work` as a task."""
        # Kopf recognizes the tasks that it must not cancel by this prefix (controllers/supervisor.py).
        task = asyncio.create_task(run_forever(name, work, self._restarted), name=f"podwright {name}")
        self._tasks = [known for known in self._tasks if not known.done()]
        self._tasks.append(task)
        return task

    def _restarted(self, name: str) -> None:
        self._restarts.setdefault(name, deque(maxlen=LOOP_RESTARTS)).append(self._clock())
        self._report(name)

    def problem(self) -> str:
        """Returns the tasks that fail again and again, as text for people; "" without such tasks."""
        since = self._clock() - LOOP_SECONDS
        looping = [name for name, times in self._restarts.items() if len(times) == LOOP_RESTARTS and times[0] > since]
        return f"restarted again and again, see the log: {', '.join(looping)}" if looping else ""

    async def stop(self) -> None:
        """Cancels all tasks and waits for their end."""
        await cancel(self._tasks)


async def run_forever(name: str, work: Work, restarted: Callable[[str], None] = lambda _name: None) -> None:
    """Runs `work` again and again until this task is cancelled. `name` names it in the log, and for `restarted`."""
    while True:
        try:
            await work()
        except asyncio.CancelledError as error:
            if is_interruption(error):
                raise
            # Only a part of the work was cancelled: when Kopf stops, it cancels every task that it takes for its own.
            log.warning("%s was interrupted; restarting it", name)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            if is_interruption(error):
                raise
            log.exception("%s failed; restarting it", name)
        restarted(name)
        await asyncio.sleep(RESTART_SECONDS)
