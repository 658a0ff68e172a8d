"""The bodies of requests and answers in memory: how many bytes at once, and how fast they must arrive.

A body with 5,000 nodes has tens of megabytes. The bytes of all large bodies together are bounded, whatever the number
of requests: a request waits until there is room for its body. A client that sends too slowly would keep others from
that room, so its request is given up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

SMALL: Final = 1 << 20
"""Bytes. Smaller bodies, and the first bytes of larger ones, are bounded by the number of connections."""
GRACE_SECONDS: Final = 2.0
"""How long a client that has room for its body may send nothing."""
LEAST_RATE: Final = 4 << 20
"""Bytes a second, on average, that such a client must send."""


class Budget:
    """Bytes of large bodies that may be in memory at once. The request that has waited longest is next."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.used = 0

    async def take(self, size: int) -> None:
        """Waits until there is room for `size` bytes, at most the total. `give_back` must follow."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.used -= size
            else:
                self._waiting.remove((size, turn))
            self._admit()
            raise

    def add(self, size: int) -> None:
        """Counts bytes that are already in memory, whether there is room or not. Waiting requests then wait longer.
        `give_back` must follow.
        """
        self.used += size

    def give_back(self, size: int) -> None:
        """Ends what `take` began."""
        self.used -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.used + self._waiting[0][0] <= self._total:
            size, turn = self._waiting.popleft()
            if not turn.done():
                self.used += size
                turn.set_result(None)


class BodyReader(Protocol):
    """The part of aiohttp's StreamReader that is used."""

    async def readany(self) -> bytes: ...


async def read_body(content: BodyReader, body: bytearray, length: int) -> None:
    """Appends to the body until it has `length` bytes or more. Raises ConnectionError if the client sends fewer."""
    while len(body) < length:
        await _append(content, body)


async def read_fast(content: BodyReader, body: bytearray, length: int) -> None:
    """As `read_body`. Raises TimeoutError if the client is slower than LEAST_RATE, or pauses for long."""
    clock, had = asyncio.get_running_loop().time, len(body)
    started = clock()
    while len(body) < length:
        async with asyncio.timeout_at(started + GRACE_SECONDS + (len(body) - had) / LEAST_RATE):
            await _append(content, body)


async def _append(content: BodyReader, body: bytearray) -> None:
    chunk = await content.readany()
    if not chunk:
        raise ConnectionError("the body ended early")
    body += chunk
