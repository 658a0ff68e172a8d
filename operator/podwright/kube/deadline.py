"""Waiting until a time, and a deadline that is put off often, as by each request of a connection. Putting it off costs
no timer of the loop each time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

_NEVER: Final = float("inf")


async def wait_at_most(seconds: float, what: Awaitable[object]) -> None:
    """Returns when it has happened, or after this time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await what


class LoopDeadline:
    """Calls `reached` when its time has come. Belongs to the loop in which it is first set."""

    def __init__(self, reached: Callable[[], None]) -> None:
        self._reached = reached
        self._at = _NEVER
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """The deadline is this many seconds from now. Replaces an earlier one."""
        loop = asyncio.get_running_loop()
        self._at = loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_at(self._at, self._due)

    def suspend(self) -> None:
        """Stops the deadline until it is set again."""
        self._at = _NEVER

    def cancel(self) -> None:
        """As `suspend`, but also removes the timer from the loop."""
        self._at = _NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        if self._at == _NEVER:
            return
        loop = asyncio.get_running_loop()
        if self._at > loop.time():
            self._timer = loop.call_at(self._at, self._due)
            return
        self._at = _NEVER
        self._reached()


async def first_of(*events: asyncio.Event) -> None:
    """Returns once one of the events is set."""
    waiting = [asyncio.create_task(event.wait(), name="podwright wait") for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
