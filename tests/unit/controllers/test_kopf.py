"""Kopf inside the operator: set up to leave no trace, started again when it fails, and never in the way of our tasks."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace

import kopf
import pytest

from podwright.controllers import supervisor as operator
from podwright.controllers.process import Process
from podwright.controllers.settings import EndlessBackoffs, configure
from podwright.kube.client.credentials import Credentials
from podwright.kube.client.errors import AccessError
from support.objects.builders import make_pod


def runtime(**options):
    made = {
        "pending_selector": "spec.nodeName=",
        "crds_watchable": True,
        "options": SimpleNamespace(pod_intake="kopf"),
        "policies_allowed": True,
        "policies": SimpleNamespace(appeared=asyncio.Event()),
        **options,
    }
    return SimpleNamespace(**made)


class TestSettings:
    def test_kopf_leaves_no_trace_on_any_object(self):
        settings = kopf.OperatorSettings()
        configure(settings, runtime())
        body, patch = kopf.Body({"metadata": {"annotations": {"a": "b"}}, "spec": {"x": 1}}), kopf.Patch()
        diffs, progress = settings.persistence.diffbase_storage, settings.persistence.progress_storage
        diffs.store(body=body, patch=patch, essence=diffs.build(body=body))
        progress.store(key="k", record={}, body=body, patch=patch)
        progress.touch(body=body, patch=patch, value="now")
        progress.purge(key="k", body=body, patch=patch)
        assert not patch
        assert diffs.fetch(body=body) is None
        assert progress.fetch(key="k", body=body) is None
        assert not settings.posting.enabled

    def test_the_server_sorts_out_pods_that_are_not_ours(self):
        settings = kopf.OperatorSettings()
        configure(settings, runtime(pending_selector="spec.nodeName=,spec.schedulerName!=default-scheduler"))
        pods = kopf.Resource("", "v1", "pods", "Pod", "pod", frozenset(), frozenset(), frozenset(), True, True)
        assert settings.watching.field_selectors.collect(pods) == [
            "spec.nodeName=,spec.schedulerName!=default-scheduler"
        ]

    def test_no_limit_of_workers_and_no_peering(self):
        settings = kopf.OperatorSettings()
        configure(settings, runtime())
        assert settings.queueing.worker_limit is None
        assert settings.peering.standalone

    @pytest.mark.parametrize("watchable", [True, False])
    def test_new_kinds_are_looked_for_only_where_that_is_allowed(self, watchable):
        settings = kopf.OperatorSettings()
        configure(settings, runtime(crds_watchable=watchable))
        assert settings.scanning.disabled is not watchable

    def test_backoffs_never_end_and_may_be_taken_again(self):
        backoffs = EndlessBackoffs()
        for _ in range(2):
            pauses = list(itertools.islice(backoffs, 1_000))
            assert pauses == sorted(pauses)
            assert pauses[0] < 1
            assert pauses[-1] == 10.0


class StuckKopf:
    """Kopf of which a root task fails, whereupon it waits for another one that never ends, and will not be cancelled."""

    def __init__(self):
        self.started = 0
        self.cancelled = 0

    async def spawn_tasks(self, **_):
        self.started += 1
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


class FakeKopf:
    """Kopf's two calls; `ends` says how each run ends: an error, or None to end when it is told to."""

    def __init__(self, *ends):
        self.ends = list(ends)
        self.flags = []
        self.started = 0

    async def spawn_tasks(self, *, standalone, clusterwide, stop_flag):
        assert standalone
        assert clusterwide
        self.started += 1
        self.flags.append(stop_flag)
        return []

    async def run_tasks(self, _tasks, *, ignored):
        end = self.ends.pop(0) if self.ends else None
        if end is not None:
            raise end
        await self.flags[-1].wait()


@pytest.fixture
def fake(monkeypatch):
    def install(*ends):
        made = FakeKopf(*ends)
        monkeypatch.setattr(operator, "kopf", made)
        monkeypatch.setattr(operator, "RESTART_SECONDS", (0.001, 0.002))
        monkeypatch.setattr(operator, "catch_signals", lambda _stop: None)
        return made

    return install


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


class TestKeepingKopf:
    async def test_it_is_started_again_whenever_it_fails(self, fake, caplog):
        made = fake(RuntimeError("watching failed"), ValueError("and again"))
        stop = asyncio.Event()
        task = asyncio.create_task(operator._keep_kopf(stop, runtime()))
        await until(lambda: made.started == 3)
        stop.set()
        await asyncio.wait_for(task, 5)
        assert "Kopf ended: RuntimeError" in caplog.text

    async def test_one_that_does_not_end_is_left_behind(self, fake, monkeypatch, caplog):
        fake()
        made = StuckKopf()
        monkeypatch.setattr(operator, "kopf", made)
        monkeypatch.setattr(operator, "END_SECONDS", 0.01)
        stop = asyncio.Event()
        task = asyncio.create_task(operator._keep_kopf(stop, runtime()))
        await until(lambda: made.started == 3)
        stop.set()
        await asyncio.wait_for(task, 5)
        assert made.cancelled >= 4
        assert "Kopf does not end by itself" in caplog.text
        assert "Kopf ended: RuntimeError" in caplog.text

    async def test_it_is_started_anew_when_policies_come_to_be_served(self, fake):
        made = fake()
        stop, around = asyncio.Event(), runtime()
        task = asyncio.create_task(operator._keep_kopf(stop, around))
        await until(lambda: made.started == 1)
        around.policies.appeared.set()
        await until(lambda: made.started == 2)
        assert not around.policies.appeared.is_set()
        stop.set()
        await asyncio.wait_for(task, 5)

    async def test_with_nothing_to_watch_it_is_not_started(self, fake):
        made = fake()
        stop = asyncio.Event()
        around = runtime(policies_allowed=False, options=SimpleNamespace(pod_intake="watch"))
        task = asyncio.create_task(operator._keep_kopf(stop, around))
        await asyncio.sleep(0.02)
        stop.set()
        await asyncio.wait_for(task, 5)
        assert made.started == 0

    async def test_with_nothing_to_watch_it_is_started_once_policies_may_be_read(self, fake):
        made = fake()
        stop = asyncio.Event()
        around = runtime(policies_allowed=False, options=SimpleNamespace(pod_intake="watch"))
        task = asyncio.create_task(operator._keep_kopf(stop, around))
        await asyncio.sleep(0.02)
        assert made.started == 0
        around.policies_allowed = True
        around.policies.appeared.set()
        await until(lambda: made.started == 1)
        stop.set()
        await asyncio.wait_for(task, 5)

    async def test_our_tasks_are_none_of_its_business(self):
        async def work():
            await asyncio.sleep(10)

        before = asyncio.create_task(work(), name="anything")
        others = operator.NotKopfs()
        binding = asyncio.create_task(work(), name="podwright binding")
        kopfs = asyncio.create_task(work(), name="worker for pods")
        assert before in others
        assert binding in others
        assert kopfs not in others
        assert set(others) >= {before, binding}
        for task in (before, binding, kopfs):
            task.cancel()
        await asyncio.gather(before, binding, kopfs, return_exceptions=True)


class FakeSource:
    def __init__(self):
        self.forgotten = 0

    async def current(self):
        return Credentials("http://127.0.0.1:1", None, (("Authorization", "Bearer t"),), "team")

    def forget(self):
        self.forgotten += 1


class TestProcess:
    async def test_kopf_logs_in_with_the_credentials_of_the_process(self):
        process, source = Process(), FakeSource()
        process.lend(runtime(source=source))
        info = await process.login()
        assert (info.server, info.default_namespace) == ("http://127.0.0.1:1", "team")
        assert info.aiohttp_session.headers["Authorization"] == "Bearer t"
        assert info.aiohttp_session.trust_env is False
        await info.aiohttp_session.close()
        assert source.forgotten == 0

    async def test_logging_in_again_at_once_waits_and_loads_anew(self, monkeypatch):
        monkeypatch.setattr("podwright.controllers.process.LOGIN_SECONDS", 0.05)
        process, source = Process(), FakeSource()
        process.lend(runtime(source=source))
        started = asyncio.get_running_loop().time()
        for _ in range(2):
            await (await process.login()).aiohttp_session.close()
        assert asyncio.get_running_loop().time() - started >= 0.05
        assert source.forgotten == 1

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            pytest.param(make_pod(spec={"schedulerName": "podwright"}), True, id="a name that is served"),
            pytest.param(make_pod(spec={"schedulerName": "other"}), False, id="another name"),
            pytest.param(make_pod(), False, id="no name"),
            pytest.param({"metadata": {}, "spec": None}, False, id="no spec"),
        ],
    )
    def test_handlers_fire_for_the_names_that_policies_serve(self, body, expected):
        process = Process()
        live = SimpleNamespace(serves=lambda name: name == "podwright")
        process.lend(SimpleNamespace(engine=SimpleNamespace(policies=live)))
        assert process.serves(kopf.Body(body)) is expected

    async def test_what_will_not_pass_ends_plain_kopf(self, monkeypatch):
        def refuse(_options):
            raise AccessError("nodes: forbidden")

        monkeypatch.setattr("podwright.controllers.process.Runtime", refuse)
        process = Process()
        with pytest.raises(kopf.PermanentError, match="nodes: forbidden"):
            await process.kopf_starts(kopf.OperatorSettings())
        await process.kopf_ends()
