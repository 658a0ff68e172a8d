"""True if an exception really cancels the running task: code of plugins may raise a CancelledError of its own."""

from __future__ import annotations

import asyncio


def is_interruption(error: BaseException) -> bool:
    """True if the running task is cancelled, or its coroutine is closed."""
    if not isinstance(error, asyncio.CancelledError | GeneratorExit):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no loop any more
        return True
    return task is None or task.cancelling() > 0
