"""Decisions in slices: what they see, what goes on meanwhile, and how they end."""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.objects.node import parse_node
from podwright.engine.pauses.slices import SLICE_SECONDS, STILL_CHANGING, Slices
from podwright.extender.server import steps
from podwright.extender.server.sent_nodes import InPlace
from podwright.extender.server.sliced import SlicedDecisions, UndecidedError
from support.engine.kit import Rig
from support.engine.sliced import Clock
from support.objects.builders import make_node


class Cluster:
    """A node, and decisions about it that pause at every point."""

    def __init__(self):
        self.rig = Rig()
        self.rig.clock = clock = Clock()
        self.rig.node("a")
        cache = self.rig.engine.cache
        self.made = 0
        self.starts = 0

        def make():
            self.made += 1
            return Slices(cache, quiet, clock=clock, cpu=clock, guard=self.rig.engine.plugin_guard)

        quiet = self.rig.engine.slices.quiet
        self.sliced = SlicedDecisions(quiet, make)

        def pause():
            clock.take(2 * SLICE_SECONDS)
            cache.pauses.point()

        self._pause = pause

    def change(self):
        self.rig.node("a", labels={"changed": str(self.starts)})

    def deciding(self, points, at=lambda _point: None):
        """A decision with so many points. `at` is called before each."""

        def decide():
            self.starts += 1
            for point in range(points):
                at(point)
                self._pause()
            return points

        return decide


@pytest.fixture
def cluster():
    return Cluster()


async def test_other_tasks_run_between_the_slices(cluster):
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    assert await cluster.sliced.decide(cluster.deciding(10)) == 10
    counting.cancel()
    assert turns >= 10
    assert cluster.starts == 1


async def test_a_decision_starts_anew_if_the_cache_has_changed_meanwhile(cluster):
    changes = iter([True])

    async def change_once():
        for _ in changes:
            cluster.change()

    changing = asyncio.create_task(change_once())
    assert await cluster.sliced.decide(cluster.deciding(5)) == 5
    await changing
    assert cluster.starts == 2


async def test_a_decision_fails_if_even_a_quiet_time_changes(cluster):
    held = []

    async def change_always():
        while True:
            held.append(bool(cluster.sliced.quiet))
            cluster.change()
            await asyncio.sleep(0)

    changing = asyncio.create_task(change_always())
    with pytest.raises(UndecidedError, match=STILL_CHANGING):
        await cluster.sliced.decide(cluster.deciding(5))
    changing.cancel()
    assert True in held
    assert not cluster.sliced.quiet
    assert await cluster.sliced.decide(cluster.deciding(5)) == 5


async def test_several_decisions_go_on_beside_each_other_and_their_slices_are_used_again(cluster):
    order = []
    long = cluster.sliced.decide(cluster.deciding(6, lambda _point: order.append("long")))
    short = cluster.sliced.decide(cluster.deciding(2, lambda _point: order.append("short")))
    assert await asyncio.gather(long, short) == [6, 2]
    assert order[:4] == ["long", "short", "long", "short"]
    assert cluster.made == 2
    await cluster.sliced.decide(cluster.deciding(2))
    assert cluster.made == 2


async def test_an_error_ends_the_decision_and_the_next_one_works(cluster):
    def fail(point):
        if point == 3:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await cluster.sliced.decide(cluster.deciding(5, fail))
    assert await cluster.sliced.decide(cluster.deciding(5)) == 5


async def test_a_cancelled_request_leaves_nothing_behind(cluster):
    points = []
    asking = asyncio.create_task(cluster.sliced.decide(cluster.deciding(1_000, points.append)))
    while not points:
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    count = len(points)
    assert await cluster.sliced.decide(cluster.deciding(5)) == 5
    assert len(points) == count < 1_000
    assert cluster.made == 1


def sent(cluster):
    """A node of the cluster as somebody else knows it, and one that only he knows."""
    nodes = [parse_node(make_node(name, labels={"sent": "yes"})) for name in ("a", "new")]
    return InPlace(cluster.rig.engine.cache, nodes)


def names(cluster):
    table = cluster.rig.engine.cache.table
    return sorted(info.name for info in cluster.rig.engine.cache.nodes.values() if info.node), table.count


async def test_a_decision_on_sent_nodes_pauses_and_only_it_sees_them(cluster):
    seen, before, turns = [], names(cluster), 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    look = lambda who: lambda _point: seen.append((who, names(cluster)[0]))
    first = asyncio.create_task(cluster.sliced.decide(cluster.deciding(3, look("own"))))
    await asyncio.sleep(0)
    on_sent = cluster.sliced.decide_on(sent(cluster), cluster.deciding(5, look("sent")))
    later = cluster.sliced.decide(cluster.deciding(3, look("own")))
    assert await asyncio.gather(first, on_sent, later) == [3, 5, 3]
    counting.cancel()
    assert turns >= 10
    assert seen == [("own", ["a"])] * 3 + [("sent", ["a", "new"])] * 5 + [("own", ["a"])] * 3
    assert names(cluster) == before
    assert not cluster.sliced.quiet


async def test_watches_are_held_back_while_a_decision_on_sent_nodes_is_paused(cluster):
    quiet = []
    await cluster.sliced.decide_on(
        sent(cluster), cluster.deciding(3, lambda _: quiet.append(bool(cluster.sliced.quiet)))
    )
    assert quiet == [True] * 3


async def test_a_decision_on_sent_nodes_fails_if_the_cluster_changes_nevertheless(cluster):
    async def change_always():
        while True:
            cluster.change()
            await asyncio.sleep(0)

    changing = asyncio.create_task(change_always())
    with pytest.raises(UndecidedError, match=STILL_CHANGING):
        await cluster.sliced.decide_on(sent(cluster), cluster.deciding(5))
    changing.cancel()
    assert names(cluster) == (["a"], 1)
    assert not cluster.sliced.quiet


async def test_a_decision_on_nodes_that_were_replaced_does_not_count(cluster):
    """It did not pause, so nobody else has noticed."""
    with pytest.raises(UndecidedError, match=STILL_CHANGING):
        await cluster.sliced.decide_on(sent(cluster), cluster.change)


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 9])
async def test_a_cancelled_request_takes_its_nodes_along(cluster, turns, monkeypatch):
    monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)
    own = cluster.rig.engine.cache.present("a").node
    asking = asyncio.create_task(cluster.sliced.decide_on(sent(cluster), cluster.deciding(1_000)))
    for _ in range(turns):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.sleep(0)
    asking.cancel()  # while the nodes are taken back
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert names(cluster) == (["a"], 1)
    assert cluster.rig.engine.cache.present("a").node is own
    assert not cluster.sliced.quiet
    assert await cluster.sliced.decide(cluster.deciding(5)) == 5
