"""Measures kube-scheduler and Podwright with the same hostile pods, one after the other, on one real API server.

The time is from the answer to the pod's creation to its Binding or its first condition, as a watch sees them. It
includes what the API server needs for either. Before each row, either scheduler is given the time in which the pods of
earlier rows close Podwright's lane: a row is a pod alone, not one after others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from benchmarks.http_client import Api, connect

from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME, parse_pod
from podwright.core.queue.active_pods import CLOSED
from podwright.testing import ControlPlane, pod
from podwright.testing import node as api_node
from podwright.testing.objects import collection_path, object_path
from support.control_plane import operator_process
from support.hostile.harness import PREEMPTS
from support.hostile.subjects import Row, node, node_name
from support.queue.kit import default_framework

Raw = dict[str, Any]
NODES: Final = 1_000
PLACED: Final = 2_000
TIMEOUT: Final = 180.0
"""Seconds for one pod."""
_CLASS: Final = "hostile"
_WARM_UP: Final = 5
_NAMESPACE: Final = "default"
SCHEDULERS: Final = {"kube-scheduler": KUBERNETES_DEFAULT_SCHEDULER_NAME, "podwright": "podwright"}
"""The scheduler name of each."""


def compare(
    rows: Sequence[Row], report: Callable[[str], None], nodes: int = NODES, placed: int = PLACED
) -> dict[str, dict[str, str]]:
    """The time of each row by scheduler, as text. `report` takes each result when it is there."""
    found: dict[str, dict[str, str]] = {row.name: {} for row in rows}

    def record(scheduler: str, row: Row, text: str) -> None:
        found[row.name][scheduler] = text
        report(f"{scheduler}: {row.name}: {text}")

    with ControlPlane() as cluster:
        _fill(cluster, nodes, placed)
        for scheduler in SCHEDULERS:
            with _running(cluster, scheduler):
                asyncio.run(_measure_all(cluster, scheduler, rows, record))
    return found


def _fill(cluster: ControlPlane, nodes: int, placed: int) -> None:
    cluster.client.add_priority_class(_CLASS, 1000)
    operator_process.install(cluster)
    cluster.bulk.create(_node(index) for index in range(nodes))
    filled = [index for index in range(nodes) if index % 10]
    cluster.bulk.create(
        pod(f"placed-{i}", cpu="100m", labels={"app": f"app-{i % 20}"}, nodeName=node_name(filled[i % len(filled)]))
        for i in range(placed)
    )


def _node(index: int) -> Raw:
    made = node(index)
    return api_node(made["metadata"]["name"], cpu="32", memory="128Gi", labels=made["metadata"]["labels"])


@contextmanager
def _running(cluster: ControlPlane, scheduler: str) -> Iterator[None]:
    if scheduler == "podwright":
        with operator_process.running(cluster):
            yield
        return
    server = cluster.start_scheduler()
    try:
        yield
    finally:
        server.stop(10)


async def _measure_all(
    cluster: ControlPlane, scheduler: str, rows: Sequence[Row], record: Callable[[str, Row, str], None]
) -> None:
    async with connect(cluster.kubeconfig) as api:
        for number in range(_WARM_UP):
            await _measure(api, _body(f"warm-{number}", scheduler, {}))
        for number, row in enumerate(rows):
            body = _body(f"hostile-{number}", scheduler, row.subject.spec(number))
            record(scheduler, row, await _measure(api, body))
            await asyncio.sleep(_seconds_of_closed_lane(body))


def _seconds_of_closed_lane(body: Raw) -> float:
    cost = default_framework().estimate(parse_pod(body))
    return 0.0 if cost is None else cost.elsewhere * CLOSED


def _body(name: str, scheduler: str, spec: Mapping[str, Any]) -> Raw:
    body = pod(name, _NAMESPACE, scheduler=SCHEDULERS[scheduler], labels={"app": "hostile"}, **dict(spec))
    if body["spec"].pop("priority", None):
        body["spec"]["priorityClassName"] = _CLASS
    for container in body["spec"]["containers"]:
        container.setdefault("image", "registry.k8s.io/pause:3.10")
    return body


async def _measure(api: Api, body: Raw) -> str:
    """Creates the pod, waits for its outcome, and deletes it. Returns the time and the outcome."""
    name = body["metadata"]["name"]
    version = (await api.get("/api/v1/pods?limit=1"))["metadata"]["resourceVersion"]
    outcome = asyncio.create_task(_outcome(api, name, version))
    await asyncio.sleep(0)
    status = await api.post(collection_path(body), body)
    if status != 201:
        outcome.cancel()
        return f"refused with status {status}"
    created = time.monotonic()
    try:
        ended, text = await asyncio.wait_for(outcome, TIMEOUT)
    except TimeoutError:
        return f"nothing within {TIMEOUT:.0f} s"
    finally:
        await api.delete(object_path(body))
        await asyncio.sleep(0.5)
    return f"{max(0.0, ended - created):.2f} s ({text})"


async def _outcome(api: Api, name: str, version: str) -> tuple[float, str]:
    async for event in api.watch(f"/api/v1/namespaces/{_NAMESPACE}/pods?fieldSelector=metadata.name%3D{name}", version):
        raw = event["object"]
        if raw["spec"].get("nodeName"):
            return time.monotonic(), "bound"
        condition = operator_process.condition(raw)
        if condition.get("status") == "False":
            return time.monotonic(), "preempts" if PREEMPTS in condition["message"] else "unschedulable"
    raise AssertionError("a watch has no end")
