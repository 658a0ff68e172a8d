"""Runs Podwright for hours on a real API server with simulated kubelets, and checks that nothing grows.

    make soak                                            # an hour: 5,000 nodes, 100 pods/s in and out
    make soak ARGS="--hours 12 --output soak.json"       # half a day
    make soak ARGS="--hours 0.05 --nodes 300 --rate 20"  # three minutes, to see that it works

Pods are created at a steady rate, and the oldest are deleted at the same one. Meanwhile nodes leave with their pods and
come back, and a policy is edited. At the end, the caches must have what the API server has, each pod on its node, and
no pod may wait. Memory in use, resident memory, latency and the number of bindings of the last third of the time are
compared with those of the second third: the first third fills caches. Exits with 1 if one is worse by more than its
bound, or if a pod was deleted before it got a node, and keeps the logs then. The samples so far are in the file at any
moment.
"""

import argparse
import asyncio
import json
import re
import sys
import time
import traceback
import urllib.request
from collections import deque
from dataclasses import asdict, dataclass
from http import HTTPStatus
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from benchmarks.http_client import Api, Json, connect
from benchmarks.kubelets import Kubelets
from benchmarks.schedulers import SCHEDULER_NAME, install, is_ready, podwright
from benchmarks.workloads import render_pod
from podwright.testing import ControlPlane
from podwright.testing.objects import collection_path, node, object_path
from podwright.testing.processes import free_port

STANDING_SECONDS: Final = 60
"""For how many seconds of pods there is room: the oldest pod is deleted when it is that old."""
NODE_SECONDS: Final = 5.0
"""How often a node leaves, and comes back after as long."""
POLICY_SECONDS: Final = 15.0
SAMPLES: Final = 360
"""How many samples a run has. An interval is at least `LEAST_INTERVAL` seconds."""
LEAST_INTERVAL: Final = 5.0
SETTLED_SECONDS: Final = 60.0
READY_SECONDS: Final = 120.0
REQUESTS: Final = 100
"""How many requests of the load are under way at most, for an API server that is slower than the rate."""
BOUNDS: Final = {"in_use_mb": 1.05, "resident_mb": 1.1, "p99_ms": 1.5}
"""By how much the last third may exceed the second one. Resident memory also says whether the heap falls apart."""
LEAST_BOUND: Final = 0.8
"""So much of the bindings of the second third the last one must have."""
_POLICY: Final[Json] = {
    "apiVersion": "podwright.dev/v1alpha1",
    "kind": "SchedulerPolicy",
    "metadata": {"name": "soak"},
    "spec": {"schedulerName": SCHEDULER_NAME, "strategy": {"type": "LeastAllocated"}},
}


@dataclass(frozen=True, slots=True)
class Sample:
    """The measurements at `at` seconds. The latency is of pods bound since the sample before, and, up to now, of
    waiting pods.
    """

    at: float
    bound: int
    resident_mb: float
    in_use_mb: float
    p50_ms: float
    p99_ms: float


class Soak:
    """The load, and what it measures."""

    def __init__(self, api: Api, nodes: int, rate: float, url: str, pid: int, output: Path | None = None) -> None:
        self._api = api
        self._nodes = nodes
        self._rate = rate
        self._url = url
        self._pid = pid
        self._output = output
        self._created: dict[str, float] = {}
        self._latencies: list[float] = []
        self._standing: deque[str] = deque()
        self.bound = 0
        self.never_bound = 0
        """How many pods were deleted before they got a node."""
        self.samples: list[Sample] = []

    def seen_on_node(self, pod: Json) -> None:
        """Notes the latency of a pod that has just got a node."""
        created = self._created.pop(pod["metadata"]["name"], None)
        if created is not None:
            self.bound += 1
            self._latencies.append(time.monotonic() - created)

    def latencies(self) -> list[float]:
        """The latencies since the last call, in seconds; of pods that have no node, the time until now."""
        now, bound, self._latencies = time.monotonic(), self._latencies, []
        return [*bound, *(now - created for created in self._created.values())]

    async def run(self, seconds: float) -> None:
        """The load with its kubelets, and the samples, for this long. Raises what a part of it raises."""
        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
                kubelets = Kubelets(self._api, controlled=False, on_node=self.seen_on_node)
                tasks.create_task(kubelets.run(asyncio.Event()))
                tasks.create_task(self._churn_pods())
                tasks.create_task(self._churn_nodes())
                tasks.create_task(self._edit_policy())
                tasks.create_task(self._sample(max(LEAST_INTERVAL, seconds / SAMPLES)))
        except TimeoutError:
            return

    async def _churn_pods(self) -> None:
        started = time.monotonic()
        free = asyncio.Semaphore(REQUESTS)
        async with asyncio.TaskGroup() as requests:
            for number in count():
                await asyncio.sleep(max(0.0, started + number / self._rate - time.monotonic()))
                due = [self.create(f"soak-{number}", number)]
                if len(self._standing) > STANDING_SECONDS * self._rate:
                    due.append(self.delete(self._standing.popleft()))
                for each in due:
                    await free.acquire()
                    requests.create_task(each).add_done_callback(lambda _: free.release())

    async def delete(self, name: str) -> None:
        self.never_bound += self._created.pop(name, None) is not None
        await self._api.delete(_path_of(name))

    async def create(self, name: str, number: int) -> None:
        body = render_pod({"metadata": {"labels": {"app": f"app-{number % 20}"}}}, name, "default")
        if number % 4 == 0:
            key = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 5, "whenUnsatisfiable": "DoNotSchedule"}
            selector = {"labelSelector": {"matchLabels": body["metadata"]["labels"]}}
            body["spec"]["topologySpreadConstraints"] = [{**key, **selector}]
        self._created[name] = time.monotonic()
        status = await self._api.post(collection_path(body), body)
        self._standing.append(name)
        if status >= HTTPStatus.BAD_REQUEST:  # no fault of the scheduler
            self._created.pop(name, None)
            print(f"creating {name}: HTTP {status}", flush=True)

    async def _churn_nodes(self) -> None:
        for number in count():
            name = node_name(number % self._nodes)
            await asyncio.sleep(NODE_SECONDS)
            await self._api.delete(object_path(node(name)))
            listed = await self._api.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{name}")
            for each in listed["items"]:
                await self._api.delete(_path_of(each["metadata"]["name"]))
            await asyncio.sleep(NODE_SECONDS)
            await create_node(self._api, name)

    async def _edit_policy(self) -> None:
        await self._api.post(collection_path(_POLICY), _POLICY)
        for number in count():
            await asyncio.sleep(POLICY_SECONDS)
            strategy = {"type": ("MostAllocated", "LeastAllocated")[number % 2]}
            # No update: the operator writes the status, too.
            await self._api.patch(object_path(_POLICY), {"spec": {"strategy": strategy}}, "merge-patch")

    async def _sample(self, interval: float) -> None:
        started = time.monotonic()
        while True:
            await asyncio.sleep(interval)
            found = metrics(await asyncio.to_thread(read, f"{self._url}/metrics"))
            latencies = self.latencies() or [0.0]
            resident = resident_mb(self._pid)
            sample = Sample(
                at=round(time.monotonic() - started, 1),
                bound=self.bound,
                resident_mb=round(resident, 1),
                in_use_mb=round(found["podwright_memory_in_use_bytes"] / 1e6, 1),
                p50_ms=round(1e3 * median(latencies), 1),
                p99_ms=round(1e3 * quantiles([*latencies, latencies[-1]], n=100)[98], 1),
            )
            self.samples.append(sample)
            if self._output is not None:
                self._output.write_text(json.dumps([asdict(each) for each in self.samples], indent=1) + "\n")
            print("   ".join(f"{name} {value}" for name, value in asdict(sample).items()), flush=True)

    async def differences(self) -> tuple[dict[str, tuple[float, int]], int]:
        """How many nodes and pods the caches have, and how many the API server has; how many pods they have on the
        right node; and how many pods wait for a node: once the caches agree and no pod waits, or after a while.
        """
        ends = time.monotonic() + SETTLED_SECONDS
        while True:
            nodes = await self._api.get("/api/v1/nodes?limit=1")
            pods = await self._api.get("/api/v1/pods?fieldSelector=spec.nodeName%21%3D")
            waiting = await self._api.get("/api/v1/pods?fieldSelector=spec.nodeName%3D")
            placed = {(pod["metadata"]["name"], pod["spec"]["nodeName"]) for pod in pods["items"]}
            has = {
                "nodes": len(nodes["items"]) + nodes["metadata"].get("remainingItemCount", 0),
                "pods": len(pods["items"]),
                "assumed_pods": 0,
            }
            found = metrics(await asyncio.to_thread(read, f"{self._url}/metrics"))
            cached = placements(await asyncio.to_thread(read, f"{self._url}/metrics/resources"))
            both = {kind: (found[f'scheduler_cache_size{{type="{kind}"}}'], number) for kind, number in has.items()}
            both["pods on their nodes"] = len(cached & placed), len(placed)
            agree = all(cached == number for cached, number in both.values())
            if (agree and not waiting["items"]) or time.monotonic() > ends:
                return both, len(waiting["items"])
            await asyncio.sleep(1)


def node_name(number: int) -> str:
    return f"node-{number:05}"


async def create_node(api: Api, name: str) -> None:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{int(name[-5:]) % 3}"}
    body = node(name, labels=labels)
    await api.post(collection_path(body), body)


def resident_mb(pid: int) -> float:
    """The resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1e3


def _path_of(pod: str) -> str:
    return f"/api/v1/namespaces/default/pods/{pod}"


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as response:
        text: str = response.read().decode()
        return text


def metrics(page: str) -> dict[str, float]:
    """The samples of a page of metrics, by name with labels."""
    lines = page.splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def placements(page: str) -> set[tuple[str, str]]:
    """The pods and their nodes of a page of resources."""
    return set(re.findall(r'^kube_pod_resource_request{[^}]*?pod="([^"]*)",node="([^"]+)"', page, re.MULTILINE))


def grown(samples: list[Sample]) -> dict[str, tuple[float, float]]:
    """The figures whose median in the last third exceeds that of the second third by more than their bound; and the
    bindings, if they are fewer.
    """
    third = len(samples) // 3
    if third == 0:
        return {"samples": (3, len(samples))}
    found: dict[str, tuple[float, float]] = {}
    first, second, last = (samples[each].bound for each in (third, 2 * third, -1))
    if last - second < LEAST_BOUND * (second - first):
        found["bound"] = second - first, last - second
    for name, bound in BOUNDS.items():
        before = median([getattr(sample, name) for sample in samples[third : 2 * third]])
        after = median([getattr(sample, name) for sample in samples[2 * third :]])
        if after > before * bound:
            found[name] = (before, after)
    return found


async def soak(cluster: ControlPlane, nodes: int, rate: float, seconds: float, output: Path | None) -> list[str]:
    """Returns the problems found. The samples are in `output`, also if the run ends early."""
    installed = install(cluster)
    port = free_port()
    async with connect(cluster.kubeconfig) as api:
        for first in range(0, nodes, 100):
            await asyncio.gather(*(create_node(api, node_name(i)) for i in range(first, min(first + 100, nodes))))
        scheduler = podwright((f"--health-address=127.0.0.1:{port}",)).start(cluster, installed)
        scheduler.wait_ready(lambda: is_ready(port), READY_SECONDS)
        load = Soak(api, nodes, rate, f"http://127.0.0.1:{port}", scheduler.pid, output)
        try:
            await load.run(seconds)
            sizes, waiting = await load.differences()
        except Exception:  # noqa: BLE001 -- an hour's figures must not be lost
            print(traceback.format_exc(), scheduler.log_tail(), sep="\n", flush=True)
            return [f"the run ended early, after {len(load.samples)} samples: see above"]
        finally:
            scheduler.stop()
    wrong = [
        f"{kind}: {cached:g} in the cache, {has} in the API" for kind, (cached, has) in sizes.items() if cached != has
    ]
    wrong += [f"{load.never_bound} pods were deleted before they got a node"] if load.never_bound else []
    wrong += [f"{waiting} pods still wait for a node"] if waiting else []
    wrong += [
        f"{name}: {before:g} in the second third, {after:g} in the last"
        for name, (before, after) in grown(load.samples).items()
    ]
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rate", type=float, default=100.0, help="pods per second in, and as many out")
    parser.add_argument("--output", type=Path, help="a file for the samples, as JSON")
    given = parser.parse_args()
    with ControlPlane() as cluster:
        wrong = asyncio.run(soak(cluster, given.nodes, given.rate, given.hours * 3600, given.output))
        cluster.stop(keep_logs=bool(wrong))
    print("\n".join(wrong) or "nothing grew, and the caches have what the API server has")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
