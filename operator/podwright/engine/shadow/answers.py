"""ShadowAnswers: what policies in shadow mode decide, within a slice or from a child process.

attempt ─► `to` ─► within a slice: the answer
└─► longer: TookLongError ─► `compute` ─► the next attempt at the same pod: the answer
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from podwright.core.state.deadline import TookLongError
from podwright.engine.planning.elsewhere import Elsewhere, NoChildAnswerError
from podwright.engine.process.slice import Slice

T = TypeVar("T")


class ShadowAnswers:
    """See the module."""

    def __init__(self, slices: Slice, elsewhere: Elsewhere) -> None:
        self._slice = slices
        self._elsewhere = elsewhere
        self._asked: tuple[Hashable, Callable[[], Any]] | None = None
        self._answered: tuple[Hashable, Any] | None = None

    def to(self, key: Hashable, decide: Callable[[], T]) -> T:
        """The result of `decide`. Raises TookLongError: then call `compute`, and try again. `key`: the pod and the
        policy.
        """
        answered, self._answered = self._answered, None
        if answered is not None and answered[0] == key:
            if isinstance(answered[1], NoChildAnswerError):
                raise answered[1]
            answer: T = answered[1]
            return answer
        try:
            return self._slice.run(decide)
        except TookLongError:
            self._asked = key, decide
            raise

    async def compute(self) -> None:
        """Computes in a child process what took longer than a slice."""
        assert self._asked is not None, "nothing took longer than a slice"
        (key, decide), self._asked = self._asked, None
        try:
            self._answered = key, await self._elsewhere.compute(decide)
        except NoChildAnswerError as error:
            self._answered = key, error
