"""Topologies: what is wrong with one is named with its field, by the parser as by the CRD; those of others are read."""

from __future__ import annotations

from typing import Any

import pytest

from podwright.api import crd
from podwright.api.topology import MAX_PATTERNS, levels_of, parse_hyper_node, parse_topology
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.sub_groups import MAX_LEVELS
from podwright.sandbox.schemas import Schema
from support.objects.builders import make_hyper_node, make_topology

SCHEMA = Schema(crd.crd("Topology")["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def test_the_levels_are_labels_in_their_order():
    raw = make_topology("zone", "example.com/rack")
    assert SCHEMA.problems(raw) == []
    assert parse_topology(raw) == levels_of(raw) == ("zone", "example.com/rack")


@pytest.mark.parametrize(
    ("levels", "field"),
    [
        pytest.param([], "spec.levels", id="no levels"),
        pytest.param([{}], "spec.levels[0].nodeLabel", id="no label"),
        pytest.param([{"nodeLabel": ""}], "spec.levels[0].nodeLabel", id="an empty label"),
        pytest.param([{"nodeLabel": "a b"}], "spec.levels[0].nodeLabel", id="no label key"),
        pytest.param([{"nodeLabel": "a"}, {"nodeLabel": "a"}], "spec.levels", id="a label twice"),
        pytest.param([{"nodeLabel": f"l{i}"} for i in range(MAX_LEVELS + 1)], "spec.levels", id="too many"),
        pytest.param("zone", "spec.levels", id="no list"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(levels: Any, field: str):
    raw = {**make_topology(), "spec": {"levels": levels}}
    with pytest.raises(InvalidObjectError) as caught:
        parse_topology(raw)
    assert "Topology default" in str(caught.value)
    assert field in str(caught.value)


@pytest.mark.parametrize(
    "spec", [None, {}, {"levels": []}, {"levels": [1]}, {"levels": [{"nodeLabel": 1}]}, {"levels": 3}]
)
def test_a_topology_of_another_api_that_cannot_be_read_says_so(spec: Any):
    with pytest.raises(InvalidObjectError, match="spec"):
        levels_of({"metadata": {"name": "t"}, "spec": spec})


def test_a_topology_needs_a_name():
    with pytest.raises(InvalidObjectError):
        parse_topology({**make_topology("zone"), "metadata": {}})


def test_a_hyper_node_picks_nodes_and_other_hyper_nodes():
    exact, pattern = {"exactMatch": {"name": "n1"}}, {"regexMatch": {"pattern": "^n-[0-9]+$"}}
    labels = {"labelMatch": {"matchLabels": {"rack": "r1"}}}
    found = parse_hyper_node(make_hyper_node("s", 2, exact, pattern, labels, {"labelMatch": {}}, "s1", tierName="rack"))
    assert (found.tier, found.tier_name, found.nodes, found.patterns) == (2, "rack", {"n1"}, ("^n-[0-9]+$",))
    assert found.members == {"s1"}
    assert [each.matches({"rack": "r1"}) for each in found.selectors] == [True]


@pytest.mark.parametrize(
    ("member", "problem"),
    [
        ({"type": "Rack"}, "spec.members[0].type: 'Rack' is neither Node nor HyperNode"),
        ({"type": "Node", "selector": {"exactMatch": {"name": 1}}}, "spec.members[0].selector.exactMatch.name"),
        ({"type": "HyperNode", "selector": {"regexMatch": {"pattern": "a"}}}, "spec.members[0].selector.exactMatch.name"),
        ({"type": "Node", "selector": {"regexMatch": {"pattern": "(a"}}}, "spec.members[0].selector.regexMatch.pattern: error parsing"),
        ({"type": "Node", "selector": {"regexMatch": {"pattern": "(.{900}){9}"}}}, "spec.members[0].selector.regexMatch.pattern"),
        ({"type": "Node", "selector": {"labelMatch": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}}, "spec.members[0].selector.labelMatch"),
        ("node", "spec.members[0]"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_hyper_node_is_named(member: Any, problem: str):
    with pytest.raises(InvalidObjectError) as caught:
        parse_hyper_node(make_hyper_node("s0", 1, members=[member]))
    assert "HyperNode s0" in str(caught.value)
    assert problem in str(caught.value)


def test_the_patterns_of_a_hyper_node_are_bounded():
    patterns = [{"regexMatch": {"pattern": f"^n{each}"}} for each in range(MAX_PATTERNS + 1)]
    assert len(parse_hyper_node(make_hyper_node("s", 1, *patterns[1:])).patterns) == MAX_PATTERNS
    with pytest.raises(InvalidObjectError, match="at most 64 patterns"):
        parse_hyper_node(make_hyper_node("s", 1, *patterns))
