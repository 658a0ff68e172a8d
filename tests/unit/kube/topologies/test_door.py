"""Topologies as they come in, the domains that they make, and what their statuses say."""

from __future__ import annotations

import pytest

from podwright.api import crd
from podwright.api.topology import parse_topology
from podwright.core.objects.errors import InvalidObjectError
from podwright.kube.kinds import KAI_TOPOLOGY
from podwright.kube.topologies.door import OtherTopologyDoor, TopologySink, TopologyStatuses
from podwright.kube.write.object_status import SeenObject
from podwright.sandbox.schemas import Schema
from support.engine.kit import Rig
from support.objects.builders import make_topology

SCHEMA = Schema(crd.crd("Topology")["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


class Doors:
    def __init__(self):
        self.rig = Rig()
        options = {"recorder": self.rig.recorder, "scheduler_name": "podwright", "clock": lambda: 0.0}
        self.statuses = TopologyStatuses(None, self.rig.engine, **options)
        self.sink = TopologySink(self.rig.engine, self.statuses)
        self.declared = self.rig.engine.cache.topologies.declared

    def seen(self, raw):
        identity, problem = raw["metadata"], ""
        try:
            parse_topology(raw)
        except InvalidObjectError as error:
            problem = str(error)
        return SeenObject(identity["uid"], 1, spec=raw["spec"], status={}, problem=problem)

    def status(self, raw):
        self.sink.put(raw)
        name = raw["metadata"]["name"]
        status = self.statuses.status_of(name, self.seen(raw), "2026-01-01T00:00:00Z")
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
    assert it.statuses.warnings_of(status) == {"LabelsMissing": active["message"]}


def test_a_level_that_no_node_has_is_named(it):
    it.rig.node("a", labels={"zone": "z"})
    active = it.status(make_topology("zone", "rack"))["conditions"][1]
    assert (active["status"], active["message"].partition(" or ")[0]) == ("False", "1 of 1 nodes lack rack")


def test_the_last_valid_version_stays(it):
    it.status(make_topology("zone"))
    status = it.status({**make_topology(), "spec": {"levels": []}})
    assert status["conditions"][0]["status"] == "False"
    assert it.declared == {"podwright.dev/default": ("zone",)}
    it.sink.drop("default", None)
    assert it.declared == {}


def test_topologies_of_another_api_are_read_while_they_can_be(it):
    sink = OtherTopologyDoor(it.rig.engine, KAI_TOPOLOGY).begin(KAI_TOPOLOGY[0])
    raw = make_topology("zone", "rack", name="dc", api="kai.scheduler/v1alpha1")
    sink.put(raw)
    sink.put({**raw, "spec": {"levels": "zone"}})
    assert it.declared == {"kai.scheduler/dc": ("zone", "rack")}
    sink.drop("dc", None)
    assert it.declared == {}
