"""The streams take valid objects in, and report invalid ones without harm to others."""

from __future__ import annotations

import logging

import pytest

from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, Action, ClusterEvent
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.engine.intake.object_changes import assigned_pod_event, node_event, same_node
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.objects.bad_objects import read
from support.objects.builders import make_namespace, make_node, make_pod


def bad_objects():
    return [pytest.param(bad.stream, bad.raw, bad.error, id=bad.about) for bad in read()]


def stream_of(rig, name):
    return getattr(rig.engine, name, None) or rig.engine.objects(name)


@pytest.mark.parametrize(("stream", "raw", "complaint"), bad_objects())
async def test_an_invalid_object_is_reported_once_and_scheduling_continues(stream, raw, complaint, caplog):
    rig = Rig()
    rig.node("good")
    with caplog.at_level(logging.ERROR):
        async with deciding(rig):
            for _ in range(3):
                stream_of(rig, stream).put(raw)
                await settle()
            rig.pod("fine")
            await settle()
            assert ("fine", "good") in rig.cluster.bound
            stream_of(rig, stream).drop("uid-bad", raw)
            await settle()
    invalid_objects = [
        record.getMessage() for record in caplog.records if record.name == "podwright.engine.invalid_objects"
    ]
    if complaint is None:
        assert invalid_objects == []
        return
    assert len(invalid_objects) == 1
    assert complaint in invalid_objects[0]
    notes = [note for name, reason, note in rig.recorder.events if (name, reason) == ("bad", "FailedScheduling")]
    assert [complaint in note for note in notes] == ([True] if stream == "pending" else [])


PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HUGE_BOUND = {"key": "cores", "operator": "Gt", "values": ["9" * 4400]}


@pytest.mark.parametrize(
    ("spec", "status", "problems"),
    [
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [HUGE_BOUND]}}]}
                }
            },
            {},
            0,
            id="a bound of 4400 digits",
        ),
        pytest.param({"tolerations": [{"operator": "Near"}]}, {}, 1, id="an operator of a later version"),
        pytest.param({}, {"startTime": "0000-12-31T10:00:00Z"}, 1, id="a start time in the year 0"),
    ],
)
async def test_no_second_pod_takes_the_room_of_an_assigned_pod_that_is_hard_to_read(spec, status, problems, caplog):
    rig = Rig()
    rig.node("a", allocatable={"cpu": "4"})
    assigned = make_pod("odd", node="a", requests={"cpu": "4"}, spec=spec, status={"phase": "Running", **status})
    for _ in range(3):
        rig.engine.assigned.put(assigned)
    async with deciding(rig):
        rig.pod("second", requests={"cpu": "4"})
        await settle()
    assert rig.cluster.bound == []
    assert "Insufficient cpu" in rig.recorder.notes("FailedScheduling")[0]
    assert len([r for r in caplog.records if r.name == "podwright.engine.invalid_objects"]) == problems


def test_what_can_be_read_of_a_node_counts():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "4"})
    rig.node("a", allocatable={"cpu": "four", "memory": "3"}, labels={"zone": "z"})
    node = rig.engine.cache.present("a")
    assert (node.allocatable("cpu"), node.allocatable("memory"), node.present.labels) == (0, 3, {"zone": "z"})


def test_objects_of_other_kinds_are_stored_and_removed():
    rig = Rig()
    namespaces = rig.engine.objects("Namespace")
    namespaces.put(make_namespace("team", {"stage": "test"}))
    assert rig.engine.cache.namespace_labels("team") == {"stage": "test"}
    namespaces.drop("/team", None)
    assert rig.engine.cache.namespace_labels("team") == {}


def test_only_the_selector_of_controllers_is_kept():
    rig = Rig()
    sets = rig.engine.objects("ReplicaSet")
    raw = {
        "metadata": {"name": "web", "namespace": "default", "resourceVersion": "1", "managedFields": [{"x": "y"}]},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {}}, "replicas": 3},
        "status": {"replicas": 3},
    }
    sets.put(raw)
    kept = rig.engine.cache.store.get("ReplicaSet", "web", "default")
    assert kept["spec"] == {"selector": {"matchLabels": {"app": "web"}}}
    assert "status" not in kept
    assert "managedFields" not in kept["metadata"]
    version = rig.engine.cache.store.version("ReplicaSet")
    sets.put({**raw, "metadata": {**raw["metadata"], "resourceVersion": "2"}, "status": {"replicas": 2}})
    assert rig.engine.cache.store.version("ReplicaSet") == version


def test_objects_that_plugins_may_update_keep_their_resource_version():
    rig = Rig()
    claims = rig.engine.objects("PersistentVolumeClaim")
    raw = {"metadata": {"name": "data", "namespace": "default", "resourceVersion": "1"}, "spec": {}}
    claims.put(raw)
    claims.put({**raw, "metadata": {**raw["metadata"], "resourceVersion": "2"}})
    kept = rig.engine.cache.store.get("PersistentVolumeClaim", "data", "default")
    assert kept["metadata"]["resourceVersion"] == "2"


class TestPendingPods:
    def test_kopf_and_watch_events_have_the_same_effect(self):
        rig = Rig()
        raw = ours("web")
        for kind in (None, "ADDED", "MODIFIED"):
            rig.engine.pending.take_event({"type": kind, "object": raw})
            assert len(rig.engine.queue) == 1
        rig.engine.pending.take_event({"type": "DELETED", "object": raw})
        assert len(rig.engine.queue) == 0

    def test_a_late_event_of_a_placed_pod_changes_nothing(self):
        rig = Rig()
        rig.node("a")
        raw = ours("web")
        rig.engine.assigned.put(on_node(raw, "a"))
        rig.engine.pending.put(raw)
        rig.engine.pending.drop("default/web", raw)
        assert rig.placed_on("web") == "a"
        assert len(rig.engine.queue) == 0

    def test_a_pod_bound_by_another_scheduler_leaves_the_queue(self):
        rig = Rig()
        rig.node("a")
        raw = rig.pod("web")
        rig.engine.assigned.put(on_node(raw, "a"))
        assert len(rig.engine.queue) == 0
        assert rig.placed_on("web") == "a"

    def test_a_nomination_from_before_a_restart_counts(self):
        rig = Rig()
        rig.node("a")
        raw = rig.pod("web", status={"nominatedNodeName": "a"})
        assert rig.engine.cache.nominator.node_of("default/web") == "a"
        rig.engine.pending.drop("default/web", raw)
        assert rig.engine.cache.nominator.node_of("default/web") == ""


class TestAssignedPods:
    def test_a_finished_pod_frees_its_resources(self):
        rig = Rig()
        rig.node("a")
        raw = make_pod("job", node="a", requests={"cpu": "2"})
        rig.engine.assigned.put(raw)
        assert rig.engine.cache.present("a").requested["cpu"] == 2000
        rig.engine.assigned.put({**raw, "status": {"phase": "Succeeded"}})
        assert rig.engine.cache.present("a").requested["cpu"] == 0

    def test_a_pod_that_arrives_before_its_node_counts(self):
        rig = Rig()
        rig.engine.assigned.put(make_pod("early", node="a", requests={"cpu": "2"}))
        rig.node("a")
        assert rig.engine.cache.present("a").requested["cpu"] == 2000

    def test_duplicate_and_reordered_events_change_nothing(self):
        rig = Rig()
        rig.node("a")
        raw = make_pod("web", node="a", requests={"cpu": "2"})
        for _ in range(2):
            rig.engine.assigned.put(raw)
        assert rig.engine.cache.present("a").requested["cpu"] == 2000
        for _ in range(2):
            rig.engine.assigned.drop("default/web", raw)
        assert rig.engine.cache.present("a").requested["cpu"] == 0


def changed_node(**options):
    return parse_node(make_node("a", **options))


@pytest.mark.parametrize(
    ("after", "action"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"labels": {"zone": "a"}}, Action.UPDATE_NODE_LABEL, id="a label"),
        pytest.param({"taints": [{"key": "k", "effect": "NoSchedule"}]}, Action.UPDATE_NODE_TAINT, id="a taint"),
        pytest.param({"allocatable": {"cpu": "9"}}, Action.UPDATE_NODE_ALLOCATABLE, id="allocatable"),
        pytest.param({"annotations": {"a": "b"}}, Action.UPDATE_NODE_ANNOTATION, id="an annotation"),
        pytest.param({"images": [{"names": ["app"], "sizeBytes": 5}]}, Action.UPDATE_NODE_IMAGES, id="an image"),
        pytest.param({"declared_features": ["F"]}, Action.UPDATE_NODE_DECLARED_FEATURE, id="a declared feature"),
        pytest.param(
            {"labels": {"x": "y"}, "allocatable": {"cpu": "9"}},
            Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE,
            id="two changes at once",
        ),
    ],
)
def test_node_events(after, action):
    before, node = changed_node(), changed_node(**after)
    assert node_event(before, node) == (None if action is None else ClusterEvent(NODE, action))
    assert same_node(before, node) == (action is None)


def test_uncordoning_a_node_is_an_event_and_cordoning_is_not():
    free, cordoned = changed_node(), changed_node(unschedulable=True)
    assert node_event(cordoned, free) == ClusterEvent(NODE, Action.UPDATE_NODE_TAINT)
    assert node_event(free, cordoned) is None
    assert not same_node(free, cordoned)


def test_a_changed_condition_is_an_event_and_a_heartbeat_is_not():
    def beat(ready, at):
        raw = make_node("a")
        raw["status"]["conditions"] = [{"type": "Ready", "status": ready, "lastHeartbeatTime": at}]
        return parse_node(raw)

    first = beat("True", "2026-01-01T00:00:00Z")
    assert same_node(first, beat("True", "2026-01-01T00:00:10Z"))
    assert node_event(first, beat("False", "2026-01-01T00:00:20Z")) == ClusterEvent(NODE, Action.UPDATE_NODE_CONDITION)


@pytest.mark.parametrize("conditions", [None, "Ready", [7], [{"status": "True"}], {"Ready": "True"}])
def test_invalid_conditions_are_ignored(conditions):
    raw = make_node("a")
    raw["status"]["conditions"] = conditions
    assert parse_node(raw).conditions == {}


def placed(**options):
    return parse_pod(make_pod("web", node="a", **{"requests": {"cpu": "2"}, **options}))


@pytest.mark.parametrize(
    ("before", "after", "action"),
    [
        pytest.param(None, placed(), Action.ADD, id="added"),
        pytest.param(placed(), placed(), None, id="nothing"),
        pytest.param(placed(), placed(labels={"a": "b"}), Action.UPDATE_POD_LABEL, id="a label"),
        pytest.param(placed(), placed(requests={"cpu": "1"}), Action.UPDATE_POD_SCALE_DOWN, id="a lower request"),
        pytest.param(placed(), placed(requests={"cpu": "3"}), Action.UPDATE_POD_SCALE_UP, id="a higher request"),
        pytest.param(
            placed(requests={"cpu": "2", "memory": "1Gi"}),
            placed(requests={"cpu": "1", "memory": "2Gi"}),
            Action.UPDATE_POD_SCALE_DOWN | Action.UPDATE_POD_SCALE_UP,
            id="a lower and a higher request",
        ),
        pytest.param(
            placed(),
            placed(requests={"memory": "1"}),
            Action.UPDATE_POD_SCALE_DOWN | Action.UPDATE_POD_SCALE_UP,
            id="a request for another resource",
        ),
        pytest.param(placed(), placed(status={"phase": "Failed"}), Action.DELETE, id="finished"),
        pytest.param(None, placed(status={"phase": "Failed"}), None, id="finished before the watch showed it"),
    ],
)
def test_assigned_pod_events(before, after, action):
    assert assigned_pod_event(before, after) == (None if action is None else ClusterEvent(ASSIGNED_POD, action))


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_a_pod_that_finished_without_a_node_is_not_bound(phase):
    rig = Rig()
    raw = rig.pod("web")
    rig.engine.pending.put({**raw, "status": {"phase": phase}})
    rig.node("a")
    async with deciding(rig):
        assert rig.cluster.bound == []
        assert len(rig.engine.queue) == 0


@pytest.mark.parametrize("change", ["its nomination changes", "it is deleted"])
async def test_a_lost_nomination_retries_pods_of_no_higher_priority(change):
    rig = Rig()
    rig.node("a", allocatable={"cpu": "2"})
    raw = ours("nominated", requests={"cpu": "2"}, priority=5, status={"nominatedNodeName": "a"})
    raw["spec"]["schedulingGates"] = [{"name": "later"}]
    rig.engine.pending.put(raw)
    rig.pod("low", requests={"cpu": "2"}, priority=1)
    rig.pod("high", requests={"cpu": "4"}, priority=9)
    async with deciding(rig):
        assert rig.cluster.bound == []
        attempts = rig.engine.queue.get("default/high").attempts
        if change == "it is deleted":
            rig.engine.pending.drop("default/nominated", raw)
        else:
            rig.engine.pending.put({**raw, "status": {"nominatedNodeName": "b"}})
        await settle()
        assert rig.cluster.bound == [("low", "a")]
        assert rig.engine.queue.get("default/high").attempts == attempts


async def test_the_series_of_events_of_a_bound_pod_ends():
    rig = Rig()
    raw = rig.pod("web", uid="uid-web")
    async with deciding(rig):
        assert rig.recorder.notes("FailedScheduling")
        rig.engine.assigned.put(on_node(raw, "elsewhere"))
        assert rig.recorder.forgotten == ["uid-web"]


def test_a_nomination_that_the_watch_does_not_show_yet_is_kept_until_the_watch_clears_it():
    rig = Rig()
    rig.pod("web")
    nominator = rig.engine.cache.nominator
    nominator.add(rig.engine.queue.get("default/web").pod, "a")
    nominated = {"nominatedNodeName": "a"}
    for status, labels, expected in (({}, {"a": "b"}, "a"), (nominated, {}, "a"), ({}, {}, "")):
        rig.engine.pending.put(ours("web", labels=labels, status=status))
        assert (nominator.node_of("default/web") or "") == expected


def test_an_event_on_a_node_names_the_amount_that_cannot_be_counted():
    rig = Rig()
    raw = make_node("vast", allocatable={"cpu": "1E"})
    for _ in range(2):
        rig.engine.nodes.put(raw)
    assert rig.recorder.events == [
        (
            "vast",
            "InvalidNode",
            f"Node vast: status.allocatable[cpu]: '1E' is more than {2**63 - 1} milli-CPU, so the node counts as having none",
        )
    ]
