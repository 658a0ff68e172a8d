"""PodGangs of Grove on the real API server: pods as its operator makes them run as gangs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit
from support.gangs import grove
from support.gangs.pod_groups import ZONE, Case

RESERVATIONS = "/apis/podwright.dev/v1alpha1/reservations"


@pytest.fixture
def case(cluster: ControlPlane, namespace: str) -> Iterator[Case]:
    cluster.apply(grove.CRD)
    wait_until(lambda: cluster.client.raw("GET", grove.SERVED)[0] == 200, 30, "the API server serves PodGangs")
    policy = {"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", "metadata": {"name": "kai"}}
    cluster.client.create({**policy, "spec": {"schedulerName": grove.SCHEDULER}})
    with kit.running(cluster, "--pod-intake=watch"):
        kit.wait_accepted(cluster, "kai")
        yield Case(cluster, namespace)
    cluster.kubectl("delete", "crd", grove.CRD["metadata"]["name"], "--wait=true")


def test_a_pod_gang_is_scheduled_as_a_whole_without_an_edit(case):
    client = case.cluster.client
    case.cluster.bulk.create([node(f"n{i}", cpu="2", labels={ZONE: f"z{i}"}) for i in range(2)])
    preferred = {"packConstraint": {"preferred": ZONE}}
    made = client.create(
        grove.gang("llm", case.namespace, {"llm-prefill": 2, "llm-decode": 3}, topologyConstraint=preferred)
    )
    pods = [
        grove.member("llm", clique, index, case.namespace)
        for clique, count in (("llm-prefill", 2), ("llm-decode", 3))
        for index in range(count)
    ]
    case.cluster.bulk.create(pods)
    groups = [
        {**group, "podReferences": [each for each in named(pods) if each["name"].startswith(f"{group['name']}-")]}
        for group in made["spec"]["podgroups"]
    ]
    client.patch(made, {"spec": {"podgroups": groups}})
    initialized = {
        "type": "Initialized", "status": "True", "reason": "PodGangPodsCreated", "message": "PodGang is fully initialized",
        "lastTransitionTime": "2026-08-19T00:00:00Z",
    }  # fmt: skip
    client.patch(made, {"status": {"phase": "Pending", "conditions": [initialized]}}, "status")
    for raw in pods:
        client.patch(raw, {"spec": {"schedulingGates": None}})
    wait_until(
        lambda: kit.condition(client.read(made), "Scheduled").get("status") == "False", 60, "the gang says why it waits"
    )
    assert [case.places("llm-prefill"), case.places("llm-decode")] == [[], []]
    client.create(node("another", cpu="1", labels={ZONE: "z2"}))
    case.wait_placed("llm-prefill", 2)
    case.wait_placed("llm-decode", 3)
    wait_until(lambda: case.status(made).get("phase") == "Starting", 60, "the gang starts")
    wait_until(
        lambda: kit.condition(client.read(made), "Scheduled").get("status") == "True", 60, "the gang is scheduled"
    )
    assert case.status(made)["placementScore"] == round(1 / 3, 3)
    assert kit.condition(client.read(made), "Initialized")["status"] == "True"
    case.set_phase([raw["metadata"]["name"] for raw in pods], "Running")
    wait_until(lambda: case.status(made).get("phase") == "Running", 60, "the gang runs")


def test_a_pod_gang_takes_over_the_room_of_the_one_that_it_names(case):
    client = case.cluster.client
    case.nodes(2, cpu="1")

    def create(name, **spec):
        made = client.create(grove.gang(name, case.namespace, {f"{name}-c": 2}, **spec))
        pods = [grove.member(name, f"{name}-c", index, case.namespace) for index in range(2)]
        for raw in pods:
            del raw["spec"]["schedulingGates"]
        case.cluster.bulk.create(pods)
        return made

    create("old")
    case.wait_placed("old-c", 2)
    new = create("new", reuseReservationRef={"name": "old", "namespace": case.namespace})
    wait_until(lambda: case.status(new).get("phase") == "Pending", 60, "the operator knows the new gang")
    small = client.create(pod("small", case.namespace, scheduler=grove.SCHEDULER, cpu="1", memory=None))
    wait_until(lambda: kit.condition(client.read(small)).get("status") == "False", 60, "the small pod waits")
    held = lambda: [raw.get("status", {}).get("free") for raw in client.items(RESERVATIONS)]
    for index, free in ((0, [1]), (1, [])):
        path = f"/api/v1/namespaces/{case.namespace}/pods/old-c-{index}"
        client.request("DELETE", path, query={"gracePeriodSeconds": "0"})
        wait_until(lambda free=free: held() == free, 60, f"the free slots of the Reservation are {free}")
    case.wait_placed("new-c", 2)
    assert not client.read(small)["spec"].get("nodeName")


def named(pods):
    return [{"namespace": raw["metadata"]["namespace"], "name": raw["metadata"]["name"]} for raw in pods]
