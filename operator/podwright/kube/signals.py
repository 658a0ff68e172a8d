"""The signals that stop the process."""

from __future__ import annotations

import asyncio
import signal


def catch_signals(stop: asyncio.Event) -> None:
    """From now on SIGTERM, SIGINT and SIGQUIT set `stop`. Must be called in the thread of the event loop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, stop.set)
