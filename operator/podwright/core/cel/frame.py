"""The state of one evaluation: its variables, and how much it may still cost and allocate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from podwright.core.cel.errors import CancelledError, CostLimitError, StopError
from podwright.core.cel.values import Value

ROOM: Final = 16_000_000
"""The most that one evaluation may allocate: a byte of a string counts 1, an element of a list ELEMENT. cel-go has no
such limit.
"""
ELEMENT: Final = 8
VISITS: Final = 1_000_000
"""The most parts of nested lists and maps that one evaluation may compare or walk through. cel-go has no such limit."""
_CHECKED_EVERY: Final = 100


class Frame:
    """The state of one evaluation. `slots` has the variables of comprehensions, each with a place of its own."""

    __slots__ = ("_countdown", "_interrupted", "_room", "_visits", "cost", "limit", "slots", "variables")

    def __init__(
        self, variables: Mapping[str, Value], slots: int, limit: int, interrupted: Callable[[], bool] | None = None
    ) -> None:
        self.variables = variables
        self.slots: list[Value] = [None] * slots
        self.cost = 0
        self.limit = limit
        self._interrupted = interrupted
        self._countdown = _CHECKED_EVERY
        self._room = ROOM
        self._visits = VISITS

    def check(self) -> None:
        """Raises StopError if the evaluation has cost too much, or its caller has stopped it."""
        if self.cost > self.limit:
            raise StopError(CostLimitError("operation cancelled: actual cost limit exceeded"))
        if self._interrupted is not None:
            self._countdown -= 1
            if not self._countdown:
                self._countdown = _CHECKED_EVERY
                if self._interrupted():
                    raise StopError(CancelledError("operation interrupted"))

    def visit(self, parts: int) -> None:
        """Counts the parts of lists and maps that a function reads, where cel-go's cost does not. Raises StopError."""
        self._visits -= parts
        if self._visits < 0:
            raise StopError(CostLimitError("operation cancelled: work limit exceeded"))

    def allocate(self, size: int) -> None:
        """Counts memory that is about to be allocated, in the unit of ROOM. Raises StopError if it is too much."""
        self._room -= size
        if self._room < 0:
            raise StopError(CostLimitError("operation cancelled: memory limit exceeded"))
