"""Runs the extender until a signal ends it."""

from __future__ import annotations

import asyncio

from podwright.extender.server.options import ExtenderOptions
from podwright.extender.server.runtime import ExtenderRuntime
from podwright.kube.signals import catch_signals


async def run(options: ExtenderOptions) -> None:
    """Runs until SIGTERM or SIGINT. Raises ConfigError, AccessError, RegistryError and OSError if it cannot start."""
    stop = asyncio.Event()
    catch_signals(stop)
    runtime = ExtenderRuntime(options)
    starting = asyncio.create_task(runtime.start(), name="podwright start")
    stopping = asyncio.create_task(stop.wait(), name="podwright stop")
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            await stopping
    finally:
        starting.cancel()
        stopping.cancel()
        await runtime.stop()
