"""The operator is killed (SIGKILL) between the evictions for a claimant of a queue and its Binding.

What the next one knows of the place is the claimant's `status.nominatedNodeName`: a pod that would go first otherwise
does not get it, before the operator starts or after.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from podwright.core.objects.pod_group import GROUP_LABEL
from podwright.testing import node, wait_until
from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy
from support.faults.queued_teams import GPU, LABEL, QUEUES

CRD = Path(__file__).parents[2] / "crds" / "gangs" / "scheduling.x-k8s.io_podgroups.yaml"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
HELD = "faults-first"
"""The PriorityClass of pods that go before others, and do not preempt."""


def a_pod(arena: Arena, name: str, labels: dict[str, str] | None = None, gpus: int = 1, **spec: Any) -> dict[str, Any]:
    body = arena.pod(name, labels=labels or {}, **spec)
    room = {GPU: str(gpus)}
    body["spec"]["containers"][0]["resources"] = {"requests": room, "limits": room}
    return body


def a_queue(name: str, guarantee: int) -> dict[str, Any]:
    return {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "SchedulingQueue",
        "metadata": {"name": name},
        "spec": {"resources": {GPU: {"guarantee": guarantee}}},
    }


def nodes(arena: Arena, count: int, gpus: int = 1) -> None:
    bodies = [node(f"n{number}") for number in range(count)]
    for body in bodies:
        for amounts in (body["status"]["capacity"], body["status"]["allocatable"]):
            amounts[GPU] = str(gpus)
    arena.cluster.bulk.create(bodies)


def group(arena: Arena, count: int) -> dict[str, str]:
    """The labels of the members of a gang of so many, which exists then; none for a single pod."""
    if count == 1:
        return {}
    arena.cluster.apply(CRD)
    wait_until(lambda: arena.cluster.client.raw("GET", GROUPS)[0] == 200, 30, "the API server serves pod groups")
    named = {"name": "gang", "namespace": arena.namespace}
    spec = {"minMember": count}
    arena.cluster.client.create(
        {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": named, "spec": spec}
    )
    return {GROUP_LABEL: "gang"}


@pytest.mark.parametrize("count", [1, 3], ids=["a pod that needs the room of three", "a gang of three"])
def test_the_place_of_a_claimant_is_held_although_the_operator_is_killed_before_it_is_bound(
    arena: Arena, count: int
) -> None:
    cluster, client = arena.cluster, arena.cluster.client
    client.add_priority_class(HELD, 1_000_000, "Never")
    kit.wait_listed(cluster, "schedulingqueues")
    cluster.bulk.create([a_queue("owner", 3), a_queue("borrower", 0)])
    nodes(arena, 1, gpus=3)

    def found(prefix: str) -> list[dict[str, Any]]:
        return [raw for raw in kit.pods(cluster, arena.namespace) if raw["metadata"]["name"].startswith(prefix)]

    operator = arena.start(None, "--pod-intake=watch")
    victims = [a_pod(arena, f"victim{i}", {LABEL: "borrower"}, terminationGracePeriodSeconds=3600) for i in range(3)]
    cluster.bulk.create(victims)
    arena.wait_bound(3)
    for victim in victims:
        client.patch(victim, {"status": {"phase": "Running"}}, "status")
    labels = {LABEL: "owner", **group(arena, count)}
    cluster.bulk.create(a_pod(arena, f"claimant{i}", labels, 3 // count) for i in range(count))

    def held() -> bool:
        ending = all("deletionTimestamp" in raw["metadata"] for raw in found("victim"))
        return ending and all(raw["status"].get("nominatedNodeName") for raw in found("claimant"))

    wait_until(held, 60, "the victims end, and the claimants are nominated to their nodes")
    os.kill(operator.process.pid, signal.SIGKILL)
    operator.process.wait(10)
    cluster.bulk.create(a_pod(arena, f"rival{i}", priorityClassName=HELD) for i in range(3))
    operator = arena.start(None, "--pod-intake=watch")
    for number, victim in enumerate(victims, start=1):
        wait_until(lambda: all(kit.condition(raw) for raw in found("rival")), 60, "each rival was tried")
        client.delete(victim)
        left = 3 - number
        wait_until(lambda left=left: len(found("victim")) == left, 30, "the victim has ended")
        if left:
            known = lambda left=left: operator.metric("scheduler_cache_size", type="pods") == left
            wait_until(known, 30, "the operator knows it")
            wait_until(lambda: operator.metric("scheduler_pending_pods", queue="active") == 0, 30, "pods were tried")
    wait_until(lambda: all(raw["spec"].get("nodeName") for raw in found("claimant")), 60, "the claimants are bound")
    assert not [raw for raw in found("rival") if raw["spec"].get("nodeName")]
    operator.process.stop(30)
    client.request("DELETE", QUEUES)
    arena.report(faults="SIGKILL", claimants=count)


def test_nobody_else_is_evicted_for_a_claimant_whose_nomination_was_not_written_before_the_operator_was_killed(
    arena: Arena,
) -> None:
    """A victim that ends counts as gone, so the claimant is nominated to its node again."""
    cluster, client = arena.cluster, arena.cluster.client
    kit.wait_listed(cluster, "schedulingqueues")
    cluster.bulk.create([a_queue("owner", 1), a_queue("borrower", 0)])
    nodes(arena, 2)

    def ending() -> list[dict[str, Any]]:
        return [raw for raw in kit.pods(cluster, arena.namespace) if "deletionTimestamp" in raw["metadata"]]

    def claimant() -> dict[str, Any]:
        return next(raw for raw in kit.pods(cluster, arena.namespace) if raw["metadata"]["name"] == "claimant")

    with FaultProxy(cluster) as proxy:
        proxy.hold(lambda method, path: method == "PATCH" and "/pods/claimant/status" in path)
        operator = arena.start(proxy, "--pod-intake=watch")
        victims = [
            a_pod(arena, f"victim{i}", {LABEL: "borrower"}, terminationGracePeriodSeconds=3600) for i in range(2)
        ]
        cluster.bulk.create(victims)
        arena.wait_bound(2)
        for victim in victims:
            client.patch(victim, {"status": {"phase": "Running"}}, "status")
        cluster.bulk.create([a_pod(arena, "claimant", {LABEL: "owner"})])
        wait_until(lambda: bool(ending()) and proxy.held() > 0, 60, "a victim ends, and the nomination is not written")
        os.kill(operator.process.pid, signal.SIGKILL)
        operator.process.wait(10)
    assert "nominatedNodeName" not in claimant()["status"]
    operator = arena.start(None, "--pod-intake=watch")
    [victim] = ending()
    room = victim["spec"]["nodeName"]
    wait_until(lambda: claimant()["status"].get("nominatedNodeName") == room, 60, "the claimant is nominated there")
    client.delete(a_pod(arena, victim["metadata"]["name"]))
    wait_until(lambda: claimant()["spec"].get("nodeName") == room, 60, "the claimant is bound")
    assert not ending()
    operator.process.stop(30)
    client.request("DELETE", QUEUES)
    arena.report(faults="SIGKILL before the nomination was written")
