"""Meter: what evaluations of selectors cost, in steps of a search, so that a search that evaluates costly selectors
times out, too.

An evaluation that has begun is completed; the API's bound of cost bounds it. So each attempt makes progress.
"""

from __future__ import annotations

from typing import Final

from podwright.core.devices.errors import SearchTimeoutError
from podwright.core.state.deadline import Deadline

STEPS_OF_EVALUATION: Final = 48
"""The least number of steps that an evaluation of a selector counts as."""
STEPS_OF_POINT: Final = 24
"""How many steps the time between two points of one evaluation counts as."""


class SearchMeter:
    """See the module."""

    def __init__(self, deadline: Deadline) -> None:
        self.steps = 0
        """The cost of the evaluations of the current search and all earlier ones. Only differences are meaningful."""
        self._until: int | None = None
        self._node = ""
        self._deadline = deadline

    def allow(self, node: str, steps: int | None) -> None:
        """Sets how many steps the evaluations for a search on this node may cost. None: no limit."""
        self._node, self._until = node, None if steps is None else self.steps + steps

    def evaluation(self, seconds: float) -> None:
        """A selector is about to be evaluated on a device. `seconds`: estimated for all devices that it was not
        evaluated on. Raises SearchTimeoutError if the limit was exceeded before.
        """
        if self._until is not None and self.steps > self._until:
            raise SearchTimeoutError(self._node)
        self.steps += STEPS_OF_EVALUATION
        self._deadline.expect(seconds)

    def point(self) -> None:
        """A point in a long evaluation."""
        self.steps += STEPS_OF_POINT
        self._deadline.point()

    def pause(self) -> None:
        """A point in a long search."""
        self._deadline.point()
