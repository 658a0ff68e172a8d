"""Kopf inside `podwright run`: started again when it fails, while the runtime, which is only lent to it, lives on.

`cli/scheduler` imports this when there is time for it: Kopf takes longer to import than the rest takes to start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator
from typing import Any, Final

import kopf

from podwright.controllers.process import process
from podwright.kube.runtime import Runtime
from podwright.kube.signals import catch_signals

log = logging.getLogger(__name__)

RESTART_SECONDS: Final = (0.5, 30.0)
END_SECONDS: Final = 7.0
"""How long Kopf may take to end; it waits 5 s for its watches."""
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


async def accompany(stop: asyncio.Event, runtime: Runtime) -> None:
    """Keeps Kopf running beside a runtime that has started, until `stop` is set."""
    asyncio.get_running_loop().set_exception_handler(_complain)
    process.lend(runtime)
    await _keep_kopf(stop, runtime)


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
        catch_signals(stop)  # Kopf has taken them for itself
        await _see_to_its_end(tasks, others)
    finally:
        relay.cancel()


async def _see_to_its_end(tasks: Collection[asyncio.Task[Any]], others: NotKopfs) -> None:
    """Until one of Kopf's root tasks ends, and then all of them have, or END_SECONDS are over. Raises what Kopf failed of.

    A watch that is cut while Kopf ends asks for a new login, and nobody is left to answer it.
    """
    runner = asyncio.create_task(kopf.run_tasks(tasks, ignored=others), name="podwright Kopf")
    await asyncio.wait({runner, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in tasks if task.done() and not task.cancelled() and task.exception() is not None]
    await asyncio.wait({runner}, timeout=END_SECONDS)
    if runner.done():
        return runner.result()
    log.warning("Kopf does not end by itself; it is left behind")
    for task in asyncio.all_tasks():
        if task is runner or task not in others:
            task.cancel()
    for task in failed:
        task.result()
    return None


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
