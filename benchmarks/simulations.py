"""Measures simulations and replays, in seconds of one core: `python -m benchmarks.simulations`. Prints, and asserts
nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

from podwright.core.objects.pod import parse_pod
from podwright.simulator.loaded import load
from podwright.simulator.replay.run import BUILT_IN, ReplayCandidate, replay
from podwright.simulator.replay.stream import Arrival, ReplayStream
from podwright.simulator.simulation import simulate_each_node
from podwright.simulator.snapshot import Snapshot

NODES, PODS, ARRIVALS = 1_000, 10_000, 100_000
PER_SECOND = 10.0
LOAD = 0.7
"""The share of all CPUs that the stream keeps in use."""
CPUS = (250, 500, 1000, 4000)
PACK = {
    "apiVersion": "podwright.dev/v1alpha1",
    "kind": "SchedulerPolicy",
    "metadata": {"name": "pack"},
    "spec": {"strategy": {"type": "MostAllocated"}},
}


def node(number: int) -> dict[str, Any]:
    name, amounts = f"node-{number}", {"cpu": "32", "memory": "128Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts}}


def pod(number: int, cpu: int, node_name: str = "") -> dict[str, Any]:
    app = f"app-{number % 200}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": True}
    metadata = {"name": f"pod-{number}", "uid": f"pod-{number}", "labels": {"app": app}, "ownerReferences": [owner]}
    requests = {"cpu": f"{cpu}m", "memory": "2Gi"}
    spec = {"schedulerName": "podwright", "containers": [{"name": "c", "resources": {"requests": requests}}]}
    return {"kind": "Pod", "metadata": metadata, "spec": {**spec, **({"nodeName": node_name} if node_name else {})}}


def arrivals(chance: random.Random) -> Iterator[Arrival]:
    lasts = LOAD * NODES * 32_000 / (sum(CPUS) / len(CPUS)) / PER_SECOND
    at = 0.0
    for number in range(ARRIVALS):
        at += chance.expovariate(PER_SECOND)
        yield Arrival(at, parse_pod(pod(number, chance.choice(CPUS))), runs_for=chance.expovariate(1 / lasts))


def main() -> None:
    chance = random.Random(1)
    nodes = [node(number) for number in range(NODES)]
    pods = [pod(number, chance.choice(CPUS[:3]), f"node-{number % NODES}") for number in range(PODS)]
    cluster = load(Snapshot(objects=[*nodes, *pods]))
    began = time.process_time()
    results = [*simulate_each_node(cluster, "drain")]
    seconds = time.process_time() - began
    moved = sum(result.moved for result in results)
    print(f"drain of each of {NODES:,} nodes with {PODS:,} pods: {seconds:.1f} s, {moved:,} pods moved")
    events = [*arrivals(chance)]
    stream = ReplayStream(initial=nodes, events=events, start=0.0, end=events[-1].time)
    for card in replay(stream, [ReplayCandidate(BUILT_IN), ReplayCandidate("pack", [PACK])]):
        print(
            f"replay of {ARRIVALS:,} pods on {NODES:,} nodes under {card.policy}: {card.cpu_seconds:.1f} s, "
            f"peak allocation of CPU {card.peak_allocation['cpu']:.0%}, nodes in use {card.nodes_in_use:.0f}"
        )


if __name__ == "__main__":
    main()
