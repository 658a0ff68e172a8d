"""Simulates all kubelets, and the controllers of all pods, with one request for each step of a pod.

A pod on a node becomes Running at once, and succeeds after the time of its annotation RUNS_FOR, such as 200ms, if it
has one. A pod that is deleted ends at once, whatever its grace period. Each pod that was evicted or deleted is created
again without a node, as the controller of a Job does, unless the pods have no controller.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial

from benchmarks.http_client import Api, Json
from podwright.testing.objects import collection_path, object_path

RUNS_FOR = "benchmarks/runs-for"
_IN_FLIGHT = 16
_ON_NODES = "/api/v1/pods?fieldSelector=spec.nodeName%21%3D"


class Kubelets:
    """See the module. `sent`: the number of requests so far. `on_node` learns of each pod that is seen on a node."""

    def __init__(
        self, api: Api, *, controlled: bool = True, on_node: Callable[[Json], object] = lambda _pod: None
    ) -> None:
        self._api = api
        self._controlled = controlled
        self._on_node = on_node
        self._work: asyncio.Queue[Callable[[], Awaitable[int]]] = asyncio.Queue()
        self.sent = 0

    async def run(self, settled: asyncio.Event) -> None:
        """Simulate until cancelled. Sets `settled` when all pods that have nodes already are Running."""
        listed = await self._api.get(_ON_NODES)
        for pod in listed["items"]:
            self._step(pod)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_IN_FLIGHT):
                tasks.create_task(self._send())
            await self._work.join()
            settled.set()
            async for event in self._api.watch(_ON_NODES, listed["metadata"]["resourceVersion"]):
                if event["type"] == "DELETED":
                    if not self._controlled:
                        continue
                    again = successor(event["object"])
                    self._work.put_nowait(partial(self._api.post, collection_path(again), again))
                else:
                    self._step(event["object"])

    async def _send(self) -> None:
        while True:
            request = await self._work.get()
            status = await request()
            if status not in (200, 201, 404, 409):  # 404, 409: the pod has ended meanwhile
                raise RuntimeError(f"a request of the simulated kubelets failed with HTTP {status}")
            self.sent += 1
            self._work.task_done()

    def _step(self, pod: Json) -> None:
        path = object_path({"apiVersion": "v1", "kind": "Pod", **pod})
        if "deletionTimestamp" in pod["metadata"]:
            self._work.put_nowait(partial(self._api.delete, path))
        elif pod["status"].get("phase") == "Pending":
            self._on_node(pod)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
            status = {"phase": "Running", "startTime": now, "conditions": [ready]}
            self._work.put_nowait(partial(self._api.patch, f"{path}/status", {"status": status}))
            if runs_for := pod["metadata"].get("annotations", {}).get(RUNS_FOR):
                ended = partial(self._api.patch, f"{path}/status", {"status": {"phase": "Succeeded"}})
                asyncio.get_running_loop().call_later(
                    int(runs_for.removesuffix("ms")) / 1000, self._work.put_nowait, ended
                )


def successor(pod: Json) -> Json:
    """The pod that a controller creates for a deleted one."""
    metadata = pod["metadata"]
    name, _, count = metadata["name"].partition(".")
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    kept = {key: metadata[key] for key in ("namespace", "labels", "annotations", "ownerReferences") if key in metadata}
    kept["name"] = f"{name}.{int(count or 0) + 1}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec}
