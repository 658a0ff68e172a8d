"""The signals that end the process in good order."""

from __future__ import annotations

import asyncio
import signal


def catch_signals(stop: asyncio.Event) -> None:
    """SIGTERM and SIGINT set `stop` from now on. Called in the event loop's thread."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
