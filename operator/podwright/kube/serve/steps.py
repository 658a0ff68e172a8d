"""Answers that the scheduler's loop computes in short steps, between which it decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from podwright.kube.serve.event_loops import SchedulerLoop

MOST_ANSWERS: Final = 4
"""How many of one kind are computed at once; more are refused."""
STEP_SECONDS: Final = 10.0


async def last_step(loop: SchedulerLoop, begin: Callable[[], Iterator[Mapping[str, Any] | None]]) -> Mapping[str, Any]:
    """What the first step that is not None yields; empty if there is none. Raises TimeoutError if the loop does not answer."""
    steps = await loop.call(begin, STEP_SECONDS)
    while True:
        found = await loop.call(lambda: next(steps, {}), STEP_SECONDS)
        if found is not None:
            return found
