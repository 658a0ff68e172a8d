"""Measures how long gangs of pods that end take, with the whole engine in one process: those of GangsInWaves, or of
KueueTopology, whose queues have limits.

    python -m benchmarks.core.waves
    python -m benchmarks.core.waves --workload KueueTopology --size 640Nodes_1500Gangs --create 0.001 --request 0.002
    --kubelet 0.006

A server that answers one request after another stands for the API server, and another one for its answers to kubelets:
a pod runs from when it is seen on its node. Prints the time from the first creation to the last Binding, and of
GangsInWaves, whose nodes become free one by one, the order in which gangs started.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from benchmarks.kubelets import RUNS_FOR
from benchmarks.workloads import load, render_pod
from podwright.api.scheduling_queue import parse_queue
from podwright.core.objects.closeness import KUEUE_API
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PLUGINS_API, PLUGINS_KIND
from podwright.core.queues.queues import queues_of
from support.engine.kit import OURS, Rig, on_node

REQUEST_SECONDS: Final = 0.003
"""The time that the API server takes for a request, about a Binding on a busy machine."""
GROUP: Final = "scheduling.x-k8s.io/pod-group"


class _Live(Rig):
    """A rig on a real clock."""

    now = property(lambda _self: time.time(), lambda _self, _value: None)

    def steady(self) -> float:
        return time.monotonic()


@dataclass(frozen=True)
class Settings:
    """All times are in seconds. `runs`: for how long each pod runs, if its template does not say it. `create`,
    `request` and `kubelet`: what a creation, a Binding and a request of a kubelet take.
    """

    workload: str
    size: str
    runs: float
    gather_after: float
    create: float
    request: float
    kubelet: float


class _Server:
    """Answers one request after another."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._free_at = seconds, 0.0

    def request(self, then: Callable[..., object], *args: Any) -> None:
        loop = asyncio.get_running_loop()
        self._free_at = max(self._free_at, loop.time()) + self._seconds
        loop.call_at(self._free_at, then, *args)


class Waves:
    """See the module."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        workload = next(each for each in load() if (each.name, each.size) == (settings.workload, settings.size))
        self._rig = _Live()
        self._engine = self._rig.engine
        self._rig.cluster.bind = self._bind
        self._api, self._kubelets = _Server(settings.request), _Server(settings.kubelet)
        self._done = asyncio.Event()
        self.bound: list[tuple[float, str]] = []
        """When each pod was bound, in seconds since the first came, and its gang."""
        self._engine.cache.groups.serve(PLUGINS_API)
        for body in (body for op in workload.preparation for body in op.objects()):
            self._prepare(body["kind"], body)
        self._pods: dict[str, dict[str, Any]] = {}
        for number, body in enumerate(workload.measured.objects()):
            raw = render_pod(body, f"pod-{number}", "default")
            raw["metadata"]["uid"] = f"pod-{number}"
            raw["spec"]["schedulerName"] = OURS
            if priority := raw["spec"].get("priorityClassName"):  # which admission turns into a number
                raw["spec"]["priority"] = int(priority.rpartition("-")[2])
            self._pods[f"pod-{number}"] = raw

    def _prepare(self, kind: str, body: dict[str, Any]) -> None:
        body["metadata"]["uid"] = body["metadata"]["name"]
        if kind == "SchedulingQueue":
            rules = parse_queue(body)
            gathers = {"gather_after": self._settings.gather_after} if rules.gather_after else {}
            queues_of(self._engine.cache).set(replace(rules, **gathers))
        elif kind == "Node":
            self._engine.nodes.put(body)
        elif kind == "PodGroup":
            self._engine.objects(PLUGINS_KIND).put(body)
        elif kind == "Topology":
            levels = tuple(level["nodeLabel"] for level in body["spec"]["levels"])
            self._engine.cache.topologies.set(f"{KUEUE_API}/{body['metadata']['name']}", levels)

    async def run(self, seconds: float) -> None:
        """Until all are bound. Raises TimeoutError."""
        tasks = [asyncio.create_task(each) for each in (self._engine.run(), self._engine.run_housekeeping())]
        await asyncio.sleep(0.1)
        self._started = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                for number, raw in enumerate(self._pods.values()):  # by another client
                    asyncio.get_running_loop().call_later(number * self._settings.create, self._create, raw)
                await self._done.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._engine.stop(0)

    def _create(self, raw: dict[str, Any]) -> None:
        raw["metadata"]["creationTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._engine.pending.put(raw)

    async def _bind(self, pod: PodInfo, node_name: str, _annotations: Mapping[str, str]) -> None:
        answered = asyncio.Event()
        self._api.request(self._is_bound, pod, node_name, answered)
        await answered.wait()

    def _is_bound(self, pod: PodInfo, node_name: str, answered: asyncio.Event) -> None:
        answered.set()
        raw = self._pods[pod.name]
        self.bound.append((time.monotonic() - self._started, raw["metadata"]["labels"][GROUP]))
        self._rig.confirm(raw, node_name)
        self._kubelets.request(self._is_running, raw, node_name)
        says = raw["metadata"]["annotations"][RUNS_FOR] if self._settings.workload != "GangsInWaves" else ""
        runs = int(says.removesuffix("ms")) / 1000 if says else self._settings.runs
        ended = self._engine.assigned.drop, pod.uid, None
        asyncio.get_running_loop().call_later(runs, self._kubelets.request, *ended)
        if len(self.bound) == len(self._pods):
            self._done.set()

    def _is_running(self, raw: dict[str, Any], node_name: str) -> None:
        started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._engine.assigned.put(on_node(raw, node_name) | {"status": {"phase": "Running", "startTime": started}})


async def _measure(settings: Settings) -> Waves:
    waves = Waves(settings)
    try:
        await waves.run(20 * settings.runs)
    except TimeoutError:
        print("not all are bound")
    return waves


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.core.waves", description=__doc__)
    parser.add_argument("--workload", default="GangsInWaves", choices=["GangsInWaves", "KueueTopology"])
    parser.add_argument("--size", default="32Nodes")
    parser.add_argument("--runs", type=float, default=6.0, help="seconds for which each pod of GangsInWaves runs")
    parser.add_argument("--gather-after", type=float, default=1.0, help="of its queue; 0: it gathers no room")
    for name, what in (("create", "creation"), ("request", "Binding"), ("kubelet", "request of a kubelet")):
        parser.add_argument(f"--{name}", type=float, default=REQUEST_SECONDS, help=f"seconds of each {what}")
    settings = Settings(**vars(parser.parse_args()))
    cpu_started = time.thread_time()
    waves = asyncio.run(_measure(settings))
    started: dict[str, tuple[float, int]] = {}
    for at, name in waves.bound:
        first, size = started.get(name, (at, 0))
        started[name] = first, size + 1
    for name, (at, size) in started.items() if settings.workload == "GangsInWaves" else ():
        print(f"{at:7.3f}  {name:8} {size}")
    print(
        f"{len(waves.bound)} bound after {waves.bound[-1][0]:.2f} s, {time.thread_time() - cpu_started:.2f} s of CPU time"
    )


if __name__ == "__main__":
    main()
