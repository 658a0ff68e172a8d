"""Which sent nodes differ from the cache's, and decisions on them."""

import pytest

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import parse_node
from podwright.extender.server import sent_nodes
from podwright.extender.server.sent_nodes import InPlace, differing
from support.engine.kit import on_node
from support.extender.kit import ExtenderRig
from support.objects.builders import make_node, make_pod, make_taint


def version(raw, number):
    return {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(number)}}


@pytest.fixture
def rig():
    rig = ExtenderRig()
    rig.nodes.put(version(make_node("a"), 5))
    return rig


def test_a_node_of_the_delivered_version_is_not_parsed(rig, monkeypatch):
    monkeypatch.setattr(sent_nodes, "parse_known_node", None)
    assert differing(rig.cache, rig.nodes, version(make_node("a"), 5)) == ("a", None)


def test_a_heartbeat_is_a_delivered_version_too(rig, monkeypatch):
    rig.nodes.put(version(make_node("a"), 6))
    monkeypatch.setattr(sent_nodes, "parse_known_node", None)
    assert differing(rig.cache, rig.nodes, version(make_node("a"), 6)) == ("a", None)


def test_another_version_without_a_difference_is_the_same(rig):
    assert differing(rig.cache, rig.nodes, version(make_node("a"), 4)) == ("a", None)


@pytest.mark.parametrize("name", ["a", "new"])
def test_another_node_is_parsed(rig, name):
    found, node = differing(rig.cache, rig.nodes, version(make_node(name, taints=[make_taint("x")]), 4))
    assert (found, [taint.key for taint in node.taints]) == (name, ["x"])


def test_a_deleted_node_is_sent_as_a_new_one(rig):
    rig.nodes.drop("a", None)
    assert differing(rig.cache, rig.nodes, version(make_node("a"), 5))[1] is not None


def test_a_node_without_a_name_is_invalid(rig):
    with pytest.raises(InvalidObjectError):
        differing(rig.cache, rig.nodes, {"metadata": {}})


def node(name, cpu):
    return parse_node(make_node(name, allocatable={"cpu": cpu}))


def test_nodes_in_place_leave_no_trace(rig):
    there = on_node(make_pod("there", requests={"cpu": "1"}), "new")
    rig.rig.engine.assigned.put(there)
    before = rig.cache.present("a").node
    sent = [node("a", "2"), node("new", "2"), node("new", "3")]
    nodes = InPlace(rig.cache, sent)
    nodes.put()
    assert rig.cache.present("a").node is sent[0]
    assert rig.cache.present("new").node is sent[2]
    assert rig.cache.present("new").requested["cpu"] == 1000
    assert rig.cache.table.count == 2
    nodes.back()
    assert rig.cache.present("a").node is before
    assert rig.cache.present("new") is None
    assert rig.cache.table.count == 1
    assert rig.cache.placement("default/there").name == "new"
