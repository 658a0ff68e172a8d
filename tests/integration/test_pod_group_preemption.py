"""A pod group preempts as a whole on the real API server, with the conditions and events of members and victims."""

from __future__ import annotations

import pytest

from podwright.testing import ControlPlane, pod, wait_until
from support.control_plane import operator_process as kit
from support.gangs.pod_groups import NEEDS_WORKLOAD_API, Case

pytestmark = NEEDS_WORKLOAD_API
NO_GRACE_PERIOD = {"terminationGracePeriodSeconds": 0}


@pytest.fixture(scope="module")
def control_plane(serving_groups: ControlPlane) -> ControlPlane:
    return serving_groups


@pytest.fixture
def case(empty_cluster: ControlPlane, namespace: str) -> Case:
    return Case(empty_cluster, namespace)


def read_pod(case: Case, name: str) -> dict:
    return case.cluster.client.read(pod(name, case.namespace))


def terminating(case: Case) -> set[str]:
    """The names of terminating pods."""
    raws = kit.pods(case.cluster, case.namespace)
    return {raw["metadata"]["name"] for raw in raws if raw["metadata"].get("deletionTimestamp")}


def nominated(case: Case, count: int) -> list[str]:
    """The nominated nodes of members 0 to `count` - 1; "" for none."""
    return [read_pod(case, f"train-{i}")["status"].get("nominatedNodeName", "") for i in range(count)]


def test_nominated_members_wait_for_terminating_victims_and_preempt_no_more(case):
    """There is no kubelet, so pods with a grace period exist until the test deletes them."""
    case.nodes(3)
    case.members("low", range(6), schedulingGroup=None, terminationGracePeriodSeconds=300)
    with kit.running(case.cluster) as operator:
        case.wait_placed("low", 6)
        group = case.group("train", 4, priorityClassName="eager")
        case.members("train", range(4), priorityClassName="eager")
        wait_until(lambda: len(terminating(case)) == 4, 60, "four pods are terminating")
        wait_until(lambda: "" not in nominated(case, 4), 30, "all members are nominated")
        nominations, victims = nominated(case, 4), terminating(case)
        message = case.wait_condition(group, "False", "Unschedulable")
        assert "pod group preemption: " in message
        for name in victims:
            condition = kit.condition(read_pod(case, name), "DisruptionTarget")
            assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
            assert condition["message"] == "podwright: preempting to accommodate a higher priority podgroup"
        wait_until(lambda: announced_victims(case) == victims, 30, "all victims have events")
        for event in kit.events(case.cluster, case.namespace, "Preempted"):
            assert event["note"] == f"Preempted by podgroup {group['metadata']['uid']} on node cluster"
            assert "related" not in event
        first, *others = sorted(victims)
        remove(case, first)
        case.wait_passed_over("train", cpu=None)
        assert terminating(case) == set(others)
        for name in others:
            remove(case, name)
        case.wait_placed("train", 4)
        assert sorted(case.places("train")) == sorted(nominations)
        assert len(case.places("low")) == 2
        assert operator.metric("scheduler_workload_preemption_victims_sum") == 4
        assert operator.metric("scheduler_preemption_execution_duration_seconds_count", preemptor="podgroup") == 1
    assert kit.over_committed(case.cluster) == {}


def announced_victims(case: Case) -> set[str]:
    """The names of pods with a Preempted event."""
    return {event["regarding"]["name"] for event in kit.events(case.cluster, case.namespace, "Preempted")}


def remove(case: Case, name: str) -> None:
    """Delete a pod without grace period, as its kubelet does."""
    path = f"/api/v1/namespaces/{case.namespace}/pods/{name}"
    assert case.cluster.client.raw("DELETE", path, query={"gracePeriodSeconds": "0"})[0] == 200


def test_victims_without_a_disruption_budget_are_preferred(case):
    case.nodes(1, cpu="4")
    case.members("guarded", range(2), schedulingGroup=None, labels={"app": "db"}, **NO_GRACE_PERIOD)
    case.members("free", range(2), schedulingGroup=None, **NO_GRACE_PERIOD)
    case.cluster.client.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "db", "namespace": case.namespace},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "db"}}},
        }
    )
    with kit.reused(case.cluster):
        case.wait_placed("guarded", 2)
        case.wait_placed("free", 2)
        case.group("train", 2, priorityClassName="eager")
        case.members("train", range(2), priorityClassName="eager")
        case.wait_placed("train", 2)
        assert (len(case.places("guarded")), len(case.places("free"))) == (2, 0)


def test_a_group_does_not_preempt_pods_of_equal_priority(case):
    case.nodes(1)
    case.members("low", range(2), schedulingGroup=None, **NO_GRACE_PERIOD)
    with kit.reused(case.cluster):
        case.wait_placed("low", 2)
        group = case.group("equal", 2)
        case.members("equal", range(2))
        assert "No preemption victims found" in case.wait_condition(group, "False", "Unschedulable")
        assert len(case.places("low")) == 2
