"""The planner alone: what it decides, and that it leaves the cache unchanged."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from podwright.core.gangs.decisions import GangFault, GangPlacement, GangRejection
from support.gangs.cluster import GangCluster, ported
from support.objects.builders import in_group, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
RACK = "rack"


def racks(*sizes: int, cpu: str = "4") -> list[dict[str, Any]]:
    """Racks r0, r1, … with these numbers of nodes."""
    return [
        make_node(f"r{rack}-{index}", labels={RACK: f"r{rack}"}, allocatable={"cpu": cpu})
        for rack, size in enumerate(sizes)
        for index in range(size)
    ]


def member_on(name: str, node: str, cpu: str = "2") -> dict[str, Any]:
    return make_pod(name, node=node, requests={"cpu": cpu}, spec=in_group(), status={"phase": "Running"})


class TestOneSimulation:
    def test_members_count_for_each_other(self):
        cluster = GangCluster(racks(2), min_count=4, members=4)
        decision = cluster.plan()
        assert isinstance(decision, GangPlacement)
        assert Counter(p.node_name for p in decision.placements) == {"r0-0": 2, "r0-1": 2}

    def test_a_plan_leaves_the_cache_unchanged(self):
        cluster = GangCluster(racks(2), min_count=4, members=4)
        before = cluster.cache.table.requested("cpu").copy()
        cluster.cache.nominator.add(cluster.pods[1], "r0-1")
        cluster.plan()
        assert cluster.cache.pod_count == 0
        assert (cluster.cache.table.requested("cpu") == before).all()
        assert cluster.cache.nominator.node_of("default/p1") == "r0-1"

    def test_nominations_of_its_own_group_do_not_keep_a_member_out(self):
        cluster = GangCluster(racks(1), min_count=2, members=2)
        for pod in cluster.pods:
            cluster.cache.nominator.add(pod, "r0-0")
        assert isinstance(cluster.plan(), GangPlacement)

    def test_it_stops_once_the_minimum_is_out_of_reach(self):
        cluster = GangCluster(racks(1), min_count=5, members=6)
        decision = cluster.plan()
        assert isinstance(decision, GangRejection)
        assert decision.message == "minCount (5) cannot be satisfied: 2 scheduled, 2 remaining"
        assert set(decision.attempts) == {f"default/p{i}" for i in range(4)}
        assert decision.plugins == {"GangScheduling", "NodeResourcesFit"}

    def test_too_few_members_are_not_tried(self):
        decision = GangCluster(racks(1), min_count=3, members=2).plan()
        assert isinstance(decision, GangRejection)
        assert decision.message == "minCount (3) cannot be satisfied: 0 scheduled, 2 remaining"
        assert decision.attempts == {}

    def test_a_group_is_rejected_if_no_waiting_member_fits_even_if_enough_are_placed(self):
        cluster = GangCluster(racks(1), min_count=1, members=1, placed=[member_on("there", "r0-0", "4")])
        decision = cluster.plan()
        assert isinstance(decision, GangRejection)
        assert decision.message == ""


CONSTRAINT = {"topology": [{"key": RACK}]}


class TestTopologyConstraint:
    def test_all_members_are_in_one_domain(self):
        cluster = GangCluster(racks(1, 3, 1), min_count=4, members=4, schedulingConstraints=CONSTRAINT)
        assert cluster.domains(cluster.plan()) == {"r1": 4}

    def test_the_smallest_domain_with_enough_capacity_is_taken(self):
        cluster = GangCluster(racks(4, 2, 3), min_count=4, members=4, schedulingConstraints=CONSTRAINT)
        assert cluster.domains(cluster.plan()) == {"r1": 4}

    def test_the_domain_that_takes_most_is_taken_if_none_takes_all(self):
        cluster = GangCluster(racks(1, 3, 2), min_count=2, members=9, schedulingConstraints=CONSTRAINT)
        assert cluster.domains(cluster.plan()) == {"r1": 6}

    def test_without_a_domain_with_enough_capacity_the_group_is_rejected(self):
        cluster = GangCluster(racks(1, 1), min_count=3, members=3, schedulingConstraints=CONSTRAINT)
        decision = cluster.plan()
        assert isinstance(decision, GangRejection)
        assert decision.message == (
            "0/2 placements are available, first placement status: "
            "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining; rack r0: room for 2 of 3"
        )

    def test_nodes_without_the_label_are_in_no_domain(self):
        cluster = GangCluster([make_node("bare")], min_count=1, schedulingConstraints=CONSTRAINT)
        decision = cluster.plan()
        assert isinstance(decision, GangRejection)
        assert decision.message == "0/0 placements are available; no node has the label rack"

    def test_placed_members_determine_the_domain(self):
        there = member_on("there", "r2-0")
        cluster = GangCluster(racks(2, 3, 4), min_count=2, members=2, placed=[there], schedulingConstraints=CONSTRAINT)
        assert cluster.domains(cluster.plan()) == {"r2": 2}

    def test_placed_members_determine_it_even_if_it_is_full(self):
        there = member_on("there", "r1-0", "4")
        cluster = GangCluster(racks(3, 1), min_count=1, members=1, placed=[there], schedulingConstraints=CONSTRAINT)
        decision = cluster.plan()
        assert isinstance(decision, GangRejection)
        assert decision.message.startswith("0/1 placements are available")

    def test_the_domain_that_takes_most_is_taken_even_if_another_has_a_higher_bound(self):
        """Bounds do not count host ports, of which a node has one for all of its pods."""
        cluster = GangCluster(
            racks(2, 4, cpu="8"), min_count=2, members=9, cpu="1", ports=True, schedulingConstraints=CONSTRAINT
        )
        assert cluster.domains(cluster.plan()) == {"r1": 4}

    def test_the_plugins_that_rejected_members_in_any_domain_are_named(self):
        """One rack has too little CPU; on the other a pod uses the members' host port."""
        busy = make_pod("busy", node="r1-0", spec={"containers": [ported()]}, status={"phase": "Running"})
        nodes = [*racks(0, 1), *[make_node("r0-0", labels={RACK: "r0"}, allocatable={"cpu": "1"})]]
        cluster = GangCluster(nodes, cpu="2", ports=True, placed=[busy], schedulingConstraints=CONSTRAINT)
        decision = cluster.plan()
        assert isinstance(decision, GangRejection)
        assert decision.plugins == {"GangScheduling", "NodePorts", "NodeResourcesFit", "TopologyPlacementGenerator"}

    def test_the_plugins_that_exclude_domains_without_a_simulation_are_named(self):
        tainted = [{**node, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}} for node in racks(1)]
        small = make_node("r1-0", labels={RACK: "r1"}, allocatable={"cpu": "1"})
        cluster = GangCluster([*tainted, small], schedulingConstraints=CONSTRAINT)
        decision = cluster.plan()
        assert isinstance(decision, GangRejection)
        assert {"NodeResourcesFit", "TaintToleration"} <= decision.plugins

    def test_members_in_two_domains_are_a_fault(self):
        there = [member_on("x", "r0-0"), member_on("y", "r1-0")]
        cluster = GangCluster(racks(1, 1), min_count=1, placed=there, schedulingConstraints=CONSTRAINT)
        decision = cluster.plan()
        assert isinstance(decision, GangFault)
        assert decision.message.startswith("cannot determine domain for already scheduled pods: more than 1 domain")


class TestPacking:
    def test_one_domain_is_used_if_it_is_large_enough(self):
        cluster = GangCluster(racks(5, 2, 3), min_count=4, members=4)
        assert cluster.domains(cluster.plan(pack_by=RACK)) == {"r1": 4}

    def test_as_few_domains_as_possible(self):
        cluster = GangCluster(racks(1, 3, 2, 1), min_count=8, members=8)
        assert cluster.domains(cluster.plan(pack_by=RACK)) == {"r1": 6, "r0": 2}

    def test_domains_of_placed_members_come_first(self):
        there = member_on("there", "r2-0")
        cluster = GangCluster(racks(2, 2, 3), min_count=2, members=3, placed=[there])
        assert cluster.domains(cluster.plan(pack_by=RACK)) == {"r2": 3}

    def test_domains_of_placed_members_with_one_more_come_before_another_domain_alone(self):
        there = member_on("there", "r2-0")
        cluster = GangCluster(racks(3, 2, 2), min_count=5, members=5, placed=[there])
        assert cluster.domains(cluster.plan(pack_by=RACK)).keys() == {"r1", "r2"}

    def test_a_label_that_no_node_has_is_ignored(self):
        cluster = GangCluster(racks(2), min_count=4, members=4)
        assert isinstance(cluster.plan(pack_by="no-such-label"), GangPlacement)

    def test_domains_whose_capacity_is_overestimated_are_not_used(self):
        """A taint keeps members off the largest rack."""
        closed = [{**node, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}} for node in racks(4)]
        open_ = [make_node(f"o{i}", labels={RACK: f"o{i // 2}"}, allocatable={"cpu": "4"}) for i in range(4)]
        cluster = GangCluster([*closed, *open_], min_count=8, members=8)
        assert cluster.domains(cluster.plan(pack_by=RACK)) == {"o0": 4, "o1": 4}

    @pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 1), (2, 2, 2)])
    def test_packing_never_places_fewer_members(self, sizes):
        members = 2 * sum(sizes)
        cluster = GangCluster(racks(*sizes), min_count=members, members=members)
        assert sum(cluster.domains(cluster.plan(pack_by=RACK)).values()) == members
