"""The process of `podwright run`: the runtime first, and Kopf beside it as soon as there is time for it.

Kopf watches policies, and pending pods if it was asked to. Importing it takes as long as all the rest of the start, so
where pods come in without it, it waits until the first rush is over; policies were listed before the first decision.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Final

from podwright.kube.options import Options
from podwright.kube.runtime import Runtime
from podwright.kube.signals import catch_signals

log = logging.getLogger(__name__)

RUSH_SECONDS: Final = 10.0
"""How long Kopf waits for the first rush at most."""
QUIET_SECONDS: Final = 2.0
"""What is left after the last decision: bindings and their events."""
KOPF_ENDS_SECONDS: Final = 2.0
"""How long Kopf may take to end once all else has. It only watches; a watch that was broken it would wait for, for 5 s at least."""


async def run(options: Options) -> None:
    """Runs until SIGTERM or SIGINT. Raises ConfigError, AccessError and OSError if it cannot start."""
    stop = asyncio.Event()
    catch_signals(stop)
    runtime = Runtime(options)
    starting = asyncio.create_task(runtime.start(), name="podwright start")
    stopping = asyncio.create_task(stop.wait(), name="podwright stop")
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            keeping = asyncio.create_task(_keep_kopf(stop, runtime), name="podwright Kopf")
            await stopping
            log.info("stopping: bindings under way are finished first")
            await runtime.stop()
            await _kopf_has_ended(keeping)
        else:
            starting.cancel()
    finally:
        stopping.cancel()
        await runtime.stop()


async def _kopf_has_ended(keeping: asyncio.Task[None]) -> None:
    done, _ = await asyncio.wait({keeping}, timeout=KOPF_ENDS_SECONDS)
    if done:
        await keeping
    else:
        log.info("Kopf takes its time to end; nothing waits for it")
        keeping.cancel()


async def _keep_kopf(stop: asyncio.Event, runtime: Runtime) -> None:
    if runtime.options.pod_intake != "kopf":
        await _rush_is_over(stop, runtime)
    if not stop.is_set():
        operator = await asyncio.to_thread(import_kopfs_side)
        await operator.accompany(stop, runtime)


async def _rush_is_over(stop: asyncio.Event, runtime: Runtime) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(RUSH_SECONDS):
            await runtime.engine.first_idle.wait()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(QUIET_SECONDS):
            await stop.wait()


def import_kopfs_side() -> ModuleType:
    """The module that runs Kopf.

    Kopf imports the client library where there is one, to know objects of its classes. It gets none from us, and would
    spend 18 MB and a quarter of a second on it.
    """
    with _hidden("kubernetes"):
        return importlib.import_module("podwright.controllers.supervisor")


@contextlib.contextmanager
def _hidden(name: str) -> Iterator[None]:
    """A package that was not imported yet cannot be, meanwhile."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # what makes an import fail
    try:
        yield
    finally:
        del sys.modules[name]
