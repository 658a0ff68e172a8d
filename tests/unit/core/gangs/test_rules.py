"""The rules for a group: members agree, and `minResources` are free."""

from __future__ import annotations

from typing import Any

import pytest

from podwright.core.gangs.rules import disagreement, shortage, without_counts
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import (
    GROUP_LABEL,
    PLUGINS_API,
    PLUGINS_KIND,
    VOLCANO_API,
    VOLCANO_KIND,
    group_key,
    parse_pod_group,
)
from podwright.core.plugins.gang_scheduling import GangSchedulingArgs
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod


def raw_group(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "gang", "namespace": "default", "uid": "u"}, "spec": {"minMember": 2, **spec}}


def member(name: str, **options: Any) -> dict[str, Any]:
    return make_pod(name, labels={GROUP_LABEL: "gang"}, **options)


class TestAgreement:
    @pytest.mark.parametrize(
        ("other", "problem"),
        [
            pytest.param(
                {"spec": {"schedulerName": "else"}},
                'should have the same .spec.schedulerName set, got: "else" and "default-scheduler"',
                id="scheduler name",
            ),
            pytest.param({"priority": 7}, "should have the same priority as one another, got 7 and 0", id="priority"),
            pytest.param(
                {"spec": {"preemptionPolicy": "Never"}},
                "should have the same preemption policy, got Never and PreemptLowerPriority",
                id="preemption policy",
            ),
        ],
    )
    @pytest.mark.parametrize("placed", [pytest.param(True, id="placed"), pytest.param(False, id="waiting")])
    def test_a_member_that_differs_is_a_disagreement(self, other, problem, placed):
        group = parse_pod_group(PLUGINS_KIND, raw_group())
        first, odd = parse_pod(member("a", priority=0)), parse_pod(member("b", **{"priority": 0, **other}))
        waiting, there = ([first], [odd]) if placed else ([first, odd], [])
        assert disagreement(group, waiting, there).endswith(problem)
        assert not disagreement(group, [first], [])


class TestShortage:
    @pytest.mark.parametrize(
        ("size", "holder", "lacking"),
        [
            pytest.param("12", None, False, id="all of it is free"),
            pytest.param("11", None, True, id="too little is free"),
            pytest.param("12", make_pod("other", node="n", requests={"cpu": "4"}), True, id="another pod uses some"),
            pytest.param("12", member("a", node="n", requests={"cpu": "4"}), False, id="a member uses some"),
        ],
    )
    def test_free_resources_and_those_of_members_count(self, size, holder, lacking):
        world = World()
        world.fill({"nodes": [make_node("n", allocatable={"cpu": size})], "pods": [holder] if holder else []})
        world.cache.set_object(PLUGINS_KIND, raw_group(minResources={"cpu": "12"}))
        group = world.cache.groups.get(group_key(PLUGINS_API, "default", "gang"))
        assert group is not None
        assert bool(shortage(group, world.cache)) is lacking

    @pytest.mark.parametrize(
        ("args", "placed", "lacking"),
        [
            pytest.param({}, False, False, id="its API does not require them"),
            pytest.param({"min_resources": "Required"}, False, True, id="the policy requires them"),
            pytest.param(
                {"min_resources": "Required"}, True, False, id="the minimum is placed: the rest need not wait"
            ),
        ],
    )
    def test_those_of_volcano_count_if_the_policy_says_so_until_the_minimum_is_placed(self, args, placed, lacking):
        world = World()
        world.cache.groups.serve(VOLCANO_API)
        annotated = {"annotations": {"scheduling.k8s.io/group-name": "gang"}}
        driver = make_pod("driver", requests={"cpu": "1"}, metadata=annotated, **({"node": "n"} if placed else {}))
        world.fill({"nodes": [make_node("n", allocatable={"cpu": "8"})], "pods": [driver] if placed else []})
        world.cache.set_object(VOLCANO_KIND, raw_group(minMember=1, minResources={"cpu": "12"}))
        group = world.cache.groups.get(group_key(VOLCANO_API, "default", "gang"))
        assert group is not None
        assert bool(shortage(group, world.cache, GangSchedulingArgs(**args))) is lacking

    @pytest.mark.parametrize(
        ("required", "problem"),
        [
            pytest.param({"cpu": "x"}, "cannot be read: spec.minResources[cpu]: ", id="an unreadable amount"),
            pytest.param({"pods": "3", "count/pods": "3", "requests.cpu": "1"}, "", id="pods are free"),
            pytest.param({"pods": "4"}, "are not free in the cluster: pods", id="a pod of another takes its place"),
        ],
    )
    def test_what_volcano_writes_for_quotas_is_read_only_if_required(self, required, problem):
        world = World()
        world.cache.groups.serve(VOLCANO_API)
        other = make_pod("other", node="n")
        world.fill({"nodes": [make_node("n", allocatable={"cpu": "8", "pods": "4"})], "pods": [other]})
        world.cache.set_object(VOLCANO_KIND, raw_group(minResources=required))
        group = world.cache.groups.get(group_key(VOLCANO_API, "default", "gang"))
        assert group is not None
        assert not shortage(group, world.cache)
        found = shortage(group, world.cache, GangSchedulingArgs(min_resources="Required"))
        assert problem in found if problem else not found

    @pytest.mark.parametrize(
        ("nominated", "lacking"),
        [
            pytest.param(
                make_pod("other", requests={"cpu": "1"}, priority=5), True, id="to a pod of the same priority"
            ),
            pytest.param(make_pod("other", requests={"cpu": "1"}, priority=4), False, id="to a less important pod"),
            pytest.param(member("b", requests={"cpu": "1"}, priority=5), False, id="to a member"),
        ],
    )
    def test_room_that_is_nominated_to_others_does_not_count(self, nominated, lacking):
        world = World()
        world.fill({"nodes": [make_node("n", allocatable={"cpu": "12"})]})
        world.cache.set_object(PLUGINS_KIND, raw_group(minResources={"cpu": "12"}))
        world.cache.groups.add_waiting(parse_pod(member("a", priority=5)))
        world.cache.nominator.add(parse_pod(nominated), "n")
        group = world.cache.groups.get(group_key(PLUGINS_API, "default", "gang"))
        assert bool(shortage(group, world.cache)) is lacking


@pytest.mark.parametrize("end", ["in the time given", "within the bound on work"])
def test_texts_of_events_have_neither_numbers_nor_the_domain_with_the_most_room(end):
    text = (
        f"0/9 placements are available, of which 3 were tried {end}, first placement status: "
        "minCount (4) cannot be satisfied: 2 scheduled, 0 remaining; rack r1: room for 3 of 4"
    )
    assert without_counts(text) == (
        "0/9 placements are available, first placement status: minCount (4) cannot be satisfied"
    )
    named = "0/0 placements are available; no node has the label rack"
    assert without_counts(named) == named
