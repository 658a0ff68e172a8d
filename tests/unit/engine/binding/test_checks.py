"""The last look before a Binding: a node that is gone, or that others have filled meanwhile, gets no pod any more."""

from __future__ import annotations

import asyncio

import pytest

from podwright.engine.binding.checks import CHECKS_REMEMBERED
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.objects.builders import make_node

SHRUNK = make_node("a", allocatable={"cpu": "1", "pods": "10"})


def gone(rig):
    rig.engine.nodes.drop("a", None)


def shrunk(rig):
    rig.engine.nodes.put(SHRUNK)


def filled(rig):
    rig.engine.assigned.put(on_node(ours("rival", requests={"cpu": "3"}), "a"))


def crowded(rig):
    rig.engine.nodes.put(make_node("a", allocatable={"cpu": "4", "pods": "1"}))
    rig.engine.assigned.put(on_node(ours("rival"), "a"))


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        pytest.param(gone, 'node "a" not found', id="the node is gone"),
        pytest.param(shrunk, 'node "a" has no room any more: cpu', id="the node has shrunk"),
        pytest.param(filled, 'node "a" has no room any more: cpu', id="a rival has filled it"),
        pytest.param(crowded, 'node "a" has no room any more: pods', id="a rival has taken the last place for a pod"),
    ],
)
async def test_no_binding_to_a_node_that_cannot_take_the_pod_any_more(happens, why):
    rig = Rig()
    rig.node("a", allocatable={"cpu": "4", "pods": "10"})
    rig.pod("web", requests={"cpu": "2"})
    rig.engine.schedule_one(rig.engine.queue.pop())
    assert rig.engine.reason_not_to_bind(rig.engine.queue.get("default/web").pod, "a") == ""
    happens(rig)
    assert rig.engine.reason_not_to_bind(rig.engine.queue.get("default/web").pod, "a") == why
    async with deciding(rig):
        assert rig.cluster.bound == []
        assert rig.recorder.notes("FailedScheduling")[0] == why
        assert not rig.engine.cache.is_assumed("default/web")


async def test_a_profile_without_the_fit_filter_may_overfill_nodes():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "1", "pods": "10"})
    off = {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}
    body = {"strategy": {"type": "Custom"}, "plugins": off}
    rig.engine.policies.apply({"metadata": {"name": "loose", "uid": "loose", "generation": 1}, "spec": body})
    rig.pod("web", requests={"cpu": "2"})
    async with deciding(rig):
        await settle()
        assert rig.cluster.bound == [("web", "a")]


GPU = "example.com/gpu"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        pytest.param({}, f'node "a" has no room any more: {GPU}', id="devices count like all that the pod asks for"),
        pytest.param({"ignoredResources": [GPU]}, "", id="but not those that the fit filter is told to ignore"),
        pytest.param({"ignoredResourceGroups": ["example.com"]}, "", id="nor those of a group that it ignores"),
    ],
)
async def test_devices_that_have_gone_are_missed(args, why):
    rig = Rig()
    rig.node("a", allocatable={GPU: "4"})
    body = {"strategy": {"type": "Default"}, "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}
    outcome = rig.engine.policies.apply({"metadata": {"name": "fit", "uid": "fit", "generation": 1}, "spec": body})
    assert outcome.accepted, outcome.message
    rig.pod("web", requests={"cpu": "1", GPU: "2"})
    rig.engine.schedule_one(rig.engine.queue.pop())
    rig.engine.nodes.put(make_node("a", allocatable={GPU: "0"}))
    assert rig.engine.reason_not_to_bind(rig.engine.queue.get("default/web").pod, "a") == why
    async with deciding(rig):
        assert rig.cluster.bound == ([] if why else [("web", "a")])


@pytest.mark.parametrize(
    ("news", "told"),
    [
        pytest.param("the node is gone", ['bound to node "a", which is gone'], id="the news comes after the Binding"),
        pytest.param("the pod is gone, too", [], id="the pod garbage collector was faster"),
        pytest.param("nothing", [], id="all is well"),
    ],
)
async def test_a_pod_bound_to_a_node_that_was_gone_is_told_of(news, told):
    rig = Rig()
    rig.node("a")
    raw = rig.pod("web")
    async with deciding(rig):
        rig.confirm(raw, "a")
        if news != "nothing":
            rig.engine.nodes.drop("a", None)
        if news == "the pod is gone, too":
            rig.engine.assigned.drop("default/web", raw)
        for _ in range(2):
            rig.engine.binding_executor.checks.check()
        assert rig.recorder.notes("NodeNotFound") == told


def looks(rig, times=1):
    for _ in range(times):
        rig.engine.binding_executor.checks.check()


async def test_late_news_of_a_node_is_enough():
    """A watch may be silent for more than a minute before anybody asks after it."""
    rig = Rig()
    rig.node("a")
    raw = rig.pod("web")
    async with deciding(rig):
        rig.confirm(raw, "a")
        looks(rig, CHECKS_REMEMBERED - 1)
        rig.engine.nodes.drop("a", None)
        looks(rig, 3)
        assert rig.recorder.notes("NodeNotFound") == ['bound to node "a", which is gone']


async def test_news_that_comes_between_a_binding_and_its_answer_is_not_missed():
    rig = Rig()
    rig.node("a")
    answer = asyncio.get_running_loop().create_future()
    rig.cluster.outcomes = [answer]
    rig.pod("web")
    async with deciding(rig):
        rig.engine.nodes.drop("a", None)
        looks(rig)
        answer.set_result(None)
        await settle()
        looks(rig)
        assert rig.recorder.notes("NodeNotFound") == ['bound to node "a", which is gone']


@pytest.mark.parametrize(
    "case",
    [
        pytest.param("long ago", id="it was bound long before"),
        pytest.param("started", id="a kubelet had taken it"),
        pytest.param("going", id="it is being deleted, too"),
        pytest.param("foreign", id="another scheduler bound it"),
        pytest.param("back", id="the node is there again"),
    ],
)
async def test_a_node_that_goes_later_is_no_news(case):
    rig = Rig()
    rig.node("a")
    raw = rig.pod("web")
    async with deciding(rig):
        rig.confirm(raw, "a")
        if case == "foreign":
            rig.engine.assigned.drop("default/web", None)
            rig.engine.assigned.put(on_node(ours("foreign"), "a"))
        if case == "started":
            rig.engine.assigned.put({**on_node(raw, "a"), "status": {"startTime": "2026-01-01T00:00:00Z"}})
        looks(rig, CHECKS_REMEMBERED if case == "long ago" else 1)
        rig.engine.nodes.drop("a", None)
        if case == "going":
            gone = on_node(raw, "a")
            gone["metadata"] = {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            rig.engine.assigned.put(gone)
        if case == "back":
            rig.node("a")
        looks(rig, 3)
        assert rig.recorder.notes("NodeNotFound") == []


@pytest.mark.parametrize(
    ("happens", "remembered"),
    [
        pytest.param("nothing", 1, id="neither gone nor started"),
        pytest.param("gone", 0, id="gone"),
        pytest.param("started", 0, id="started"),
    ],
)
async def test_who_was_bound_is_remembered_no_longer_than_it_may_matter(monkeypatch, happens, remembered):
    monkeypatch.setattr("podwright.engine.engine.HOUSEKEEPING_SECONDS", 0)
    rig = Rig()
    rig.node("a")
    raw = rig.pod("web")
    async with deciding(rig):
        rig.confirm(raw, "a")
        if happens == "gone":
            rig.engine.assigned.drop("default/web", raw)
        if happens == "started":
            rig.engine.assigned.put({**on_node(raw, "a"), "status": {"startTime": "2026-01-01T00:00:00Z"}})
        keeping = asyncio.create_task(rig.engine.run_housekeeping())
        await settle()
        assert len(rig.engine.binding_executor.checks) == remembered
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
