"""A readers-writer lock for the cache: any number of decisions hold it to read, or one holds it to write that puts other nodes into the cache."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass


class ReadersWriterLock:
    """See the module. The task that has waited longest is next, so that none waits forever."""

    def __init__(self) -> None:
        self._readers = 0
        """How many hold it to read."""
        self._writing = False
        self._waiting: deque[tuple[bool, asyncio.Future[None]]] = deque()
        """Whether each wants to write, and what ends its wait."""

    def reading(self) -> Holding:
        """Held at the same time as others that read."""
        return Holding(self, writes=False)

    def writing(self) -> Holding:
        """Held alone."""
        return Holding(self, writes=True)

    async def acquire(self, *, writes: bool) -> None:
        """Returns when it is held. `release` must follow."""
        if not self._waiting and not self._writing and not (writes and self._readers):
            self._take(writes=writes)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((writes, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(writes=writes)
            else:
                self._admit()
            raise

    def release(self, *, writes: bool) -> None:
        """Ends what `acquire` began."""
        if writes:
            self._writing = False
        else:
            self._readers -= 1
        self._admit()

    def _take(self, *, writes: bool) -> None:
        if writes:
            self._writing = True
        else:
            self._readers += 1

    def _admit(self) -> None:
        while self._waiting:
            writes, turn = self._waiting[0]
            if not turn.done():
                if self._writing or (writes and self._readers):
                    return
                self._take(writes=writes)
                turn.set_result(None)
            self._waiting.popleft()


@dataclass(frozen=True, slots=True)
class Holding:
    """The lock, held for the time of an `async with`. A class of its own, because a generator's context manager takes several times as long for each request."""

    lock: ReadersWriterLock
    writes: bool

    async def __aenter__(self) -> None:
        await self.lock.acquire(writes=self.writes)

    async def __aexit__(self, *_: object) -> None:
        self.lock.release(writes=self.writes)
