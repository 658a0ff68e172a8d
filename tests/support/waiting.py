"""Waits for what must come. No test that uses them is about the time that it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

PATIENCE_SECONDS: Final = 60.0
"""A busy machine gives a test a small part of a core, for seconds at a time none."""


def patience() -> asyncio.Timeout:
    """A context that fails if it has not ended after PATIENCE_SECONDS."""
    return asyncio.timeout(PATIENCE_SECONDS)


async def until(holds: Callable[[], object]) -> None:
    """Returns once this holds. Raises TimeoutError after PATIENCE_SECONDS."""
    async with patience():
        while not holds():
            await asyncio.sleep(0.005)
