"""Checks of the node before a Binding is posted, and after the pod is bound."""

from __future__ import annotations

import asyncio

import pytest

from podwright.api.permissions import PolicySettings
from podwright.engine.outcomes.binding.checks import CHECKS_REMEMBERED
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.objects.builders import make_node
from support.objects.devices import allocated, exactly, make_claim, make_class

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
    ("change", "reason"),
    [
        pytest.param(gone, 'node "a" not found', id="the node is gone"),
        pytest.param(shrunk, 'node "a" has no room any more: cpu', id="the node has shrunk"),
        pytest.param(filled, 'node "a" has no room any more: cpu', id="another scheduler has filled it"),
        pytest.param(
            crowded, 'node "a" has no room any more: pods', id="another scheduler has placed the last pod that it takes"
        ),
    ],
)
async def test_no_binding_is_posted_to_a_node_that_can_no_longer_take_the_pod(change, reason):
    rig = Rig()
    rig.node("a", allocatable={"cpu": "4", "pods": "10"})
    rig.pod("web", requests={"cpu": "2"})
    rig.engine.pod_attempts.schedule_one(rig.engine.queue.pop())
    assert rig.engine.binding_executor.reason_not_to_bind(rig.engine.queue.get("default/web").pod, "a") == ""
    change(rig)
    assert rig.engine.binding_executor.reason_not_to_bind(rig.engine.queue.get("default/web").pod, "a") == reason
    async with deciding(rig):
        assert rig.cluster.bound == []
        assert rig.recorder.notes("FailedScheduling")[0] == reason
        assert not rig.engine.cache.is_assumed("default/web")


TEMPLATE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}]}


def named(claim):
    """The status of a pod for whose entry this claim was made."""
    return {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": claim}]}


async def test_no_binding_is_posted_for_a_pod_that_has_got_another_claim_since_the_decision():
    """kube-controller-manager made a second one, because it did not get the answer to the first creation."""
    rig, reason = Rig(), "the pod has got other resource claims"
    rig.node("a")
    rig.engine.objects("DeviceClass").put(make_class("gpu"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "default/web", "controller": True}
    status = allocated("gpu-0", node="a", reserved_for=["default/web"])
    claims = rig.engine.objects("ResourceClaim")
    claims.put(make_claim("first", exactly(), ownerReferences=[owner], resourceVersion="1", status=status))
    claims.put(make_claim("second", exactly(), ownerReferences=[owner], resourceVersion="2"))
    rig.pod("web", spec=TEMPLATE, status=named("first"))
    rig.engine.pod_attempts.schedule_one(rig.engine.queue.pop())
    pod = rig.engine.queue.get("default/web").pod
    assert rig.engine.binding_executor.reason_not_to_bind(pod, "a") == ""
    rig.pod("web", spec=TEMPLATE, status=named("second"))
    assert rig.engine.binding_executor.reason_not_to_bind(pod, "a") == reason
    async with deciding(rig):
        await settle()
        assert rig.cluster.bound == []
        assert rig.recorder.notes("FailedScheduling")[0] == reason


async def test_a_profile_without_the_fit_filter_may_overcommit_nodes():
    rig = Rig(policies=PolicySettings(allow_unsafe=True))
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
    ("args", "reason"),
    [
        pytest.param({}, f'node "a" has no room any more: {GPU}', id="extended resources count"),
        pytest.param({"ignoredResources": [GPU]}, "", id="an ignored resource does not count"),
        pytest.param(
            {"ignoredResourceGroups": ["example.com"]}, "", id="a resource of an ignored group does not count"
        ),
    ],
)
async def test_extended_resources_that_have_shrunk_are_a_reason_not_to_bind(args, reason):
    rig = Rig(policies=PolicySettings(allow_unsafe=True))
    rig.node("a", allocatable={GPU: "4"})
    body = {"strategy": {"type": "Default"}, "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}
    outcome = rig.engine.policies.apply({"metadata": {"name": "fit", "uid": "fit", "generation": 1}, "spec": body})
    assert outcome.accepted, outcome.message
    rig.pod("web", requests={"cpu": "1", GPU: "2"})
    rig.engine.pod_attempts.schedule_one(rig.engine.queue.pop())
    rig.engine.nodes.put(make_node("a", allocatable={GPU: "0"}))
    assert rig.engine.binding_executor.reason_not_to_bind(rig.engine.queue.get("default/web").pod, "a") == reason
    async with deciding(rig):
        assert rig.cluster.bound == ([] if reason else [("web", "a")])


@pytest.mark.parametrize(
    ("deleted", "notes"),
    [
        pytest.param("node", ['bound to node "a", which is gone'], id="the node is deleted after the Binding"),
        pytest.param("node and pod", [], id="the pod is deleted as well"),
        pytest.param("", [], id="nothing is deleted"),
    ],
)
async def test_a_pod_on_a_deleted_node_is_reported(deleted, notes):
    rig = Rig()
    rig.node("a")
    raw = rig.pod("web")
    async with deciding(rig):
        rig.confirm(raw, "a")
        if deleted:
            rig.engine.nodes.drop("a", None)
        if deleted == "node and pod":
            rig.engine.assigned.drop("default/web", raw)
        for _ in range(2):
            rig.engine.binding_executor.checks.check()
        assert rig.recorder.notes("NodeNotFound") == notes


def check(rig, times=1):
    for _ in range(times):
        rig.engine.binding_executor.checks.check()


async def test_a_late_watch_event_of_the_node_still_reports_the_pod():
    """A watch may be silent for more than a minute before an audit notices."""
    rig = Rig()
    rig.node("a")
    raw = rig.pod("web")
    async with deciding(rig):
        rig.confirm(raw, "a")
        check(rig, CHECKS_REMEMBERED - 1)
        rig.engine.nodes.drop("a", None)
        check(rig, 3)
        assert rig.recorder.notes("NodeNotFound") == ['bound to node "a", which is gone']


async def test_a_node_that_is_deleted_before_the_answer_to_the_binding_is_reported():
    rig = Rig()
    rig.node("a")
    answer = asyncio.get_running_loop().create_future()
    rig.cluster.outcomes = [answer]
    rig.pod("web")
    async with deciding(rig):
        rig.engine.nodes.drop("a", None)
        check(rig)
        answer.set_result(None)
        await settle()
        check(rig)
        assert rig.recorder.notes("NodeNotFound") == ['bound to node "a", which is gone']


@pytest.mark.parametrize(
    "case",
    [
        pytest.param("bound long ago", id="the pod was bound long before"),
        pytest.param("started", id="a kubelet has taken the pod"),
        pytest.param("terminating", id="the pod is being deleted as well"),
        pytest.param("foreign", id="another scheduler bound the pod"),
        pytest.param("back", id="the node is back"),
    ],
)
async def test_a_pod_is_not_reported_without_cause(case):
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
        check(rig, CHECKS_REMEMBERED if case == "bound long ago" else 1)
        rig.engine.nodes.drop("a", None)
        if case == "terminating":
            gone = on_node(raw, "a")
            gone["metadata"] = {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            rig.engine.assigned.put(gone)
        if case == "back":
            rig.node("a")
        check(rig, 3)
        assert rig.recorder.notes("NodeNotFound") == []


@pytest.mark.parametrize(
    ("change", "remembered"),
    [
        pytest.param("nothing", 1, id="the pod is neither gone nor started"),
        pytest.param("gone", 0, id="the pod is gone"),
        pytest.param("started", 0, id="a kubelet has taken the pod"),
    ],
)
async def test_a_bound_pod_is_remembered_until_it_is_gone_or_started(monkeypatch, change, remembered):
    monkeypatch.setattr("podwright.engine.engine.HOUSEKEEPING_SECONDS", 0)
    monkeypatch.setattr("podwright.engine.engine.RECLAIM_EVERY", 1000)  # full collections of all tests' objects
    rig = Rig()
    rig.node("a")
    raw = rig.pod("web")
    async with deciding(rig):
        rig.confirm(raw, "a")
        if change == "gone":
            rig.engine.assigned.drop("default/web", raw)
        if change == "started":
            rig.engine.assigned.put({**on_node(raw, "a"), "status": {"startTime": "2026-01-01T00:00:00Z"}})
        keeping = asyncio.create_task(rig.engine.run_housekeeping())
        await settle()
        assert len(rig.engine.binding_executor.checks) == remembered
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
