"""A pod group preempts on the real API server: all of it or none, and what everybody is told of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from podwright.testing import Binaries, ControlPlane, pod, wait_until
from support.control_plane import operator_process as kit
from support.gangs.pod_groups import GATES, WORKLOAD, Case

GONE_AT_ONCE = {"terminationGracePeriodSeconds": 0}


@pytest.fixture(scope="module")
def control_plane(binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane that has the Workload API, with Podwright's objects."""
    with ControlPlane(binaries=binaries, feature_gates=GATES, runtime_config={WORKLOAD: True}) as cluster:
        kit.install(cluster)
        priority = {"metadata": {"name": "eager"}, "value": 1000, "preemptionPolicy": "PreemptLowerPriority"}
        cluster.client.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **priority})
        yield cluster


@pytest.fixture
def case(empty_cluster: ControlPlane, namespace: str) -> Case:
    return Case(empty_cluster, namespace)


def named(case: Case, name: str) -> dict:
    return case.cluster.client.read(pod(name, case.namespace))


def going(case: Case) -> set[str]:
    """The names of the pods that are being deleted."""
    raws = kit.pods(case.cluster, case.namespace)
    return {raw["metadata"]["name"] for raw in raws if raw["metadata"].get("deletionTimestamp")}


def nominated(case: Case, count: int) -> list[str]:
    """The nodes that members 0 to `count` - 1 are nominated to, "" for none."""
    return [named(case, f"train-{i}")["status"].get("nominatedNodeName", "") for i in range(count)]


def test_members_wait_nominated_for_victims_that_take_their_time_and_nobody_else_goes(case):
    """There is no kubelet: pods that get time to end are there until the test deletes them for good."""
    case.nodes(3)
    case.members("low", range(6), schedulingGroup=None, terminationGracePeriodSeconds=300)
    with kit.running(case.cluster) as operator:
        case.wait_placed("low", 6)
        group = case.group("train", 4, priorityClassName="eager")
        case.members("train", range(4), priorityClassName="eager")
        wait_until(lambda: len(going(case)) == 4, 60, "four have to go")
        wait_until(lambda: "" not in nominated(case, 4), 30, "all members are nominated")
        promised, victims = nominated(case, 4), going(case)
        message = case.wait_condition(group, "False", "Unschedulable")
        assert "pod group preemption: " in message
        for name in victims:
            condition = kit.condition(named(case, name), "DisruptionTarget")
            assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
            assert condition["message"] == "podwright: preempting to accommodate a higher priority podgroup"
        wait_until(lambda: told(case) == victims, 30, "all victims are told")
        for event in kit.events(case.cluster, case.namespace, "Preempted"):
            assert event["note"] == f"Preempted by podgroup {group['metadata']['uid']} on node cluster"
            assert (event["related"]["kind"], event["related"]["name"]) == ("PodGroup", "train")
        first, *others = sorted(victims)
        remove(case, first)
        case.wait_passed_over("train", cpu=None)
        assert going(case) == set(others)
        for name in others:
            remove(case, name)
        case.wait_placed("train", 4)
        assert sorted(case.places("train")) == sorted(promised)
        assert len(case.places("low")) == 2
        assert operator.metric("scheduler_workload_preemption_victims_sum") == 4
        assert operator.metric("scheduler_preemption_execution_duration_seconds_count", preemptor="podgroup") == 1
    assert kit.over_committed(case.cluster) == {}


def told(case: Case) -> set[str]:
    """The names of those that events say were preempted."""
    return {event["regarding"]["name"] for event in kit.events(case.cluster, case.namespace, "Preempted")}


def remove(case: Case, name: str) -> None:
    """Ends a pod as its kubelet would."""
    path = f"/api/v1/namespaces/{case.namespace}/pods/{name}"
    assert case.cluster.client.raw("DELETE", path, query={"gracePeriodSeconds": "0"})[0] == 200


def test_a_budget_is_respected_where_others_can_go(case):
    case.nodes(1, cpu="4")
    case.members("guarded", range(2), schedulingGroup=None, labels={"app": "db"}, **GONE_AT_ONCE)
    case.members("free", range(2), schedulingGroup=None, **GONE_AT_ONCE)
    case.cluster.client.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "db", "namespace": case.namespace},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "db"}}},
        }
    )
    with kit.running(case.cluster):
        case.wait_placed("guarded", 2)
        case.wait_placed("free", 2)
        case.group("train", 2, priorityClassName="eager")
        case.members("train", range(2), priorityClassName="eager")
        case.wait_placed("train", 2)
        assert (len(case.places("guarded")), len(case.places("free"))) == (2, 0)


def test_a_group_that_may_not_preempt_waits(case):
    case.nodes(1)
    case.members("low", range(2), schedulingGroup=None, **GONE_AT_ONCE)
    with kit.running(case.cluster):
        case.wait_placed("low", 2)
        group = case.group("equal", 2)
        case.members("equal", range(2))
        assert "No preemption victims found" in case.wait_condition(group, "False", "Unschedulable")
        assert len(case.places("low")) == 2
