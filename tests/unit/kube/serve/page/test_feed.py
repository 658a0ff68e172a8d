"""The viewers' messages, the questions to the scheduler, and the end of viewers who do not read."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from podwright.core.queues.queues import QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.engine.process.steps import at_once
from podwright.engine.view.nodes import node_changes
from podwright.engine.view.waiting import queued_pods
from podwright.kube.serve.page import feed as feeds
from podwright.kube.serve.page.feed import Feed, Viewer
from podwright.kube.serve.page.shown import Shown
from podwright.kube.serve.page.sight import EVERYTHING, NOTHING, Sight
from support.engine.kit import Rig, deciding
from support.page.plans import plans
from support.waiting import patience, until


class Asker:
    """The scheduler's thread is this one. Counts what it is asked."""

    def __init__(self):
        self.calls = 0
        self.error = None

    async def call(self, function, seconds):
        self.calls += 1
        if self.error is not None:
            raise self.error
        await asyncio.sleep(0)
        return function()

    async def compute(self, begin, seconds):
        return await self.call(lambda: at_once(begin()), seconds)


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(feeds, "TICK_SECONDS", 0.005)
    monkeypatch.setattr(feeds, "QUEUE_SECONDS", 0.0)


class Studio:
    def __init__(self):
        self.rig = Rig()
        self.rig.node("a")
        self.asker = Asker()
        self.viewers = 0
        engine = self.rig.engine
        self.shown = Shown(
            cache=engine.cache,
            pods=lambda: queued_pods(engine.queue),
            clock=self.rig.steady,
            policies=engine.policies,
            decisions=engine.decisions,
        )
        self.feed = Feed(lambda: self.shown, self.asker)

    @asynccontextmanager
    async def viewer(self, sight=EVERYTHING):
        viewer = Viewer(sight)
        self.feed.add(viewer)
        self.viewers += 1
        try:
            yield viewer
        finally:
            self.feed.remove(viewer)
            self.viewers -= 1
            if not self.viewers:
                await self.idle()

    async def idle(self):
        """Waits until nothing is asked any more, which it must not be without viewers."""
        await until(lambda: not self.feed.running)


async def next_of(viewer, *names):
    """The next message of each of these names, by name."""
    found = {}
    async with patience():
        while len(found) < len(names):
            message = await viewer.messages.get()
            if message is None:
                found["end"] = True
                return found
            head, data = message.decode().strip().split("\n")
            name = head.removeprefix("event: ")
            if name in names and name not in found:
                found[name] = json.loads(data.removeprefix("data: "))
    return found


async def test_a_viewer_gets_everything_and_then_changes():
    studio = Studio()
    async with studio.viewer() as viewer:
        found = await next_of(viewer, "nodes", "queue", "decisions")
        assert found["nodes"]["name"] == ["a"]
        assert found["decisions"]["list"] == []
        studio.rig.pod("web")
        async with deciding(studio.rig):
            found = await next_of(viewer, "change", "decisions")
        assert found["change"]["slot"] == [0]
        ((_, outcome, namespace, name, node, policy, _),) = found["decisions"]["list"]
        assert (outcome, namespace, name, node, policy) == ("Placed", "default", "web", "a", "built-in-default@0")


async def test_a_second_viewer_gets_the_same_from_the_beginning():
    studio = Studio()
    async with studio.viewer() as first:
        await next_of(first, "nodes", "queue")
        async with studio.viewer() as second:
            assert (await next_of(second, "nodes", "queue"))["nodes"]["name"] == ["a"]


async def test_without_viewers_the_scheduler_is_asked_nothing():
    studio = Studio()
    async with studio.viewer() as viewer:
        await next_of(viewer, "queue")
    asked = studio.asker.calls
    assert asked > 0
    await asyncio.sleep(0.05)
    assert studio.asker.calls == asked


async def test_a_viewer_who_comes_back_soon_costs_the_scheduler_little(monkeypatch):
    studio = Studio()
    readings = []

    def counted(cache, since):
        readings.append(since is None)
        return node_changes(cache, since)

    monkeypatch.setattr(feeds, "node_changes", counted)
    for _ in range(5):
        async with studio.viewer() as viewer:
            assert "nodes" in await next_of(viewer, "nodes")
    assert readings.count(True) == 1
    monkeypatch.setattr(feeds, "KEEP_SECONDS", 0.0)
    async with studio.viewer() as viewer:
        await next_of(viewer, "nodes")
    await asyncio.sleep(0.02)
    async with studio.viewer() as viewer:
        await next_of(viewer, "nodes")
    assert readings.count(True) == 2


async def test_more_viewers_ask_the_scheduler_no_more():
    studio = Studio()
    calls = {}
    for count in (1, 8):
        viewers = [Viewer(EVERYTHING) for _ in range(count)]
        for viewer in viewers:
            studio.feed.add(viewer)
        for viewer in viewers:
            await next_of(viewer, "queue")
        before, ticks = studio.asker.calls, 0
        while ticks < 5:
            await next_of(viewers[0], "queue")
            ticks += 1
        calls[count] = studio.asker.calls - before
        for viewer in viewers:
            studio.feed.remove(viewer)
        await studio.idle()
    assert calls[8] <= calls[1] + 6


async def test_names_of_pods_are_for_those_who_may_see_them():
    studio = Studio()
    studio.rig.pod("mine", namespace="team", requests={"cpu": "900"})
    studio.rig.pod("theirs", namespace="other", requests={"cpu": "900"})
    async with deciding(studio.rig):
        pass
    names = {}
    for sight in (EVERYTHING, Sight("team"), NOTHING):
        async with studio.viewer(sight) as viewer:
            found = await next_of(viewer, "queue", "decisions")
        assert sum(found["queue"]["counts"]["unschedulable"]) == 2
        names[sight.namespace] = (
            sorted(pod[1] for pod in found["queue"]["pods"]),
            sorted(decision[3] for decision in found["decisions"]["list"]),
        )
    assert names == {"": (["mine", "theirs"], ["mine", "theirs"]), "team": (["mine"], ["mine"]), None: ([], [])}


async def test_decisions_that_are_not_listed_are_counted():
    studio = Studio()
    async with studio.viewer(Sight("team")) as viewer:
        await next_of(viewer, "decisions")
        for number in range(40):
            studio.rig.pod(f"p{number}", namespace="team" if number < 30 else "other", requests={"cpu": "900"})
        async with deciding(studio.rig):
            listed = unlisted = 0
            while listed + unlisted < 40:
                found = (await next_of(viewer, "decisions"))["decisions"]
                listed += len(found["list"])
                unlisted += found["unlisted"]
    assert listed <= 30
    assert listed + unlisted == 40


async def test_a_viewer_who_does_not_read_is_dropped_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr(feeds, "MOST_MESSAGES", 5)
    studio = Studio()
    async with studio.viewer() as slow, studio.viewer() as quick:
        for _ in range(20):
            await next_of(quick, "queue")
        assert slow.dropped
        assert slow.messages.qsize() == 6  # five and the end
        assert not quick.dropped


async def test_a_busy_scheduler_is_asked_again():
    studio = Studio()
    studio.asker.error = TimeoutError()
    async with studio.viewer() as viewer:
        await until(lambda: studio.asker.calls >= 3)
        studio.asker.error = None
        assert "nodes" in await next_of(viewer, "nodes")


async def test_an_error_ends_the_streams(caplog):
    studio = Studio()
    studio.asker.error = ValueError("broken")
    async with studio.viewer() as viewer:
        assert await next_of(viewer, "nodes") == {"end": True}
    assert "broken" in caplog.text
    studio.asker.error = None
    async with studio.viewer() as viewer:
        assert "nodes" in await next_of(viewer, "nodes")


async def test_before_the_start_there_is_nothing_to_show():
    studio = Studio()
    shown, studio.shown = studio.shown, None
    async with studio.viewer() as viewer:
        await until(lambda: studio.asker.calls >= 3)
        assert viewer.messages.empty()
        studio.shown = shown
        assert "nodes" in await next_of(viewer, "nodes")


async def test_a_long_queue_is_read_less_often(monkeypatch):
    monkeypatch.setattr(feeds, "PODS_A_SECOND", 1)
    studio = Studio()
    for number in range(100):
        studio.rig.pod(f"p{number}")
    async with studio.viewer() as viewer:
        await next_of(viewer, "queue")
        await next_of(viewer, "policies")
        asked = studio.asker.calls
        await until(lambda: studio.asker.calls >= asked + 20)
        assert viewer.messages.empty()


async def test_a_viewer_who_joins_while_decisions_are_read_gets_the_first_ones():
    studio = Studio()
    studio.rig.pod("web")
    async with deciding(studio.rig):
        pass
    late = Viewer(EVERYTHING)
    ask = studio.asker.call

    async def call(function, seconds):
        found = await ask(function, seconds)
        if isinstance(found, tuple) and first.decisions_seen == 1 and late.decisions_seen < 0:
            studio.feed.add(late)
        return found

    studio.asker.call = call
    async with studio.viewer() as first:
        await next_of(first, "decisions")
        found = await next_of(late, "decisions")
        studio.feed.remove(late)
    assert [each[3] for each in found["decisions"]["list"]] == ["web"]


async def test_nodes_that_are_read_again_as_they_were_are_not_sent_again(monkeypatch):
    monkeypatch.setattr(feeds, "node_changes", lambda cache, _since: node_changes(cache, None))
    studio = Studio()
    async with studio.viewer() as viewer:
        await next_of(viewer, "nodes")
        found = set()
        for _ in range(5):
            message = b""
            while not message.startswith(b"event: queue"):
                message = await viewer.messages.get()
                found.add(message.partition(b"\n")[0])
        assert b"event: nodes" not in found
        studio.rig.node("b")
        assert (await next_of(viewer, "nodes"))["nodes"]["name"] == ["a", "b"]


async def test_viewers_are_told_how_old_what_they_see_is_and_when_it_is_current_again():
    studio, ages = Studio(), [(12.4, "no answer")]
    studio.shown = replace(studio.shown, stale=lambda: ages[-1])
    async with studio.viewer() as viewer:
        assert (await next_of(viewer, "stale"))["stale"] == {"seconds": 12, "why": "no answer"}
        ages.append((0.0, ""))
        assert (await next_of(viewer, "stale"))["stale"] == {"seconds": 0, "why": ""}


async def test_viewers_are_told_that_the_scheduler_does_not_answer():
    studio = Studio()
    now = 0.0
    studio.feed = Feed(lambda: studio.shown, studio.asker, lambda: now)
    async with studio.viewer() as viewer:
        await next_of(viewer, "nodes")
        studio.asker.error = TimeoutError()
        now = 20.0
        assert (await next_of(viewer, "stale"))["stale"] == {"seconds": 20, "why": "the scheduler does not answer"}


async def test_viewers_get_the_last_hour_and_then_each_sample_once():
    studio = Studio()
    history = studio.rig.engine.history
    studio.shown = replace(studio.shown, history=history)
    history.sample()
    async with studio.viewer() as viewer:
        assert len((await next_of(viewer, "history"))["history"]["samples"]) == 1
        studio.rig.now += 10
        history.sample()
        ((at, nodes, *_),) = (await next_of(viewer, "history"))["history"]["samples"]
        assert (at, nodes) == (studio.rig.now, 1)


async def test_queues_of_teams_are_sent_when_they_change_and_when_they_are_gone():
    studio = Studio()
    queues = queues_of(studio.rig.engine.cache)
    async with studio.viewer() as viewer:
        await next_of(viewer, "queue")
        queues.set(QueueRules("ml", quotas={"cpu": Quota(guarantee=1000, limit=4000)}))
        found = (await next_of(viewer, "queues"))["queues"]
        assert found == {
            "resources": ["cpu"],
            "list": [["ml", 0, "Open", "", 0, [[0, 0, 1000, 4000, []]]]],
            "unlisted": 0,
        }
        queues.set(QueueRules("ml", state="Hold"))
        assert (await next_of(viewer, "queues"))["queues"]["list"][0][2] == "Hold"
        async with studio.viewer() as second:
            assert (await next_of(second, "queues"))["queues"]["list"][0][0] == "ml"
        await asyncio.sleep(0.05)
        assert not any(
            b"event: queues" in (viewer.messages.get_nowait() or b"") for _ in range(viewer.messages.qsize())
        )
        queues.remove("ml")
        assert (await next_of(viewer, "queues"))["queues"]["list"] == []


async def test_without_queues_of_teams_nothing_is_sent_about_them():
    studio = Studio()
    async with studio.viewer() as viewer:
        await next_of(viewer, "queue")
        assert "queues" not in await next_of(viewer, "queue", "policies")
        await asyncio.sleep(0.03)
        assert not any(
            b"event: queues" in (viewer.messages.get_nowait() or b"") for _ in range(viewer.messages.qsize())
        )


async def test_plans_of_rebalancing_are_sent_when_they_change():
    studio = Studio()
    async with studio.viewer() as viewer:
        assert "plans" not in await next_of(viewer, "queue", "policies")
        studio.shown = replace(studio.shown, rebalancing=studio.rig.engine.rebalancing)
        plans(studio.rig)
        found = (await next_of(viewer, "plans"))["plans"]
        while found["list"][0][2] is None:  # before the first plan
            found = (await next_of(viewer, "plans"))["plans"]
        ((name, state, _, gain, gained, moves, moved, ended),) = found["list"]
        assert (name, state, gained, moved, ended) == ("tidy", "Plan", 0, 0, False)
        assert 0 < gain <= moves
        await asyncio.sleep(0.05)
        assert not any(b"event: plans" in (viewer.messages.get_nowait() or b"") for _ in range(viewer.messages.qsize()))
        studio.rig.engine.rebalancing.remove("tidy")
        assert (await next_of(viewer, "plans"))["plans"]["list"] == []
