"""Costly pods wait in a lane: other pods are scheduled meanwhile, other tasks get their turns, and an event says
why.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from podwright.core.framework.interface import FilterPlugin, Plugin
from podwright.core.framework.status import unresolvable
from podwright.core.queue.active_pods import SHARE
from support.engine.kit import Rig, custom_policy, deciding, ours, settle
from support.engine.long_work import FakeChildren
from support.hostile import objects
from support.objects.builders import in_group, make_pod_group
from support.waiting import patience

MANY = objects.required_anti_affinity(1_000)
OURS = "custom"


class Timed(Plugin, FilterPlugin):
    """Takes as many seconds as the label `seconds` says, and records when each attempt began."""

    name = "Timed"
    rig: Rig
    begun: list[tuple[str, float]]
    stalls: float = 0.0
    """For how long other processes have the CPU during each attempt."""

    def filter(self, _state, pod, node):
        if node.name == "a":
            self.begun.append((pod.name, self.rig.now))
            self.rig.now += self.stalls
            self.rig.stalled += self.stalls
            self.rig.now += float(pod.labels.get("seconds", 0))
        return unresolvable("no") if pod.labels.get("fits") == "no" else None


def timed_rig(**options):
    rig = Rig({"Timed": Timed}, children=FakeChildren(), **options)
    rig.children.clock = rig
    Timed.rig, Timed.begun, Timed.stalls = rig, [], 0.0
    rig.node("a", allocatable={"cpu": "1000", "pods": "1000"})
    raw = custom_policy("filter", "Timed")
    raw["spec"]["schedulerName"] = OURS
    assert rig.engine.policies.apply(raw).accepted
    return rig


def pod(name, seconds=0.0, *, spec=None, labels=None, **options):
    labels = {"seconds": str(seconds), **(labels or {})}
    return ours(name, labels=labels, spec={"schedulerName": OURS, **(spec or {})}, **options)


def costly(name, seconds=0.0, *, spec=None, **options):
    return pod(name, seconds, spec={**objects.many_tolerations(3_000), **(spec or {})}, **options)


def names():
    return [name for name, _ in Timed.begun]


@asynccontextmanager
async def until_begun(rig, count, *, step=0.5):
    """Runs the engine until that many attempts have begun. Meanwhile the clock moves on in these steps."""
    async with deciding(rig), patience():
        yield
        while len(Timed.begun) < count:
            await asyncio.sleep(0.002)
            if len(Timed.begun) < count:
                rig.now += step
                rig.engine.wake()


async def test_ordinary_pods_are_bound_while_costly_ones_wait():
    rig = timed_rig()
    for number in range(50):
        rig.engine.pending.put(costly(f"big-{number}", 0.5))
    for number in range(100):
        rig.engine.pending.put(pod(f"small-{number}", 0.01))
    async with until_begun(rig, 101):
        pass
    assert sorted(names()[:100]) == sorted(f"small-{number}" for number in range(100))
    assert rig.counts == {"active": 46}, "a child has decided about four, which keep the API server busy for 0.06 s"
    assert len(rig.cluster.bound) == 104


async def test_costly_pods_get_their_share_of_the_time_while_ordinary_ones_arrive():
    """The share counts what they take of the loop's or the API server's time, not how long a child decides."""
    rig = timed_rig()
    async with until_begun(rig, 140, step=0.01):
        for number in range(20):
            rig.engine.pending.put(costly(f"big-{number:02}", 0.04))
        rig.now += 1
        for number in range(100):
            rig.engine.pending.put(pod(f"small-{number:03}", 0.04))
    elsewhere = 3_000 * 5e-6
    began = dict(Timed.begun)
    big = [began[name] for name in began if name.startswith("big")]
    assert max(big) - min(big) >= 4 * 4 * elsewhere / SHARE - 0.1, "five children, of four pods each"
    smalls = [name for name in began if name.startswith("small")]
    assert smalls == sorted(smalls)


async def test_a_quick_attempt_counts_as_long_as_its_object_keeps_others_busy():
    """With few nodes an attempt is quick, but the API server and the watches have to read and send all of the pod."""
    rig = timed_rig()
    for number in range(5):
        rig.engine.pending.put(costly(f"big-{number}"))
    cost = rig.engine.queue.get("default/big-0").cost
    assert cost.elsewhere == cost.seconds == pytest.approx(3_000 * 5e-6)
    async with until_begun(rig, 5, step=0.001):
        pass
    assert rig.engine.queue.lane_opens_at == pytest.approx(Timed.begun[0][1] + 5 * cost.elsewhere / SHARE, abs=0.005)


async def test_after_a_restart_costly_pods_do_not_go_first():
    rig = timed_rig()
    for number in range(5):
        rig.engine.pending.put(costly(f"big-{number}", 1.0, priority=1000))
    rig.engine.pending.put(pod("small"))
    async with until_begun(rig, 6):
        pass
    assert names()[0] == "small"


async def test_an_event_says_once_what_makes_the_pod_costly():
    rig = timed_rig()
    raw = ours("big", spec=MANY)
    rig.engine.pending.put(raw)
    rig.engine.pending.put({**raw, "metadata": {**raw["metadata"], "labels": {"new": "label"}}})
    async with deciding(rig):
        rig.engine.activate_all()
        await settle()
    (note,) = rig.recorder.notes("CostlyPod")
    assert note.startswith("plugin InterPodAffinity checks 1,000 pod affinity and anti-affinity terms, ")
    rig.engine.pending.put(ours("small", spec=objects.required_anti_affinity(5)))
    assert len(rig.recorder.notes("CostlyPod")) == 1


async def test_the_policy_of_a_costly_pod_is_not_called_slow():
    rig = timed_rig()
    rig.engine.pending.put(costly("big", 5.0))
    rig.engine.pending.put(pod("small"))
    async with until_begun(rig, 2):
        pass
    assert rig.engine.slow_plugins.observer_if_slow(OURS) is None


async def test_a_pod_whose_attempt_was_slow_waits_in_the_lane_until_one_is_not():
    rig = timed_rig()
    rig.engine.pending.put(pod("slow", 0.3, labels={"fits": "no"}))
    async with until_begun(rig, 1):
        pass
    queued = rig.engine.queue.get("default/slow")
    rig.engine.queue.activate("default/slow")
    assert rig.engine.queue.costly == 1
    rig.engine.pending.put(pod("slow", 0.0, labels={"fits": "no"}))
    async with until_begun(rig, 2):
        pass
    rig.engine.queue.activate("default/slow")
    assert rig.engine.queue.get("default/slow") is queued
    assert rig.engine.queue.costly == 0


async def test_a_pod_is_not_slow_because_other_processes_had_the_cpu():
    rig = timed_rig()
    Timed.stalls = 0.5
    rig.engine.pending.put(pod("unlucky", 0.05, labels={"fits": "no"}))
    async with until_begun(rig, 1):
        pass
    rig.engine.queue.activate("default/unlucky")
    assert rig.engine.queue.costly == 0


def members(count, first=0, *, seconds=0.0, make=pod):
    return [make(f"m-{number}", seconds, spec=in_group()) for number in range(first, first + count)]


def gang_rig(count):
    rig = timed_rig(gates={"GenericWorkload": True})
    rig.engine.objects("PodGroup").put(make_pod_group(min_count=count))
    return rig


async def test_a_group_with_a_costly_member_waits_in_the_lane():
    rig = gang_rig(3)
    rig.engine.pending.put(costly("big-0", 1.0))
    async with until_begun(rig, 1):
        pass
    for raw in [*members(2), *members(1, 2, make=costly), pod("small")]:
        rig.engine.pending.put(raw)
    Timed.begun.clear()
    async with until_begun(rig, 7):
        pass
    assert names() == ["small", "m-0", "m-1", "m-2", "m-0", "m-1", "m-2"], "each is checked once more"


async def test_a_group_whose_attempt_took_long_waits_in_the_lane():
    rig = gang_rig(3)
    for raw in members(3, seconds=0.5):
        raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "400"
        rig.engine.pending.put(raw)
    async with until_begun(rig, 3):
        pass
    for number in range(3):
        rig.engine.queue.activate(f"default/m-{number}")
    assert rig.engine.queue.costly == 3


async def test_a_group_is_not_slow_because_other_processes_had_the_cpu():
    rig = gang_rig(3)
    Timed.stalls = 0.5
    for raw in members(3):
        raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "400"
        rig.engine.pending.put(raw)
    async with until_begun(rig, 3):
        pass
    for number in range(3):
        rig.engine.queue.activate(f"default/m-{number}")
    assert rig.engine.queue.costly == 0


async def test_a_large_group_of_members_that_differ_waits_in_the_lane_before_its_first_attempt():
    rig = gang_rig(150)
    rig.engine.pending.put(costly("big-0", 1.0))
    async with until_begun(rig, 1):
        pass
    for number in range(150):
        spec = {**in_group(), **objects.required_anti_affinity(25)}
        rig.engine.pending.put(pod(f"m-{number}", spec=spec, requests={"cpu": f"{number + 1}m"}))
    rig.engine.pending.put(pod("small"))
    Timed.begun.clear()
    async with deciding(rig):
        await settle()
        assert names() == ["small"]
        assert rig.engine.queue.costly == 150
        assert rig.engine.queue.get("default/m-0").attempts == 0
