"""How long `podwright explain` takes for a pending pod, once the cluster is loaded: `python -m benchmarks.explain
--nodes 5000`.

Prints milliseconds with and without the search of what would help, each the median of several runs, and how many
changes were found.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping
from typing import Any

from podwright.core.objects.pod import parse_pod
from podwright.simulator.explain.explanation import explain_pod
from podwright.simulator.loaded import LoadedCluster, load
from podwright.simulator.snapshot import Snapshot
from podwright.testing.objects import node, pod

PODS: Mapping[str, Mapping[str, Any]] = {
    "a little too big": {"cpu": "1"},
    "too big for any node": {"cpu": "40"},
    "selects a label that no node has": {"nodeSelector": {"disk": "ssd"}},
    "anti-affinity to a pod on every node": {
        "labels": {"app": "all"},
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "all"}}}
                ]
            }
        },
    },
}


def cluster(nodes: int) -> LoadedCluster:
    """Nodes in three zones, each with two pods that leave it 800m of CPU. Every fiftieth node has a taint."""
    taint = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
    objects = [
        node(
            f"node-{i}",
            cpu="8",
            labels={"topology.kubernetes.io/zone": "abc"[i % 3]},
            taints=taint if i % 50 == 0 else None,
        )
        for i in range(nodes)
    ]
    for i in range(2 * nodes):
        labels = {"app": "all" if i < nodes else f"app-{i % 100}"}
        objects.append(
            pod(
                f"pod-{i}",
                cpu="3500m" if i < nodes else "3700m",
                memory="8Gi",
                labels=labels,
                nodeName=f"node-{i % nodes}",
            )
        )
    return load(Snapshot(objects=objects))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    started = time.perf_counter()
    loaded = cluster(args.nodes)
    print(f"{args.nodes} nodes, {loaded.cache.pod_count} pods, loaded in {time.perf_counter() - started:.1f} s")
    print(f"{'the pod':40} {'explained':>12} {'with changes':>14} {'changes':>8}")
    for name, options in PODS.items():
        waiting = parse_pod(pod("waiting", scheduler="podwright", **options), keep_raw=True)
        times: dict[bool, list[float]] = {False: [], True: []}
        for changes in (False, True) * args.runs:
            started = time.perf_counter()
            found = explain_pod(loaded, waiting, changes=changes)
            times[changes].append(1000 * (time.perf_counter() - started))
        medians = [statistics.median(times[changes]) for changes in (False, True)]
        print(f"{name:40} {medians[0]:9.1f} ms {medians[1]:11.1f} ms {len(found.changes):8}")


if __name__ == "__main__":
    main()
