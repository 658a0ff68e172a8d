"""Answers that the scheduler's loop computes in steps. Few of one kind are computed at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

import orjson
from aiohttp import web

from podwright.engine.process.steps import Steps

T = TypeVar("T")

MOST_ANSWERS: Final = 4
"""How many of one kind are computed at once; more are refused."""
ANSWER_SECONDS: Final = 10.0
"""How long the loop may take to answer."""

Answer = Mapping[str, Any] | str
"""To be sent as JSON, or a picture as SVG. Empty if nothing is known."""


class Asker(Protocol):
    """Runs functions in the thread of the cache: see SchedulerLoop."""

    async def call(self, function: Callable[[], T], seconds: float) -> T: ...

    async def compute(self, begin: Callable[[], Steps[T]], seconds: float) -> T:
        """Like `call`, for work in steps."""


class SteppedAnswers:
    """Answers of one kind. `what`: their name in the refusal of too many; `headers`: those of each answer."""

    def __init__(self, asker: Asker, what: str, *, headers: Mapping[str, str] | None = None) -> None:
        self._asker = asker
        self._what = what
        self._headers = headers
        self._running = 0

    async def answer(self, begin: Callable[[], Steps[Answer]], unknown: str) -> web.Response:
        """The answer. `unknown`: what the answer 404 says if nothing is known."""
        if self._running >= MOST_ANSWERS:
            return web.Response(status=503, text=f"too many {self._what} at once\n", headers={"Retry-After": "1"})
        self._running += 1
        try:
            found = await self._asker.compute(begin, ANSWER_SECONDS)
        except TimeoutError:
            return web.Response(status=503, text="the scheduler's loop does not answer\n")
        finally:
            self._running -= 1
        if not found:
            return web.Response(status=404, text=f"{unknown}\n", headers=self._headers)
        if isinstance(found, str):
            return web.Response(text=found, content_type="image/svg+xml", headers=self._headers)
        return web.Response(body=orjson.dumps(found), content_type="application/json", headers=self._headers)
