"""Pod groups of KAI on the real API server: pods as its pod-grouper leaves them run as gangs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from podwright.testing import ControlPlane, node, wait_until
from support.control_plane import operator_process as kit
from support.gangs import kai
from support.gangs.pod_groups import Case

AT_ONCE = {"gracePeriodSeconds": "0"}


@pytest.fixture(scope="module")
def with_groups(installed: ControlPlane) -> Iterator[ControlPlane]:
    """KAI's kind of groups."""
    installed.apply(kai.CRD)
    wait_until(lambda: installed.client.raw("GET", kai.SERVED)[0] == 200, 30, "the API server serves KAI's groups")
    yield installed
    kit.stop_reused()
    installed.kubectl("delete", "crd", kai.CRD["metadata"]["name"], "--wait=true")


@pytest.fixture
def case(with_groups: ControlPlane, cluster: ControlPlane, namespace: str) -> Iterator[Case]:
    """A cluster with an operator that serves KAI's scheduler name."""
    policy = {"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", "metadata": {"name": "kai"}}
    cluster.client.create({**policy, "spec": {"schedulerName": kai.SCHEDULER}})
    with kit.reused(cluster, "--pod-intake=watch"):
        kit.wait_accepted(cluster, "kai")
        yield Case(cluster, namespace)


def conditions(case: Case, group: dict[str, Any]) -> list[dict[str, Any]]:
    return case.status(group).get("schedulingConditions") or []


def test_a_group_of_kai_is_scheduled_as_a_whole_without_an_edit(case):
    case.nodes(1)
    made = case.cluster.client.create(kai.group("train", case.namespace, minMember=3))
    case.cluster.bulk.create([kai.member("train", f"train-{i}", case.namespace) for i in range(2)])
    case.wait_passed_over("train")
    case.cluster.bulk.create([kai.member("train", "train-2", case.namespace)])
    wait_until(lambda: "Unschedulable" in str(conditions(case, made)), 60, "the status says why the group waits")
    (waits,) = conditions(case, made)
    assert (waits["type"], waits["nodePool"], waits["status"]) == ("UnschedulableOnNodePool", "default", "True")
    assert waits["reasons"] == [{"reason": waits["reason"], "message": waits["message"]}]
    assert case.places("train") == []
    case.cluster.client.create(node("another", cpu="2"))
    case.wait_placed("train", 3)
    wait_until(lambda: conditions(case, made) == [], 60, "the group no longer waits")


def test_the_sub_groups_of_a_group_of_kai_have_minimums_of_their_own(case):
    case.nodes(1, cpu="3")
    parts = [{"name": "leader", "minMember": 1}, {"name": "workers", "minMember": 2}]
    made = case.cluster.client.create(kai.group("ray", case.namespace, subGroups=parts))
    workers = [kai.member("ray", f"ray-w-{i}", case.namespace, "workers") for i in range(3)]
    case.cluster.bulk.create(workers)
    case.wait_passed_over("ray")
    case.cluster.bulk.create([kai.member("ray", "ray-l0", case.namespace, "leader", cpu="1500m")])
    wait_until(lambda: "Unschedulable" in str(conditions(case, made)), 60, "the leader has no room beside two workers")
    assert case.places("ray") == []
    case.cluster.client.create(node("another", cpu="1"))
    case.wait_placed("ray", 3)
    assert len(case.places("ray-w")) == 2


def test_what_is_left_of_a_gang_of_kai_is_evicted_after_its_grace_period(case):
    case.nodes(2)
    case.cluster.client.create(kai.group("train", case.namespace, minMember=3, stalenessGracePeriod="2s"))
    pods = [kai.member("train", f"train-{i}", case.namespace) for i in range(3)]
    case.cluster.bulk.create(pods)
    case.wait_placed("train", 3)
    case.cluster.client.request("DELETE", f"/api/v1/namespaces/{case.namespace}/pods/train-0", query=AT_ONCE)
    left = lambda: [raw for raw in kit.pods(case.cluster, case.namespace) if "deletionTimestamp" not in raw["metadata"]]
    wait_until(lambda: left() == [], 60, "the other two pods are evicted")
    notes = lambda: {event["note"] for event in kit.events(case.cluster, case.namespace, "StalePodGroup")}
    wait_until(notes, 30, "an event of the group says what becomes of it")
    (note,) = notes()
    assert note.startswith(f"{case.namespace}/train: 2 of 3 pods that start together have a node")
    told = lambda: {event["regarding"]["name"] for event in kit.events(case.cluster, case.namespace, "Evicted")}
    wait_until(lambda: told() == {"train-1", "train-2"}, 30, "events of the pods say why")


def test_the_priority_class_of_a_group_of_kai_counts_for_its_pods_which_name_none(case):
    case.nodes(2, cpu="1")
    case.cluster.client.add_priority_class("train", 50)
    case.cluster.client.create(kai.group("low", case.namespace, minMember=2))
    case.cluster.bulk.create(
        [kai.member("low", f"low-{i}", case.namespace, terminationGracePeriodSeconds=0) for i in range(2)]
    )
    case.wait_placed("low", 2)
    case.cluster.client.create(kai.group("high", case.namespace, minMember=2, priorityClassName="train"))
    case.cluster.bulk.create([kai.member("high", f"high-{i}", case.namespace) for i in range(2)])
    case.wait_placed("high", 2)
    made = case.cluster.client.create(kai.group("gone", case.namespace, minMember=2, priorityClassName="gone"))
    case.cluster.bulk.create([kai.member("gone", f"gone-{i}", case.namespace) for i in range(2)])
    told = lambda: {
        event["regarding"]["name"] for event in kit.events(case.cluster, case.namespace, "PriorityClassNotFound")
    }
    wait_until(lambda: told() == {made["metadata"]["name"]}, 60, "an event names the group")
    assert case.places("gone") == []
