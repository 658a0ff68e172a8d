"""Topologies as they come in, the domains that they make, and what their statuses say."""

from __future__ import annotations

import pytest

from podwright.api import crd
from podwright.api.topology import parse_topology
from podwright.core.objects.errors import InvalidObjectError
from podwright.kube.kinds import KAI_TOPOLOGY
from podwright.kube.topologies.door import OtherTopologyDoor, TopologyDoor
from podwright.kube.topologies.hyper_nodes import HyperNodeDoor
from podwright.kube.write.object_status import SeenObject
from podwright.sandbox.schemas import Schema
from support.engine.kit import Rig
from support.objects.builders import make_hyper_node, make_topology

SCHEMA = Schema(crd.crd("Topology")["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


class Doors:
    def __init__(self):
        self.rig = Rig()
        options = {"recorder": self.rig.recorder, "scheduler_name": "podwright", "clock": lambda: 0.0}
        self.own = TopologyDoor(None, self.rig.engine, **options)
        self.declared = self.rig.engine.cache.topologies.declared

    def seen(self, raw):
        identity, problem = raw["metadata"], ""
        try:
            parse_topology(raw)
        except InvalidObjectError as error:
            problem = str(error)
        return SeenObject(identity["uid"], 1, spec=raw["spec"], status={}, problem=problem)

    def status(self, raw):
        self.own.put(raw)
        name = raw["metadata"]["name"]
        status = self.own.status_of(name, self.seen(raw), "2026-01-01T00:00:00Z")
        assert SCHEMA.problems({**make_topology("zone"), "status": status}) == []
        return status


@pytest.fixture
def it():
    return Doors()


def test_the_status_counts_domains_and_the_nodes_that_are_in_one(it):
    it.rig.node("a", labels={"zone": "z", "rack": "r1"})
    it.rig.node("b", labels={"zone": "z", "rack": "r2"})
    it.rig.node("c", labels={"rack": "r2"})
    status = it.status(make_topology("zone", "rack"))
    assert status["levels"] == [
        {"nodeLabel": "zone", "domains": 1, "nodes": 2},
        {"nodeLabel": "rack", "domains": 2, "nodes": 2},
    ]
    active = status["conditions"][1]
    assert (active["status"], active["reason"]) == ("True", "LabelsMissing")
    assert active["message"].startswith("1 of 3 nodes lack zone ")
    assert it.own.warnings_of(status) == {"LabelsMissing": active["message"]}


def test_a_level_that_no_node_has_is_named(it):
    it.rig.node("a", labels={"zone": "z"})
    active = it.status(make_topology("zone", "rack"))["conditions"][1]
    assert (active["status"], active["message"].partition(" or ")[0]) == ("False", "1 of 1 nodes lack rack")


def test_the_last_valid_version_stays(it):
    it.status(make_topology("zone"))
    status = it.status({**make_topology(), "spec": {"levels": []}})
    assert status["conditions"][0]["status"] == "False"
    assert it.declared == {"podwright.dev/default": ("zone",)}
    it.own.drop("default", None)
    assert it.declared == {}


def test_topologies_of_another_api_are_read_while_they_can_be(it):
    sink = OtherTopologyDoor(it.rig.engine, KAI_TOPOLOGY)
    raw = make_topology("zone", "rack", name="dc", api="kai.scheduler/v1alpha1")
    sink.put(raw)
    sink.put({**raw, "spec": {"levels": "zone"}})
    assert it.declared == {"kai.scheduler/dc": ("zone", "rack")}
    sink.drop("dc", None)
    assert it.declared == {}


class HyperNodeObjects:
    """HyperNodes as they come in, beside the nodes `n0` and `n1`."""

    def __init__(self):
        self.rig = Rig()
        self.rig.node("n0")
        self.rig.node("n1")
        self.door = HyperNodeDoor(self.rig.engine, recorder=self.rig.recorder, scheduler_name="podwright")
        self.them = self.rig.engine.cache.topologies.hyper_nodes

    def put(self, *args, **spec):
        self.door.put(make_hyper_node(*args, **spec))

    @property
    def picked(self):
        return int((self.them.levels()[0] >= 0).sum()) if self.them.levels() else 0


@pytest.fixture
def hyper_nodes():
    return HyperNodeObjects()


def test_hyper_nodes_are_read_while_they_can_be(hyper_nodes):
    hyper_nodes.put("s0", 1, {"regexMatch": {"pattern": "^n"}})
    hyper_nodes.put("s0", 1, {"regexMatch": {"pattern": "^(n"}})
    assert hyper_nodes.picked == 2
    (event,) = hyper_nodes.rig.recorder.events
    assert event[:2] == ("s0", "HyperNodeNotAccepted")
    assert "HyperNode s0: spec.members[0].selector.regexMatch.pattern: " in event[2]
    hyper_nodes.door.drop("s0", None)
    assert hyper_nodes.picked == 0


def test_a_hyper_node_that_does_not_count_gets_one_event(hyper_nodes):
    hyper_nodes.put("s0", 1, {"exactMatch": {"name": "n0"}})
    hyper_nodes.put("s1", 1, {"regexMatch": {"pattern": "n."}}, "s1")
    for _ in range(2):
        assert hyper_nodes.picked == 2
        hyper_nodes.rig.node("n0", labels={"changed": "true"})
    assert hyper_nodes.rig.recorder.events == [
        ("s1", "HyperNodeNotAccepted", "HyperNode s1: spec.members: its member s1 has no lower tier than 1, and does not count"),
    ]  # fmt: skip


def test_the_status_that_volcano_writes_changes_nothing(hyper_nodes):
    raw = make_hyper_node("s0", 1, {"exactMatch": {"name": "n0"}})
    hyper_nodes.door.put(raw)
    changes = hyper_nodes.them.changes
    hyper_nodes.door.put({**raw, "status": {"nodeCount": 1}})
    assert hyper_nodes.them.changes == changes
    hyper_nodes.door.put({**raw, "spec": {**raw["spec"], "tier": 2}})
    assert hyper_nodes.them.changes == changes + 1
