"""Fifty costly pods beside ordinary ones, on a real API server: the ordinary ones are bound meanwhile, and every probe
is answered.

Their delay is printed only, beside that under kube-scheduler with the same pods: the machine also runs the API server.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from benchmarks.http_client import Api, connect

from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME
from podwright.testing import ControlPlane, Process, node, pod, wait_until
from podwright.testing.objects import collection_path
from support.control_plane import operator_process as kit
from support.hostile import objects

COSTLY = 50
BEFORE = 50
"""Ordinary pods that exist before the operator starts."""
DURING = 200
PER_SECOND = 20
NODES = 300
NAMES = tuple(f"node-{i}" for i in range(NODES))
WAITING = tuple(f"before-{number}" for number in range(BEFORE))
NAME = f"{DURING} ordinary pods beside {COSTLY} costly ones, {NODES} nodes: from creation to Binding"
KINDS = (
    objects.required_anti_affinity(1_000),
    objects.preferred_affinity(1_000),
    objects.spread_constraints(600),
    objects.node_affinity_terms(3_000),
    objects.preferred_node_terms(3_000),
)


@pytest.fixture
def cluster(empty_cluster: ControlPlane) -> ControlPlane:
    kit.stay_installed(empty_cluster)
    empty_cluster.bulk.create(node(name, cpu="8") for name in NAMES)
    return empty_cluster


def costly_pods(namespace: str, scheduler: str) -> Iterator[dict[str, Any]]:
    for number, spec in zip(range(COSTLY), itertools.cycle(KINDS), strict=False):
        yield pod(f"costly-{number}", namespace, scheduler=scheduler, labels={"app": "costly"}, **spec)


def ordinary(namespace: str, names: Sequence[str], scheduler: str) -> list[dict[str, Any]]:
    return [pod(name, namespace, scheduler=scheduler, cpu="10m", memory="10Mi", labels={"app": name}) for name in names]


@dataclass
class Probes:
    """Asks for liveness all the time, from a thread of its own."""

    operator: kit.Operator
    answers: list[tuple[int, float]] = field(default_factory=list)
    """(status, seconds)"""
    _stop: threading.Event = field(default_factory=threading.Event)

    def _ask(self) -> None:
        while not self._stop.wait(0.05):
            started = time.monotonic()
            status = self.operator.get("/livez")[0]
            self.answers.append((status, time.monotonic() - started))

    @contextmanager
    def asking(self) -> Iterator[Probes]:
        thread = threading.Thread(target=self._ask)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()


@pytest.mark.slow
async def test_ordinary_pods_are_bound_while_costly_pods_wait(cluster, namespace, table):
    create(cluster, namespace, "podwright")
    with kit.running(cluster) as operator, Probes(operator).asking() as probes:
        delays = await asyncio.wait_for(delays_of(cluster, namespace, "podwright", operator.process), 240)
        assert len(delays) == DURING
        wait_until(lambda: undecided(cluster, namespace) == [], 180, "each costly pod is decided")
        assert operator.process.alive
        notes = lambda: [event["note"] for event in kit.events(cluster, namespace, "CostlyPod")]
        wait_until(lambda: len(notes()) >= COSTLY, 30, "each costly pod has an event")
        assert len(notes()) == COSTLY
        assert all(note.startswith("plugin ") for note in notes())
    assert {status for status, _ in probes.answers} == {200}
    slowest = max(seconds for _, seconds in probes.answers)
    table.add(NAME, "", await under_kube_scheduler(cluster, namespace), quantiles(delays))
    table.add(
        f"the same: {len(probes.answers)} probes of /livez, all answered with 200",
        "",
        "",
        f"{1000 * slowest:.0f} ms at most",
    )


async def under_kube_scheduler(cluster: ControlPlane, namespace: str) -> str:
    """The delays of the same pods beside the same costly ones."""
    for raw in kit.pods(cluster, namespace):
        cluster.client.delete({"apiVersion": "v1", "kind": "Pod", **raw})
    wait_until(lambda: kit.pods(cluster, namespace) == [], 60, "the pods are gone")
    create(cluster, namespace, KUBERNETES_DEFAULT_SCHEDULER_NAME)
    scheduler = cluster.start_scheduler()
    try:
        return quantiles(
            await asyncio.wait_for(delays_of(cluster, namespace, KUBERNETES_DEFAULT_SCHEDULER_NAME, scheduler), 240)
        )
    finally:
        scheduler.stop(10)


def quantiles(delays: Sequence[float]) -> str:
    ordered = sorted(delays)
    return f"median {1000 * ordered[DURING // 2]:.0f} ms, p99 {1000 * ordered[DURING * 99 // 100 - 1]:.0f} ms"


def create(cluster: ControlPlane, namespace: str, scheduler: str) -> None:
    """The pods that exist before the scheduler starts."""
    cluster.bulk.create(costly_pods(namespace, scheduler))
    cluster.bulk.create(ordinary(namespace, WAITING, scheduler))


def undecided(cluster: ControlPlane, namespace: str) -> list[str]:
    """The costly pods that are neither bound nor unschedulable."""
    return [
        raw["metadata"]["name"]
        for raw in kit.pods(cluster, namespace)
        if not raw["spec"].get("nodeName") and kit.condition(raw).get("reason") != "Unschedulable"
    ]


async def delays_of(cluster: ControlPlane, namespace: str, scheduler: str, process: Process) -> list[float]:
    """Waits until all ordinary pods are bound, and returns the delay of those that are created now, in seconds."""
    names = [f"during-{number}" for number in range(DURING)]
    created: dict[str, float] = {}
    async with connect(cluster.kubeconfig) as api:
        version = (await api.get("/api/v1/pods?limit=1"))["metadata"]["resourceVersion"]
        watching = asyncio.create_task(bindings(api, namespace, version, names))
        for body in ordinary(namespace, names, scheduler):
            started = time.monotonic()
            assert await api.post(collection_path(body), body) == 201
            created[body["metadata"]["name"]] = time.monotonic()
            await asyncio.sleep(max(0.0, 1 / PER_SECOND - (time.monotonic() - started)))
            assert process.alive
        bound = await watching
    placed = {raw["metadata"]["name"] for raw in kit.pods(cluster, namespace) if raw["spec"].get("nodeName")}
    assert placed >= {*WAITING, *names}
    return [max(0.0, bound[name] - created[name]) for name in names]


async def bindings(api: Api, namespace: str, version: str, names: Sequence[str]) -> dict[str, float]:
    """When each of these pods was bound."""
    found: dict[str, float] = {}
    async for event in api.watch(f"/api/v1/namespaces/{namespace}/pods?fieldSelector=spec.nodeName%21%3D", version):
        name = event["object"]["metadata"]["name"]
        if event["type"] == "ADDED" and name.startswith("during-"):
            found[name] = time.monotonic()
            if len(found) == len(names):
                return found
    raise AssertionError("a watch has no end")
