"""Measures the cost of NodeResourcesFit and NodeResourcesBalancedAllocation: `python -m
benchmarks.core.resource_plugins`.

Each line is one workload on a cluster with placed pods. A decision filters, computes both scores, picks a node and
assumes the pod, so each decision finds one row of the node table changed. The columns are µs per decision and step;
`plugins` adds up the first three.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.core.handle import BenchHandle
from podwright.core.framework.interface import CycleState, Feasible
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.plugins.resources.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from podwright.core.plugins.resources.node_resources_fit import NodeResourcesFit
from podwright.core.state.cache import Cache


def make_cluster(nodes: int, pods: int) -> Cache:
    """Nodes of three sizes, with evenly placed pods of various sizes."""
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
    """Pods with `count` different requests in turn, without end."""
    for i in itertools.count():
        yield make_pod(f"new-{i}", 100 + i % min(count, 300), 128 + i % count // 3)


DISTINCT = 10**9
STEPS = ("filter", "fit", "balanced", "pick", "assume")


def measure(cache: Cache, pods: list[PodInfo]) -> NDArray[np.float64]:
    """The time of each step in µs: float64[steps, decisions]."""
    handle = BenchHandle(cache)
    fit = NodeResourcesFit(None, handle)
    balanced = NodeResourcesBalancedAllocation(None, handle)
    rng = random.Random(1)
    spent = np.empty((len(STEPS), len(pods)))
    clock = time.perf_counter_ns
    everything = np.arange(cache.table.size)
    for i, pod in enumerate(pods):
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
        spent[:, i] = (t1 - t0, t3 - t2, t4 - t3, t5 - t4 + t2 - t1, t6 - t5)
    return spent / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 5000, 15000])
    parser.add_argument("--shapes", type=int, nargs="+", default=[1, 20, 200, DISTINCT])
    parser.add_argument("--pods", type=int, default=10000, help="pods placed before the measurement")
    parser.add_argument("--decisions", type=int, default=3000)
    parser.add_argument(
        "--percentile",
        type=float,
        default=50,
        help="percentile over the decisions; a low one hides disturbances of the machine",
    )
    options = parser.parse_args()
    print("  nodes  shapes  " + "".join(f"{step:>10}" for step in (*STEPS, "plugins")))
    for nodes, shapes in itertools.product(options.nodes, options.shapes):
        pods = list(itertools.islice(templates(shapes), options.decisions))
        spent = measure(make_cluster(nodes, options.pods), pods)
        steps = np.percentile(np.vstack((spent, spent[:3].sum(axis=0))), options.percentile, axis=1)
        print(f"{nodes:>7} {'all' if shapes == DISTINCT else shapes:>7}  " + "".join(f"{us:>10.1f}" for us in steps))


if __name__ == "__main__":
    main()
