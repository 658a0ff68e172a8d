"""Who may read the cache at the same time: any number of decisions, or one that has put other nodes into it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """See the module. Whoever has waited longest is next, so that nobody waits forever."""

    def __init__(self) -> None:
        self._together = 0
        """How many have their turn together."""
        self._alone = False
        self._waiting: deque[tuple[bool, asyncio.Future[None]]] = deque()
        """Whether each wants its turn alone, and what ends its wait."""

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """Others may have their turn at the same time, but nobody who wants it alone."""
        await self._turn(alone=False)
        try:
            yield
        finally:
            self._end(alone=False)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Nobody else has a turn."""
        await self._turn(alone=True)
        try:
            yield
        finally:
            self._end(alone=True)

    async def _turn(self, *, alone: bool) -> None:
        if not self._waiting and not self._alone and not (alone and self._together):
            self._begin(alone=alone)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((alone, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end(alone=alone)
            else:
                self._admit()
            raise

    def _begin(self, *, alone: bool) -> None:
        if alone:
            self._alone = True
        else:
            self._together += 1

    def _end(self, *, alone: bool) -> None:
        if alone:
            self._alone = False
        else:
            self._together -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            alone, turn = self._waiting[0]
            if not turn.done():
                if self._alone or (alone and self._together):
                    return
                self._begin(alone=alone)
                turn.set_result(None)
            self._waiting.popleft()
