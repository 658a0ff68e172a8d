"""Long answers (/metrics, /metrics/resources), rendered at most once a second however many clients ask for them.

Clients that ask at the same time share a rendering. The rendering is kept compressed, so that slow readers use little
memory, and is dropped with its last reader.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final

PERIOD_SECONDS: Final = 1.0
"""The shortest time between the starts of two renderings."""
PIECE: Final = 1 << 16
"""How many bytes are sent at once, at most."""
_GZIP: Final = 16 + zlib.MAX_WBITS

Body = Sequence[bytes]
"""A gzip stream in pieces."""


class LongAnswer:
    """One long answer. `clock` gives seconds and never steps back."""

    def __init__(self, render: Callable[[], AsyncIterator[bytes]], clock: Callable[[], float]) -> None:
        """`render` yields the text in parts."""
        self._render = render
        self._clock = clock
        self._task: asyncio.Task[Body] | None = None
        self._not_before = clock()

    async def body(self) -> Body:
        """The text as gzip. Raises what `render` raises."""
        if self._task is None:
            self._task = asyncio.create_task(self._rendered())
            # Each reader gets the error. Without readers, it is ignored.
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._task)

    async def _rendered(self) -> Body:
        try:
            await asyncio.sleep(self._not_before - self._clock())
            self._not_before = self._clock() + PERIOD_SECONDS
            stream = zlib.compressobj(level=1, wbits=_GZIP)
            pieces = [stream.compress(part) async for part in self._render()]
            return [piece for piece in (*pieces, stream.flush()) if piece]
        finally:
            self._task = None


def decompressed(body: Body) -> Iterator[bytes]:
    """The text of a body, in pieces of at most `PIECE` bytes."""
    stream = zlib.decompressobj(_GZIP)
    for piece in body:
        rest = piece
        while rest:
            yield stream.decompress(rest, PIECE)
            rest = stream.unconsumed_tail
    while tail := stream.decompress(b"", PIECE):
        yield tail
