"""A single pod that preempts members of pod groups: units, their priorities, and victims on other nodes."""

from __future__ import annotations

from typing import Any

import pytest

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Rejection, schedule
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import GROUP_LABEL, KIND, PLUGINS_KIND
from podwright.core.plugins import PLUGINS
from podwright.core.preemption.units import disruptions
from podwright.simulator.world import World
from support.gangs.kit import NOW, ZONE, budget, group_of, one, room
from support.objects.builders import make_pod


def decide(nodes, placed, groups=(), budgets=(), **pod: Any) -> Rejection:
    """The decision for a pod of priority 100 that requests one CPU."""
    world = World(clock=lambda: NOW)
    world.fill({"nodes": nodes, "pods": placed, "podDisruptionBudgets": list(budgets)})
    for group in groups:
        world.cache.set_object(KIND, group)
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    urgent = parse_pod(make_pod("urgent", **{"requests": {"cpu": "1"}, "priority": 100, **pod}), keep_raw=True)
    decision = schedule(framework, world.cache, urgent, lambda _n: 0)
    assert isinstance(decision, Rejection)
    return decision


def victims_of(decision: Rejection) -> tuple[str | None, list[str]]:
    return decision.nominated_node, [victim.name for victim in decision.victims]


PAIR = [one("a", "n1", group="g"), one("b", "n2", group="g")]


def test_a_whole_group_is_evicted_from_all_nodes():
    full = [one("high", "n2", 200)]
    assert victims_of(decide([room("n1", 1), room("n2", 2)], [*PAIR, *full], [group_of("g", whole=True)])) == (
        "n1",
        ["a", "b"],
    )


def test_members_of_a_group_with_disruption_mode_single_are_evicted_alone():
    node, victims = victims_of(decide([room("n1", 1), room("n2", 1)], PAIR, [group_of("g")]))
    assert (node, victims) in (("n1", ["a"]), ("n2", ["b"]))


def test_a_group_that_does_not_exist_or_is_not_served_is_ignored():
    for groups in ([], [group_of("other", whole=True)]):
        assert len(victims_of(decide([room("n1", 1), room("n2", 1)], PAIR, groups))[1]) == 1


def test_a_node_with_one_victim_is_preferred_to_one_with_a_whole_group():
    nodes = [room("n1", 1), room("n2", 1), room("n3", 1)]
    placed = [*PAIR, one("alone", "n3")]
    assert victims_of(decide(nodes, placed, [group_of("g", 0, whole=True)])) == ("n3", ["alone"])


def test_groups_are_reprieved_before_single_pods_and_larger_groups_first():
    placed = [
        one("alone", "n1"),
        one("small", "n1", group="small"),
        one("large", "n1", group="large"),
        one("larger", "n2", group="large"),
    ]
    groups = [group_of("small", 0, whole=True), group_of("large", 0, whole=True)]
    nodes = [room("n1", 3), room("n2", 1)]
    blocked = [one("high", "n2", 200)]
    nodes[1] = room("n2", 2)
    assert victims_of(decide(nodes, [*placed, *blocked], groups)) == ("n1", ["alone"])
    assert victims_of(decide(nodes, [*placed, *blocked], groups, requests={"cpu": "2"})) == ("n1", ["small", "alone"])


@pytest.mark.parametrize(
    ("own", "groups", "evicted"),
    [
        pytest.param(200, 50, True, id="the group has a lower priority than its pods"),
        pytest.param(0, 200, False, id="the group has a higher priority than its pods"),
    ],
)
@pytest.mark.parametrize("whole", [True, False], ids=["together", "alone"])
def test_the_priority_of_the_group_counts(own, groups, evicted, whole):
    placed = [one("a", "n1", own, group="g")]
    assert bool(decide([room("n1", 1)], placed, [group_of("g", groups, whole=whole)]).victims) is evicted


def test_a_whole_group_without_a_priority_has_that_of_its_most_important_pod():
    placed = [one("a", "n1", 0, group="g"), one("b", "n2", 200, group="g")]
    assert not decide([room("n1", 1), room("n2", 1)], placed, [group_of("g", whole=True)]).victims


def test_each_budget_violation_of_a_whole_group_counts_against_its_node():
    placed = [
        *(one(f"g{i}", f"n{i}", group="g", labels={"app": "db"}) for i in (1, 2)),
        one("alone", "n3", 50, labels={"app": "db"}),
    ]
    nodes = [room(f"n{i}", 1) for i in (1, 2, 3)]
    decision = decide(nodes, placed, [group_of("g", 0, whole=True)], [budget("db", 0, {"app": "db"})])
    assert victims_of(decision) == ("n3", ["alone"])


def test_filters_do_not_see_members_evicted_from_other_nodes():
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "noisy"}}}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    placed = [one("near", "n1", group="g"), one("noisy", "n2", group="g", labels={"app": "noisy"})]
    nodes = [room("n1", 1, "a"), room("n2", 1, "a")]
    assert victims_of(decide(nodes, placed, [group_of("g", whole=True)], spec=apart))[1] == ["near", "noisy"]
    # If members are evicted alone, no eviction helps on n1, and on n2 only the noisy pod is evicted.
    assert victims_of(decide(nodes, placed, [group_of("g")], spec=apart)) == ("n2", ["noisy"])


def test_disruptions_are_whole_groups_and_single_members_of_other_groups():
    world = World()
    pods = [one("a", "n", group="g"), one("b", "n", group="g"), one("c", "n", group="h"), one("d", "n")]
    for group in (group_of("g", whole=True), group_of("h")):
        world.cache.set_object(KIND, group)
    whole, units = disruptions([parse_pod(pod) for pod in pods], world.cache.groups)
    assert [group.name for group in whole] == ["g"]
    assert units == 2


def elastic(*places: str, start: int = 0) -> list[dict[str, Any]]:
    """Running members of the gang `e` of scheduling.x-k8s.io, the first one started first."""
    return [
        one(f"e{i}", node, labels={GROUP_LABEL: "e"}, start=f"2023-01-01T00:00:{start + i:02}Z")
        for i, node in enumerate(places)
    ]


def preempting(nodes, placed, minimum: int, **pod: Any) -> tuple[str | None, list[str]]:
    world = World(clock=lambda: NOW)
    world.fill({"nodes": nodes, "pods": placed})
    metadata = {"name": "e", "namespace": "default"}
    world.cache.set_object(PLUGINS_KIND, {"metadata": metadata, "spec": {"minMember": minimum}})
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    urgent = parse_pod(make_pod("urgent", **{"requests": {"cpu": "1"}, "priority": 100, **pod}), keep_raw=True)
    decision = schedule(framework, world.cache, urgent, lambda _n: 0)
    assert isinstance(decision, Rejection)
    return victims_of(decision)


def test_members_above_the_minimum_are_victims_before_the_gang():
    placed = elastic("n1", "n2", "n3")
    assert preempting([room(f"n{i}", 1) for i in (1, 2, 3)], placed, 2) == ("n3", ["e2"])


def test_with_the_minimum_of_a_gang_all_of_its_members_are_victims():
    node, victims = preempting([room("n1", 2), room("n2", 1)], elastic("n1", "n1", "n2"), 2, requests={"cpu": "2"})
    assert (node, sorted(victims)) == ("n1", ["e0", "e1", "e2"])


def test_a_gang_that_is_shrunk_is_not_disrupted():
    world = World(clock=lambda: NOW)
    world.fill({"nodes": [room("n1", 3)], "pods": elastic("n1", "n1", "n1")})
    metadata = {"name": "e", "namespace": "default"}
    world.cache.set_object(PLUGINS_KIND, {"metadata": metadata, "spec": {"minMember": 2}})
    pods = world.cache.nodes["n1"].pods
    assert disruptions([pods["default/e2"]], world.cache.groups) == ((), 1)
    whole, units = disruptions([pods["default/e1"], pods["default/e2"]], world.cache.groups)
    assert ([group.name for group in whole], units) == (["e"], 1)
