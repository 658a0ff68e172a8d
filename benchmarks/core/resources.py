"""What NodeResourcesFit and NodeResourcesBalancedAllocation cost a decision, in process: `python -m benchmarks.core.resources`.

Each line is one workload on a cluster that already holds pods: filter, both scores and the pick of a node, then the pod
is assumed there, so that every decision finds one row changed. The columns are µs of CPU a decision, by call.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from podwright.core.framework.features import Features
from podwright.core.framework.interface import CycleState, Feasible
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from podwright.core.plugins.node_resources_fit import NodeResourcesFit
from podwright.core.state.cache import Cache


@dataclass
class BenchHandle:
    """A Handle that only has a cache."""

    cache: Cache
    features: Features = field(default_factory=Features)
    cluster: object = None

    def now(self) -> float:
        return 0.0


def make_cluster(nodes: int, pods: int) -> Cache:
    """Nodes of three sizes, with pods of eight shapes spread evenly."""
    cache = Cache()
    for i in range(nodes):
        cores = (16, 32, 64)[i % 3]
        allocatable = {"cpu": f"{cores * 1000 - 80}m", "memory": f"{cores * 4 - 2}Gi", "pods": "110"}
        cache.set_node(parse_node({"metadata": {"name": f"node-{i:05}"}, "status": {"allocatable": allocatable}}))
    for i in range(pods):
        cache.set_pod(make_pod(f"old-{i}", 50 * (i % 8 + 1), 128 * (i % 5 + 1), f"node-{i % nodes:05}"))
    return cache


def make_pod(name: str, milli_cpu: int, mebibytes: int, node: str = "") -> PodInfo:
    requests = {"cpu": f"{milli_cpu}m", "memory": f"{mebibytes}Mi"}
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    return parse_pod({"metadata": {"name": name}, "spec": {**spec, "nodeName": node} if node else spec})


def templates(count: int) -> Iterator[PodInfo]:
    """Pods of so many shapes in turn."""
    for i in itertools.count():
        yield make_pod(f"new-{i}", 100 + i % min(count, 300), 128 + i % count // 3)


def measure(cache: Cache, pods: list[PodInfo]) -> dict[str, float]:
    """µs a decision for each step."""
    handle = BenchHandle(cache)
    fit = NodeResourcesFit(None, handle)  # type: ignore[arg-type]
    balanced = NodeResourcesBalancedAllocation(None, handle)  # type: ignore[arg-type]
    rng = random.Random(1)
    spent = dict.fromkeys(("filter", "fit", "balanced", "pick", "assume"), 0)
    clock = time.process_time_ns
    everything = np.arange(cache.table.size)
    for pod in pods:
        state = CycleState()
        t0 = clock()
        ok = fit.filter_all(state, pod, cache.table).ok
        t1 = clock()
        slots = everything if ok.all() else np.flatnonzero(ok)
        feasible = Feasible(cache.table, slots)
        t2 = clock()
        total = fit.score_all(state, pod, feasible)
        t3 = clock()
        total = total + balanced.score_all(state, pod, feasible)
        t4 = clock()
        best = slots[np.flatnonzero(total == total.max())]
        node = cache.table.names[best[rng.randrange(len(best))]]
        t5 = clock()
        cache.assume(pod, node)
        t6 = clock()
        for step, ns in zip(spent, (t1 - t0, t3 - t2, t4 - t3, t5 - t4 + t2 - t1, t6 - t5), strict=True):
            spent[step] += ns
    return {step: ns / len(pods) / 1000 for step, ns in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 5000, 15000])
    parser.add_argument("--pods", type=int, default=10000, help="pods on the cluster before")
    parser.add_argument("--decisions", type=int, default=3000)
    options = parser.parse_args()
    print(
        f"{'nodes':>6} {'shapes':>7} {'filter':>8} {'fit':>8} {'balanced':>9} {'all three':>10} {'pick':>6} {'assume':>7}"
    )
    for nodes in options.nodes:
        for shapes in (1, 20, 200, 10**9):
            spent = measure(
                make_cluster(nodes, options.pods), list(itertools.islice(templates(shapes), options.decisions))
            )
            three = spent["filter"] + spent["fit"] + spent["balanced"]
            print(
                f"{nodes:>6} {'all' if shapes == 10**9 else shapes:>7} {spent['filter']:>8.1f} {spent['fit']:>8.1f}"
                f" {spent['balanced']:>9.1f} {three:>10.1f} {spent['pick']:>6.1f} {spent['assume']:>7.1f}"
            )


if __name__ == "__main__":
    main()
