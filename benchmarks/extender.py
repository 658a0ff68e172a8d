"""Measures `podwright extender`: latency under load, the cost of nodes that are sent along, and what it costs
kube-scheduler.

    python -m benchmarks.extender load --nodes 5000 --rate 100 --seconds 30
    python -m benchmarks.extender nodes-sent --nodes 5000 --at-once 16
    python -m benchmarks.extender kube-scheduler --nodes 1000 --pods 1000 --rounds 3

Each starts a control plane on loopback and the extender as a process of its own; the first two, on one CPU core if
there are several. Prints a table.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks import extended_kube_scheduler
from benchmarks.process_cost import cost
from podwright.testing import ControlPlane, Process, node, pod, wait_until
from podwright.testing.processes import free_port

ROOT: Final = Path(__file__).parents[1]
POLICY: Final = {
    "apiVersion": "podwright.dev/v1alpha1",
    "kind": "SchedulerPolicy",
    "metadata": {"name": "packs"},
    "spec": {"schedulerName": "default-scheduler", "strategy": {"type": "MostAllocated"}},
}
CONNECTIONS: Final = 16
"""Of the load generator. kube-scheduler has one for each extender."""
JSON: Final = {"Content-Type": "application/json"}


@dataclass
class Extender:
    """The process, and where it answers."""

    process: Process
    url: str

    @property
    def pid(self) -> int:
        return self.process.pid

    def cpu_seconds(self) -> float:
        return cost(self.pid).cpu_s

    def memory(self, key: str) -> int:
        """VmRSS or VmHWM, in bytes."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


@dataclass
class Latencies:
    """Of one verb, in seconds, from the time at which a request was due."""

    found: list[float] = field(default_factory=list)

    def row(self, name: str) -> str:
        cuts = statistics.quantiles(self.found, n=100)
        return (
            f"{name:24} {len(self.found):7d} {cuts[49] * 1e3:9.2f} {cuts[98] * 1e3:9.2f} {max(self.found) * 1e3:9.2f}"
        )


@contextmanager
def running(nodes: int, placed: int, *, one_core: bool = True) -> Iterator[tuple[ControlPlane, Extender]]:
    """A control plane with nodes and placed pods, and an extender that knows them. With `one_core`, it never leaves its
    CPU core.
    """
    with ControlPlane() as cluster:
        cluster.apply(ROOT / "manifests" / "base")
        wait_until(
            lambda: cluster.client.raw("GET", "/apis/podwright.dev/v1alpha1")[0] == 200, 30, "policies are served"
        )
        cluster.client.create(POLICY)
        cluster.bulk.create([_node(index) for index in range(nodes)])
        pods = [pod(f"placed-{index}") for index in range(placed)]
        for index, each in enumerate(pods):
            each["spec"]["nodeName"] = f"node-{index % nodes:05}"
        cluster.bulk.create(pods)
        port = free_port()
        command = [sys.executable, "-m", "podwright", "extender", f"--address=127.0.0.1:{port}"]
        settings = {
            "PODWRIGHT_KUBECONFIG": str(cluster.service_account_kubeconfig("podwright-system", "podwright")),
            "PODWRIGHT_ALLOWED_SCHEDULER_NAMES": "default-scheduler",
            "PYTHONMALLOC": "malloc",
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        }
        process = cluster.start_process("extender", command, settings)
        extender = Extender(process, f"http://127.0.0.1:{port}")
        process.wait_ready(lambda: asyncio.run(_ready(extender.url)), 120)
        if one_core and len(cores := os.sched_getaffinity(0)) > 1:
            os.sched_setaffinity(extender.pid, {max(cores)})
        yield cluster, extender


def _node(index: int) -> dict[str, Any]:
    """With the labels and images that a node of a cloud provider has: some 8 KB of JSON."""
    name = f"node-{index:05}"
    labels = {f"cloud.example/{key}": f"value-{key}-{index % 7}" for key in range(12)}
    body = node(name, cpu="32", memory="128Gi", labels={**labels, "topology.kubernetes.io/zone": f"zone-{index % 3}"})
    body["status"]["images"] = [
        {
            "names": [
                f"registry.example/team-{image}/app@sha256:{image:064x}",
                f"registry.example/team-{image}/app:1.{image}",
            ],
            "sizeBytes": 100_000_000 + image,
        }
        for image in range(35)
    ]
    return body


async def _ready(url: str) -> bool:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


def asking(index: int) -> dict[str, Any]:
    """A pod as kube-scheduler sends it."""
    body = pod(f"asks-{index}")
    body["metadata"] |= {"uid": f"00000000-0000-0000-0000-{index:012}", "namespace": "default"}
    return body


# The three measurements


async def load(extender: Extender, nodes: int, rate: int, seconds: int) -> None:
    """Filter and prioritize in turn, at a constant rate, whatever the answers take."""
    names = [f"node-{index:05}" for index in range(nodes)]
    found = {"filter": Latencies(), "prioritize": Latencies()}
    bodies = [json.dumps({"Pod": asking(index), "Nodes": None, "NodeNames": names}).encode() for index in range(200)]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS)) as session:

        async def ask(verb: str, body: bytes, due: float) -> None:
            async with session.post(f"{extender.url}/{verb}", data=io.BytesIO(body), headers=JSON) as response:
                await response.read()
                assert response.status == 200, await response.text()
            if due >= measured_from:
                found[verb].found.append(loop.time() - due)

        loop = asyncio.get_running_loop()
        started = loop.time() + 0.1
        measured_from, cpu = started + 2, 0.0
        async with asyncio.TaskGroup() as tasks:
            for number in range(rate * (seconds + 2)):
                due = started + number / rate
                await asyncio.sleep(due - loop.time())
                if number == 2 * rate:
                    cpu = extender.cpu_seconds()
                verb = ("filter", "prioritize")[number % 2]
                tasks.create_task(ask(verb, bodies[number % len(bodies)], due))
        cpu = extender.cpu_seconds() - cpu
    print(f"{'':24} {'calls':>7} {'p50 ms':>9} {'p99 ms':>9} {'max ms':>9}")
    for verb, latencies in found.items():
        print(latencies.row(verb))
    print(f"{len(bodies[0])} bytes per request, {cpu / (rate * seconds) * 1e3:.2f} ms of CPU per request")


async def nodes_sent(cluster: ControlPlane, extender: Extender, at_once: int) -> None:
    """All nodes in each request: alone, then several requests at once."""
    items = cluster.client.items("/api/v1/nodes")
    body = json.dumps({"Pod": asking(0), "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}).encode()
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def ask(verb: str) -> int:
            async with session.post(f"{extender.url}/{verb}", data=io.BytesIO(body), headers=JSON) as response:
                await response.read()
                return response.status

        print(
            f"{len(body) / 2**20:.1f} MiB per request; resident memory at rest {extender.memory('VmRSS') / 2**20:.0f} MiB"
        )
        for verb in ("filter", "prioritize"):
            await ask(verb)
            started, cpu = time.monotonic(), extender.cpu_seconds()
            assert [await ask(verb) for _ in range(3)] == [200] * 3
            took, cpu = time.monotonic() - started, extender.cpu_seconds() - cpu
            print(f"{verb:12} {took / 3 * 1e3:7.0f} ms, {cpu / 3 * 1e3:7.0f} ms of CPU per request")
        alone = extender.memory("VmHWM")
        answers = await asyncio.gather(*(ask("filter") for _ in range(at_once)))
        print(f"{at_once} at once: {answers.count(200)} answered, {answers.count(503)} told to try again later")
        together = extender.memory("VmHWM")
        print(
            f"most memory: {alone / 2**20:.0f} MiB with one request, {together / 2**20:.0f} MiB with {at_once} at once"
        )


def main(arguments: Sequence[str]) -> None:
    """Runs one of the measurements."""
    parser = argparse.ArgumentParser("python -m benchmarks.extender", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, nodes in (("load", 5000), ("nodes-sent", 5000), ("kube-scheduler", 1000)):
        commands.add_parser(name).add_argument("--nodes", type=int, default=nodes)
    commands.choices["load"].add_argument("--rate", type=int, default=100, help="requests per second")
    commands.choices["load"].add_argument("--seconds", type=int, default=30)
    commands.choices["nodes-sent"].add_argument("--at-once", type=int, default=16)
    extended_kube_scheduler.add_arguments(commands.choices["kube-scheduler"])
    chosen = parser.parse_args(arguments)
    beside = chosen.command == "kube-scheduler"  # which moves between cores, too
    with running(chosen.nodes, 0 if beside else chosen.nodes, one_core=not beside) as (cluster, extender):
        if chosen.command == "load":
            asyncio.run(load(extender, chosen.nodes, chosen.rate, chosen.seconds))
        elif chosen.command == "nodes-sent":
            asyncio.run(nodes_sent(cluster, extender, chosen.at_once))
        else:
            ours = (extender.pid, extender.url)
            print(
                extended_kube_scheduler.compare(
                    cluster, ours, chosen=chosen.series, pods=chosen.pods, rounds=chosen.rounds
                )
            )


if __name__ == "__main__":
    main(sys.argv[1:])
