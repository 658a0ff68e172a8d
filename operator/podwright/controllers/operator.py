"""`podwright run`: the runtime, and Kopf inside it, which is started again when it fails while the rest lives on."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Collection, Iterator
from typing import Any, Final

import kopf

from podwright.controllers.process import process
from podwright.kube.options import Options
from podwright.kube.runtime import Runtime

log = logging.getLogger(__name__)

RESTART_SECONDS: Final = (0.5, 30.0)
STEADY_SECONDS: Final = 60.0
"""Kopf that ran for so long failed for a new reason."""


class NotKopfs(Collection["asyncio.Task[Any]"]):
    """All tasks that Kopf must not cancel when it ends: those from before it, and ours by their names."""

    def __init__(self) -> None:
        self._before = asyncio.all_tasks()

    def __contains__(self, task: object) -> bool:
        return task in self._before or (isinstance(task, asyncio.Task) and task.get_name().startswith("podwright "))

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(task for task in asyncio.all_tasks() if task in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


async def run(options: Options) -> None:
    """Runs until SIGTERM or SIGINT. Raises ConfigError, AccessError and OSError if it cannot start."""
    stop = asyncio.Event()
    _catch_signals(stop)
    asyncio.get_running_loop().set_exception_handler(_complain)
    runtime = Runtime(options)
    starting = asyncio.create_task(runtime.start(), name="podwright start")
    stopping = asyncio.create_task(stop.wait(), name="podwright stop")
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            process.lend(runtime)
            keeping = asyncio.create_task(_keep_kopf(stop, runtime), name="podwright Kopf")
            await stopping
            log.info("stopping: bindings under way are finished first")
            await runtime.stop()
            await keeping
        else:
            starting.cancel()
    finally:
        stopping.cancel()
        await runtime.stop()


async def _keep_kopf(stop: asyncio.Event, runtime: Runtime) -> None:
    """Returns when `stop` is set. The last thing that Kopf does is to end in peace with its watches."""
    if runtime.options.pod_intake != "kopf" and not runtime.policies_allowed:
        await _first_of(stop, runtime.policies.appeared)
    pause, longest = RESTART_SECONDS
    clock = asyncio.get_running_loop().time
    while not stop.is_set():
        started = clock()
        stale = runtime.policies.appeared
        try:
            await _run_kopf(stop, stale)
        except Exception as error:
            log.exception("Kopf ended: %s", type(error).__name__)
        if stop.is_set():
            return
        if stale.is_set():
            log.info("SchedulerPolicies can be watched now: Kopf starts again")
            continue
        pause = RESTART_SECONDS[0] if clock() > started + STEADY_SECONDS else min(longest, 2 * pause)
        log.warning("starting Kopf again in %g s; scheduling goes on", pause)
        try:
            await asyncio.wait_for(stop.wait(), pause)
        except TimeoutError:
            continue


async def _run_kopf(stop: asyncio.Event, stale: asyncio.Event) -> None:
    """Until `stop` or `stale` is set, or Kopf fails."""
    others = NotKopfs()
    stale.clear()
    ends = asyncio.Event()
    relay = asyncio.create_task(_relay((stop, stale), ends), name="podwright end of Kopf")
    try:
        tasks = await kopf.spawn_tasks(standalone=True, clusterwide=True, stop_flag=ends)
        _catch_signals(stop)  # Kopf has taken them for itself
        await kopf.run_tasks(tasks, ignored=others)
    finally:
        relay.cancel()


async def _relay(causes: Collection[asyncio.Event], effect: asyncio.Event) -> None:
    """Sets `effect` once one of the causes is set."""
    await _first_of(*causes)
    effect.set()


async def _first_of(*events: asyncio.Event) -> None:
    """Returns once one of them is set."""
    waiting = [asyncio.create_task(event.wait(), name="podwright end of Kopf") for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


def _complain(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Passes on what the loop has to complain of, but for Kopf's watches: they cannot be closed in the midst of an event."""
    generator = context.get("asyncgen")
    if generator is not None and "kopf" in generator.ag_code.co_filename:
        log.debug("%s", context.get("message"))
        return
    loop.default_exception_handler(context)


def _catch_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
