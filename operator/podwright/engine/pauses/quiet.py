"""Quiet: a time in which nothing changes the cache, for an attempt that has started anew too often because the cluster changes.

The watches and sources of signals hold back what they receive, no other attempt is made, and answers of extenders wait. Everything else
goes on: health, requests in progress, the Lease. So the attempt sees one state of the cluster, as if it took no time, and the event loop
still runs.

The time is bounded. It doubles with each attempt that ended without a decision, so that an attempt that needs a second of quiet has it at the first
time, and one that needs eight seconds has them at the fourth. The lane of costly pods is closed for more than eleven times as long afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from podwright.core.queue import QueuedPod
from podwright.engine.ports import Intake

SHORTEST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 8.0


def quiet_seconds(pods: Sequence[QueuedPod]) -> float:
    """How long a quiet time for an attempt at these pods may be."""
    undecided = max((queued.undecided for queued in pods), default=0)
    return float(min(LONGEST_SECONDS, SHORTEST_SECONDS * 2.0 ** min(undecided, 30)))


class Quiet:
    """See the module."""

    def __init__(self, intake: Intake, *, clock: Callable[[], float]) -> None:
        self._intake = intake
        self._clock = clock
        self._over = asyncio.Event()
        self._over.set()
        self._ends = 0.0

    def __bool__(self) -> bool:
        """Whether it is quiet."""
        return not self._over.is_set()

    def begin(self, seconds: float) -> None:
        self._ends = self._clock() + seconds
        self._over.clear()
        self._intake.hold_back()

    def end_if_over(self) -> None:
        """Ends the quiet time if its time is up."""
        if self and self._clock() >= self._ends:
            self.end()

    def end(self) -> None:
        """Ends the quiet time, if there is one."""
        if self:
            self._over.set()
            self._intake.go_on()

    async def over(self) -> None:
        """Waits for the end of the quiet time; returns at once if there is none."""
        while self:  # another quiet time may have begun before the waiting task had its turn
            await self._over.wait()
