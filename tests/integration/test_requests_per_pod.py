"""How many requests a pod costs the API server: a figure that does not depend on the machine's mood."""

from __future__ import annotations

import asyncio

import pytest
from benchmarks.http_client import connect
from benchmarks.request_counts import RequestCounts, read_request_counts

from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit

OURS = "podwright"
PODS = 150
OF_PODS = ("pods", "events", "schedulerpolicies", "podgroups")


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> ControlPlane:
    kit.install(control_plane)
    return control_plane


@pytest.fixture
def cluster(installed, empty_cluster):
    return empty_cluster


def counts(cluster: ControlPlane) -> RequestCounts:
    async def read() -> RequestCounts:
        async with connect(cluster.kubeconfig) as api:
            return await read_request_counts(api)

    return asyncio.run(read())


def made(before: RequestCounts, after: RequestCounts) -> dict[tuple[str, str], int]:
    """What was asked in between, but for lists and watches, which are not made for each pod."""
    return {
        (verb, resource): int(number)
        for (verb, resource), number in after.minus(before).counts.items()
        if number and verb not in {"LIST", "WATCH"} and resource.split("/")[0] in OF_PODS
    }


@pytest.mark.parametrize("intake", ["watch", "kopf"])
def test_a_pod_that_fits_costs_one_binding_and_one_event(cluster, namespace, intake):
    cluster.bulk.create([node(f"node-{number}") for number in range(20)])
    cluster.bulk.create([pod(f"pod-{number}", namespace, scheduler=OURS, cpu="10m") for number in range(PODS)])
    before = counts(cluster)
    with kit.running(cluster, f"--pod-intake={intake}"):
        kit.wait_bound(cluster, namespace, PODS)
        wait_until(lambda: len(kit.events(cluster, namespace, "Scheduled")) == PODS, 30, "all events are posted")
    assert made(before, counts(cluster)) == {("POST", "pods/binding"): PODS, ("POST", "events"): PODS}


def test_a_pod_that_does_not_fit_costs_a_status_and_an_event_and_nothing_while_nodes_only_report(cluster, namespace):
    cluster.client.create(node("small", cpu="1"))
    cluster.bulk.create([pod(f"large-{number}", namespace, scheduler=OURS, cpu="2") for number in range(PODS)])
    before = counts(cluster)
    with kit.running(cluster, "--pod-intake=watch"):
        wait_until(lambda: len(kit.events(cluster, namespace, "FailedScheduling")) == PODS, 60, "all are told so")
        patched = ("PATCH", "pods/status")
        wait_until(lambda: made(before, counts(cluster)).get(patched, 0) >= PODS, 30, "each says so")
        first = made(before, counts(cluster))
        told = counts(cluster)
        for beat in range(20):
            heartbeat(cluster, beat)
        cluster.client.create(pod("fits", namespace, scheduler=OURS, cpu="100m"))
        kit.wait_bound(cluster, namespace, 1)
        wait_until(lambda: kit.events(cluster, namespace, "Scheduled"), 30, "and the last pod's event is posted")
        then = made(told, counts(cluster))
    assert first == {("PATCH", "pods/status"): PODS, ("POST", "events"): PODS}
    assert then == {("POST", "pods"): 1, ("POST", "pods/binding"): 1, ("POST", "events"): 1}


def heartbeat(cluster: ControlPlane, beat: int) -> None:
    """What a kubelet says of its node when nothing has changed."""
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-01-01T00:00:{beat:02}Z"}
    cluster.client.patch(node("small"), {"status": {"conditions": [ready]}}, "status")
