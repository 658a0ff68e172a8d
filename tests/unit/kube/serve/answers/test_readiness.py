"""/readyz says what is missing, and since when the view of the cluster is not current."""

from __future__ import annotations

import asyncio

import pytest

from podwright.engine.records.metrics import Metrics
from podwright.kube import background
from podwright.kube.background import BackgroundTasks
from podwright.kube.client.errors import ApiError, ConfigError, UnreachableError
from podwright.kube.serve.answers import readiness
from podwright.kube.serve.answers.readiness import ApiServerContact, Clocks, Readiness
from support.waiting import patience, until

WALL = 1_700_000_000.0  # 2023-11-14T22:13:20Z
ALL_GOOD = dict.fromkeys(
    ("ping", "shutdown", "informer-sync", "api-server", "credentials", "watches", "background-tasks"), ""
)


class Http:
    """Answers /version, or raises what the test sets."""

    def __init__(self):
        self.error = None
        self.asked = []

    async def call(self, method, path):
        self.asked.append((method, path))
        if self.error is not None:
            raise self.error
        return {"minor": "37"}


class Watches:
    def __init__(self):
        self.seconds = {}
        self.names = ["nodes", "assigned pods"]

    def blind(self):
        return self.seconds


class Source:
    refused_since = None


class World:
    """A Readiness, with everything that it looks at."""

    def __init__(self):
        self.now = 1000.0
        self.missing = []
        self.http, self.watches, self.source = Http(), Watches(), Source()
        self.contact = ApiServerContact(self.http, lambda: self.now)
        clocks = Clocks(steady=lambda: self.now, wall=lambda: WALL)
        self.tasks = BackgroundTasks(clock=lambda: self.now)
        self.readiness = Readiness(
            self.contact,
            self.watches,
            source=self.source,
            missing=lambda: self.missing,
            tasks=self.tasks,
            clocks=clocks,
        )

    @property
    def failed(self):
        return {name: problem for name, problem in self.readiness.problems().items() if problem}

    def metrics(self):
        metrics = Metrics(lambda: 0.0)
        self.readiness.register(metrics)
        return {
            (sample.name.removeprefix("podwright_"), *sample.labels.values()): sample.value
            for family in metrics.registry.collect()
            for sample in family.samples
            if family.name.endswith(("blind_seconds", "silent_seconds", "refused_seconds"))
        }


@pytest.fixture
def world():
    return World()


def test_every_check_is_named_also_if_all_is_well(world):
    assert world.readiness.problems() == ALL_GOOD
    assert world.metrics() == {
        ("watch_blind_seconds", "nodes"): 0,
        ("watch_blind_seconds", "assigned pods"): 0,
        ("api_server_silent_seconds",): 0,
        ("credentials_refused_seconds",): 0,
    }


def test_missing_lists_are_named(world):
    world.missing = ["nodes", "assigned pods"]
    assert world.failed == {"informer-sync": "not complete: nodes, assigned pods"}


def test_a_process_that_stops_is_not_ready(world):
    world.readiness.stopping = True
    assert world.failed == {"shutdown": "the process is shutting down"}


def test_a_view_is_blind_after_thirty_seconds_without_a_watch(world):
    world.watches.seconds = {"nodes": 29.9, "assigned pods": 12.0}
    assert world.failed == {}
    world.watches.seconds = {"nodes": 40.2, "assigned pods": 12.0}
    assert world.failed == {"watches": "nodes not listed for 40 s, since 2023-11-14T22:12:39Z"}
    assert world.metrics()["watch_blind_seconds", "nodes"] == 40.2
    assert world.metrics()["watch_blind_seconds", "assigned pods"] == 12
    world.watches.seconds["assigned pods"] = 60
    assert world.failed["watches"].count("not listed") == 2


def test_refused_credentials_fail_after_thirty_seconds(world):
    world.source.refused_since = world.now - 10
    assert world.failed == {}
    world.now += 20
    assert world.failed == {"credentials": "refused by the API server for 30 s, since 2023-11-14T22:12:50Z"}
    assert world.metrics()[("credentials_refused_seconds",)] == 30


class TestApiServer:
    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            pytest.param(UnreachableError("connection refused"), "connection refused", id="no connection"),
            pytest.param(UnreachableError(""), "UnreachableError", id="an error without words"),
            pytest.param(ApiError(503, "", "no upstream"), "no upstream", id="a proxy without a server"),
            pytest.param(ConfigError("no token"), "no token", id="no credentials"),
            pytest.param(OSError("no file"), "no file", id="no file with credentials"),
        ],
    )
    async def test_an_api_server_that_is_gone_for_thirty_seconds_is_named_with_the_reason(self, world, error, reason):
        await world.contact.ask()
        world.http.error = error
        world.now += 29
        await world.contact.ask()
        assert world.failed == {}
        assert world.metrics()[("api_server_silent_seconds",)] == 29
        world.now += 1
        assert world.failed == {"api-server": f"no answer for 30 s, since 2023-11-14T22:12:50Z: {reason}"}
        world.http.error = None
        await world.contact.ask()
        assert world.failed == {}

    @pytest.mark.parametrize("status", [401, 403, 404, 429])
    async def test_a_refusal_is_an_answer(self, world, status):
        world.http.error = ApiError(status, "", "no")
        world.now += 100
        await world.contact.ask()
        assert world.failed == {}

    async def test_no_answer_in_time_is_none(self, world, monkeypatch):
        async def hangs(*_request):
            await asyncio.Event().wait()

        monkeypatch.setattr(readiness, "ASK_SECONDS", 0.0)
        world.http.call = hangs
        await world.contact.ask()
        world.now += 31
        assert world.failed["api-server"].endswith(": no answer within 0 s")

    async def test_an_old_answer_alone_is_no_failure(self, world):
        """Questions come late where the loop was busy, or the machine slept."""
        world.now += 3600
        assert world.failed == {}

    async def test_it_asks_again_and_again(self, world, monkeypatch):
        monkeypatch.setattr(readiness, "ASK_SECONDS", 0.001)
        task = asyncio.create_task(world.contact.run())
        async with patience():
            while len(world.http.asked) < 3:
                await asyncio.sleep(0.001)
        task.cancel()
        assert set(world.http.asked) == {("GET", "/version")}


async def test_a_task_that_fails_again_and_again_is_named_until_it_goes_on(world, monkeypatch):
    monkeypatch.setattr(background, "RESTART_SECONDS", 0)
    broken, rounds = True, 0

    async def work():
        nonlocal rounds
        rounds += 1
        if broken:
            raise ValueError("broken")
        await asyncio.Event().wait()

    world.tasks.start("policy changes", work)
    await until(lambda: rounds > 3)
    assert world.failed == {"background-tasks": "restarted again and again, see the log: policy changes"}
    broken = False
    world.now += background.LOOP_SECONDS + 1
    assert world.failed == {}
    await world.tasks.stop()


async def test_a_task_that_fails_now_and_then_is_no_problem(world, monkeypatch):
    monkeypatch.setattr(background, "RESTART_SECONDS", 0)
    rounds = 0

    async def work():
        nonlocal rounds
        rounds += 1
        world.now += background.LOOP_SECONDS / 2
        raise ValueError("broken")

    world.tasks.start("policy changes", work)
    await until(lambda: rounds > 5)
    await world.tasks.stop()
    assert world.failed == {}


def test_the_page_is_told_how_old_the_view_is(world):
    assert world.readiness.stale() == (0.0, "")
    world.watches.seconds = {"nodes": 9.9, "assigned pods": 3.0}
    assert world.readiness.stale() == (0.0, "")
    world.watches.seconds = {"nodes": 12.0, "assigned pods": 31.0}
    assert world.readiness.stale() == (31.0, "assigned pods cannot be listed")
