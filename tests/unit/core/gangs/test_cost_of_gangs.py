"""The cost of planning and preemption for a gang, counted: pods removed from the cache, members scheduled, units
checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from podwright.core.gangs import branches
from podwright.core.gangs.decisions import GangPlacement, GangPreemption, GangRejection
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.gangs.reprieve import Reprieve
from podwright.core.gangs.simulation import Simulation
from podwright.core.objects.pod import parse_pod
from podwright.core.state.cache import Cache
from support.gangs.kit import HOST, NOW, ZONE, FullCluster, budget, group_of, one, room
from support.objects.builders import in_group, make_node, make_pod

NODES = 40
CONTAINER = {
    "name": "main",
    "image": "app",
    "ports": [{"containerPort": 80, "hostPort": 80}],
    "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}},
}


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts pods removed from the cache (`removed`), members scheduled (`scheduled`) and units that ask for a reprieve
    (`units`).
    """
    counts: Counter[str] = Counter()
    remove_pods, schedule, reprieve_unit = Cache.remove_pods, Simulation.schedule, Reprieve.reprieve_unit

    def count_removed(self: Cache, by_node: Any) -> Any:
        counts["removed"] += sum(map(len, by_node.values()))
        return remove_pods(self, by_node)

    def count_scheduled(self: Simulation, pod: Any) -> Any:
        counts["scheduled"] += 1
        return schedule(self, pod)

    def count_units(self: Reprieve, unit: Any) -> bool:
        counts["units"] += 1
        return reprieve_unit(self, unit)

    with (
        mock.patch.object(Cache, "remove_pods", count_removed),
        mock.patch.object(Simulation, "schedule", count_scheduled),
        mock.patch.object(Reprieve, "reprieve_unit", count_units),
    ):
        yield counts


def decided(cluster: FullCluster) -> tuple[Any, Counter[str]]:
    with counted() as counts:
        return decide(cluster.planner, cluster.members, NOW), counts


def full_of_pods(cpu: int = 4, priority: int = 0, nodes: int = NODES, **options: Any) -> list[dict[str, Any]]:
    """Pods of one CPU that fill every node."""
    return [one(f"p{i}-{j}", f"n{i}", priority, **options) for i in range(nodes) for j in range(cpu)]


def rooms(cpu: int = 4, nodes: int = NODES) -> list[dict[str, Any]]:
    return [room(f"n{i}", cpu, f"z{i % 4}") for i in range(nodes)]


class TestNoEvictionHelps:
    @pytest.mark.parametrize(
        "options",
        [
            pytest.param({"member": {"requests": {"cpu": "5"}}}, id="members larger than any node"),
            pytest.param({"member": {"spec": {"nodeSelector": {"absent": "yes"}}}}, id="members whose node selector matches no node"),
            pytest.param({"members": 2, "min_count": 9}, id="too few members"),
            pytest.param({"members": 60, "member": {"requests": {"cpu": "3"}}}, id="more members than nodes"),
            pytest.param(
                {"member": {"requests": {"cpu": "3"}}, "group": {"schedulingConstraints": {"topology": [{"key": HOST}]}}},
                id="members of which no domain takes two",
            ),
        ],
    )  # fmt: skip
    def test_no_pod_is_removed_for_a_gang_that_does_not_fit_on_empty_nodes(self, options):
        decision, counts = decided(FullCluster(rooms(), full_of_pods(), **{"members": 8, **options}))
        assert isinstance(decision, GangRejection)
        assert decision.preemption is None
        assert "pod group preemption: " in decision.message
        assert counts["removed"] == 0
        assert counts["scheduled"] <= 60

    def test_a_gang_is_not_planned_again_if_pods_of_higher_priority_leave_too_little(self):
        placed = [*full_of_pods(2, priority=200), *[one(f"low{i}", f"n{i}") for i in range(NODES)]]
        cluster = FullCluster(rooms(), placed, members=2, member={"requests": {"cpu": "3"}})
        with mock.patch.object(GangPlanner, "plan", autospec=True, side_effect=GangPlanner.plan) as plan:
            decision, _ = decided(cluster)
        assert isinstance(decision, GangRejection)
        assert decision.preemption is None
        assert plan.call_count == 1

    @pytest.mark.parametrize(
        ("offers", "options"),
        [
            pytest.param(
                {},
                {"config": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/gpu"]}}]},
                id="a resource that the profile ignores",
            ),
            pytest.param(
                {"cpu": "0", "pods": "0"},
                {"plugins": {"filter": {"disabled": [{"name": "NodeResourcesFit"}]}}},
                id="resources without a filter",
            ),
        ],
    )
    def test_resources_that_no_filter_checks_do_not_prevent_preemption(self, offers, options):
        member = {"requests": {"cpu": "1", "example.com/gpu": "1"}, "spec": {"containers": [CONTAINER]}}
        node = make_node("n1", labels={HOST: "n1"}, allocatable=offers)
        cluster = FullCluster([node], [one("low", "n1", spec={"containers": [CONTAINER]})], member=member, **options)
        assert cluster.victims() == ["low"]


def of_two_templates(cluster: FullCluster, other: dict[str, Any]) -> FullCluster:
    """Replaces half of the members by pods of another template."""
    half = len(cluster.members) // 2
    others = [parse_pod(make_pod(f"o{i}", priority=100, **other), keep_raw=True) for i in range(half)]
    for old, new in zip(cluster.members[:half], others, strict=True):
        cluster.cache.groups.remove_waiting(old.uid)
        cluster.cache.groups.add_waiting(new)
    cluster.members[:half] = others
    return cluster


class TestMembersOfTwoTemplates:
    def test_capacity_for_one_template_does_not_count_for_the_other(self):
        large = {"requests": {"cpu": "5"}, "spec": in_group()}
        decision, counts = decided(of_two_templates(FullCluster(rooms(), full_of_pods(), members=4), large))
        assert isinstance(decision, GangRejection)
        assert counts["removed"] == 0

    def test_members_of_both_templates_need_at_least_as_much_as_the_smaller_ones(self):
        """The node takes one member of three CPUs or two of two CPUs, but never three members."""
        small = {"requests": {"cpu": "2"}, "spec": in_group()}
        cluster = FullCluster(
            rooms(nodes=1), full_of_pods(nodes=1), members=4, min_count=3, member={"requests": {"cpu": "3"}}
        )
        decision, counts = decided(of_two_templates(cluster, small))
        assert isinstance(decision, GangRejection)
        assert counts["removed"] == 0

    def test_members_of_both_templates_preempt_if_both_fit(self):
        large = {"requests": {"cpu": "3"}, "spec": in_group()}
        decision, _ = decided(of_two_templates(FullCluster(rooms(nodes=2), full_of_pods(nodes=2), members=4), large))
        assert isinstance(decision, GangRejection)
        assert decision.preemption is not None
        assert len(decision.preemption.victims) == 8


class TestRemovedPods:
    def test_pods_on_nodes_too_small_for_any_member_stay_in_place(self):
        nodes = [
            *rooms(nodes=3),
            *[make_node(f"s{i}", labels={HOST: f"s{i}"}, allocatable={"cpu": "2"}) for i in range(20)],
        ]
        small = [one(f"small{i}-{j}", f"s{i}") for i in range(20) for j in range(2)]
        cluster = FullCluster(nodes, [*full_of_pods(nodes=3), *small], members=2, member={"requests": {"cpu": "3"}})
        decision, counts = decided(cluster)
        assert len(decision.preemption.victims) == 6
        assert counts["removed"] <= 12 + 6

    def test_only_units_that_share_a_node_or_a_constraint_with_a_member_are_checked(self):
        decision, counts = decided(FullCluster(rooms(), full_of_pods(), members=2))
        assert len(decision.preemption.victims) == 2
        assert counts["removed"] <= NODES * 4 + 2
        assert counts["units"] <= 8

    def test_pods_that_stay_in_place_use_up_budgets(self):
        """The pod `far` is more important, so it uses the one eviction that the budget allows."""
        nodes = [room("n1", 3), room("n2", 1)]
        placed = [
            *[one(f"free{i}", "n1", 50) for i in range(2)],
            one("guarded", "n1", labels={"app": "db"}),
            one("far", "n2", 60, labels={"app": "db"}),
        ]
        cluster = FullCluster(
            nodes, placed, members=1, member={"requests": {"cpu": "2"}}, budgets=[budget("db", 1, {"app": "db"})]
        )
        found = cluster.preempt()
        assert isinstance(found, GangPreemption)
        assert cluster.victims() == ["free0", "free1"]

    def test_a_group_keeps_the_order_of_its_members(self):
        placed = [one(f"p{i}", f"n{i % 2}", group="g") for i in (3, 0, 1, 2)]
        cluster = FullCluster([room("n1", 2), room("n0", 2)], placed, groups=[group_of("g", 0, whole=True)])
        key = "scheduling.k8s.io:default/g"
        before = list(cluster.cache.groups.members(key).placed)
        assert isinstance(cluster.preempt(), GangPreemption)
        assert list(cluster.cache.groups.members(key).placed) == before


def constrained(key: str, nodes: list[dict[str, Any]], **options: Any) -> FullCluster:
    return FullCluster(nodes, **{"group": {"schedulingConstraints": {"topology": [{"key": key}]}}, **options})


class TestDomains:
    def test_domains_whose_bound_is_below_the_best_placement_are_not_tried(self):
        cluster = constrained(HOST, rooms(cpu=8), members=8, min_count=4, member={"requests": {"cpu": "1500m"}})
        decision, counts = decided(cluster)
        assert isinstance(decision, GangPlacement)
        assert len(decision.placements) == 5
        assert counts["scheduled"] == 8

    def test_of_domains_that_take_no_member_one_is_tried_for_its_message(self):
        cluster = constrained(HOST, rooms(), members=4, member={"spec": {"nodeSelector": {"absent": "yes"}}})
        decision, counts = decided(cluster)
        assert decision.message.startswith(f"0/{NODES} placements are available, first placement status: minCount (4)")
        assert counts["scheduled"] == 1

    def test_each_domain_with_room_is_tried_until_the_time_is_over(self, monkeypatch):
        """Each host has the resources for all members, but their anti-affinity keeps them apart."""
        apart = {"labelSelector": {"matchLabels": {"app": "gang"}}, "topologyKey": HOST}
        spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}}
        cluster = constrained(HOST, rooms(nodes=100), members=2, member={"labels": {"app": "gang"}, "spec": spec})
        with counted() as counts:
            decision = cluster.planner.plan(cluster.members)
        assert isinstance(decision, GangRejection)
        assert counts["scheduled"] == 2 * 100
        assert {"InterPodAffinity", "GangScheduling"} <= decision.plugins
        monkeypatch.setattr(branches, "MOST_WORK", 5 * (2 * 5_100 + 100))
        with counted() as counts:
            decision = cluster.planner.plan(cluster.members)
        assert counts["scheduled"] == 12
        assert "0/100 placements are available, of which 6 were tried within the bound on work," in decision.message

    def test_the_largest_domains_are_tried_if_the_bounds_of_the_tightest_are_wrong(self):
        apart = {"labelSelector": {"matchLabels": {"app": "gang"}}, "topologyKey": HOST}
        spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}}
        nodes = [*rooms(nodes=99), make_node("x0", labels={HOST: "x0", ZONE: "wide"}, allocatable={"cpu": "9"})]
        nodes = [
            {
                **node,
                "metadata": {
                    **node["metadata"],
                    "labels": {**node["metadata"]["labels"], "rack": node["metadata"]["name"]},
                },
            }
            for node in nodes
        ]
        nodes.append(make_node("x1", labels={HOST: "x1", "rack": "x0"}, allocatable={"cpu": "9"}))
        cluster = constrained("rack", nodes, members=2, member={"labels": {"app": "gang"}, "spec": spec})
        decision, _ = decided(cluster)
        assert isinstance(decision, GangPlacement)
        assert {placement.node_name for placement in decision.placements} == {"x0", "x1"}

    def test_packing_tries_a_limited_number_of_unions(self):
        apart = {"labelSelector": {"matchLabels": {"app": "gang"}}, "topologyKey": ZONE}
        spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}}
        cluster = FullCluster(rooms(nodes=200), members=5, member={"labels": {"app": "gang"}, "spec": spec})
        planner = GangPlanner(cluster.framework, cluster.cache, cluster.planner.group, lambda _n: 0, HOST)
        with counted() as counts:
            decision = planner.plan(cluster.members)
        assert isinstance(decision, GangRejection)
        assert counts["scheduled"] <= 5 * 100
