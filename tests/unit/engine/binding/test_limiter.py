"""Who may be on the way at once: so many quick ones, any number of slow ones up to a limit, in the order of asking."""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.framework.interface import PermitPlugin, Plugin, PreBindPlugin
from podwright.core.framework.status import Code, Status
from podwright.engine.binding.limiter import BindLimiter
from support.engine.kit import Rig, custom_policy, deciding, settle


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def taken(time, count, at_once=2, at_most=4):
    limiter = BindLimiter(time, at_once, at_most, patience=0.01)
    for who in range(count):
        limiter.acquire(who)
    return limiter


def test_quick_ones_are_few():
    limiter = taken(Time(), 2)
    assert limiter.full
    limiter.release(0)
    assert not limiter.full


def test_a_slow_one_gives_its_slot_back_and_stays_on_its_way():
    time = Time()
    limiter = taken(time, 2)
    time.now += 0.011
    assert not limiter.full
    assert len(limiter) == 2


@pytest.mark.parametrize("leaver", [0, 2], ids=["a slow one goes", "a quick one goes"])
def test_slow_ones_are_many_but_not_any_number(leaver):
    time = Time()
    limiter = taken(time, 2)
    time.now += 0.011
    assert not limiter.full
    limiter.acquire(2)
    limiter.acquire(3)
    time.now += 0.011
    assert limiter.full
    limiter.release(leaver)
    assert not limiter.full
    assert len(limiter) == 3


def test_who_is_not_there_leaves_nothing():
    limiter = taken(Time(), 2)
    limiter.release("foreign_pod")
    assert limiter.full


class TestWaiting:
    async def test_slots_go_to_whoever_has_waited_longest(self):
        limiter, served = taken(Time(), 2), []

        async def work(who):
            await limiter.wait_for_capacity()
            limiter.acquire(who)
            served.append(who)

        tasks = [asyncio.create_task(work(who)) for who in "abc"]
        await settle()
        assert served == []
        for who, expected in ((0, ["a"]), (1, ["a", "b"]), ("a", ["a", "b", "c"])):
            limiter.release(who)
            await settle()
            assert served == expected
        await asyncio.gather(*tasks)

    async def test_nobody_has_to_leave_when_the_others_are_slow(self):
        time = Time()
        limiter = taken(time, 2)
        waiting = [asyncio.create_task(limiter.wait_for_capacity()) for _ in range(2)]
        await settle()
        time.now += 1
        async with asyncio.timeout(5):
            await waiting[0]
            limiter.acquire("first")
            await waiting[1]

    async def test_one_that_no_longer_waits_takes_nobodys_turn(self):
        limiter = taken(Time(), 2)
        first, second = (asyncio.create_task(limiter.wait_for_capacity()) for _ in range(2))
        await settle()
        limiter.release(0)
        first.cancel()
        async with asyncio.timeout(5):
            await second


async def test_slow_bindings_hold_up_nobody_elses():
    rig = Rig(bindings_at_once=2)
    rig.node("a")
    slow = [asyncio.get_running_loop().create_future() for _ in range(5)]
    rig.cluster.outcomes = list(slow)
    for number in range(8):
        rig.pod(f"p{number}")
    async with deciding(rig):
        assert len(rig.cluster.bound) == 2
        async with asyncio.timeout(5):
            while len(rig.cluster.bound) < 8:
                rig.now += 0.2
                await asyncio.sleep(0.01)
        assert sorted(rig.recorder.notes("Scheduled")) == [
            f"Successfully assigned default/p{n} to a" for n in (5, 6, 7)
        ]
        for answer in slow:
            answer.set_result(None)
        await settle()
        assert len(rig.recorder.notes("Scheduled")) == 8
        assert len(rig.engine.binding_executor.limiter) == 0


class Holder(Plugin, PermitPlugin, PreBindPlugin):
    """Holds pods of one name, in Permit or in PreBind."""

    name = "Holder"
    gate: asyncio.Future[None]

    def permit(self, _state, pod, _node_name):
        return (Status(Code.WAIT), 60.0) if pod.name == "held" else (None, 0.0)

    async def pre_bind(self, _state, pod, _node_name):
        if pod.name == "held":
            await self.gate


@pytest.mark.parametrize("point", ["permit", "preBind"])
async def test_who_is_held_before_its_binding_holds_up_nobody(point):
    Holder.gate = asyncio.get_running_loop().create_future()
    rig = Rig({"Holder": Holder}, bindings_at_once=1)
    rig.node("a")
    rig.engine.policies.apply(custom_policy(point, "Holder"))
    for name in ("held", "next", "last"):
        rig.pod(name)
    async with deciding(rig):
        assert rig.cluster.bound == [("next", "a"), ("last", "a")]
        for waiting in rig.engine.binding_cycles.waiting():
            waiting.allow("Holder")
        Holder.gate.set_result(None)
        await settle()
        assert rig.cluster.bound == [("next", "a"), ("last", "a"), ("held", "a")]
        assert len(rig.engine.binding_executor.limiter) == 0


async def test_who_was_held_waits_for_a_slot_like_everybody():
    rig = Rig({"Holder": Holder}, bindings_at_once=1)
    rig.node("a")
    rig.engine.policies.apply(custom_policy("permit", "Holder"))
    answer = asyncio.get_running_loop().create_future()
    rig.cluster.outcomes = [answer]
    rig.pod("held")
    rig.pod("next")
    async with deciding(rig):
        (waiting,) = rig.engine.binding_cycles.waiting()
        waiting.allow("Holder")
        await settle()
        assert rig.cluster.bound == [("next", "a")]
        answer.set_result(None)
        await settle()
        assert rig.cluster.bound == [("next", "a"), ("held", "a")]
