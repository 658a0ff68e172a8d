"""The time that policies in shadow mode get: the loop's idle time, and at most a tenth of the time while pods wait to
be scheduled or Bindings are in progress.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

from podwright.core.state.deadline import TookLongError
from podwright.engine.process.interruption import cancel
from podwright.engine.records.metrics import Metrics
from podwright.engine.records.policy_metrics import SHADOW_MILLISECONDS
from podwright.engine.shadow.shadow import Shadow
from podwright.engine.state import OpenBindingCycles

SHARE: Final = 0.1


class ShadowTime:
    """See the module. `clock` never steps back."""

    def __init__(
        self,
        shadow: Shadow,
        cycles: OpenBindingCycles,
        *,
        metrics: Metrics,
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self._shadow = shadow
        self._cycles = cycles
        self._clock = clock
        self._wake = wake
        self._computing: asyncio.Task[None] | None = None
        """Computes a decision that takes longer than a slice. No other is made meanwhile."""
        self._not_before = -math.inf
        """When the next turn is, while there is other work."""
        self._milliseconds = metrics.counter(SHADOW_MILLISECONDS).of()
        self._rest = 0.0

    @property
    def has_turn(self) -> bool:
        """True if a decision is due, whatever else there is to do."""
        if not self._shadow.names or self._computing is not None:
            return False
        now = self._clock()
        due = self._shadow.due(now)
        return due is not None and max(due, self._not_before) <= now

    @property
    def next_turn(self) -> float | None:
        """When the next decision is due, by the clock; None if that is not known."""
        due = self._shadow.due(self._clock()) if self._shadow.names and self._computing is None else None
        return None if due is None else max(due, self._not_before)

    def use_idle_time(self) -> bool:
        """There is nothing else to decide. Returns whether a decision is due now."""
        if not len(self._cycles):
            self._not_before = -math.inf
        return self.has_turn

    async def decide(self) -> None:
        """One decision. Other tasks run afterwards."""
        started = self._clock()
        try:
            self._shadow.attempt()
        except TookLongError:
            self._computing = asyncio.create_task(self._compute(), name="podwright shadow decision")
        seconds = self._clock() - started
        self._not_before = self._clock() + seconds * (1.0 / SHARE - 1.0)
        milliseconds, self._rest = divmod(self._rest + 1000.0 * seconds, 1.0)
        self._milliseconds[0] += int(milliseconds)
        await asyncio.sleep(0)

    async def _compute(self) -> None:
        try:
            await self._shadow.answers.compute()
        finally:
            self._computing = None
            self._wake()

    async def stop(self) -> None:
        """Ends the decision that is being computed."""
        await cancel([self._computing])


def earliest(*times: float | None) -> float | None:
    """The first of these times, or None."""
    return min((time for time in times if time is not None), default=None)
