"""QueueViews: which namespaces have which, what they say, and how often they are written."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import count

import pytest

from podwright.api.scheduling_queue import parse_queue
from podwright.core.queues.queues import QUEUE_LABEL, queues_of
from podwright.kube.kinds import QUEUE_VIEW
from podwright.kube.queues import views as module
from podwright.kube.queues.views import QueueViewDoor
from podwright.kube.write import object_status
from podwright.kube.write.write_limit import WriteLimit
from support.engine.kit import Rig
from support.http.kit import api, says
from support.objects.builders import make_namespace
from support.objects.queues import queue
from support.queues.incoming import NOON
from support.waiting import until

GPU = "nvidia.com/gpu"


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(object_status, "STATUS_SECONDS", 0.005)
    monkeypatch.setattr(object_status, "WriteLimit", lambda: WriteLimit(10_000.0, 1000))


class Views:
    """A rig with queues, and an API server that has the views that were made."""

    def __init__(self, http, script):
        self.rig, self.script = Rig(), script
        self.core = queues_of(self.rig.engine.cache)
        self.door = QueueViewDoor(
            http, self.rig.engine, recorder=self.rig.recorder, scheduler_name="podwright", clock=lambda: NOON
        )
        self.door.begin(QUEUE_VIEW)
        self.there = {}
        script.default = self.answer

    async def answer(self, request):
        namespace, _, path = request.path.removeprefix(f"{QUEUE_VIEW.root}/namespaces/").partition("/")
        name = path.split("/")[1] if "/" in path else ""
        if request.method == "POST":
            raw = (await request.json()) | {"status": {}}
            raw["metadata"] |= {"uid": f"uid-{raw['metadata']['name']}", "generation": 1}
            self.have(raw)
        elif request.method == "DELETE":
            self.door.drop(f"{namespace}/{name}", self.there.pop((namespace, name)))
        else:
            raw = self.there[namespace, name]
            self.have(raw | {"status": (await request.json())[1]["value"]})
        return await says(200, {})(request)

    def have(self, raw):
        self.there[raw["metadata"]["namespace"], raw["metadata"]["name"]] = raw
        self.door.put(raw)

    def queue(self, name, **spec):
        self.core.set(parse_queue(queue(name, **spec)))

    def namespace(self, name, **labels):
        self.rig.engine.cache.set_object("Namespace", make_namespace(name, labels))

    def status(self, namespace, name):
        return self.there.get((namespace, name), {}).get("status") or {}


@asynccontextmanager
async def views():
    async with api() as (http, script):
        made = Views(http, script)
        running = asyncio.create_task(made.door.run())
        yield made
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_namespace_has_the_status_of_the_queue_that_its_label_names():
    async with views() as it:
        it.rig.node("n", allocatable={GPU: "8"})
        it.queue("ml", resources={GPU: {"guarantee": 2, "limit": 4}, "memory": {"limit": 0}})
        it.namespace("research", **{QUEUE_LABEL: "ml"})
        it.namespace("other")
        for name in ("a", "b"):
            it.rig.pod(name, namespace="elsewhere", labels={QUEUE_LABEL: "ml"}, requests={GPU: "3"})
        it.rig.confirm(it.rig.pod("c", namespace="research", requests={GPU: "3"}), "n")
        it.rig.pod("d", namespace="research", requests={GPU: "2"})
        await until(lambda: it.status("research", "ml").get("firstWaiting"))
        assert it.there.keys() == {("research", "ml"), ("elsewhere", "ml")}
        assert it.there["research", "ml"]["spec"] == {"queue": "ml"}
        (condition,) = it.status("research", "ml")["conditions"]
        assert (condition["type"], condition["status"]) == ("Active", "True")
        message = "ml holds 3 of 4 nvidia.com/gpu, and the pod requests 2"
        it.core.shared_out()
        await until(lambda: it.status("research", "ml").get("share"))
        assert it.status("research", "ml") | {"conditions": []} == {
            "conditions": [], "state": "Open", "summary": "memory 0 of 0; nvidia.com/gpu 3 of 4", "guarantee": {GPU: "2"},
            "limit": {GPU: "4", "memory": "0"}, "share": {GPU: "4"}, "allocated": {GPU: "3"}, "borrowed": {GPU: "1"},
            "pending": {GPU: "8"}, "pendingPods": 3, "firstWaiting": {"pod": "research/d", "message": message},
        }  # fmt: skip
        await until(lambda: it.status("elsewhere", "ml").get("firstWaiting", {}).get("pod") == "elsewhere/a")


async def test_a_view_goes_when_its_namespace_may_no_longer_use_the_queue():
    async with views() as it:
        it.queue("ml")
        it.queue("web")
        it.namespace("research", **{QUEUE_LABEL: "ml"})
        await until(lambda: ("research", "ml") in it.there)
        it.namespace("research", **{QUEUE_LABEL: "web"})
        await until(lambda: ("research", "web") in it.there)
        assert ("research", "ml") in it.there
        it.queue("ml", namespaceSelector={"matchLabels": {"team": "ml"}})
        await until(lambda: ("research", "ml") not in it.there)
        it.core.remove("web")
        await until(lambda: not it.there)


async def test_without_changes_nothing_is_written():
    async with views() as it:
        it.queue("ml")
        it.namespace("research", **{QUEUE_LABEL: "ml"})
        await until(lambda: it.status("research", "ml"))
        written = len(it.script.requests)
        await asyncio.sleep(0.1)
        assert len(it.script.requests) == written == 2


async def test_a_namespace_has_few_views_and_that_of_its_label_first():
    async with views() as it:
        for index in range(module.MAX_VIEWS + 3):
            it.queue(f"q{index:02}")
            it.rig.pod(f"p{index}", namespace="research", labels={QUEUE_LABEL: f"q{index:02}"})
        it.namespace("research", **{QUEUE_LABEL: "q18"})
        await until(lambda: len(it.there) == module.MAX_VIEWS)
        await asyncio.sleep(0.05)
        assert len(it.there) == module.MAX_VIEWS
        assert ("research", "q18") in it.there


async def test_a_refused_view_is_tried_later_and_harms_no_other():
    async with views() as it:

        async def refuse(request):
            return await (says(403) if "/closing/" in request.path else it.answer)(request)

        it.script.default = refuse
        it.queue("ml")
        for name in ("closing", "research"):
            it.namespace(name, **{QUEUE_LABEL: "ml"})
        await until(lambda: it.status("research", "ml"))
        await asyncio.sleep(0.1)
        assert sum("/closing/" in each.path for each in it.script.requests) == 1


async def test_nothing_is_made_while_the_kind_is_not_served():
    async with views() as it:
        it.door.end(QUEUE_VIEW)
        it.queue("ml")
        it.namespace("research", **{QUEUE_LABEL: "ml"})
        await asyncio.sleep(0.05)
        assert it.script.requests == []


async def test_every_view_gets_its_turn_if_all_change_all_the_time(monkeypatch):
    monkeypatch.setattr(object_status, "MOST_WRITES", 2)
    async with views() as it:
        it.queue("ml")
        for index in range(6):
            it.namespace(f"n{index}", **{QUEUE_LABEL: "ml"})
        await until(lambda: len(it.there) == 6)
        before = it.door.status_of
        count = iter(range(10**9))
        monkeypatch.setattr(it.door, "status_of", lambda *args: {**before(*args), "pendingPods": next(count)})
        seen = len(it.script.requests)
        await until(lambda: len(it.script.requests) >= seen + 12)
        assert len({each.path for each in it.script.requests[seen:]}) == 6


async def test_the_longer_a_comparison_takes_the_more_is_written_after_it(monkeypatch):
    monkeypatch.setattr(object_status, "MOST_WRITES", 1)
    monkeypatch.setattr(object_status, "WRITES_PER_SECOND", 10**9)  # as if the comparison had taken long
    async with views() as it:
        before, comparisons = it.door.prepare, count()

        async def prepare():
            next(comparisons)
            await before()

        monkeypatch.setattr(it.door, "prepare", prepare)
        it.queue("ml")
        for index in range(6):
            it.namespace(f"n{index}", **{QUEUE_LABEL: "ml"})
        await until(lambda: len(it.there) == 6)
        assert next(comparisons) <= 3


async def test_each_step_of_a_comparison_is_followed_by_a_pause(monkeypatch):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    times = iter(range(100))
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: float(next(times)))
    monkeypatch.setattr(object_status.asyncio, "sleep", sleep)
    done = []
    await object_status.gently([f"q{index}" for index in range(40)], done.append)
    assert (len(done), pauses) == (40, [object_status.SHARE] * 3)
