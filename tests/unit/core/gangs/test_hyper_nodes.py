"""Gangs of Volcano in HyperNodes: which one is taken, by the group and by its sub-groups, and what is said of none."""

from __future__ import annotations

from typing import Any

import pytest

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.api.topology import parse_hyper_node
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangFault, GangPlacement, GangRejection
from podwright.core.gangs.plan import GangPlanner
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import VOLCANO_API, VOLCANO_KIND, group_key
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.objects.builders import make_hyper_node, make_node, make_pod

KEY = group_key(VOLCANO_API, "default", "gang")


class Switches:
    """Nodes `<switch>-<number>` with so many CPUs each. The switches, of tier 1, are below `left` and `right`, of tier
    2; `alone` is below none, and `other` has no switch.
    """

    def __init__(self, rooms: dict[str, int], spec: dict[str, Any], *, hyper_nodes: bool = True) -> None:
        self.world = World()
        nodes = [make_node(name, allocatable={"cpu": str(cpu), "pods": "100"}) for name, cpu in rooms.items()]
        self.world.fill({"nodes": nodes})
        self.cache = self.world.cache
        below = {"left": ("a", "b"), "right": ("c", "d")}
        raws = [
            *(
                make_hyper_node(each, 1, {"regexMatch": {"pattern": f"^{each}-"}})
                for each in ("a", "b", "c", "d", "alone")
            ),
            *(make_hyper_node(name, 2, *switches, tierName="row") for name, switches in below.items()),
        ]
        for raw in raws if hyper_nodes else ():
            self.cache.topologies.hyper_nodes.set(raw["metadata"]["name"], parse_hyper_node(raw))
        metadata = {"name": "gang", "namespace": "default", "uid": "gang"}
        self.cache.set_object(VOLCANO_KIND, {"metadata": metadata, "spec": spec})
        self.cache.groups.serve(VOLCANO_API)
        self.framework = Framework(default_profile("podwright", PLUGINS, self.world.features), PLUGINS, self.world)

    def pod(self, name: str, node: str = "", **labels: str) -> Any:
        raw = make_pod(name, requests={"cpu": "1"}, labels=labels, node=node)
        raw["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "gang"}
        return parse_pod(raw, keep_raw=True)

    def plan(self, *pods: Any) -> Any:
        for pod in pods:
            self.cache.groups.add_waiting(pod)
        group = self.cache.groups.get(KEY)
        assert group is not None
        return GangPlanner(self.framework, self.cache, group, lambda _n: 0).plan(
            self.cache.groups.members(KEY).unplaced()
        )

    def switches(self, members: int) -> str:
        decision = self.plan(*(self.pod(f"p{each}") for each in range(members)))
        assert isinstance(decision, GangPlacement), decision
        return "".join(sorted(placement.node_name.partition("-")[0] for placement in decision.placements))


def asking(members: int, **topology: Any) -> dict[str, Any]:
    return {"minMember": members, "networkTopology": topology}


@pytest.mark.parametrize(
    ("rooms", "topology", "expected"),
    [
        ({"a-0": 2, "b-0": 4, "c-0": 3}, {"highestTierAllowed": 2}, "ccc"),
        ({"a-0": 2, "b-0": 1, "c-0": 2, "other": 9}, {"highestTierAllowed": 2}, "aab"),
        ({"a-0": 2, "b-0": 1, "c-0": 2}, {"highestTierName": "row"}, "aab"),
        ({"a-0": 2, "b-0": 1, "alone-0": 3}, {"highestTierAllowed": 2}, "alonealonealone"),
        ({"a-0": 2, "c-0": 1, "b-0": 0}, {"mode": "soft", "highestTierAllowed": 1}, "aac"),
        ({"a-0": 2, "c-0": 1}, {"mode": "hard"}, "aac"),
        ({"a-0": 1, "other": 9}, {"mode": "soft"}, "otherotherother"),
        ({"a-0": 2, "b-0": 1, "d-0": 3}, {"highestTierAllowed": 7}, "ddd"),
    ],
)
def test_the_fullest_of_the_lowest_tier_that_takes_all(rooms, topology, expected):
    assert Switches(rooms, asking(3, **topology)).switches(3) == expected


@pytest.mark.parametrize(
    ("topology", "hyper_nodes", "problem"),
    [
        ({"highestTierAllowed": 1}, True, "HyperNode a: room for 2 of 3"),
        ({"highestTierAllowed": 0}, True, "no node is in a HyperNode of tier 0 or lower"),
        ({"highestTierName": "hall"}, True, "no node is in a HyperNode of tier named hall or lower"),
        ({"highestTierAllowed": 2}, False, "no node is in a HyperNode of tier 2 or lower"),
    ],
)
def test_what_has_no_room_is_named(topology, hyper_nodes, problem):
    it = Switches({"a-0": 2, "b-0": 1, "other": 9}, asking(3, **topology), hyper_nodes=hyper_nodes)
    decision = it.plan(*(it.pod(f"p{each}") for each in range(3)))
    assert isinstance(decision, GangRejection)
    assert problem in decision.message


def test_without_hyper_nodes_soft_is_anywhere():
    assert Switches({"a-0": 2, "b-0": 1}, asking(3, mode="soft"), hyper_nodes=False).switches(3) == "aab"


def test_each_sub_group_is_in_a_hyper_node_of_its_own_within_that_of_the_group():
    policy = {"matchLabelKeys": ["replica"], "subGroupSize": 2, "networkTopology": {"highestTierAllowed": 1}}
    rooms = {"a-0": 3, "b-0": 3, "c-0": 9, "other": 9}
    it = Switches(rooms, {**asking(4, highestTierAllowed=2), "subGroupPolicy": [{**policy, "minSubGroups": 2}]})
    decision = it.plan(*(it.pod(f"p{each}", replica=str(each // 2)) for each in range(4)))
    found = {placement.pod.name: placement.node_name for placement in decision.placements}
    assert set(found.values()) == {"c-0"}
    rooms["c-0"] = 3
    it = Switches(rooms, {**asking(4, highestTierAllowed=2), "subGroupPolicy": [{**policy, "minSubGroups": 2}]})
    decision = it.plan(*(it.pod(f"p{each}", replica=str(each // 2)) for each in range(4)))
    found = {placement.pod.name: placement.node_name for placement in decision.placements}
    assert found["p0"] == found["p1"] != found["p2"] == found["p3"]
    assert set(found.values()) == {"a-0", "b-0"}


def test_a_member_that_died_is_replaced_beside_the_others():
    it = Switches({"a-0": 1, "b-0": 3, "c-0": 2}, asking(2, highestTierAllowed=1))
    it.cache.set_pod(it.pod("there", node="c-0"))
    assert it.switches(1) == "c"
    it.cache.set_pod(it.pod("p9", node="b-0"))
    decision = it.plan()
    assert isinstance(decision, GangFault)
    assert "more than 1 domain found for pod group: " in decision.message


def test_a_hyper_node_that_comes_counts():
    it = Switches({"other": 3}, asking(3, highestTierAllowed=2))
    assert isinstance(it.plan(*(it.pod(f"p{each}") for each in range(3))), GangRejection)
    version = it.cache.version
    raw = make_hyper_node("new", 2, {"exactMatch": {"name": "other"}})
    it.cache.topologies.hyper_nodes.set("new", parse_hyper_node(raw))
    assert it.cache.version != version
    assert isinstance(it.plan(), GangPlacement)
