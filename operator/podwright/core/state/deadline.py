"""Deadline: how long an attempt may keep others waiting, and the points at which it notices that it is over.

An attempt in the loop that takes longer than a slice ends at its next point with TookLongError: its transactions roll
back, and a planner decides elsewhere (`engine.planning`). In that process no point raises. A point without a deadline
costs one function call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from podwright.core.objects.control_flow import ControlFlowError


class TookLongError(ControlFlowError):
    """The attempt took longer than it may. It does not inherit Exception, so that no guard around a plugin catches
    it.
    """


def never() -> None:
    """A point that never raises."""


class Deadline:
    """See the module. The cache has one."""

    def __init__(self) -> None:
        self.check: Callable[[], None] | None = None
        """Raises TookLongError if the time is over; None: there is no deadline."""
        self.longest_step = inf
        """How many seconds a step may be estimated to take."""
        self.is_late: Callable[[], bool] = lambda: False
        """True if a search should end with the best that it has found so far."""
        self.others_wait = False
        """True if attempts without a deadline hold others up, so that searches for devices must bound themselves."""

    @property
    def bounds_searches(self) -> bool:
        return self.others_wait and self.check is None

    def expect(self, seconds: float) -> None:
        """A point before a step that is estimated to take so long. Raises TookLongError without trying if that is far
        too long.
        """
        if self.check is not None:
            if seconds > self.longest_step:
                raise TookLongError
            self.check()

    @contextmanager
    def bounded(self, check: Callable[[], None]) -> Iterator[None]:
        """Within the block, points call `check`, which may raise a ControlFlowError, unless there is a deadline."""
        before, longest = self.check, self.longest_step
        if before is None:
            self.check, self.longest_step = check, inf
        try:
            yield
        finally:
            self.check, self.longest_step = before, longest

    def point(self) -> None:
        """A place in a long loop. Raises TookLongError. What the caller has built so far must be complete, or not in
        use yet.
        """
        if self.check is not None:
            self.check()
