"""Quiet: a time in which nothing changes the cache, for an attempt that a cluster in motion has made start anew too often.

The watches and sources of signals hold back what they receive, no other pod is decided, and answers of extenders wait. Everything else goes on: health, requests that are under way,
the Lease. So the attempt sees one state of the cluster, as if it took no time, and holds nobody's loop.

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
    """How long it may be quiet for an attempt at these pods."""
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
        """Ends the quiet time if it has lasted as long as it may."""
        if self and self._clock() >= self._ends:
            self.end()

    def end(self) -> None:
        """Ends it, if it is quiet."""
        if self:
            self._over.set()
            self._intake.go_on()

    async def over(self) -> None:
        """Returns when it is not quiet."""
        while self:  # another quiet time may have begun before the waiting task had its turn
            await self._over.wait()
