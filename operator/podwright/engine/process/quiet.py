"""Quiet: a time in which nothing changes the cache, for a decision whose plan did not fit too often.

The watches and sources of signals hold back what they receive, no other decision is made, and answers of extenders
wait. Everything else goes on: health, requests in progress, the Lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Quiet:
    """See the module. `hold_back` and `go_on`: see `ports.Intake`."""

    def __init__(self, hold_back: Callable[[], None], go_on: Callable[[], None]) -> None:
        self._hold_back = hold_back
        self._go_on = go_on
        self._over = asyncio.Event()
        self._over.set()

    def __bool__(self) -> bool:
        """True if it is quiet."""
        return not self._over.is_set()

    def begin(self) -> None:
        self._over.clear()
        self._hold_back()

    def end(self) -> None:
        self._over.set()
        self._go_on()

    async def over(self) -> None:
        """Waits for the end of the quiet time; returns at once outside of one."""
        while self:  # another quiet time may have begun before the waiting task had its turn
            await self._over.wait()
