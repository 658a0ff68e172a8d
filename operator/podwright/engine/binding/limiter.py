"""How many Bindings may be with the API server at once, such that slow ones hold up no others.

Some tens at once are as fast as hundreds, and keep the queue's order: what waits for its Binding is no longer sorted. So a decision
waits for a slot, and each Binding takes one. But a Binding that is slow (an admission webhook, an API server that asks for a
pause, an answer that never comes) gives its slot back after a while and stays on its way without: decisions and further
Bindings go on, up to a limit that keeps connections and memory bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

PROMPT_LIMIT: Final = 32
"""Bindings on their way that are not slow."""
TOTAL_LIMIT: Final = 512
"""Bindings on their way, the slow ones too: below what an API server queues of one client before it refuses (429)."""
PROMPT_SECONDS: Final = 0.1
"""How long a Binding keeps its slot."""


class BindLimiter:
    """See the module. `clock` in seconds, never stepping back."""

    def __init__(
        self,
        clock: Callable[[], float],
        at_once: int = PROMPT_LIMIT,
        at_most: int = TOTAL_LIMIT,
        patience: float = PROMPT_SECONDS,
    ) -> None:
        self._clock = clock
        self._at_once = at_once
        self._at_most = max(at_once, at_most)
        self._patience = patience
        self._quick: dict[Hashable, float] = {}
        """Who has a slot, and since when, the oldest first."""
        self._slow: set[Hashable] = set()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Bindings on their way."""
        return len(self._quick) + len(self._slow)

    @property
    def full(self) -> bool:
        """Whether the next one has to wait."""
        quick = self._quick
        if len(quick) < self._at_once:
            return len(quick) + len(self._slow) >= self._at_most
        latest = self._clock() - self._patience
        while quick and (oldest := next(iter(quick.items())))[1] <= latest:
            del quick[oldest[0]]
            self._slow.add(oldest[0])
        return len(quick) >= self._at_once or len(self) >= self._at_most

    def acquire(self, who: Hashable) -> None:
        """Takes a slot, whether there is one or not: ask `full`, or wait for `room`, before."""
        self._quick[who] = self._clock()
        if self._waiters:
            self._call()

    def release(self, who: Hashable) -> None:
        """Done, or not on its way for now. Who is not there leaves nothing."""
        if self._quick.pop(who, None) is None:
            self._slow.discard(who)
        if self._waiters:
            self._call()

    async def wait_for_capacity(self) -> None:
        """Returns, in the order of asking, when there is a slot; who enters before anything else is awaited has it."""
        queue = self._waiters.append
        while self.full:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            queue(waiter)
            queue = self._waiters.appendleft  # called in vain, it is the first again
            self._watch()
            try:
                await waiter
            except asyncio.CancelledError:
                self._call()  # it may have been called for a slot that is now another one's
                raise

    def wake_next(self) -> None:
        """Who was told of a slot has no use for it: the next one may have it."""
        if self._waiters:
            self._call()

    def _call(self) -> None:
        """Wakes who has waited longest, if there is a slot."""
        if self.full:
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _watch(self) -> None:
        """Looks again when the oldest one will have had its slot for long enough."""
        if self._timer is None:
            since = next(iter(self._quick.values()), self._clock())
            pause = min(self._patience, max(self._patience / 10, since + self._patience - self._clock()))
            self._timer = asyncio.get_running_loop().call_later(pause, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._waiters:
            self._call()
        if self._waiters:
            self._watch()
