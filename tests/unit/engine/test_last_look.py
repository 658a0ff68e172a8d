"""The last look before a Binding: a node that is gone, or that others have filled meanwhile, gets no pod any more."""

from __future__ import annotations

import pytest

from builders import make_node
from engine_kit import Rig, deciding, on_node, ours, settle

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
    rig.engine._attempt(rig.engine.queue.pop())
    assert rig.engine.obstacle(rig.engine.queue.get("default/web").pod, "a") == ""
    happens(rig)
    assert rig.engine.obstacle(rig.engine.queue.get("default/web").pod, "a") == why
    async with deciding(rig):
        assert rig.cluster.bound == []
        assert rig.recorder.notes("FailedScheduling")[0] == why
        assert not rig.engine.cache.is_assumed("default/web")


async def test_a_profile_without_the_fit_filter_may_overfill_nodes():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "1", "pods": "10"})
    off = {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}
    body = {"strategy": {"type": "Custom"}, "plugins": off}
    rig.engine.live.apply({"metadata": {"name": "loose", "uid": "loose", "generation": 1}, "spec": body})
    rig.pod("web", requests={"cpu": "2"})
    async with deciding(rig):
        await settle()
        assert rig.cluster.bound == [("web", "a")]


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
            rig.engine._bindings.afterwards.look()
        assert rig.recorder.notes("NodeNotFound") == told
