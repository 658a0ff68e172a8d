"""Plugins that take long are named, and other work goes on between two slow attempts."""

from __future__ import annotations

import asyncio
import logging

import pytest

from podwright.core.framework.interface import FilterPlugin, PermitPlugin, Plugin, PreBindPlugin
from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.engine.records.metrics import ATTEMPTS_PER_MEASURED
from support.engine.kit import Rig, custom_policy, deciding, values
from support.objects.builders import in_group, make_pod_group
from support.serve.kit import Told, get, serving
from support.waiting import patience, until


class Slow(Plugin, FilterPlugin):
    """Takes as many seconds as the label `seconds` says."""

    name = "Slow"
    rig: Rig
    started = 0

    def filter(self, _state, pod, _node):
        type(self).started += 1
        self.rig.now += float(pod.labels.get("seconds", 0))


class SlowPermit(Plugin, PermitPlugin):
    name = "Slow"
    rig: Rig

    def permit(self, _state, pod, _node_name):
        self.rig.now += float(pod.labels.get("seconds", 0))
        return None, 0


class SlowPreBind(Plugin, PreBindPlugin):
    name = "Slow"
    rig: Rig

    async def pre_bind(self, _state, pod, _node_name):
        await asyncio.sleep(0)
        self.rig.now += float(pod.labels.get("seconds", 0))


def rig_with(plugin, point):
    rig = Rig({"Slow": plugin})
    plugin.rig = rig
    rig.node("a")
    assert rig.engine.policies.apply(custom_policy(point, "Slow")).accepted
    return rig


def pod(rig, name, seconds=0.0, **options):
    rig.pod(name, labels={"seconds": str(seconds)}, **options)


async def attempt(rig, name, seconds=0.0):
    pod(rig, name, seconds)
    async with patience():
        while rig.engine.queue.counts()["active"]:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)


def slow_calls(rig):
    return values(rig, "podwright_slow_plugin_calls_total")


def warnings(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.endswith("slow_plugins") and record.levelno >= logging.WARNING
    ]


@pytest.mark.parametrize(
    "plugin, point", [pytest.param(Slow, "filter", id="Filter"), pytest.param(SlowPermit, "permit", id="Permit")]
)
async def test_a_slow_plugin_is_named_at_the_attempt_after_the_first_slow_one(plugin, point, caplog):
    rig = rig_with(plugin, point)
    async with deciding(rig):
        await attempt(rig, "sampled")
        await attempt(rig, "first", 2)
        assert slow_calls(rig) == {}
        await attempt(rig, "second", 2)
        await attempt(rig, "third", 3)
        await attempt(rig, "fast")
        label = point[0].upper() + point[1:]
        assert slow_calls(rig) == {("Slow", label): 2}
        expected = f"policy custom: plugin Slow took 2.0 s at {label}, and all other pods waited for it"
        assert warnings(caplog) == [expected]
        rig.now += 60
        await attempt(rig, "later", 4)
    after = "; since the last warning 1 times, at most 3.0 s"
    assert warnings(caplog) == [
        expected,
        f"policy custom: plugin Slow took 4.0 s at {label}, and all other pods waited for it{after}",
    ]


async def test_a_slow_plugin_is_named_at_once_in_an_attempt_of_the_sample_for_the_metrics(caplog):
    rig = rig_with(Slow, "filter")
    async with deciding(rig):
        await attempt(rig, "sampled", 0.1)
    assert slow_calls(rig) == {("Slow", "Filter"): 1}
    assert len(warnings(caplog)) == 1


async def test_the_attempts_that_are_measured_to_find_slow_plugins_are_not_in_the_sample():
    rig = rig_with(Slow, "filter")
    async with deciding(rig):
        for number in range(4):
            await attempt(rig, f"p{number}", 1 if number == 1 else 0)
    assert values(rig, "scheduler_plugin_execution_duration_seconds_count")["Slow", "Filter", "Success"] == 1


async def test_after_some_attempts_plugins_are_no_longer_measured():
    rig = rig_with(Slow, "filter")
    async with deciding(rig):
        await attempt(rig, "sampled")
        await attempt(rig, "slow", 1)
        observer_for = rig.engine.slow_plugins.observer_for
        measured = [observer_for("custom") is not None for _ in range(ATTEMPTS_PER_MEASURED - 2)]
    assert measured == [True] * 20 + [False] * (ATTEMPTS_PER_MEASURED - 22)


@pytest.mark.parametrize(
    "plugin, point, seconds",
    [
        pytest.param(Slow, "filter", 0.09, id="less than 100 ms"),
        pytest.param(SlowPreBind, "preBind", 5, id="PreBind, which may wait"),
    ],
)
async def test_other_plugins_are_not_named(plugin, point, seconds, caplog):
    rig = rig_with(plugin, point)
    async with deciding(rig):
        for number in range(3):
            await attempt(rig, f"p{number}", seconds)
    assert slow_calls(rig) == {}
    assert warnings(caplog) == []


async def test_a_plugin_that_is_slow_for_a_gang_is_named():
    rig = rig_with(Slow, "filter")
    rig.engine.cache.groups.serve(WORKLOAD_API)
    async with deciding(rig):
        for group in ("one", "two"):
            rig.engine.objects(KIND).put(make_pod_group(group, min_count=1))
            pod(rig, group, 1, spec=in_group(group))
            await until(lambda group=group: group in {name for name, _ in rig.cluster.bound})
        assert sorted(name for name, _ in rig.cluster.bound) == ["one", "two"]
    assert slow_calls(rig) == {("Slow", "Filter"): 1}


async def test_a_readiness_check_is_answered_between_two_slow_attempts():
    rig = rig_with(Slow, "filter")
    attempts_before = []

    def checks():
        attempts_before.append(Slow.started)
        return {"ping": ""}

    async with serving(Told(checks=checks)) as server:
        for number in range(200):
            pod(rig, f"p{number}", 2)
        Slow.started = 0
        task = asyncio.create_task(rig.engine.run())
        assert (await asyncio.to_thread(asyncio.run, get(server, "/readyz")))[0] == 200
        assert len(attempts_before) == 1
        assert attempts_before[0] < 200
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await rig.engine.stop(0)
