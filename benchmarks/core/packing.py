"""Measures how many more pods `packing: Optimal` places than one after the other does, on generated clusters.

    python -m benchmarks.core.packing --budget 1

After the evaluation of "Priority Matters" (arXiv 2511.08373): 4 to 32 equal nodes with 4 or 8 pods each, 1 to 4
priorities, ReplicaSets of 1 to 4 pods with random requests, and nodes that are so large that all pods together use 90
to 105 % of them. The paper moves pods that are placed already; here all are pending. Better is who places more pods of
the highest priority, then of the next one. What counts are clusters where some pod does not fit one after the other,
and it is not proved that nothing is better.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Placement, schedule
from podwright.core.framework.framework import Framework
from podwright.core.gangs.packing import Packing
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.state.transaction import CacheTransaction
from podwright.engine.process.solving import solve
from podwright.simulator.world import World
from podwright.testing.objects import node, pod

SHAPES: Final = [*itertools.product((4, 8, 16, 32), (4, 8), (1, 2, 4), (90, 95, 100, 105))]
"""Nodes, pods of each, priorities, and the usage in percent."""


def generate(seed: int, nodes: int, per_node: int, priorities: int, usage: int) -> tuple[World, list[PodInfo]]:
    choose = random.Random(f"{seed} {nodes} {per_node} {priorities} {usage}")
    pods: list[dict[str, Any]] = []
    cpu = memory = 0
    while len(pods) < nodes * per_node:
        own = choose.randint(100, 1000), choose.randint(100, 1000)
        priority = choose.randint(1, priorities)
        for _ in range(min(choose.randint(1, 4), nodes * per_node - len(pods))):
            pods.append(pod(f"p{len(pods)}", cpu=f"{own[0]}m", memory=f"{own[1]}Mi", priority=priority))
            cpu, memory = cpu + own[0], memory + own[1]
    size = {"cpu": f"{cpu * 100 // usage // nodes}m", "memory": f"{memory * 100 // usage // nodes}Mi"}
    world = World()
    world.fill({"nodes": [node(f"n{i}", **size) for i in range(nodes)]})
    return world, [parse_pod(raw) for raw in pods]


def one_by_one(framework: Framework, world: World, pods: list[PodInfo]) -> Counter[int]:
    """How many pods of each priority are placed."""
    placed: Counter[int] = Counter()
    with CacheTransaction(world.cache) as transaction:
        for each in sorted(pods, key=lambda each: -each.priority):
            decision = schedule(framework, world.cache, each, lambda _n: 0, preempt=False)
            if isinstance(decision, Placement):
                transaction.assume(each, decision.node_name)
                placed[each.priority] += 1
    return placed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--result", type=Path)
    asked = parser.parse_args()
    ends: Counter[str] = Counter()
    times = []
    for seed, shape in itertools.product(range(asked.seeds), SHAPES):
        world, pods = generate(seed, *shape)
        framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
        before = one_by_one(framework, world, pods)
        if before.total() == len(pods):
            ends["all fit one after the other"] += 1
            continue
        started = time.perf_counter()
        packed = Packing(framework, world.cache, lambda _n: 0, solve, asked.budget, time.monotonic).pack(pods)
        times.append(time.perf_counter() - started)
        after = Counter(each.pod.priority for each in packed.decisions if isinstance(each, Placement))
        order = sorted({each.priority for each in pods}, reverse=True)
        one, other = [before[each] for each in order], [after[each] for each in order]
        assert other >= one, (seed, shape)
        ends[f"{'better' if other > one else 'equal'}, {packed.certificate}"] += 1
        print(seed, *shape, one, other, packed.certificate, packed.message, f"{times[-1]:.2f} s", flush=True)
    better = sum(count for end, count in ends.items() if end.startswith("better"))
    relevant = len(times) - ends["equal, Optimal"]
    figures = {
        "budget_s": asked.budget,
        "ends": dict(ends),
        "better_of_those_that_may_be": f"{better} of {relevant}",
        "percent": round(100 * better / max(1, relevant), 1),
        "longest_s": round(max(times, default=0.0), 2),
    }
    print(json.dumps(figures, indent=1))
    if asked.result:
        asked.result.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
