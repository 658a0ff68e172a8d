"""Compares plans of rebalancing with and without the exact search, on small generated clusters.

    python -m benchmarks.core.rebalancing

The nodes have one size, and 45 to 65 % of them is requested, by pods of seven sizes that are spread at random. One goal
is to empty nodes; the other one is room for a gang of pods that fit on no node beside others: KAI's shape of a
consolidation, with pods of several sizes. Better is a greater gain, then fewer moves.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from podwright.api.rebalance_policy import parse_rebalance_policy
from podwright.engine.process.solving import solve
from podwright.simulator.loaded import LoadedCluster, LoadOptions, load
from podwright.simulator.rebalance import plan_of
from podwright.simulator.snapshot import Snapshot
from podwright.testing.objects import node, pod

NOW: Final = 1_700_000_000.0
CPUS: Final = 16
SIZES: Final = (1, 1, 1, 2, 2, 3, 4, 5, 6)
GOALS: Final[Mapping[str, Mapping[str, Any]]] = {
    "EmptyNodes": {"type": "EmptyNodes"},
    "MakeRoom": {"type": "MakeRoom", "gangs": ["*"]},
}


def generate(seed: int, nodes: int, goal: str) -> LoadedCluster:
    choose = random.Random(f"{seed} {nodes}")
    free, pods = [CPUS] * nodes, list[dict[str, Any]]()
    wanted = CPUS * nodes * choose.uniform(0.35, 0.55)
    while sum(free) > wanted:
        size, on = choose.choice(SIZES), choose.randrange(nodes)
        if free[on] >= size:
            free[on] -= size
            pods.append(owned(f"p{len(pods)}", f"app{choose.randrange(nodes)}", size, nodeName=f"n{on}"))
    objects = [*(node(f"n{i}", cpu=str(CPUS)) for i in range(nodes)), *pods]
    if goal == "MakeRoom":
        metadata = {"name": "train", "namespace": "default", "uid": "train"}
        api, members = "scheduling.x-k8s.io/v1alpha1", nodes // 4
        objects.append({"apiVersion": api, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": members}})
        label = {"scheduling.x-k8s.io/pod-group": "train"}
        objects += [owned(f"train-{i}", "train", 14, labels=label) for i in range(members)]
    return load(Snapshot(objects=objects, taken_at=NOW), LoadOptions())


def owned(name: str, of: str, cpu: int, labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    raw = pod(name, "default", scheduler="podwright", cpu=str(cpu), labels=labels, **spec)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": of, "uid": of, "controller": True}
    raw["metadata"] |= {"uid": name, "creationTimestamp": "2023-11-01T00:00:00Z", "ownerReferences": [owner]}
    return raw


def compare(goal: str, nodes: int, seeds: Sequence[int]) -> str:
    metadata = {"name": "tidy", "uid": "tidy", "generation": 1}
    spec = {"goals": [GOALS[goal]], "maxMoves": 1000, "minGain": "1m"}
    rules = parse_rebalance_policy({"metadata": metadata, "spec": spec, **KIND})
    ends, local_gain, gain, times, more = Counter[str](), 0, 0, list[float](), list[float]()
    for seed in seeds:
        cluster = generate(seed, nodes, goal)
        local = plan_of(cluster, rules)
        started = time.perf_counter()
        best = plan_of(cluster, rules, solve=solve)
        times.append(time.perf_counter() - started)
        one, other = (local.gain, -len(local.moves)), (best.gain, -len(best.moves))
        assert other >= one, (goal, nodes, seed)
        ends[best.exact or "the local search cannot be beaten"] += 1
        local_gain, gain = local_gain + local.gain, gain + best.gain
        if local.gain == best.gain and best.moves:
            more.append(len(local.moves) / len(best.moves))
    figures = f"gain {local_gain} and {gain}; moves at the same gain {max(more, default=1.0):.2f} times at most"
    return f"{goal} on {nodes} nodes: {figures}; {median(times):.2f} s, at most {max(times):.2f} s; {dict(ends)}"


KIND: Final = {"apiVersion": "podwright.dev/v1alpha1", "kind": "RebalancePolicy"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, nargs="*", default=[5, 10, 20, 40])
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    for nodes in given.nodes:
        for goal in GOALS:
            print(compare(goal, nodes, range(given.seeds)), flush=True)


if __name__ == "__main__":
    main()
