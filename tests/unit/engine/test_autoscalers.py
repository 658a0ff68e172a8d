"""Autoscalers' view of waiting pods. A pod asks for a node by their rules: Cluster Autoscaler's
`cluster-autoscaler/utils/kubernetes/listers.go` at f7bb0c3623 (the condition PodScheduled is False with the reason
Unschedulable), and Karpenter's `pkg/utils/pod/scheduling.go` at v1.14.0-20-g226646810 (`IsProvisionable`: that reason,
no node, and no nominated node).
"""

from __future__ import annotations

import pytest

from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.core.queues.queues import QueueRules, queues_of
from podwright.core.queues.tree import Quota
from support.engine.kit import deciding, on_node, ours, settle
from support.groupings.workloads import GroupedRig, grouping, owner, pod_of
from support.objects.builders import in_group, make_pod_group


@pytest.fixture
async def rig() -> GroupedRig:
    """Two nodes of 8 CPUs, and a queue that may have 2."""
    rig = GroupedRig()
    rig.engine.cache.groups.serve(WORKLOAD_API)
    for name in ("n0", "n1"):
        rig.node(name)
    queues_of(rig.engine.cache).set(QueueRules("team", quotas={"cpu": Quota(limit=2000)}))
    return rig


def asking(rig: GroupedRig) -> set[str]:
    """The pods for which both autoscalers would make nodes."""
    last = {name: (verdict, nominated) for name, verdict, nominated in rig.status.written}
    return {
        name
        for name, (verdict, nominated) in last.items()
        if verdict is not None and verdict.reason == "Unschedulable" and not nominated
    }


def gang(rig: GroupedRig, count: int, cpu: str, **options) -> set[str]:
    rig.engine.objects(KIND).put(make_pod_group(min_count=count))
    names = [f"g{index}" for index in range(count)]
    for name in names:
        rig.pod(name, requests={"cpu": cpu}, spec=in_group("gang"), **options)
    return set(names)


async def test_a_gang_that_lacks_nodes_asks_for_those_of_all_members_at_once(rig):
    async with deciding(rig):
        members = gang(rig, 4, "5")
        await settle()
        assert rig.bound == set()
        assert asking(rig) == members


async def test_a_gang_that_waits_for_quota_asks_for_no_nodes(rig):
    async with deciding(rig):
        gang(rig, 3, "1", labels={"podwright.dev/queue": "team"})
        await settle()
        assert rig.bound == set()
        assert {verdict.reason for _, verdict, _ in rig.status.written} == {"WaitingForQuota"}
        assert asking(rig) == set()


async def test_a_pod_that_waits_for_quota_asks_for_no_node_and_one_within_quota_does(rig):
    async with deciding(rig):
        rig.pod("over", requests={"cpu": "3"}, labels={"podwright.dev/queue": "team"})
        rig.pod("within", requests={"cpu": "1", "memory": "900Gi"}, labels={"podwright.dev/queue": "team"})
        await settle()
        assert asking(rig) == {"within"}


async def test_an_incomplete_gang_and_a_pod_whose_owner_is_unknown_ask_for_no_nodes(rig):
    rig.group(grouping(minCount="2"))
    async with deciding(rig):
        rig.engine.objects(KIND).put(make_pod_group(min_count=3))
        rig.pod("a", requests={"cpu": "20"}, spec=in_group("gang"))
        rig.put(pod_of(owner(), "b", requests={"cpu": "20"}))
        await settle()
        assert asking(rig) == set()


async def test_a_pod_with_a_scheduling_gate_asks_for_no_node(rig):
    async with deciding(rig):
        rig.pod("gated", requests={"cpu": "20"}, spec={"schedulingGates": [{"name": "example.com/wait"}]})
        await settle()
        assert asking(rig) == set()


async def test_a_pod_whose_victims_end_names_its_node_so_it_asks_for_none(rig):
    rig.evictor.waits = True
    for name in ("n0", "n1"):
        rig.engine.assigned.put(on_node(ours(f"low-{name}", requests={"cpu": "8"}, priority=0), name))
    async with deciding(rig):
        rig.pod("high", requests={"cpu": "8"}, priority=10)
        await settle()
        (victim,) = rig.evictor.evicted
        assert [(verdict.reason, node) for _, verdict, node in rig.status.written] == [("Unschedulable", victim[2])]
        assert asking(rig) == set()


async def test_members_that_do_not_agree_ask_for_no_nodes(rig):
    async with deciding(rig):
        rig.engine.objects(KIND).put(make_pod_group(min_count=2))
        for name, priority in (("a", 0), ("b", 7)):
            rig.pod(name, requests={"cpu": "20"}, spec=in_group("gang"), priority=priority)
        await settle()
        assert {verdict.reason for _, verdict, _ in rig.status.written} == {"SchedulerError"}
        assert asking(rig) == set()
