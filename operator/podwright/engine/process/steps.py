"""Long work in the loop, done in steps: between two steps, other tasks may run."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Does something in steps, and returns the result."""

SLICE_SECONDS: Final = 0.003
"""How long steps run before other tasks do."""


async def in_slices(steps: Steps[T]) -> T:
    """Runs the steps, and returns their result. Other tasks run every few milliseconds."""
    clock = asyncio.get_running_loop().time
    ends = clock() + SLICE_SECONDS
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            found: T = finished.value
            return found
        if clock() >= ends:
            await asyncio.sleep(0)
            ends = clock() + SLICE_SECONDS
