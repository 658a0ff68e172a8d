"""A scheduler that makes no decisions: it binds pods to nodes round robin.

It writes the claims, the Binding and the `Scheduled` event of each pod, as every scheduler must. Its rate is the limit
of the machine, the API server and etcd. Run it as a process: `python -m benchmarks.null_scheduler KUBECONFIG
SCHEDULER_NAME [--without-events]`.
"""

import asyncio
import itertools
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.http_client import Api, Json, connect
from benchmarks.null_claims import NullClaims

WORKERS = 32


async def schedule(kubeconfig: Path, scheduler_name: str, *, events: bool) -> None:
    """Bind all present and future pods of `scheduler_name` until cancelled."""
    async with connect(kubeconfig) as api:
        nodes = [item["metadata"]["name"] for item in (await api.get("/api/v1/nodes"))["items"]]
        selector = f"fieldSelector=spec.nodeName%3D,spec.schedulerName%3D{scheduler_name}"
        listed = await api.get(f"/api/v1/pods?{selector}")
        pending: asyncio.Queue[Json] = asyncio.Queue()
        for pod in listed["items"]:
            _enqueue(pod, pending)
        targets = itertools.cycle(nodes)
        claims = await NullClaims.read(api)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WORKERS):
                tasks.create_task(_bind_next(api, claims, pending, targets, scheduler_name if events else None))
            version = listed["metadata"]["resourceVersion"]
            async for event in api.watch(f"/api/v1/pods?{selector}", version):
                if event["type"] == "ADDED":
                    _enqueue(event["object"], pending)


def _enqueue(pod: Json, pending: "asyncio.Queue[Json]") -> None:
    if not pod["spec"].get("schedulingGates"):
        pending.put_nowait(pod)


async def _bind_next(
    api: Api, claims: NullClaims, pending: "asyncio.Queue[Json]", targets: "itertools.cycle[str]", name: str | None
) -> None:
    """Binds pods until cancelled. `name`: who writes the events, None for no events."""
    while True:
        whole = await pending.get()
        node, pod = next(targets), whole["metadata"]
        await claims.write(whole, node)
        path = f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/binding"
        if await api.post(path, _binding(pod, node)) == 201 and name is not None:
            events = f"/apis/events.k8s.io/v1/namespaces/{pod['namespace']}/events"
            await api.post(events, _scheduled_event(pod, node, name))


def _binding(pod: Json, node: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod["name"], "namespace": pod["namespace"], "uid": pod["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _scheduled_event(pod: Json, node: str, name: str) -> Json:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{pod['name']}.{secrets.token_hex(8)}", "namespace": pod["namespace"]},
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod["namespace"],
            "name": pod["name"],
            "uid": pod["uid"],
        },
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": f"Successfully assigned {pod['namespace']}/{pod['name']} to {node}",
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": name,
        "reportingInstance": "null",
    }


if __name__ == "__main__":
    asyncio.run(schedule(Path(sys.argv[1]), sys.argv[2], events="--without-events" not in sys.argv))
