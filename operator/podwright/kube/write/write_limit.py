"""How often statuses of our own kinds are written."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from podwright.engine.process.token_bucket import TokenBucket

WRITES_PER_SECOND: Final = 5.0
"""How many statuses are written in a second, on average."""
WRITES_AT_ONCE: Final = 5
"""How many statuses are written without a pause after a while without writes."""


class WriteLimit:
    """Limits how often statuses are written, by a token bucket."""

    def __init__(self, per_second: float = WRITES_PER_SECOND, at_once: int = WRITES_AT_ONCE) -> None:
        self._bucket = TokenBucket(time.monotonic, per_second=per_second, at_once=at_once)

    async def take(self) -> None:
        """Returns when one more status may be written."""
        while True:
            seconds = self._bucket.take()
            if not seconds:
                return
            await asyncio.sleep(seconds)
