"""Attempts in the engine's loop: each runs in slices, with other work between them. Between the slices of attempts at costly pods, and of decisions in
shadow mode, ordinary pods are scheduled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from podwright.core.queue import QueuedPod, SchedulingQueue
from podwright.engine.binding.limiter import BindLimiter
from podwright.engine.pauses.slices import Slices
from podwright.engine.plugins.slow_plugins import SLOW_SECONDS

PAUSE_SHARE: Final = 0.05
"""After a slow attempt the loop pauses for this share of its duration."""
PAUSE_SECONDS: Final = (0.01, 0.1)
"""The shortest and the longest of these pauses. An answer to a health check takes some turns of the event loop."""
ORDINARY_SECONDS: Final = 0.001
"""About how long the API server and others are busy with the Binding of an ordinary pod."""
LANE_PAUSE_SECONDS: Final = 0.1
"""The longest time for ordinary pods between two slices of an attempt in the lane."""


class Attempts:
    """See the module. `schedule_one` makes an attempt at a popped pod."""

    def __init__(
        self,
        slices: Slices,
        queue: SchedulingQueue,
        *,
        limiter: BindLimiter,
        clock: Callable[[], float],
        schedule_one: Callable[[QueuedPod], None],
    ) -> None:
        self._slices = slices
        self._queue = queue
        self._limiter = limiter
        self._clock = clock
        self._schedule_one = schedule_one

    async def at(self, queued: QueuedPod) -> None:
        """Makes an attempt, with other tasks between its slices."""
        ended = self._slices.start(partial(self._schedule_one, queued))
        while not ended:
            await asyncio.sleep(0)
            ended = self._slices.resume()

    async def in_lane(self, queued: QueuedPod) -> None:
        """Makes an attempt at a costly pod. Other tasks and ordinary pods run between its slices. Afterwards the lane of costly pods is
        closed.

        In a quiet time, ordinary pods wait too, and all of it counts. A short attempt counts for as long as its object keeps the API server
        busy, which may take longer than the attempt. A pause of the loop also counts, because ordinary pods wait in it.
        """
        seconds = await self.aside(partial(self._schedule_one, queued))
        self._queue.charge_lane(max(seconds, ORDINARY_SECONDS if queued.cost is None else queued.cost.elsewhere))
        if seconds >= SLOW_SECONDS:
            started = self._clock()
            await self.pause(seconds)
            self._queue.charge_lane(self._clock() - started)
        else:
            await asyncio.sleep(0)
        if self._limiter.full:
            await self._limiter.wait_for_capacity()

    async def aside(self, attempt: Callable[[], None]) -> float:
        """Makes an attempt that lets ordinary pods go first between its slices. Returns how many seconds it took without them."""
        clock = self._clock
        started = clock()
        ended = self._slices.start(attempt)
        seconds = clock() - started
        try:
            while not ended:
                started = clock()
                if self._slices.quiet:
                    await asyncio.sleep(0)
                else:
                    await self._schedule_ordinary_pods()
                    started = clock()
                ended = self._slices.resume()
                seconds += clock() - started
        finally:
            self._queue.release_members()
        return seconds

    async def _schedule_ordinary_pods(self) -> None:
        """Makes attempts at the active ordinary pods, while an attempt in the lane is paused."""
        ends = self._clock() + LANE_PAUSE_SECONDS
        await asyncio.sleep(0)
        while self._clock() < ends and not self._limiter.full:
            queued = self._queue.pop_ordinary()
            if queued is None:
                return
            self._schedule_one(queued)
            await asyncio.sleep(0)

    async def pause(self, seconds: float) -> None:
        """Pauses after an attempt of this duration, so that other tasks can do more than one step each."""
        shortest, longest = PAUSE_SECONDS
        await asyncio.sleep(min(longest, max(shortest, PAUSE_SHARE * seconds)))
