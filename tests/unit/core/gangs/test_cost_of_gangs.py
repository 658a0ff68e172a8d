"""What planning and preempting for a gang costs, counted: pods taken off the cache, members tried, units asked about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from podwright.core.gangs import topology_domains
from podwright.core.gangs.decisions import GangPlacement, GangPreemption, GangRejection
from podwright.core.gangs.plan import Planner, decide
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
    """Counts pods removed from the cache (`removed`), members scheduled (`scheduled`) and units that ask for a reprieve (`units`)."""
    counts: Counter[str] = Counter()
    remove_pods, schedule, reprieve_unit = Cache.remove_pods, Simulation.schedule, Reprieve.reprieve_unit

    def count_removed(self: Cache, node_name: str, pods: Any) -> None:
        counts["removed"] += len(pods)
        remove_pods(self, node_name, pods)

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


def decided(siege: FullCluster) -> tuple[Any, Counter[str]]:
    with counted() as counts:
        return decide(siege.planner, siege.members, NOW), counts


def crowd(cpu: int = 4, priority: int = 0, nodes: int = NODES, **options: Any) -> list[dict[str, Any]]:
    """Every node is full of pods of one CPU."""
    return [one(f"p{i}-{j}", f"n{i}", priority, **options) for i in range(nodes) for j in range(cpu)]


def rooms(cpu: int = 4, nodes: int = NODES) -> list[dict[str, Any]]:
    return [room(f"n{i}", cpu, f"z{i % 4}") for i in range(nodes)]


class TestNobodyCouldHelp:
    @pytest.mark.parametrize(
        "options",
        [
            pytest.param({"member": {"requests": {"cpu": "5"}}}, id="members that are larger than any node"),
            pytest.param({"member": {"spec": {"nodeSelector": {"absent": "yes"}}}}, id="members that no node is for"),
            pytest.param({"members": 2, "min_count": 9}, id="too few members"),
            pytest.param({"members": 60, "member": {"requests": {"cpu": "3"}}}, id="more members than nodes"),
            pytest.param(
                {"member": {"requests": {"cpu": "3"}}, "group": {"schedulingConstraints": {"topology": [{"key": HOST}]}}},
                id="members of which two fit into no domain",
            ),
        ],
    )  # fmt: skip
    def test_a_gang_that_would_not_fit_even_on_empty_nodes_takes_nobody_off(self, options):
        decision, counts = decided(FullCluster(rooms(), crowd(), **{"members": 8, **options}))
        assert isinstance(decision, GangRejection)
        assert decision.preemption is None
        assert "pod group preemption: " in decision.message
        assert counts["removed"] == 0
        assert counts["scheduled"] <= 60

    def test_where_those_of_higher_priority_leave_too_little_the_gang_is_not_planned_again(self):
        placed = [*crowd(2, priority=200), *[one(f"low{i}", f"n{i}") for i in range(NODES)]]
        siege = FullCluster(rooms(), placed, members=2, member={"requests": {"cpu": "3"}})
        with mock.patch.object(Planner, "plan", autospec=True, side_effect=Planner.plan) as plan:
            decision, _ = decided(siege)
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
                id="resources that nobody looks at",
            ),
        ],
    )
    def test_what_no_filter_asks_for_is_no_reason(self, offers, options):
        member = {"requests": {"cpu": "1", "example.com/gpu": "1"}, "spec": {"containers": [CONTAINER]}}
        node = make_node("n1", labels={HOST: "n1"}, allocatable=offers)
        siege = FullCluster([node], [one("low", "n1", spec={"containers": [CONTAINER]})], member=member, **options)
        assert siege.victims() == ["low"]


def of_two_kinds(siege: FullCluster, other: dict[str, Any]) -> FullCluster:
    """Half of the members are like this instead."""
    half = len(siege.members) // 2
    others = [parse_pod(make_pod(f"o{i}", priority=100, **other), keep_raw=True) for i in range(half)]
    for old, new in zip(siege.members[:half], others, strict=True):
        siege.cache.groups.remove_waiting(old.uid)
        siege.cache.groups.add_waiting(new)
    siege.members[:half] = others
    return siege


class TestMembersOfTwoKinds:
    def test_room_for_one_kind_is_no_room_for_the_other(self):
        large = {"requests": {"cpu": "5"}, "spec": in_group()}
        decision, counts = decided(of_two_kinds(FullCluster(rooms(), crowd(), members=4), large))
        assert isinstance(decision, GangRejection)
        assert counts["removed"] == 0

    def test_both_kinds_together_need_no_less_than_the_smaller_ones_alone(self):
        """One member of three CPUs or two of two fit on the one node: three members never do."""
        small = {"requests": {"cpu": "2"}, "spec": in_group()}
        siege = FullCluster(rooms(nodes=1), crowd(nodes=1), members=4, min_count=3, member={"requests": {"cpu": "3"}})
        decision, counts = decided(of_two_kinds(siege, small))
        assert isinstance(decision, GangRejection)
        assert counts["removed"] == 0

    def test_both_kinds_preempt_where_there_is_room_for_both(self):
        large = {"requests": {"cpu": "3"}, "spec": in_group()}
        decision, _ = decided(of_two_kinds(FullCluster(rooms(nodes=2), crowd(nodes=2), members=4), large))
        assert isinstance(decision, GangRejection)
        assert decision.preemption is not None
        assert len(decision.preemption.victims) == 8


class TestWhoIsTouched:
    def test_pods_on_nodes_that_could_take_no_member_stay_where_they_are(self):
        nodes = [
            *rooms(nodes=3),
            *[make_node(f"s{i}", labels={HOST: f"s{i}"}, allocatable={"cpu": "2"}) for i in range(20)],
        ]
        small = [one(f"small{i}-{j}", f"s{i}") for i in range(20) for j in range(2)]
        siege = FullCluster(nodes, [*crowd(nodes=3), *small], members=2, member={"requests": {"cpu": "3"}})
        decision, counts = decided(siege)
        assert len(decision.preemption.victims) == 6
        assert counts["removed"] <= 12 + 6

    def test_only_units_that_share_a_node_or_a_rule_with_a_member_are_asked_about(self):
        decision, counts = decided(FullCluster(rooms(), crowd(), members=2))
        assert len(decision.preemption.victims) == 2
        assert counts["removed"] <= NODES * 4 + 2
        assert counts["units"] <= 8

    def test_what_pods_out_of_reach_would_take_of_a_budget_counts_all_the_same(self):
        """The pod out of reach is more important, so the one eviction that the budget allows would be its own."""
        nodes = [room("n1", 3), room("n2", 1)]
        placed = [
            *[one(f"free{i}", "n1", 50) for i in range(2)],
            one("guarded", "n1", labels={"app": "db"}),
            one("far", "n2", 60, labels={"app": "db"}),
        ]
        siege = FullCluster(
            nodes, placed, members=1, member={"requests": {"cpu": "2"}}, budgets=[budget("db", 1, {"app": "db"})]
        )
        found = siege.preempt()
        assert isinstance(found, GangPreemption)
        assert siege.victims() == ["free0", "free1"]

    def test_a_group_keeps_its_members_in_their_order(self):
        placed = [one(f"p{i}", f"n{i % 2}", group="g") for i in (3, 0, 1, 2)]
        siege = FullCluster([room("n1", 2), room("n0", 2)], placed, groups=[group_of("g", 0, whole=True)])
        key = "scheduling.k8s.io:default/g"
        before = list(siege.cache.groups.members(key).placed)
        assert isinstance(siege.preempt(), GangPreemption)
        assert list(siege.cache.groups.members(key).placed) == before


def constrained(key: str, nodes: list[dict[str, Any]], **options: Any) -> FullCluster:
    return FullCluster(nodes, **{"group": {"schedulingConstraints": {"topology": [{"key": key}]}}, **options})


class TestDomains:
    def test_domains_that_cannot_take_more_than_the_best_are_not_tried(self):
        siege = constrained(HOST, rooms(cpu=8), members=8, min_count=4, member={"requests": {"cpu": "1500m"}})
        decision, counts = decided(siege)
        assert isinstance(decision, GangPlacement)
        assert len(decision.placements) == 5
        assert counts["scheduled"] == 8

    def test_domains_that_are_for_no_member_are_not_tried_but_for_one_that_says_why(self):
        siege = constrained(HOST, rooms(), members=4, member={"spec": {"nodeSelector": {"absent": "yes"}}})
        decision, counts = decided(siege)
        assert decision.message.startswith(f"0/{NODES} placements are available, first placement status: minCount (4)")
        assert counts["scheduled"] == 1

    def test_so_many_are_tried_and_no_more(self):
        """Each host seems to have room for all, and members keep apart from each other."""
        apart = {"labelSelector": {"matchLabels": {"app": "gang"}}, "topologyKey": HOST}
        spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}}
        siege = constrained(HOST, rooms(nodes=100), members=2, member={"labels": {"app": "gang"}, "spec": spec})
        with counted() as counts:
            decision = siege.planner.plan(siege.members)
        assert isinstance(decision, GangRejection)
        assert counts["scheduled"] == 2 * topology_domains.MAX_TRIED
        assert {"InterPodAffinity", "VolumeBinding"} <= decision.plugins

    def test_where_the_estimate_is_wrong_about_the_tightest_the_roomiest_are_tried_as_well(self):
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
        siege = constrained("rack", nodes, members=2, member={"labels": {"app": "gang"}, "spec": spec})
        decision, _ = decided(siege)
        assert isinstance(decision, GangPlacement)
        assert {placement.node_name for placement in decision.placements} == {"x0", "x1"}

    def test_packing_adds_up_only_so_many_domains_before_it_takes_what_fits(self):
        apart = {"labelSelector": {"matchLabels": {"app": "gang"}}, "topologyKey": ZONE}
        spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}}
        siege = FullCluster(rooms(nodes=200), members=5, member={"labels": {"app": "gang"}, "spec": spec})
        planner = Planner(siege.framework, siege.cache, siege.planner.group, lambda _n: 0, HOST)
        with counted() as counts:
            decision = planner.plan(siege.members)
        assert isinstance(decision, GangRejection)
        assert counts["scheduled"] <= 5 * 100
