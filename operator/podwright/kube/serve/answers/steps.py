"""Answers that the scheduler's loop computes in short steps, between which it decides. Few of one kind are computed at
a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, Protocol, TypeVar

import orjson
from aiohttp import web

T = TypeVar("T")

MOST_ANSWERS: Final = 4
"""How many of one kind are computed at once; more are refused."""
STEP_SECONDS: Final = 10.0
"""How long the loop may take to begin a step."""

Steps = Iterator[Mapping[str, Any] | None]
"""Yields None after each step but the last, and then the answer, which is empty if nothing is known."""


class Asker(Protocol):
    """Runs functions in the thread of the cache: see SchedulerLoop.call."""

    async def call(self, function: Callable[[], T], seconds: float) -> T: ...


async def last_of(asker: Asker, begin: Callable[[], Iterator[T | None]]) -> T:
    """The last value of steps that yield None until then. Raises TimeoutError if the loop does not answer."""
    steps = await asker.call(begin, STEP_SECONDS)
    while True:
        found = await asker.call(lambda: next(steps), STEP_SECONDS)
        if found is not None:
            return found


class SteppedAnswers:
    """Answers of one kind. `what`: their name in the refusal of too many; `headers`: those of each answer."""

    def __init__(self, asker: Asker, what: str, *, headers: Mapping[str, str] | None = None) -> None:
        self._asker = asker
        self._what = what
        self._headers = headers
        self._running = 0

    async def answer(self, begin: Callable[[], Steps], unknown: str) -> web.Response:
        """The last step as JSON. `unknown`: what the answer 404 says if nothing is known."""
        if self._running >= MOST_ANSWERS:
            return web.Response(status=503, text=f"too many {self._what} at once\n", headers={"Retry-After": "1"})
        self._running += 1
        try:
            found = await last_of(self._asker, lambda: chain(begin(), ({},)))
        except TimeoutError:
            return web.Response(status=503, text="the scheduler's loop does not answer\n")
        finally:
            self._running -= 1
        if not found:
            return web.Response(status=404, text=f"{unknown}\n", headers=self._headers)
        return web.Response(body=orjson.dumps(found), content_type="application/json", headers=self._headers)
