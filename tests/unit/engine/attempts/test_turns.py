"""A policy with a slow plugin does not keep the pods of other policies waiting."""

from __future__ import annotations

import asyncio

import pytest

from podwright.api.permissions import PolicySettings
from podwright.core.framework.interface import FilterPlugin, Plugin, QueueSortPlugin
from podwright.engine.attempts import turns
from support.engine.kit import Rig, custom_policy, ours
from support.waiting import patience


class Timed(Plugin, FilterPlugin):
    """Takes as many seconds as the label `seconds` says, and records when each attempt began."""

    name = "Timed"
    rig: Rig
    begun: dict[str, float]
    arriving: dict[str, dict]
    """Pods that arrive during the attempt at the pod of this name."""

    def filter(self, _state, pod, _node):
        self.begun[pod.name] = self.rig.now - 1000
        if (raw := self.arriving.pop(pod.name, None)) is not None:
            self.rig.engine.pending.put(raw)
        self.rig.now += float(pod.labels.get("seconds", 0))


class ByArrival(Plugin, QueueSortPlugin):
    name = "ByArrival"

    def sort_key(self, _pod, queued_at):
        return queued_at


def policy(name):
    raw = custom_policy("filter", "Timed")
    raw["metadata"].update(name=name, uid=name)
    raw["spec"]["schedulerName"] = name
    return raw


def timed(name, policy, seconds, **options):
    return ours(name, labels={"seconds": str(seconds)}, spec={"schedulerName": policy}, **options)


async def order_of(*pods, arriving=None, **options):
    """When the attempt at each of the pods begins, in seconds, in the order of the attempts."""
    rig = Rig({"Timed": Timed, "ByArrival": ByArrival}, **options)
    Timed.rig, Timed.begun, Timed.arriving = rig, {}, dict(arriving or {})
    rig.node("a")
    for name in ("slow", "fast"):
        assert rig.engine.policies.apply(policy(name)).accepted
    for raw in pods:
        rig.engine.pending.put(raw)
    expected = len(pods) + len(Timed.arriving)
    task = asyncio.create_task(rig.engine.run())
    async with patience():
        while len(Timed.begun) < expected:
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await rig.engine.stop(0)
    return Timed.begun


TWELVE = [timed(f"slow-{number}", "slow", 2) for number in range(12)]


async def test_pods_of_other_policies_wait_for_one_slow_attempt_only():
    begun = await order_of(*TWELVE, *(timed(f"fast-{number}", "fast", 0.001) for number in range(3)))
    assert max(begun[f"fast-{number}"] for number in range(3)) < 2.1
    assert list(begun)[:5] == ["slow-0", "fast-0", "fast-1", "fast-2", "slow-1"]


async def test_the_slow_policy_gets_half_of_the_time():
    begun = await order_of(*TWELVE[:3], *(timed(f"fast-{number:02}", "fast", 0.05) for number in range(100)))
    assert begun["slow-1"] == pytest.approx(4, abs=0.1)
    assert begun["slow-2"] == pytest.approx(8, abs=0.1)


async def test_two_slow_policies_take_turns():
    begun = await order_of(*TWELVE[:3], *(timed(f"fast-{number}", "fast", 2) for number in range(3)))
    assert list(begun) == ["slow-0", "fast-0", "slow-1", "fast-1", "slow-2", "fast-2"]


async def test_no_pod_goes_before_one_of_higher_priority():
    high = [timed(f"high-{number}", "slow", 2, priority=10) for number in range(3)]
    begun = await order_of(*high, timed("low", "fast", 0))
    assert list(begun)[-1] == "low"


async def test_a_pod_of_higher_priority_that_arrives_goes_before_the_turns():
    fast = [timed(f"fast-{number}", "fast", 0.001) for number in range(3)]
    begun = await order_of(*TWELVE[:2], *fast, arriving={"fast-0": timed("high", "slow", 0, priority=10)})
    assert list(begun) == ["slow-0", "fast-0", "high", "fast-1", "fast-2", "slow-1"]


async def test_a_custom_queue_sort_keeps_its_order():
    begun = await order_of(*TWELVE[:2], timed("fast-0", "fast", 0), policies=PolicySettings(queue_sort="ByArrival"))
    assert list(begun) == ["slow-0", "slow-1", "fast-0"]


async def test_examines_a_bounded_number_of_pods_after_a_slow_attempt_and_continues_there_after_the_next_one(
    monkeypatch,
):
    monkeypatch.setattr(turns, "LOOKS", 5)
    begun = await order_of(*TWELVE, timed("fast", "fast", 0.001))
    assert 2 <= [*begun].index("fast") <= 4
