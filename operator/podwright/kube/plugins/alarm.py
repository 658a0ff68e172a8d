"""The timer of the plugin guard: a signal that interrupts the thread that decides, also in a system call such as a
sleep.

The kernel sends the signal, so it arrives although the plugin holds the interpreter's lock, and Python runs the handler
in the main thread, between two instructions. Native code that never looks for signals is not interrupted: then `/livez`
fails, and the container is restarted.
"""

from __future__ import annotations

import logging
import random
import signal
import threading
from types import FrameType
from typing import Any, Final

from podwright.engine.plugins.guard import TICK_SECONDS, PluginGuard

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 0.002
"""The longest time until an overdue call is checked again. The time varies, so that the signal also arrives where a
plugin catches no exceptions.
"""


class PluginAlarm:
    """See the module. Start it in the thread of the event loop."""

    def __init__(self, guard: PluginGuard) -> None:
        self._guard = guard
        self._before: Any = None
        self._running = False

    def start(self) -> None:
        """Starts the timer. In a thread other than the main one, only logs a warning."""
        if threading.current_thread() is not threading.main_thread():
            log.warning("plugins that do not return cannot be stopped: the scheduler does not run in the main thread")
            return
        self._before = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, TICK_SECONDS, TICK_SECONDS)
        self._running = True

    def stop(self) -> None:
        if self._running:
            self._running = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, self._before or signal.SIG_DFL)

    def _ring(self, _number: int, frame: FrameType | None) -> None:
        if self._guard.overdue():
            again = max(1e-6, AGAIN_SECONDS * random.random() ** 3)
            signal.setitimer(signal.ITIMER_REAL, again, TICK_SECONDS)
        self._guard.stop(frame)
