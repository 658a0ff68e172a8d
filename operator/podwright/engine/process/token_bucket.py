"""A token bucket: bounds how often something is done."""

from __future__ import annotations

import math
from collections.abc import Callable


class TokenBucket:
    """Has `at_once` tokens at first and at most, and gets `per_second` in each second. `clock` in seconds, never
    stepping back.
    """

    def __init__(self, clock: Callable[[], float], *, per_second: float, at_once: int) -> None:
        self._clock = clock
        self._per_second = per_second
        self._at_once = at_once
        self._left = 0.0
        self._counted_at = -math.inf

    def take(self) -> float:
        """Takes a token, and returns 0. Without one, returns how many seconds it takes until there is one."""
        now = self._clock()
        self._left = min(self._at_once, self._left + (now - self._counted_at) * self._per_second)
        self._counted_at = now
        if self._left < 1.0:
            return (1.0 - self._left) / self._per_second
        self._left -= 1.0
        return 0.0
