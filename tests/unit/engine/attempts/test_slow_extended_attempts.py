"""Which attempts at pods with extenders count as slow, so that the pods wait in the lane."""

import asyncio

import pytest

from podwright.core.framework.interface import FilterPlugin, Plugin
from podwright.core.queue.active_pods import CLOSED
from support.engine.kit import deciding, settle
from support.extender.fakes import FILTER, failing, keeping, rig_with
from support.waiting import patience


class Timed(Plugin, FilterPlugin):
    """Takes `seconds` of CPU time for an attempt, and `stalled` seconds in which other processes have the CPU."""

    name = "Timed"
    rig = None
    seconds = stalled = 0.0

    def filter(self, _state, _pod, _node):
        self.rig.now += self.seconds + self.stalled
        self.rig.stalled += self.stalled


@pytest.fixture
def timed_rig():
    rig, extender = rig_with(FILTER, plugins={"Timed": Timed}, filters=["Timed"])
    Timed.rig, Timed.seconds, Timed.stalled = rig, 0.0, 0.0
    rig.node("a")
    extender.filters = failing("no")
    return rig, extender


@pytest.mark.parametrize("slow", ["begin", "finish"])
async def test_a_pod_whose_attempt_was_slow_waits_in_the_lane_until_one_is_not(timed_rig, slow):
    rig, extender = timed_rig
    if slow == "begin":
        Timed.seconds = 0.3
    else:
        extender.filters = keeping()
    extender.gate.clear()
    rig.pod("web")
    async with deciding(rig):
        Timed.seconds = 0.3 if slow == "finish" else 0.0
        extender.gate.set()
        await settle()
        rig.engine.queue.activate("default/web")
        assert rig.engine.queue.costly == 1
        Timed.seconds = 0.0
        rig.now += 10
        async with patience():
            while len(extender.asked) < 2:
                rig.engine.wake()
                await asyncio.sleep(0.002)
        await settle()
        rig.engine.queue.activate("default/web")
        assert rig.engine.queue.costly == 0


async def test_a_pod_is_not_slow_because_other_processes_had_the_cpu(timed_rig):
    rig, _ = timed_rig
    Timed.stalled = 0.5
    rig.pod("web")
    async with deciding(rig):
        rig.engine.queue.activate("default/web")
        assert rig.engine.queue.costly == 0


async def test_a_pod_is_not_slow_because_its_extender_is(timed_rig):
    rig, extender = timed_rig
    extender.gate.clear()
    rig.pod("web")
    async with deciding(rig):
        rig.now += 5
        extender.gate.set()
        await settle()
        rig.engine.queue.activate("default/web")
        assert rig.engine.queue.costly == 0


async def test_the_lane_is_closed_after_the_part_of_an_attempt_that_follows_the_answers(timed_rig):
    rig, extender = timed_rig
    extender.filters = keeping()
    rig.pod("web")
    rig.engine.queue.get("default/web").slow = True
    rig.now += 1
    extender.gate.clear()
    async with deciding(rig):
        rig.now += 1
        assert extender.out == 1
        Timed.seconds = 1.0
        extender.gate.set()
        await settle()
        rig.engine.queue.activate("default/web")
        assert rig.engine.queue.lane_opens_at == pytest.approx(rig.now + CLOSED)
