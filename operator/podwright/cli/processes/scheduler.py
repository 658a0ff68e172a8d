"""The process of `podwright run`: starts the runtime first, then Kopf beside it.

Kopf watches policies, and pending pods with `--pod-intake=kopf`. Importing it takes as long as the rest of the start.
It therefore starts only after the first decisions, or at once on a standby; the runtime lists policies and pending pods
before the first decision. CEL and tenacity are imported then, too: only pods with claims, policies with rules, and
requests that failed need them, and these import them themselves if they come earlier.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import sys
from collections.abc import Callable, Collection, Iterator
from types import ModuleType
from typing import Any, Final

from podwright.cli.processes.running import LeadershipLostError
from podwright.extender.clients import clients_of
from podwright.kube.deadline import first_of, wait_at_most
from podwright.kube.options.options import Options
from podwright.kube.runtime import Runtime
from podwright.kube.signals import catch_signals

log = logging.getLogger(__name__)

FIRST_BURST_SECONDS: Final = 10.0
"""How long Kopf waits for the first burst of decisions at most, if it watches no pods."""
SETTLE_SECONDS: Final = 2.0
"""How long it then waits after the last of these decisions, for bindings and their events."""
FIRST_PODS_SECONDS: Final = 1.0
"""How long it waits at most if it watches the pods: those that are created meanwhile wait with it."""
KOPF_STOP_SECONDS: Final = 2.0
"""How long Kopf may take to stop after everything else. It only watches, and can wait 5 s or more for a broken watch.
"""
KOPF_CANCELLATIONS: Final = 20
"""How often, at most, what Kopf has left is then cancelled."""
HANDLERS: Final = "podwright.controllers.handlers"
LATE: Final = ("podwright.core.devices.compiling", "podwright.core.plugins.rules.expression", "tenacity")
"""The modules that compile expressions, for selectors of devices and for rules, and the one that retries requests."""


async def run(options: Options, build: Callable[[], Runtime] | None = None, handlers: str = HANDLERS) -> None:
    """Runs until SIGTERM, SIGINT or SIGQUIT. `build`: makes the runtime, if it is not the scheduler's. `handlers`: the
    module whose `register_watches` registers its handlers with Kopf.

    Raises ConfigError, AccessError, RegistryError and OSError if it cannot start, and LeadershipLostError when another
    instance may lead.
    """
    stop, older = asyncio.Event(), asyncio.all_tasks()
    catch_signals(stop)
    runtime = Runtime(options, clients_of(options)) if build is None else build()
    starting = asyncio.create_task(runtime.start(), name="podwright start")
    stopping = asyncio.create_task(first_of(stop, runtime.leadership.lost), name="podwright stop")
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            kopf = asyncio.create_task(_run_kopf(stop, runtime, handlers), name="podwright Kopf")
            await stopping
            if not runtime.leadership.lost.is_set():
                log.info("stopping; bindings under way finish first")
            stop.set()
            await runtime.stop()
            await wait_for_kopf(kopf, older)
        else:
            starting.cancel()
        if runtime.leadership.lost.is_set():
            raise LeadershipLostError("leader election lost")
    finally:
        stopping.cancel()
        await runtime.stop()


async def wait_for_kopf(kopf: asyncio.Task[None], older: Collection[asyncio.Task[Any]]) -> None:
    """Once KOPF_STOP_SECONDS are over, all tasks but the older ones are cancelled until they have ended: a request that
    Kopf stops swallows a cancellation, and may then wait for a login that nothing answers.
    """
    done, _ = await asyncio.wait({kopf}, timeout=KOPF_STOP_SECONDS)
    if done:
        await kopf
        return
    log.info("Kopf did not stop in time; ending without it")
    for _ in range(KOPF_CANCELLATIONS):
        left = asyncio.all_tasks().difference(older)
        if not left:
            return
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=0.1)


async def _run_kopf(stop: asyncio.Event, runtime: Runtime, handlers: str) -> None:
    await _wait_for_first_burst(stop, runtime)
    if not stop.is_set():
        supervisor = await asyncio.to_thread(import_supervisor)
        register = (await asyncio.to_thread(importlib.import_module, handlers)).register_watches
        await asyncio.gather(supervisor.supervise(stop, runtime, register), asyncio.to_thread(import_late))


async def _wait_for_first_burst(stop: asyncio.Event, runtime: Runtime) -> None:
    """A standby does not wait: the import must not fall into its takeover."""
    standby = asyncio.create_task(runtime.leadership.wait_until_standing_by(), name="podwright wait")
    idle = asyncio.create_task(runtime.engine.first_idle.wait(), name="podwright wait")
    seconds = FIRST_PODS_SECONDS if runtime.kopf_watches_pods else FIRST_BURST_SECONDS
    done, pending = await asyncio.wait({standby, idle}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    if standby in done or runtime.kopf_watches_pods:
        return
    await wait_at_most(SETTLE_SECONDS, stop.wait())


def import_supervisor() -> ModuleType:
    """Imports `controllers/supervisor.py`, and with it Kopf.

    Kopf imports the Kubernetes client library if it is installed, to recognize its objects. Podwright passes it none,
    and the import would take 18 MB and a quarter of a second.
    """
    with _hidden("kubernetes"):
        from podwright.controllers import supervisor  # noqa: PLC0415 -- Kopf is imported late, see the module
    return supervisor


def import_late() -> None:
    """Imports what the first decisions do not need, so that no later one has to wait for it."""
    for name in LATE:
        importlib.import_module(name)


@contextlib.contextmanager
def _hidden(name: str) -> Iterator[None]:
    """Importing the package fails meanwhile, unless it was imported before."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # makes an import fail
    try:
        yield
    finally:
        del sys.modules[name]
