"""Decisions in slices: a long one pauses where the core lets it, and other requests, watches and health go on.

A decision that is paused when the cache changes starts anew, as the operator's attempts do: see `engine.slices`. After a few times it gets a quiet time, for
which requests that change the cache wait, too. Several decisions can be paused at the same time, each with slices of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from podwright.engine.quiet import Quiet
from podwright.engine.slices import Slices, Undecided

T = TypeVar("T")


class UndecidedError(Exception):
    """The cluster changes faster than the decision can be made. The message is for the pod's event."""


class SlicedDecisions:
    """See the module."""

    def __init__(self, quiet: Quiet, make: Callable[[], Slices]) -> None:
        """`make` makes slices with this quiet time, on the cache that all decide on."""
        self.quiet = quiet
        self._make = make
        self._free: list[Slices] = []

    async def decide(self, decide: Callable[[], T]) -> T:
        """The result of `decide`. Raises what it raises, and UndecidedError."""
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
