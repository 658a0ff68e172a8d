"""Meter: what evaluations of selectors cost, in steps of a search, so that a search that evaluates costly selectors times out, too.

An evaluation that has begun goes on to its end, which the API's bound of cost brings about. So each attempt makes progress.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from podwright.core.devices.errors import SearchTimeoutError
from podwright.core.state.pauses import Pauses

STEPS_OF_EVALUATION: Final = 48
"""To evaluate a selector takes at least as long as so many steps."""
STEPS_OF_POINT: Final = 24
"""As long as so many steps lies between two points of one evaluation."""


class Meter:
    """See the module."""

    def __init__(self, pauses: Pauses) -> None:
        self.steps = 0
        """What the evaluations for the current search and for earlier ones have cost. Only differences mean something."""
        self._until: int | None = None
        self._node = ""
        self._pauses = pauses

    def allow(self, node: str, steps: int | None) -> None:
        """From now on, evaluations may cost so many steps for a search on this node. None: no limit."""
        self._node, self._until = node, None if steps is None else self.steps + steps

    def evaluation(self) -> None:
        """A selector is about to be evaluated on a device. Raises SearchTimeoutError if the limit was exceeded before."""
        if self._until is not None and self.steps > self._until:
            raise SearchTimeoutError(self._node)
        self.steps += STEPS_OF_EVALUATION
        self._let_others(self._pauses.rare_point_in_plugin)

    def point(self) -> None:
        """A place in a long evaluation."""
        self.steps += STEPS_OF_POINT
        self._let_others(self._pauses.rare_point_in_plugin)

    def pause(self) -> None:
        """A place in a long search, which goes on after a pause."""
        self._let_others(self._pauses.point_in_plugin)

    def _let_others(self, pause: Callable[[], None]) -> None:
        """Others may be decided in a pause, and evaluate selectors for searches of their own."""
        if not self._pauses.can_pause:
            return
        own = self.steps, self._until, self._node
        pause()
        self.steps, self._until, self._node = own
