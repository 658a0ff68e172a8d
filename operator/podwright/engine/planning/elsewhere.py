"""Elsewhere: answers that take longer than a slice come from a child process, which does nothing else. Nothing is
carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Final, TypeVar

from podwright.core.objects.control_flow import CONTROL_FLOW
from podwright.core.objects.errors import described
from podwright.core.state.deadline import Deadline, TookLongError
from podwright.engine.planning.messages import Messages
from podwright.engine.process.forks import ChildError, Children, NoChildError
from podwright.engine.process.slice import LOOP_SECONDS, Slice

T = TypeVar("T")

ANSWER_SECONDS: Final = 20.0
"""How long a child may take for an answer."""


class NoChildAnswerError(Exception):
    """A child ended without an answer, or the answer is an exception. The message says which."""


class NoChildAtAllError(NoChildAnswerError):
    """There can be no child now, and the answer takes longer than the loop may wait."""


class Elsewhere:
    """See the module."""

    def __init__(self, slices: Slice, deadline: Deadline, *, children: Children, messages: Messages) -> None:
        self._slice = slices
        self._deadline = deadline
        self._children = children
        self._messages = messages

    def here(self, decide: Callable[[], T]) -> T:
        """The result of `decide`, which leaves the cache as it was. Raises what it raises, and TookLongError after a
        slice.
        """
        return self._slice.run(decide)

    async def ask(self, decide: Callable[[], T]) -> T:
        """The result of `decide`, which leaves the cache as it was. Raises what it raises, and NoAnswerError."""
        try:
            return self.here(decide)
        except TookLongError:
            return await self.compute(decide)

    async def compute(self, decide: Callable[[], T]) -> T:
        """The same, not in this process if there can be a child. Raises NoAnswerError."""
        try:
            messages = self._children.start(lambda: self._work(decide), ANSWER_SECONDS)
        except NoChildError as error:
            try:
                return self._slice.run(decide, LOOP_SECONDS)
            except TookLongError:
                raise NoChildAtAllError(f"{error}, and the answer takes more than {LOOP_SECONDS:g} s") from None
        async with aclosing(messages):
            try:
                async for message in messages:
                    problem, found = self._messages.decode(message)
                    if problem:
                        raise NoChildAnswerError(problem)
                    answer: T = found
                    return answer
            except ChildError as error:
                raise NoChildAnswerError(f"the process that decides ended: {error}") from error
        raise NoChildAnswerError("the process that decides gave no answer")

    def _work(self, decide: Callable[[], T]) -> Iterator[bytes]:
        others_wait, self._deadline.others_wait = self._deadline.others_wait, False
        try:
            yield self._messages.encode(("", decide()))
        except CONTROL_FLOW:
            raise
        except Exception as error:  # noqa: BLE001 -- the parent raises it
            yield self._messages.encode((str(error) or described(error), None))
        finally:
            self._deadline.others_wait = others_wait
