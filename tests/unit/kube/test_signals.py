"""The signals that stop the process in order."""

import asyncio
import signal

import pytest

from podwright.kube.signals import catch_signals
from support.waiting import patience


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT], ids=lambda number: number.name)
async def test_a_signal_stops_the_process_in_order(number):
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    catch_signals(stop)
    try:
        signal.raise_signal(number)
        async with patience():
            await stop.wait()
    finally:
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            loop.remove_signal_handler(each)
