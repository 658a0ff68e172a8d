"""Measures decisions per second of the core alone: default profile, every node filtered, every feasible node scored,
one CPU core.

A decision is a whole scheduling cycle and the assumption of the pod, as in the operator, without an API server. Prints
a table. With --json FILE, also writes a list of {"workload", "nodes", "placed", "decisions_per_s", "p99_ms",
"longest_ms"}, and of {"workload", "cost_15000_to_1500"} where both sizes were measured: the cost of a decision on
15,000 nodes divided by that on 1,500. With --chart FILE, also draws the cost of a decision against the nodes, as SVG.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.core.cost_chart import cost_chart
from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Placement, schedule
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.plugins import PLUGINS
from podwright.engine.process.memory import configure_memory, freeze_objects
from podwright.simulator.world import World

Raw = dict[str, Any]
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"


def node(index: int) -> Raw:
    name = f"node-{index:05}"
    return {
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: f"zone-{index % 3}"}},
        "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "200Gi"}},
    }


def pod(index: int, name: str, spec: Mapping[str, Any], labels: Mapping[str, str]) -> Raw:
    requests = {"cpu": f"{100 + 10 * (index % 20)}m", "memory": f"{128 + 16 * (index % 20)}Mi"}
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": requests}}
    return {
        "metadata": {
            "name": f"{name}-{index}",
            "namespace": "default",
            "uid": f"{name}-{index}",
            "labels": dict(labels),
        },
        "spec": {"schedulerName": "podwright", "containers": [container], **spec},
    }


def plain(index: int, name: str) -> Raw:
    return pod(index, name, {}, {"app": f"app-{index % 20}"})


def spread(index: int, name: str) -> Raw:
    constraints = [
        {
            "maxSkew": 5,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }
        for key in (ZONE, HOSTNAME)
    ]
    return pod(index, name, {"topologySpreadConstraints": constraints}, {"app": "spread"})


def preferred_affinity(index: int, name: str) -> Raw:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "near"}}}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    return pod(index, name, {"affinity": {"podAffinity": preferred}}, {"app": "near"})


def required_anti_affinity(index: int, name: str) -> Raw:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": f"apart-{index % 10}"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod(index, name, {"affinity": {"podAntiAffinity": required}}, {"app": f"apart-{index % 10}"})


def different(index: int, name: str) -> Raw:
    raw = pod(index, name, {}, {"app": f"own-{index}"})
    raw["spec"]["containers"][0]["resources"]["requests"] = {
        "cpu": f"{100 + index}m",
        "memory": f"{64_000_000 + index}",
    }
    return raw


WORKLOADS: Final[Mapping[str, tuple[Callable[[int, str], Raw], Callable[[int, str], Raw]]]] = {
    "plain pods of 20 templates": (plain, plain),
    "zone and hostname spread": (plain, spread),
    "preferred inter-pod affinity": (preferred_affinity, preferred_affinity),
    "required anti-affinity": (plain, required_anti_affinity),
    "pods that all differ": (plain, different),
}


def filled(nodes: int, placed: int, kind: Callable[[int, str], Raw], cordoned: float = 0) -> World:
    """A world with evenly placed pods. Unless `kind` is `plain`, every second pod is a plain one. `cordoned`: the share
    of nodes that are unschedulable.
    """
    world = World(clock=time.time)
    every = round(1 / cordoned) if cordoned else nodes + 1
    world.fill({"nodes": [{**node(i), "spec": {"unschedulable": (i + 1) % every == 0}} for i in range(nodes)]})
    for i in range(placed):
        raw = (plain if kind is not plain and i % 2 else kind)(i, "placed")
        raw["spec"]["nodeName"] = f"node-{i * 7919 % nodes:05}"
        raw["status"] = {"phase": "Running"}
        world.set_pod(raw)
    return world


def measure(world: World, pods: list[PodInfo]) -> list[float]:
    """The CPU time of each decision in seconds, which other processes hardly affect. Uses one thread. As in the
    operator, the collector leaves out what was there before.
    """
    freeze_objects()
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    below = random.Random(7).randrange
    durations = []
    started = time.process_time()
    for pod in pods:
        decision = schedule(framework, world.cache, pod, below)
        if not isinstance(decision, Placement):
            raise TypeError(f"{pod.key} was not placed: {decision}")
        world.cache.assume(pod, decision.node_name)
        ended = time.process_time()
        durations.append(ended - started)
        started = ended
    gc.unfreeze()
    return durations


def compare(results: list[Raw]) -> list[Raw]:
    """The cost of a decision on 15,000 nodes divided by that on 1,500, for each workload measured on both."""
    rates = {(item["workload"], item["nodes"]): item["decisions_per_s"] for item in results}
    return [
        {"workload": workload, "cost_15000_to_1500": round(rates[workload, 1500] / rates[workload, 15000], 2)}
        for workload in dict.fromkeys(item["workload"] for item in results)
        if (workload, 1500) in rates and (workload, 15000) in rates
    ]


def resident() -> float:
    """The memory of the process in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def memory(placed: int) -> float:
    """Memory in MB of `placed` pods in the cache, indexes included."""
    world = World(clock=time.time)
    world.fill({"nodes": [node(i) for i in range(5000)]})
    measure(world, [parse_pod(spread(0, "first"))])
    tracemalloc.start()
    for i in range(placed):
        raw = plain(i, "placed")
        raw["spec"]["nodeName"] = f"node-{i % 5000:05}"
        world.set_pod(json.loads(json.dumps(raw)))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[500, 1000, 1500, 5000, 15000])
    parser.add_argument("--placed", type=int, default=10000)
    parser.add_argument("--placed-per-node", type=int, help="instead of --placed")
    parser.add_argument("--cordoned", type=float, default=0, help="the share of cordoned nodes, as 0.01")
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--only", help="only workloads whose name contains this")
    parser.add_argument("--memory", action="store_true", help="also measure the memory of 50,000 placed pods")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--chart", type=Path)
    given = parser.parse_args()
    configure_memory()
    results: list[Raw] = []
    for workload, (placed_kind, pending_kind) in WORKLOADS.items():
        if given.only and given.only not in workload:
            continue
        for nodes in given.nodes:
            placed = given.placed if given.placed_per_node is None else given.placed_per_node * nodes
            world = filled(nodes, placed, placed_kind, given.cordoned)
            pods = [parse_pod(pending_kind(i, "pending")) for i in range(given.pods)]
            durations = measure(world, pods)
            rate = len(pods) / sum(durations)
            late, longest = sorted(durations)[int(len(pods) * 0.99)] * 1e3, max(durations) * 1e3
            results.append(
                {
                    "workload": workload,
                    "nodes": nodes,
                    "placed": placed,
                    "decisions_per_s": round(rate),
                    "p99_ms": round(late, 2),
                    "longest_ms": round(longest, 1),
                }
            )
            print(
                f"{workload:32} {nodes:6} nodes {placed:7} placed {rate:7.0f} decisions/s {1e6 / rate:6.0f} µs"
                f"   p99 {late:6.2f} ms   longest {longest:7.2f} ms   {resident():5.0f} MB",
                flush=True,
            )
    for compared in compare(results):
        results.append(compared)
        print(f"{compared['workload']:32} 15,000 nodes to 1,500: {compared['cost_15000_to_1500']:.2f} x the cost")
    if given.memory:
        print(f"50,000 placed pods: {memory(50_000):.0f} MB")
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")
    if given.chart:
        given.chart.write_text(cost_chart(results))


if __name__ == "__main__":
    main()
