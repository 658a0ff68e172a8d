"""BindLimiter: few prompt Bindings at once, more slow ones, and capacity in the order of asking."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from podwright.core.framework.interface import ClusterError, PermitPlugin, Plugin, PostBindPlugin, PreBindPlugin
from podwright.core.framework.status import Code, Status
from podwright.engine.outcomes.binding.concurrency import FIRST_USUAL
from podwright.engine.outcomes.binding.limiter import PROMPT_LIMIT, TIMES_USUAL, BindLimiter
from support.engine.kit import Rig, custom_policy, deciding, settle
from support.waiting import patience

SLOW_AT_FIRST = 0.02 + TIMES_USUAL * FIRST_USUAL
"""Seconds after which a Binding is slow before another one is completed."""


class Clock:
    """Seconds that a test sets."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def acquired(clock, count, prompt_limit=2, total_limit=4):
    """A limiter whose capacity the holders 0 to count - 1 have acquired."""
    limiter = BindLimiter(clock, prompt_limit, total_limit, prompt_seconds=0.01)
    for holder in range(count):
        limiter.acquire(holder)
    return limiter


def test_the_prompt_limit_is_reached_and_a_release_makes_capacity():
    limiter = acquired(Clock(), 2)
    assert limiter.full
    assert 0 in limiter
    limiter.release(0)
    assert not limiter.full
    assert 0 not in limiter


def test_a_slow_binding_no_longer_counts_against_the_prompt_limit():
    clock = Clock()
    limiter = acquired(clock, 2)
    clock.now += SLOW_AT_FIRST
    assert not limiter.full
    assert len(limiter) == 2
    assert 0 in limiter


@pytest.mark.parametrize("holder", [0, 2], ids=["a slow one ends", "a prompt one ends"])
def test_slow_bindings_count_against_the_total_limit(holder):
    clock = Clock()
    limiter = acquired(clock, 2)
    clock.now += SLOW_AT_FIRST
    assert not limiter.full
    limiter.acquire(2)
    limiter.acquire(3)
    clock.now += SLOW_AT_FIRST
    assert limiter.full
    limiter.release(holder)
    assert not limiter.full
    assert len(limiter) == 3


def test_a_release_without_capacity_changes_nothing():
    limiter = acquired(Clock(), 2)
    limiter.release("unknown")
    assert limiter.full


class TestWaiting:
    async def test_capacity_goes_to_the_longest_waiter(self):
        limiter, served = acquired(Clock(), 2), []

        async def work(holder):
            await limiter.wait_for_capacity()
            limiter.acquire(holder)
            served.append(holder)

        tasks = [asyncio.create_task(work(holder)) for holder in "abc"]
        await settle()
        assert served == []
        for holder, expected in ((0, ["a"]), (1, ["a", "b"]), ("a", ["a", "b", "c"])):
            limiter.release(holder)
            await settle()
            assert served == expected
        await asyncio.gather(*tasks)

    async def test_waiters_go_on_without_a_release_when_the_holders_become_slow(self):
        clock = Clock()
        limiter = acquired(clock, 2)
        waiting = [asyncio.create_task(limiter.wait_for_capacity()) for _ in range(2)]
        await settle()
        clock.now += 1
        async with patience():
            await waiting[0]
            limiter.acquire("first")
            await waiting[1]

    async def test_a_cancelled_waiter_passes_its_turn_on(self):
        limiter = acquired(Clock(), 2)
        first, second = (asyncio.create_task(limiter.wait_for_capacity()) for _ in range(2))
        await settle()
        limiter.release(0)
        first.cancel()
        async with patience():
            await second


class TestRequestsOfPlugins:
    async def test_they_wait_for_capacity_and_give_it_back(self):
        limiter, sent = acquired(Clock(), 2), []

        async def request():
            sent.append(len(limiter))
            if len(sent) == 2:
                raise ClusterError("refused", 403)
            return "stored"

        tasks = [asyncio.create_task(limiter.send(request)) for _ in range(3)]
        await settle()
        assert sent == []
        limiter.release(0)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert (results[0], str(results[1]), results[2]) == ("stored", "refused", "stored")
        assert sent == [2, 2, 2]
        assert len(limiter) == 1

    async def test_a_cancelled_request_gives_its_capacity_back(self):
        limiter = acquired(Clock(), 1)
        task = asyncio.create_task(limiter.send(asyncio.Event().wait))
        await settle()
        assert limiter.full
        task.cancel()
        await settle()
        assert len(limiter) == 1

    async def test_a_holder_of_capacity_needs_no_more(self):
        limiter = acquired(Clock(), 2)
        limiter.act_for(1)
        assert await limiter.send(lambda: asyncio.sleep(0, len(limiter))) == 2
        limiter.release(1)
        limiter.act_for(0)
        assert await limiter.send(lambda: asyncio.sleep(0, len(limiter))) == 1


def keep_full(limiter, clock, latency, rounds):
    """Rounds of as many Bindings as the limit allows, each of which takes `latency`."""
    for _ in range(rounds):
        holders = []
        while not limiter.full:
            holders.append(object())
            limiter.acquire(holders[-1])
        clock.now += latency
        for holder in holders:
            limiter.completed(holder)
            limiter.release(holder)


def test_more_bindings_are_allowed_where_each_takes_long():
    clock = Clock()
    quick, slow = BindLimiter(clock), BindLimiter(clock)
    keep_full(quick, clock, 0.002, 100)
    assert quick.limit <= 2 * PROMPT_LIMIT
    keep_full(slow, clock, 0.05, 20)
    assert slow.limit > 3 * PROMPT_LIMIT


def test_a_binding_is_slow_compared_with_the_others():
    clock = Clock()
    limiter = BindLimiter(clock, 2, 8, prompt_seconds=0.01)
    keep_full(limiter, clock, 0.05, 10)
    for holder in range(limiter.limit):
        limiter.acquire(holder)
    clock.now += 0.05
    assert limiter.full, "an ordinary Binding takes that long"
    clock.now += 0.065
    assert not limiter.full


def test_if_all_bindings_take_long_at_a_busy_server_none_of_them_is_slow():
    """More at once would make each take still longer."""
    clock, service, most = Clock(), 0.01, 0
    limiter, queue = BindLimiter(clock), deque()
    for number in range(2_000):
        while not limiter.full:
            limiter.acquire(holder := (number, len(queue)))
            queue.append(holder)
        most = max(most, len(limiter))
        clock.now += service
        done = queue.popleft()
        limiter.completed(done)
        limiter.release(done)
    assert most <= 1.2 * PROMPT_LIMIT


def test_slow_bindings_stay_slow_if_two_of_three_are():
    """As where an admission webhook delays the pods of some namespaces."""
    clock = Clock()
    limiter = BindLimiter(clock, 8, 64)
    for _ in range(3):
        for latency in [1.0] * 16 + [0.02] * 8:
            limiter.acquire(clock.now)
            began, clock.now = clock.now, clock.now + latency
            limiter.completed(began)
            limiter.release(began)
    for holder in range(limiter.limit):
        limiter.acquire(holder)
    assert limiter.full
    clock.now += 0.75
    assert not limiter.full


def test_one_stuck_binding_of_many_is_slow():
    clock = Clock()
    limiter = BindLimiter(clock, 8, 64)
    keep_full(limiter, clock, 0.02, 40)
    limiter.acquire("stuck")
    for holder in range(limiter.limit - 1):
        limiter.acquire(holder)
    assert limiter.full
    clock.now += 0.15
    assert not limiter.full


def test_a_binding_that_failed_says_nothing_about_latencies():
    clock = Clock()
    limiter = BindLimiter(clock)
    keep_full(limiter, clock, 0.05, 1)
    before = limiter.limit
    for holder in range(1_000):
        limiter.acquire(holder)
        limiter.release(holder)
    limiter.completed("unknown")
    assert limiter.limit == before


def test_a_throttled_binding_halves_the_limit():
    limiter = BindLimiter(Clock(), 32)
    limiter.throttled()
    assert limiter.limit == 16


async def test_bindings_that_succeed_are_measured(monkeypatch):
    rig = Rig()
    rig.node("a")
    measured = []
    monkeypatch.setattr(
        rig.engine.binding_executor.limiter, "completed", lambda cycle: measured.append(cycle.queued.pod.name)
    )
    failing = asyncio.get_running_loop().create_future()
    failing.set_exception(ClusterError("refused", 403))
    rig.cluster.outcomes = [failing]
    for name in ("fails", "works"):
        rig.pod(name)
    async with deciding(rig):
        await settle()
        assert measured == ["works"]


async def test_slow_bindings_do_not_delay_other_bindings():
    rig = Rig(bindings_at_once=2)
    rig.node("a")
    slow = [asyncio.get_running_loop().create_future() for _ in range(5)]
    rig.cluster.outcomes = list(slow)
    for number in range(8):
        rig.pod(f"p{number}")
    async with deciding(rig):
        assert len(rig.cluster.bound) == 2
        async with patience():
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
    """Makes the pod `held` wait, in Permit or in PreBind."""

    name = "Holder"
    gate: asyncio.Future[None]

    def permit(self, _state, pod, _node_name):
        return (Status(Code.WAIT), 60.0) if pod.name == "held" else (None, 0.0)

    async def pre_bind(self, _state, pod, _node_name):
        if pod.name == "held":
            await self.gate


@pytest.mark.parametrize("point", ["permit", "preBind"])
async def test_a_pod_that_waits_before_its_binding_does_not_delay_others(point):
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


async def test_a_pod_that_waited_needs_capacity_for_its_binding():
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


class Writer(Plugin, PreBindPlugin, PostBindPlugin):
    """Writes to the API server before and after the Binding."""

    name = "Writer"

    async def pre_bind(self, _state, _pod, _node_name):
        await self.handle.cluster.update("ResourceClaim", {})

    async def post_bind(self, _state, _pod, _node_name):
        await self.handle.cluster.update("ResourceClaim", {})


@pytest.mark.parametrize("point", ["preBind", "postBind"])
async def test_only_few_requests_of_plugins_are_sent_at_once(monkeypatch, point):
    rig = Rig({"Writer": Writer}, bindings_at_once=4)
    rig.node("a", allocatable={"cpu": "100"})
    rig.engine.policies.apply(custom_policy(point, "Writer"))
    in_progress, most, sent = 0, 0, 0

    async def update(*_):
        nonlocal in_progress, most, sent
        in_progress, sent = in_progress + 1, sent + 1
        most = max(most, in_progress)
        await asyncio.sleep(0)
        in_progress -= 1

    monkeypatch.setattr(rig.cluster, "update", update)
    for number in range(50):
        rig.pod(f"p{number}")
    async with deciding(rig):
        for _ in range(100):
            await settle()
        assert (sent, len(rig.cluster.bound)) == (50, 50)
        assert most == 4
        assert len(rig.engine.binding_executor.limiter) == 0


async def test_the_loop_decides_no_further_than_requests_of_plugins_follow(monkeypatch):
    rig = Rig({"Writer": Writer}, bindings_at_once=4)
    rig.node("a", allocatable={"cpu": "100"})
    rig.engine.policies.apply(custom_policy("preBind", "Writer"))
    monkeypatch.setattr(rig.cluster, "update", lambda *_: asyncio.Event().wait())
    for number in range(50):
        rig.pod(f"p{number}")
    async with deciding(rig):
        assert rig.counts["active"] >= 40
