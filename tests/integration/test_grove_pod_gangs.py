"""PodGangs of Grove on the real API server: pods as its operator makes them run as gangs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from podwright.testing import ControlPlane, node, wait_until
from support.control_plane import operator_process as kit
from support.gangs import grove
from support.gangs.pod_groups import ZONE, Case


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


def named(pods):
    return [{"namespace": raw["metadata"]["namespace"], "name": raw["metadata"]["name"]} for raw in pods]
