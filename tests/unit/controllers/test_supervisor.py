"""Kopf inside `podwright run`: it is restarted when it fails, and never cancels the runtime's tasks."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager

import kopf
import pytest

from podwright.controllers import plain_kopf, supervisor
from podwright.controllers.supervisor import ProtectedTasks, handle_loop_error, supervise
from support.controllers.kit import FakeRuntime
from support.waiting import PATIENCE_SECONDS, until


class FakeKopf:
    """Kopf's calls. `ends` says how each run ends: with an error, or (None) when it is told to stop."""

    OperatorSettings = kopf.OperatorSettings
    OperatorRegistry = kopf.OperatorRegistry

    def __init__(self, *ends):
        self.ends = list(ends)
        self.flags = []
        self.registries = []

    @property
    def started(self):
        return len(self.flags)

    async def spawn_tasks(self, *, settings, registry, standalone, clusterwide, stop_flag, identity):
        assert standalone
        assert identity, "Kopf asks for the user's name, which a user of a container may lack"
        assert clusterwide
        assert settings.watching.field_selectors["pods"] == "spec.nodeName="
        self.registries.append(registry)
        self.flags.append(stop_flag)
        return []

    async def run_tasks(self, _tasks, *, ignored):
        end = self.ends.pop(0) if self.ends else None
        if end is not None:
            raise end
        await self.flags[-1].wait()


class StuckKopf(FakeKopf):
    """Kopf with a root task that fails and another one that never ends and resists cancellation."""

    def __init__(self):
        super().__init__()
        self.cancelled = 0

    async def spawn_tasks(self, **parts):
        await super().spawn_tasks(**parts)
        return [asyncio.create_task(self.fail()), asyncio.create_task(self.hang())]

    async def fail(self):
        raise RuntimeError("a watch was refused")

    async def hang(self):
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                if self.cancelled % 2 == 0:
                    raise

    async def run_tasks(self, tasks, *, ignored):
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@pytest.fixture
def install(monkeypatch):
    """Puts a Kopf in place of the real one."""

    def install(kopf):
        monkeypatch.setattr(supervisor, "kopf", kopf)
        monkeypatch.setattr(supervisor, "RESTART_SECONDS", (0.001, 0.002))
        monkeypatch.setattr(supervisor, "catch_signals", lambda _stop: None)
        return kopf

    return install


@asynccontextmanager
async def supervised(runtime):
    """The supervisor runs within, and stops in order afterwards."""
    loop = asyncio.get_running_loop()
    stop, handler = asyncio.Event(), loop.get_exception_handler()
    task = asyncio.create_task(supervise(stop, runtime))
    try:
        yield
        stop.set()
        await asyncio.wait_for(task, PATIENCE_SECONDS)
    finally:
        task.cancel()
        loop.set_exception_handler(handler)


async def test_kopf_is_restarted_whenever_it_fails(install, caplog):
    kopf = install(FakeKopf(RuntimeError("watching failed"), ValueError("and again")))
    runtime = FakeRuntime()
    async with supervised(runtime):
        await until(lambda: kopf.started == 3)
    assert "Kopf failed: RuntimeError" in caplog.text
    assert runtime.calls == ["restarted Kopf"] * 2


async def test_each_run_has_its_own_registry(install):
    kopf = install(FakeKopf(RuntimeError("watching failed")))
    async with supervised(FakeRuntime()):
        await until(lambda: kopf.started == 2)
    assert kopf.registries[0] is not kopf.registries[1]


async def test_kopf_that_does_not_stop_is_cancelled(install, monkeypatch, caplog):
    kopf = install(StuckKopf())
    monkeypatch.setattr(supervisor, "STOP_SECONDS", 0.01)
    async with supervised(FakeRuntime()):
        await until(lambda: kopf.started == 3)
    assert kopf.cancelled >= 4
    assert "Kopf did not stop in time" in caplog.text
    assert "Kopf failed: RuntimeError" in caplog.text


async def test_kopf_is_restarted_when_policies_appear(install):
    kopf, runtime = install(FakeKopf()), FakeRuntime()
    async with supervised(runtime):
        await until(lambda: kopf.started == 1)
        runtime.policies.appeared.set()
        await until(lambda: kopf.started == 2)
        assert not runtime.policies.appeared.is_set()


async def test_kopf_is_not_started_while_it_has_nothing_to_watch(install):
    kopf = install(FakeKopf())
    async with supervised(FakeRuntime(kopf_watches_pods=False, readable=False)):
        await asyncio.sleep(0.02)
    assert kopf.started == 0


async def test_kopf_is_started_once_policies_can_be_read(install):
    kopf, runtime = install(FakeKopf()), FakeRuntime(kopf_watches_pods=False, readable=False)
    async with supervised(runtime):
        await asyncio.sleep(0.02)
        assert kopf.started == 0
        runtime.policies.readable = True
        runtime.policies.appeared.set()
        await until(lambda: kopf.started == 1)


async def test_tasks_of_the_runtime_are_protected_from_kopf():
    async def work():
        await asyncio.sleep(10)

    before = asyncio.create_task(work(), name="anything")
    protected = ProtectedTasks()
    binding = asyncio.create_task(work(), name="podwright binding")
    kopfs = asyncio.create_task(work(), name="worker for pods")
    assert before in protected
    assert binding in protected
    assert kopfs not in protected
    assert set(protected) >= {before, binding}
    for task in (before, binding, kopfs):
        task.cancel()
    await asyncio.gather(before, binding, kopfs, return_exceptions=True)


def generator_of(file):
    """An asynchronous generator whose code is in this file."""
    names = {}
    exec(compile("async def generator(): yield 1", file, "exec"), names)
    return names["generator"]()


async def test_errors_of_the_loop_are_logged_except_for_kopfs_generators(caplog):
    caplog.set_level(logging.DEBUG)
    loop = asyncio.get_running_loop()
    for message, file in (("closing Kopf's", kopf.__file__), ("closing ours", plain_kopf.__file__)):
        handle_loop_error(loop, {"message": message, "asyncgen": generator_of(file)})
    handle_loop_error(loop, {"message": "something else"})
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert [text.splitlines()[0] for text in errors] == ["closing ours", "something else"]
