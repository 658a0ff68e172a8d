"""Trees of sub-groups: what is wrong with one is named, and a large one is read in one go."""

from __future__ import annotations

import pytest

from podwright.core.objects.closeness import ANYWHERE, HYPER_NODES, LOWEST_TIER, Closeness
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import (
    GROVE_API,
    GROVE_KIND,
    KAI_KIND,
    VOLCANO_KIND,
    group_key,
    parse_pod_group,
)
from podwright.core.objects.sub_groups import MAX_LEVELS
from podwright.core.objects.volcano_groups import MAX_POLICIES
from support.objects.builders import make_pod


def parsed(kind=KAI_KIND, **spec):
    return parse_pod_group(kind, {"metadata": {"name": "g", "namespace": "default"}, "spec": spec})


def chain(count):
    return [{"name": f"s{i}", **({"parent": f"s{i - 1}"} if i else {})} for i in range(count)]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param([{"minMember": 1}], "spec.subGroups[0].name", id="no name"),
        pytest.param([{"name": "a"}, {"name": "a"}], "spec.subGroups[1].name: 'a' is there twice", id="twice"),
        pytest.param(
            [{"name": "a", "parent": "b"}], "spec.subGroups[0].parent: there is no sub-group 'b'", id="parent"
        ),
        pytest.param(
            [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}, {"name": "c"}],
            "parents form a circle",
            id="circle",
        ),
        pytest.param(chain(MAX_LEVELS + 1), f"it is below more than {MAX_LEVELS} others", id="deep"),
        pytest.param([{"name": "a", "minMember": -1}], "spec.subGroups[0].minMember", id="minimum"),
        pytest.param([7], "spec.subGroups[0]", id="no object"),
    ],
)
def test_what_is_wrong_is_named(spec, problem):
    with pytest.raises(InvalidObjectError) as caught:
        parsed(subGroups=spec)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ({"subGroupSize": 0}, "spec.subGroupPolicy[0].subGroupSize"),
        ({"minSubGroups": "2"}, "spec.subGroupPolicy[0].minSubGroups"),
        ({"matchLabelKeys": [7]}, "spec.subGroupPolicy[0].matchLabelKeys[0]"),
        (
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
            "spec.subGroupPolicy[0].labelSelector",
        ),
    ],
)
def test_what_is_wrong_with_a_policy_of_volcano_is_named(policy, problem):
    with pytest.raises(InvalidObjectError) as caught:
        parsed(VOLCANO_KIND, minMember=1, subGroupPolicy=[policy])
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "required"),
    [
        ({"mode": "hard", "highestTierAllowed": 2}, ("tier 2",)),
        ({"highestTierAllowed": 0}, ("tier 0",)),
        ({"highestTierName": "rack"}, ("tier named rack",)),
        ({"mode": "soft", "highestTierAllowed": 2}, ()),
        ({}, ()),
    ],
)
def test_groups_and_policies_of_volcano_ask_for_a_hyper_node(asked, required):
    policy = {"name": "a", "matchLabelKeys": ["k"], "minSubGroups": 1, "networkTopology": asked}
    found = parsed(VOLCANO_KIND, minMember=1, networkTopology=asked, subGroupPolicy=[policy])
    assert found.near == found.tree.children[0].near == Closeness(required, LOWEST_TIER, HYPER_NODES)
    assert parsed(VOLCANO_KIND, minMember=1).near == ANYWHERE


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"mode": "firm"}, "spec.networkTopology.mode: 'firm'"),
        ({"highestTierAllowed": "2"}, "spec.networkTopology.highestTierAllowed"),
        (
            {"highestTierAllowed": 0, "highestTierName": "a"},
            "highestTierAllowed and highestTierName exclude each other",
        ),
        ([], "spec.networkTopology"),
    ],
)
def test_what_is_wrong_with_a_network_topology_is_named(asked, problem):
    with pytest.raises(InvalidObjectError) as caught:
        parsed(VOLCANO_KIND, minMember=1, networkTopology=asked)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("policies", "problem"),
    [
        ([{"name": "a"}, {"name": "b"}, {"name": "a"}], "spec.subGroupPolicy[2].name: 'a' is there twice"),
        (
            [{"name": f"p{i}"} for i in range(MAX_POLICIES + 1)],
            "spec.subGroupPolicy: has 65 entries, at most 64 are read",
        ),
    ],
)
def test_what_is_wrong_with_the_policies_together_is_named(policies, problem):
    with pytest.raises(InvalidObjectError) as caught:
        parsed(VOLCANO_KIND, minMember=1, subGroupPolicy=policies)
    assert problem in str(caught.value)


def test_ten_thousand_leaves():
    found = parsed(subGroups=[{"name": f"s{i}", "minMember": 2} for i in range(10_000)], minSubGroup=9_000)
    assert (found.min_count, found.gang, len(found.tree.children)) == (18_000, True, 10_000)


def test_a_minimum_above_the_number_of_parts_is_never_met():
    assert parsed(subGroups=[{"name": "a", "minMember": 2}], minSubGroup=3).min_count == 4


def test_parts_without_minimums_are_no_gang():
    found = parsed(subGroups=[{"name": "a", "minMember": 0}], minSubGroup=0)
    assert (found.gang, found.min_count) == (False, 1)


def pod_gang(**spec):
    return parsed(GROVE_KIND, **spec)


def podgroup(name, replicas, *pods, **pack):
    refs = [{"namespace": "default", "name": each} for each in pods]
    constraint = {"topologyConstraint": {"packConstraint": pack}} if pack else {}
    return {"name": name, "minReplicas": replicas, "podReferences": refs, **constraint}


def test_a_pod_gang_of_grove():
    found = pod_gang(
        podgroups=[podgroup("a", 2, "a-0", required="rack"), podgroup("b", 3), podgroup("c", 1)],
        topologyConstraint={"packConstraint": {"required": "zone", "preferred": "block"}},
        topologyConstraintGroupConfigs=[
            {"name": "ab", "podGroupNames": ["a", "b"], "topologyConstraint": {"packConstraint": {"required": "block"}}}
        ],
    )
    assert (found.gang, found.min_count, found.near) == (True, 6, Closeness(("zone",), "block"))
    assert [(each.name, each.near.required, each.groups) for each in found.tree.children] == [
        ("ab (set)", ("block",), 2), ("c", (), 0),
    ]  # fmt: skip
    assert [each.near.required for each in found.tree.children[0].children] == [("rack",), ()]
    labels = {"grove.io/podgang": "g", "grove.io/podclique": "b"}
    pods = [parse_pod(make_pod(name, labels=labels)) for name in ("a-0", "b-0")]
    assert {each.group for each in pods} == {group_key(GROVE_API, "default", "g")}
    assert [found.part_of(each) for each in pods] == ["a", "b"], "a reference counts more than a label"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"podgroups": [podgroup("a", 1), podgroup("a", 1)]}, "spec.podgroups[1].name: 'a' is there twice"),
        ({"podgroups": [podgroup("a", -1)]}, "spec.podgroups[0].minReplicas"),
        (
            {"podgroups": [], "topologyConstraintGroupConfigs": [{"name": "s", "podGroupNames": ["x"]}]},
            "spec.topologyConstraintGroupConfigs[0].podGroupNames: there is no other pod group 'x'",
        ),
        (
            {"podgroups": [], "topologyConstraintGroupConfigs": [{"name": "s"}, {"name": "s"}]},
            "spec.topologyConstraintGroupConfigs[1].name: 's' is there twice",
        ),
        ({"podgroups": [podgroup("a", 1, required=7)]}, "spec.podgroups[0].topologyConstraint.packConstraint.required"),
    ],
)
def test_what_is_wrong_with_a_pod_gang_is_named(spec, problem):
    with pytest.raises(InvalidObjectError) as caught:
        pod_gang(**spec)
    assert problem in str(caught.value)
    assert "PodGang default/g" in str(caught.value)


def test_what_a_group_of_kai_asks_of_a_topology():
    constraint = {"topology": "dc", "requiredTopologyLevel": "zone", "preferredTopologyLevel": "rack"}
    segments = {"segmentSize": 4, "segmentRequiredTopologyLevel": "rack", "podIndexLabel": "number"}
    spec = {
        "topologyConstraint": {**constraint, "segmentSize": 4, "segmentRequiredTopologyLevel": "rack"},
        "subGroups": [
            {"name": "a", "minMember": 4, "topologyConstraint": {"topology": "dc", **segments}},
            {"name": "b", "minMember": 1},
        ],
    }
    found = parse_pod_group(KAI_KIND, {"metadata": {"name": "g"}, "spec": spec})
    assert found.near == Closeness(("zone",), "rack", "kai.scheduler/dc")
    assert [each.near for each in found.tree.children] == [
        Closeness((), "", "kai.scheduler/dc", "rack", 4, "number"),
        Closeness(),
    ]
    segments["segmentSize"] = 0
    with pytest.raises(InvalidObjectError, match=r"spec.subGroups\[0\].topologyConstraint.segmentSize"):
        parse_pod_group(
            KAI_KIND,
            {"metadata": {"name": "g"}, "spec": {**spec, "subGroups": [{"name": "a", "topologyConstraint": segments}]}},
        )
