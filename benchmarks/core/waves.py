"""Measures how long the gangs of the workload GangsInWaves take, with the whole engine in one process.

A server that answers one request after another stands for the API server, and the kubelets are those of the benchmark:
a pod runs from when it is seen on its node. Nodes become free one by one. Prints the time from the first creation to
the last Binding, and the order in which gangs started.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, Final

from benchmarks.workloads import load
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PLUGINS_API, PLUGINS_KIND
from podwright.core.queues.queues import QueueRules, queues_of
from podwright.core.queues.tree import Quota
from support.engine.kit import OURS, Rig, on_node
from support.objects.builders import make_node

REQUEST_SECONDS: Final = 0.003
"""What the API server takes for a request, about a Binding on a busy machine."""
GROUP: Final = "scheduling.x-k8s.io/pod-group"


class _Live(Rig):
    """A rig on a real clock."""

    now = property(lambda _self: time.time(), lambda _self, _value: None)

    def steady(self) -> float:
        return time.monotonic()


class Waves:
    """See the module. `runs`: seconds of each pod."""

    def __init__(self, size: str, runs: float, gather_after: float, request_seconds: float) -> None:
        workload = next(each for each in load() if (each.name, each.size) == ("GangsInWaves", size))
        self._rig = _Live()
        self._engine = self._rig.engine
        self._rig.cluster.bind = self._bind
        self._runs, self._request_seconds, self._free_at = runs, request_seconds, 0.0
        self._done = asyncio.Event()
        self.bound: list[tuple[float, str]] = []
        """When each pod was bound, in seconds since the first came, and its gang."""
        queues_of(self._engine.cache).set(
            QueueRules("team", quotas={"nvidia.com/gpu": Quota(), "cpu": Quota()}, gather_after=gather_after)
        )
        for index in range(workload.nodes):
            self._engine.nodes.put(
                make_node(f"node-{index}", allocatable={"cpu": "32", "nvidia.com/gpu": "8", "pods": "110"})
            )
        self._engine.cache.groups.serve(PLUGINS_API)
        for body in (body for op in workload.preparation for body in op.objects() if body["kind"] == "PodGroup"):
            body["metadata"]["uid"] = body["metadata"]["name"]
            self._engine.objects(PLUGINS_KIND).put(body)
        self._pods: dict[str, dict[str, Any]] = {}
        for number, body in enumerate(workload.measured.objects()):
            raw = deepcopy(body)
            raw["metadata"] |= {"name": f"pod-{number}", "namespace": "default", "uid": f"pod-{number}"}
            raw["spec"]["schedulerName"] = OURS
            self._pods[f"pod-{number}"] = raw

    async def run(self, seconds: float) -> None:
        """Until all are bound. Raises TimeoutError."""
        tasks = [asyncio.create_task(each) for each in (self._engine.run(), self._engine.run_housekeeping())]
        await asyncio.sleep(0.1)
        self._started = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                for number, raw in enumerate(self._pods.values()):  # by another client
                    asyncio.get_running_loop().call_later(number * self._request_seconds, self._create, raw)
                await self._done.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._engine.stop(0)

    def _request(self, then: Callable[..., object], *args: Any) -> None:
        loop = asyncio.get_running_loop()
        self._free_at = max(self._free_at, loop.time()) + self._request_seconds
        loop.call_at(self._free_at, then, *args)

    def _create(self, raw: dict[str, Any]) -> None:
        raw["metadata"]["creationTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._engine.pending.put(raw)

    async def _bind(self, pod: PodInfo, node_name: str, _annotations: Mapping[str, str]) -> None:
        answered = asyncio.Event()
        self._request(self._is_bound, pod, node_name, answered)
        await answered.wait()

    def _is_bound(self, pod: PodInfo, node_name: str, answered: asyncio.Event) -> None:
        answered.set()
        raw = self._pods[pod.name]
        self.bound.append((time.monotonic() - self._started, raw["metadata"]["labels"][GROUP]))
        self._rig.confirm(raw, node_name)
        self._request(self._is_running, raw, node_name)
        ended = self._engine.assigned.drop, pod.uid, None
        asyncio.get_running_loop().call_later(self._runs, self._request, *ended)
        if len(self.bound) == len(self._pods):
            self._done.set()

    def _is_running(self, raw: dict[str, Any], node_name: str) -> None:
        started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._engine.assigned.put(on_node(raw, node_name) | {"status": {"phase": "Running", "startTime": started}})


async def _measure(given: argparse.Namespace) -> Waves:
    waves = Waves(given.size, given.runs, given.gather_after, given.request)
    try:
        await waves.run(20 * given.runs)
    except TimeoutError:
        print("not all are bound")
    return waves


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.core.waves", description=__doc__)
    parser.add_argument("--size", default="32Nodes")
    parser.add_argument("--runs", type=float, default=6.0, help="seconds for which each pod runs")
    parser.add_argument("--gather-after", type=float, default=1.0, help="of the queue; 0: it gathers no room")
    parser.add_argument("--request", type=float, default=REQUEST_SECONDS, help="seconds of each request")
    given = parser.parse_args()
    cpu_started = time.thread_time()
    waves = asyncio.run(_measure(given))
    started: dict[str, tuple[float, int]] = {}
    for at, name in waves.bound:
        first, size = started.get(name, (at, 0))
        started[name] = first, size + 1
    for name, (at, size) in started.items():
        print(f"{at:7.3f}  {name:8} {size}")
    print(
        f"{len(waves.bound)} bound after {waves.bound[-1][0]:.2f} s, {time.thread_time() - cpu_started:.2f} s of CPU time"
    )


if __name__ == "__main__":
    main()
