"""Long work, done in steps: between two steps, other work may be done and everything may change.

A generator does the work, yields between two steps, and returns the result. Each step takes a fraction of a
millisecond, if it can.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from enum import Enum
from typing import Final, Literal, TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Does something in steps, and returns the result."""
Turn = Callable[[], Awaitable[None]] | None
"""Awaited before each step; None: steps follow one another."""

SLICE_SECONDS: Final = 0.003
"""How long steps run before other tasks do."""


class _Slice(Enum):
    UNFINISHED = "unfinished"


UNFINISHED: Final = _Slice.UNFINISHED


def run_slice(steps: Steps[T], clock: Callable[[], float], *, alone: bool = False) -> T | Literal[_Slice.UNFINISHED]:
    """Runs steps for SLICE_SECONDS, at least one; `alone`: only one. Returns their result, or UNFINISHED."""
    ends = clock() + (0.0 if alone else SLICE_SECONDS)
    try:
        next(steps)
        while clock() < ends:
            next(steps)
    except StopIteration as finished:
        found: T = finished.value
        return found
    return UNFINISHED


async def in_slices(steps: Steps[T], turn: Turn = None) -> T:
    """Runs the steps, and returns their result. Other tasks run every few milliseconds, and after a step that took
    longer than a slice, as long as that. Closes the steps if it is cancelled.
    """
    clock = asyncio.get_running_loop().time
    with closing(steps):
        while True:
            if turn is not None:
                await turn()
            started = clock()
            if (found := run_slice(steps, clock, alone=turn is not None)) is not UNFINISHED:
                return found
            took = clock() - started
            await asyncio.sleep(took if took > 2 * SLICE_SECONDS else 0)


def beside(steps: Steps[None], clock: Callable[[], float]) -> None:
    """Runs steps for a slice, and the others in slices between other tasks."""
    if run_slice(steps, clock) is UNFINISHED:
        asyncio.get_running_loop().call_soon(beside, steps, clock)


def at_once(steps: Steps[T]) -> T:
    """Runs the steps without a pause, and returns their result."""
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            found: T = finished.value
            return found
