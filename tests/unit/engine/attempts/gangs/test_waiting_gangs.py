"""Waiting gangs: which events retry them, and that minResources evict no pod."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from podwright.core.framework.interface import PermitPlugin, Plugin
from podwright.core.framework.status import Code, Status
from podwright.core.gangs.plan import GangPlanner
from podwright.core.objects.pod_group import GROUP_LABEL, KIND, PLUGINS_API, PLUGINS_KIND, WORKLOAD_API
from support.engine.kit import Rig, custom_policy, deciding, settle
from support.objects.builders import in_group, make_pod, make_pod_group

RACK = "rack"


def rig_of(nodes: int, **options: Any) -> Rig:
    """Nodes of 8 CPUs, each a rack."""
    rig = Rig(**options)
    for api in (WORKLOAD_API, PLUGINS_API):
        rig.engine.cache.groups.serve(api)
    for index in range(nodes):
        rig.node(f"n{index}", labels={RACK: f"r{index}"}, allocatable={"cpu": "8"})
    return rig


def labelled_group(rig: Rig, **spec: Any) -> None:
    metadata = {"name": "gang", "namespace": "default", "uid": "u"}
    raw = {"metadata": metadata, "spec": {"minMember": 2, **spec}}
    rig.engine.objects(PLUGINS_KIND).put(raw)


def bound(rig: Rig) -> set[str]:
    return {name for name, _ in rig.cluster.bound}


def topology_gang(rig: Rig, cpu: str = "6") -> None:
    rig.engine.objects(KIND).put(make_pod_group(min_count=2, schedulingConstraints={"topology": [{"key": RACK}]}))
    for name in "ab":
        rig.pod(name, requests={"cpu": cpu}, spec=in_group())


class TestTopologyConstraint:
    async def test_pods_that_take_room_do_not_retry_the_gang(self):
        rig = rig_of(3)
        topology_gang(rig)
        async with deciding(rig):
            assert rig.counts == {"unschedulable": 2}
            with mock.patch.object(GangPlanner, "plan", autospec=True, side_effect=GangPlanner.plan) as plan:
                for index in range(5):
                    rig.now += 2
                    raw = rig.pod(f"plain{index}", requests={"cpu": "1"})
                    await settle()
                    rig.confirm(raw, dict(rig.cluster.bound)[f"plain{index}"])
                    await settle()
            assert plan.call_count == 0

    @pytest.mark.parametrize(
        "options",
        [
            pytest.param({"labels": {RACK: "r0"}}, id="a new node in its rack"),
            pytest.param({"labels": {RACK: "new"}, "allocatable": {"cpu": "12"}}, id="a new rack"),
        ],
    )
    async def test_more_room_in_one_domain_retries_it(self, options):
        rig = rig_of(2)
        topology_gang(rig)
        async with deciding(rig):
            rig.now += 5
            rig.node("more", **options)
            await settle()
            assert bound(rig) == {"a", "b"}

    async def test_a_pod_deleted_in_a_domain_retries_it(self):
        rig = rig_of(2)
        rig.engine.assigned.put(make_pod("there", node="n1", requests={"cpu": "6"}, priority=1000))
        rig.engine.assigned.put(make_pod("other", node="n0", requests={"cpu": "6"}, priority=1000))
        topology_gang(rig, cpu="4")
        async with deciding(rig):
            assert bound(rig) == set()
            rig.now += 5
            rig.engine.assigned.drop("default/there", None)
            await settle()
            assert set(rig.cluster.bound) == {("a", "n1"), ("b", "n1")}


class TestMinResources:
    @pytest.mark.parametrize("priority", [pytest.param(0, id="lower priority"), pytest.param(100, id="equal priority")])
    async def test_no_pod_is_evicted_or_placed_while_others_use_them(self, priority):
        """The members alone would fit: six CPUs are free, and they request two."""
        rig = rig_of(2)
        for index in range(10):
            rig.engine.assigned.put(
                make_pod(f"p{index}", node=f"n{index // 5}", priority=priority, requests={"cpu": "1"})
            )
        labelled_group(rig, minResources={"cpu": "12"})
        for name in "ab":
            rig.pod(name, requests={"cpu": "1"}, priority=100, labels={GROUP_LABEL: "gang"})
        async with deciding(rig):
            assert bound(rig) == set()
            assert rig.evictor.evicted == []
            assert rig.groups.written[0][2].startswith(
                "minResources of the pod group are not free in the cluster: cpu, "
            )
            rig.now += 5
            for index in range(6):
                rig.engine.assigned.drop(f"default/p{index}", None)
            await settle()
            assert bound(rig) == {"a", "b"}

    async def test_free_min_resources_do_not_prevent_preemption_by_the_members(self):
        rig = rig_of(2)
        for index in range(2):
            rig.engine.assigned.put(make_pod(f"p{index}", node=f"n{index}", priority=0, requests={"cpu": "2"}))
        labelled_group(rig, minResources={"cpu": "12"})
        for name in "ab":
            rig.pod(name, requests={"cpu": "7"}, priority=100, labels={GROUP_LABEL: "gang"})
        async with deciding(rig):
            assert {name for name, _, _ in rig.evictor.evicted} == {"p0", "p1"}

    async def test_a_policy_may_ignore_them_so_that_the_gang_preempts(self):
        rig = rig_of(2)
        policy = {"pluginConfig": [{"name": "GangScheduling", "args": {"minResources": "Ignored"}}]}
        assert rig.engine.policies.apply(
            {"metadata": {"name": "p", "uid": "p", "generation": 1}, "spec": policy}
        ).accepted
        for index in range(2):
            rig.engine.assigned.put(make_pod(f"p{index}", node=f"n{index}", priority=0, requests={"cpu": "2"}))
        labelled_group(rig, minResources={"cpu": "16"})
        for name in "ab":
            rig.pod(name, requests={"cpu": "7"}, priority=100, labels={GROUP_LABEL: "gang"})
        async with deciding(rig):
            assert {name for name, _, _ in rig.evictor.evicted} == {"p0", "p1"}
            for index in range(2):
                rig.engine.assigned.drop(f"default/p{index}", None)
            rig.now += 5
            rig.engine.wake()
            await settle()
            assert bound(rig) == {"a", "b"}

    async def test_lower_min_resources_retry_the_gang(self):
        rig = rig_of(1)
        labelled_group(rig, minResources={"cpu": "12"})
        for name in "ab":
            rig.pod(name, labels={GROUP_LABEL: "gang"})
        async with deciding(rig):
            assert bound(rig) == set()
            rig.now += 5
            labelled_group(rig, minResources={"cpu": "8"})
            await settle()
            assert bound(rig) == {"a", "b"}


class Held(Plugin, PermitPlugin):
    """Makes the pod `a` wait in Permit."""

    name = "Held"

    def permit(self, state, pod, node_name):
        return (Status(Code.WAIT, ("held",)), 300.0) if pod.name == "a" else (None, 0.0)


class TestScheduleTimeout:
    async def test_members_do_not_wait_for_one_that_permit_holds(self):
        """All members have a node before any waits, so `scheduleTimeoutSeconds` has no effect."""
        rig = rig_of(1, plugins={"Held": Held})
        assert rig.engine.policies.apply(custom_policy("permit", "Held")).accepted
        labelled_group(rig, scheduleTimeoutSeconds=1)
        for name in "abc":
            rig.pod(name, labels={GROUP_LABEL: "gang"})
        async with deciding(rig):
            assert bound(rig) == {"b", "c"}
            assert rig.placed_on("a") == "n0"


class TestPolicies:
    async def test_members_under_two_policies_are_an_error_of_the_group(self):
        rig = rig_of(2)
        apart = {
            "metadata": {"name": "apart", "uid": "apart", "generation": 1},
            "spec": {"match": {"podSelector": {"matchLabels": {"apart": "yes"}}}, "strategy": {"type": "Random"}},
        }
        assert rig.engine.policies.apply(apart).accepted
        rig.engine.objects(KIND).put(make_pod_group(min_count=2))
        rig.pod("a", spec=in_group())
        rig.pod("b", spec=in_group(), labels={"apart": "yes"})
        async with deciding(rig):
            assert bound(rig) == set()
            (_, reason, message) = rig.groups.written[0]
            assert reason == "SchedulerError"
            assert message.startswith("all pods of a pod group must be under one policy, got ")


async def test_a_gang_whose_room_another_takes_is_not_planned_again_and_says_nothing_new():
    rig, raws = rig_of(2), {}
    for index in range(2):
        rig.engine.assigned.put(make_pod(f"there{index}", node=f"n{index}", requests={"cpu": "6"}, priority=1000))
    for gang in ("one", "two"):
        metadata = {"name": gang, "namespace": "default", "uid": gang}
        rig.engine.objects(PLUGINS_KIND).put({"metadata": metadata, "spec": {"minMember": 2}})
        for name in (f"{gang}0", f"{gang}1"):
            raws[name] = rig.pod(name, requests={"cpu": "6"}, labels={GROUP_LABEL: gang})
    async with deciding(rig):
        assert rig.counts == {"unschedulable": 4}
        with mock.patch.object(GangPlanner, "plan", autospec=True, side_effect=GangPlanner.plan) as plan:
            rig.now += 60
            rig.status.written.clear()
            for index in range(2):
                rig.engine.assigned.drop(f"default/there{index}", None)
            await settle()
            assert (bound(rig), rig.counts) == ({"one0", "one1"}, {"unschedulable": 2})
            assert (plan.call_count, rig.status.written) == (1, [])
            rig.now += 400
            rig.engine.wake()
            await settle()
            assert plan.call_count == 2, "what it says is not older than some minutes"
        for name, node in rig.cluster.bound:
            rig.confirm(raws[name], node)
            rig.engine.assigned.drop(f"default/{name}", None)
        rig.now += 60
        rig.engine.wake()
        await settle()
        assert bound(rig) == raws.keys()
