"""Slice: the time that an attempt may hold the loop. A longer one ends with TookLongError, and a child process
decides (`planning`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from podwright.core.state.cache import Cache
from podwright.core.state.deadline import TookLongError

T = TypeVar("T")

SLICE_SECONDS: Final = 0.02
STEP_SLICES: Final = 100
"""An attempt also ends before a step that is estimated to take more than this many slices. Estimates are for values
that are costly in every respect. Ordinary ones often take a hundredth of the time.
"""
LOOP_SECONDS: Final = 2.0
"""How long a decision may hold the loop if there can be no child process."""


class Slice:
    """See the module. `clock` never steps back; `cpu`: the CPU seconds of the thread that decides."""

    def __init__(self, cache: Cache, *, clock: Callable[[], float], cpu: Callable[[], float]) -> None:
        self._deadline = cache.deadline
        self._clock = clock
        self._cpu = cpu
        self._ends = self._cpu_ends = 0.0

    def run(self, decide: Callable[[], T], seconds: float = SLICE_SECONDS) -> T:
        """The result of `decide`, which leaves the cache as it was. Raises TookLongError once it has taken `seconds`
        both by the clock and of the CPU, which other processes may use.
        """
        self._ends, self._cpu_ends = self._clock() + seconds, self._cpu() + seconds
        self._deadline.check, self._deadline.longest_step = self._check, STEP_SLICES * seconds
        try:
            return decide()
        finally:
            self._deadline.check = None

    def _check(self) -> None:
        if self._clock() >= self._ends and self._cpu() >= self._cpu_ends:
            raise TookLongError
