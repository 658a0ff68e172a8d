"""Decisions in slices: a long one pauses where the core lets it, and other requests, watches and health go on.

A decision that is paused when the cache changes starts anew, as the operator's attempts do: see `engine.pauses.slices`. After a few times it gets a quiet time, for
which requests that change the cache wait, too. Several decisions can be paused at the same time, each with slices of its own.

A decision on nodes of the request is made alone, and in a quiet time: until it ends, the cache contains these nodes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from podwright.engine.pauses.quiet import SHORTEST_SECONDS, Quiet
from podwright.engine.pauses.slices import STILL_CHANGING, Slices, Undecided
from podwright.extender.server.readers_writer_lock import ReadersWriterLock
from podwright.extender.server.sent_nodes import InPlace
from podwright.extender.server.steps import in_slices

T = TypeVar("T")


class UndecidedError(Exception):
    """The cluster changes faster than the decision can be made. The message is for the pod's event."""


class SlicedDecisions:
    """See the module."""

    def __init__(self, quiet: Quiet, make: Callable[[], Slices]) -> None:
        """`make` makes slices with this quiet time, on the shared cache."""
        self.quiet = quiet
        self.lock = ReadersWriterLock()
        self._make = make
        self._free: list[Slices] = []

    async def decide(self, decide: Callable[[], T]) -> T:
        """The result of `decide`. Raises what it raises, and UndecidedError."""
        async with self.lock.reading():
            return await self._decided(decide)

    async def decide_on(self, nodes: InPlace, decide: Callable[[], T]) -> T:
        """As `decide`, with these nodes in the cache."""
        await self.quiet.over()
        async with self.lock.writing():
            self.quiet.begin(SHORTEST_SECONDS)
            try:
                await in_slices(nodes.put())
                found = await self._decided(decide)
                if not nodes.undisturbed:
                    raise UndecidedError(STILL_CHANGING)
                return found
            finally:
                try:
                    await in_slices(nodes.back())
                finally:  # also if the request is cancelled
                    deque(nodes.back(), 0)
                    self.quiet.end()

    async def _decided(self, decide: Callable[[], T]) -> T:
        slices = self._free.pop() if self._free else self._make()
        found: list[T | Undecided] = []

        def attempt() -> None:
            found.append(slices.decide(decide, wanted=_always, in_lane=True))

        ended = False
        try:
            ended = slices.start(attempt)
            while not ended:
                await asyncio.sleep(0)
                ended = slices.resume()
        finally:
            if not ended:
                slices.abandon()
            self._free.append(slices)
        (result,) = found
        if isinstance(result, Undecided):
            raise UndecidedError(result.value)
        return result


def _always() -> bool:
    return True
