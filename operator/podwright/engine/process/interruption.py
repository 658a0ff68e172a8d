"""Cancelled tasks: what really cancels the running one, because code of plugins may raise a CancelledError of its own,
and how to cancel others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


def is_interruption(error: BaseException) -> bool:
    """True if the running task is cancelled, or its coroutine is closed."""
    if not isinstance(error, asyncio.CancelledError | GeneratorExit):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no loop any more
        return True
    return task is None or task.cancelling() > 0


async def cancel(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancels the tasks, and waits until they have ended, also if the caller is cancelled meanwhile, which is
    then raised. None: a task that has not begun.
    """
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)
