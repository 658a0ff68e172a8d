"""Decisions in slices: what they see, what goes on meanwhile, and how they end."""

from __future__ import annotations

import asyncio

import pytest

from podwright.engine.slices import SLICE_SECONDS, STILL_CHANGING, Slices
from podwright.extender.server.sliced import SlicedDecisions, UndecidedError
from support.engine.kit import Rig
from support.engine.sliced import Clock


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
