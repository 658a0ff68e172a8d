"""BindLimiter: how many Bindings may be with the API server at once, such that slow Bindings do not delay the others.

A few tens at once are as fast as hundreds and keep the queue's order, because a decided pod is no longer sorted by
priority. More are needed only where the network takes long: `concurrency` adapts the limit. The scheduling loop waits
while it is reached. A Binding that is slow (an admission webhook, a 429 with a pause, an answer that never comes) stops
counting against that limit after a while, so decisions and other Bindings go on. If all take longer, because the
machine is busy, none of them is slow: more at once would only add connections, each of which costs a busy server more
than a Binding. A second, higher limit counts the slow ones too and keeps connections and memory bounded. Requests of
plugins also count (`send`): each has its own capacity while it is in progress. A pod that waits in PreBind has none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from typing import Final, TypeVar

from podwright.engine.outcomes.binding.concurrency import FEW, ConcurrencyLimit

T = TypeVar("T")

PROMPT_LIMIT: Final = 32
"""Bindings in progress that are not slow, where the network takes no time."""
TOTAL_LIMIT: Final = 512
"""Bindings in progress, including slow ones. Below what an API server queues for one client before it answers 429."""
PROMPT_SECONDS: Final = 0.1
"""A Binding that takes this much longer than others do is slow."""
TIMES_USUAL: Final = 2
"""How many times as long as the median Binding one may take besides, as one that comes into a full queue does."""
_HOLDER: ContextVar[Hashable | None] = ContextVar("holder", default=None)
"""The holder for which the current task acts."""


class BindLimiter:
    """See the module. `clock` in seconds, never stepping back; `prompt_limit` and `prompt_seconds` are those without a
    network.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        prompt_limit: int = PROMPT_LIMIT,
        total_limit: int = TOTAL_LIMIT,
        prompt_seconds: float = PROMPT_SECONDS,
    ) -> None:
        self._clock = clock
        self._total_limit = max(prompt_limit, total_limit)
        self._concurrency = ConcurrencyLimit(prompt_limit, self._total_limit, now=clock())
        self._prompt_seconds = prompt_seconds
        self._prompt: dict[Hashable, float] = {}
        """Since when each holder has had its capacity, the oldest first."""
        self._slow: dict[Hashable, float] = {}
        self._alone: set[Hashable] = set()
        """The holders that began while at most FEW others were in progress."""
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Bindings in progress."""
        return len(self._prompt) + len(self._slow)

    def __contains__(self, holder: Hashable) -> bool:
        """True if it has acquired capacity and not released it."""
        return holder in self._prompt or holder in self._slow

    @property
    def limit(self) -> int:
        """How many Bindings that are not slow may be in progress now."""
        return self._concurrency.limit

    @property
    def full(self) -> bool:
        """True if the next Binding has to wait."""
        prompt, limit = self._prompt, self._concurrency.limit
        if len(prompt) < limit:
            return len(prompt) + len(self._slow) >= self._total_limit
        latest = self._clock() - self._slow_after
        while prompt and (oldest := next(iter(prompt.items())))[1] <= latest:
            self._slow[oldest[0]] = prompt.pop(oldest[0])
        if len(prompt) >= limit:
            self._concurrency.reached()
            return True
        return len(self) >= self._total_limit

    @property
    def _slow_after(self) -> float:
        return self._prompt_seconds + max(self._concurrency.latency, TIMES_USUAL * self._concurrency.usual)

    def acquire(self, holder: Hashable) -> None:
        """Takes capacity without checking the limits: check `full` or await `wait_for_capacity` first."""
        if len(self._prompt) < FEW:
            self._alone.add(holder)
        self._prompt[holder] = self._clock()
        if self._waiters:
            self.wake_next()

    def completed(self, holder: Hashable) -> None:
        """The Binding of the holder succeeded. It keeps its capacity until `release`."""
        began = self._prompt.get(holder, self._slow.get(holder))
        if began is not None:
            self._concurrency.completed(began, self._clock(), alone=holder in self._alone)

    def throttled(self) -> None:
        """The API server answered a Binding, or a request of a plugin, with 429."""
        self._concurrency.throttled(self._clock())

    def release(self, holder: Hashable) -> None:
        """Gives capacity back, for good or for now. Does nothing if the holder has none."""
        if self._prompt.pop(holder, None) is None:
            self._slow.pop(holder, None)
        self._alone.discard(holder)
        if self._waiters:
            self.wake_next()

    def act_for(self, holder: Hashable) -> None:
        """Makes requests of the current task use the holder's capacity while the holder has some."""
        _HOLDER.set(holder)

    @property
    def holder(self) -> Hashable | None:
        """The holder for which the current task acts."""
        return _HOLDER.get()

    async def send(self, request: Callable[[], Awaitable[T]]) -> T:
        """Sends a request of a plugin when there is capacity, and returns its result."""
        if _HOLDER.get() in self:
            return await request()  # if all holders of capacity waited for more, none would get any
        await self.wait_for_capacity()
        holder = object()
        self.acquire(holder)
        try:
            result = await request()
            self.completed(holder)
            return result
        finally:
            self.release(holder)

    async def wait_for_capacity(self) -> None:
        """Returns when there is capacity, in the order of the calls. The caller must `acquire` before it awaits
        anything else.
        """
        queue = self._waiters.append
        while self.full:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            queue(waiter)
            queue = self._waiters.appendleft  # woken in vain, it keeps its turn
            self._schedule_timer()
            try:
                await waiter
            except asyncio.CancelledError:
                self.wake_next()  # it may have been woken, and the next one can use the capacity
                raise

    async def turn(self) -> None:
        """As `wait_for_capacity`, for a caller that begins many Bindings and did not use the capacity each time."""
        self.wake_next()
        if self.full:
            await self.wait_for_capacity()

    def wake_next(self) -> None:
        """Wakes the longest waiter if there is capacity. Also for a woken caller that does not need its capacity."""
        if not self._waiters or self.full:
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _schedule_timer(self) -> None:
        """Checks again when the oldest Binding becomes slow."""
        if self._timer is None:
            since = next(iter(self._prompt.values()), self._clock())
            remaining = since + self._slow_after - self._clock()
            pause = min(self._slow_after, max(self._prompt_seconds / 10, remaining))
            self._timer = asyncio.get_running_loop().call_later(pause, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.wake_next()
        if self._waiters:
            self._schedule_timer()
