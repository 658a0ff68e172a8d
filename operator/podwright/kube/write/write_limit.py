"""How often statuses of our own kinds are written."""

from __future__ import annotations

import asyncio
from typing import Final

WRITES_PER_SECOND: Final = 5.0
"""How many statuses are written in a second, on average."""
WRITES_AT_ONCE: Final = 5
"""How many statuses are written without a pause after a while without writes."""


class WriteLimit:
    """Limits how often statuses are written, by a token bucket."""

    def __init__(self, per_second: float = WRITES_PER_SECOND, at_once: int = WRITES_AT_ONCE) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._left = float(at_once)
        self._counted_at: float | None = None

    async def take(self) -> None:
        """Returns when one more status may be written."""
        clock = asyncio.get_running_loop().time
        while True:
            now = clock()
            if self._counted_at is not None:
                self._left = min(self._at_once, self._left + (now - self._counted_at) * self._per_second)
            self._counted_at = now
            if self._left >= 1.0:
                self._left -= 1.0
                return
            await asyncio.sleep((1.0 - self._left) / self._per_second)
