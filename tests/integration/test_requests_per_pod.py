"""The number of API requests per pod, a cost that does not depend on the machine's speed."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from benchmarks.http_client import connect
from benchmarks.request_counts import RequestCounts, read_request_counts

from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import device_driver as dra
from support.control_plane import operator_process as kit

OURS = "podwright"
PODS = 150
COUNTED = ("pods", "events", "schedulerpolicies", "podgroups", "resourceclaims")


def counts(cluster: ControlPlane) -> RequestCounts:
    async def read() -> RequestCounts:
        async with connect(cluster.kubeconfig) as api:
            return await read_request_counts(api)

    return asyncio.run(read())


def requests_between(before: RequestCounts, after: RequestCounts) -> dict[tuple[str, str], int]:
    """Requests by verb and resource, without lists and watches, whose number does not depend on the pods."""
    return {
        (verb, resource): int(number)
        for (verb, resource), number in after.minus(before).counts.items()
        if number and verb not in {"LIST", "WATCH"} and resource.split("/")[0] in COUNTED
    }


def requests_since(
    cluster: ControlPlane, before: RequestCounts, expected: dict[tuple[str, str], int]
) -> dict[tuple[str, str], int]:
    """Requests since then, once there are as many as expected, or more: the API server counts a request after it has
    answered.
    """
    found: dict[tuple[str, str], int] = {}

    def complete() -> bool:
        found.clear()
        found.update(requests_between(before, counts(cluster)))
        return all(found.get(what, 0) >= number for what, number in expected.items())

    with suppress(TimeoutError):  # the caller compares, and shows what is missing
        wait_until(complete, 30, "all requests are counted")
    return found


@pytest.mark.parametrize("intake", ["watch", "kopf"])
def test_a_pod_that_fits_costs_one_binding_and_one_event(cluster, namespace, intake):
    cluster.bulk.create([node(f"node-{number}") for number in range(20)])
    cluster.bulk.create([pod(f"pod-{number}", namespace, scheduler=OURS, cpu="10m") for number in range(PODS)])
    before = counts(cluster)
    with kit.running(cluster, f"--pod-intake={intake}"):
        kit.wait_bound(cluster, namespace, PODS)
        wait_until(lambda: len(kit.events(cluster, namespace, "Scheduled")) == PODS, 30, "all events are posted")
    expected = {("POST", "pods/binding"): PODS, ("POST", "events"): PODS}
    assert requests_since(cluster, before, expected) == expected


def test_a_pod_with_a_claim_costs_two_writes_more_and_at_most_one_of_its_status(cluster, namespace):
    cluster.bulk.create([node(f"node-{number}") for number in range(20)])
    cluster.bulk.create([dra.claim(f"claim-{number}", namespace) for number in range(PODS)])
    cluster.bulk.create(with_claim(number, namespace) for number in range(PODS))
    before = counts(cluster)
    devices = {f"node-{number}": [f"gpu-{i}" for i in range(8)] for number in range(20)}
    with dra.Driver(cluster, devices), kit.running(cluster):
        kit.wait_bound(cluster, namespace, PODS)
        wait_until(lambda: len(kit.events(cluster, namespace, "Scheduled")) == PODS, 30, "all events are posted")
        writes = (
            ("PUT", "resourceclaims"),
            ("PUT", "resourceclaims/status"),
            ("POST", "pods/binding"),
            ("POST", "events"),
        )
        expected = dict.fromkeys(writes, PODS)
        found = requests_since(cluster, before, expected)
    assert found.pop(("PATCH", "pods/status"), 0) <= PODS
    assert found == expected
    dra.delete_claims(cluster, namespace)


def with_claim(number, namespace):
    wanted = [{"name": "mine", "resourceClaimName": f"claim-{number}"}]
    return pod(f"pod-{number}", namespace, scheduler=OURS, cpu="10m", resourceClaims=wanted)


def test_an_unschedulable_pod_costs_one_status_and_one_event_and_heartbeats_cost_nothing(cluster, namespace):
    cluster.client.create(node("small", cpu="1"))
    cluster.bulk.create([pod(f"large-{number}", namespace, scheduler=OURS, cpu="2") for number in range(PODS)])
    before = counts(cluster)
    with kit.running(cluster, "--pod-intake=watch"):
        wait_until(lambda: len(kit.events(cluster, namespace, "FailedScheduling")) == PODS, 60, "all pods have events")
        once = {("PATCH", "pods/status"): PODS, ("POST", "events"): PODS}
        first = requests_since(cluster, before, once)
        settled = counts(cluster)
        for beat in range(20):
            heartbeat(cluster, beat)
        cluster.client.create(pod("fits", namespace, scheduler=OURS, cpu="100m"))
        kit.wait_bound(cluster, namespace, 1)
        wait_until(lambda: kit.events(cluster, namespace, "Scheduled"), 30, "the last pod's event is posted")
        added = {("POST", "pods"): 1, ("POST", "pods/binding"): 1, ("POST", "events"): 1}
        then = requests_since(cluster, settled, added)
    assert first == once
    assert then == added


def heartbeat(cluster: ControlPlane, beat: int) -> None:
    """Patch the node's status as a kubelet does when nothing has changed."""
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-01-01T00:00:{beat:02}Z"}
    cluster.client.patch(node("small"), {"status": {"conditions": [ready]}}, "status")
