"""Kopf inside `podwright run`: it is started again when it fails, and the runtime goes on meanwhile.

`cli/processes/scheduler.py` imports this module late, because importing Kopf takes longer than the rest of the start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final, cast

import kopf

from podwright.controllers import handlers
from podwright.controllers.login import KopfLogin
from podwright.controllers.settings import configure
from podwright.kube.deadline import first_of
from podwright.kube.runtime import Runtime
from podwright.kube.signals import catch_signals

log = logging.getLogger(__name__)

RESTART_SECONDS: Final = (0.5, 30.0)
"""The shortest and the longest pause before a restart; each pause is twice the one before."""
STOP_SECONDS: Final = 7.0
"""How long Kopf may take to stop; it waits 5 s for its watches."""
IDENTITY: Final = "podwright"
"""The name of this instance among its Kopf peers; it has none. Kopf's default needs a user with a name, which a
container lacks.
"""
STABLE_SECONDS: Final = 60.0
"""After Kopf has run this long, the pauses begin with the shortest again."""


class ProtectedTasks(Collection["asyncio.Task[Any]"]):
    """The tasks that Kopf must not cancel when it stops: those older than Kopf, and the runtime's own, which it knows
    by name.
    """

    def __init__(self) -> None:
        self._older = asyncio.all_tasks()

    def __contains__(self, task: object) -> bool:
        return task in self._older or (isinstance(task, asyncio.Task) and task.get_name().startswith("podwright "))

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(task for task in asyncio.all_tasks() if task in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


Register = Callable[[kopf.OperatorRegistry, Any], None]
"""Registers the handlers of a runtime."""


async def supervise(stop: asyncio.Event, runtime: Runtime, register: Register = handlers.register_watches) -> None:
    """Runs Kopf beside a runtime that has started, until `stop` is set."""
    asyncio.get_running_loop().set_exception_handler(handle_loop_error)
    login = KopfLogin(runtime.source, take_in=runtime.pending.put_listed, also=runtime.collections)
    appeared = runtime.policies.appeared
    if not runtime.kopf_has_work:
        await first_of(stop, appeared)
    pause, longest = RESTART_SECONDS
    clock = asyncio.get_running_loop().time
    while not stop.is_set():
        started = clock()
        appeared.clear()
        try:
            await _run_kopf(stop, runtime, login, register)
        except Exception as error:
            log.exception("Kopf failed: %s", type(error).__name__)
        if stop.is_set():
            return
        if appeared.is_set():
            log.info("policies can be watched now; restarting Kopf")
            continue
        pause = RESTART_SECONDS[0] if clock() > started + STABLE_SECONDS else min(longest, 2 * pause)
        log.warning("restarting Kopf in %g s; scheduling goes on", pause)
        runtime.task_restarted("Kopf")
        try:
            await asyncio.wait_for(stop.wait(), pause)
        except TimeoutError:
            continue


async def _run_kopf(stop: asyncio.Event, runtime: Runtime, login: KopfLogin, register: Register) -> None:
    """Returns when `stop` is set or policies have appeared. Raises the error with which Kopf failed."""
    protected = ProtectedTasks()
    settings, registry = kopf.OperatorSettings(), kopf.OperatorRegistry()
    configure(settings, runtime)
    handlers.register_login(registry, login)
    register(registry, runtime)
    stop_kopf = asyncio.Event()
    relay = asyncio.create_task(
        _set_after(stop_kopf, stop, runtime.policies.appeared), name="podwright stop signal for Kopf"
    )
    try:
        tasks = await kopf.spawn_tasks(
            settings=settings,
            registry=registry,
            standalone=True,
            clusterwide=True,
            stop_flag=stop_kopf,
            identity=cast("Any", IDENTITY),
        )
        catch_signals(stop)  # Kopf has replaced the handlers with its own
        await _wait_for_kopf(tasks, protected)
    finally:
        relay.cancel()


async def _wait_for_kopf(tasks: Collection[asyncio.Task[Any]], protected: ProtectedTasks) -> None:
    """Returns when Kopf has stopped. STOP_SECONDS after one of its root tasks has ended, the others are cancelled.

    Without that limit, Kopf can hang: a watch that breaks while Kopf stops asks for a new login, which nothing answers
    any more.
    """
    runner = asyncio.create_task(kopf.run_tasks(tasks, ignored=protected), name="podwright Kopf")
    await asyncio.wait({runner, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in tasks if task.done() and not task.cancelled() and task.exception() is not None]
    await asyncio.wait({runner}, timeout=STOP_SECONDS)
    if runner.done():
        return runner.result()
    log.warning("Kopf did not stop in time; cancelling its tasks")
    for task in asyncio.all_tasks():
        if task is runner or task not in protected:
            task.cancel()
    for task in failed:
        task.result()
    return None


async def _set_after(effect: asyncio.Event, *causes: asyncio.Event) -> None:
    """Sets `effect` once one of the causes is set."""
    await first_of(*causes)
    effect.set()


def handle_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handles errors of the event loop as by default, except for Kopf's generators, which cannot be closed during an
    event.
    """
    generator = context.get("asyncgen")
    if generator is not None and "kopf" in Path(generator.ag_code.co_filename).parts:
        log.debug("%s", context.get("message"))
        return
    loop.default_exception_handler(context)
