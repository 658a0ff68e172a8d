"""Measures what queues of teams add to a decision: 1,000 queues in three levels, beside none, in one process.

A decision is a pod taken from the scheduling queue, a whole scheduling cycle, and the assumption of the pod. Half of
the pods wait when the measurement starts, and each decision is followed by the arrival of another one, so that demand
and shares change all the time. CPU time of one thread.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.core.decisions import filled, plain
from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Placement, schedule
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.queue import SchedulingQueue
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.simulator.world import World

FAN_OUT: Final = 10
"""Queues below each queue: 10 at the top, 100 below them, 1,000 with pods."""


def declare_queues(world: World) -> list[str]:
    """Adds the queues, with guarantees, limits and weights of CPU and memory. Returns the names of those with pods."""
    queues, leaves, size = queues_of(world.cache), [""], FAN_OUT**3
    for level in range(3):
        size //= FAN_OUT
        share = size * 1000 * 16
        quotas = {"cpu": Quota(guarantee=share, limit=share * 8, weight=2), "memory": Quota(limit=share << 22)}
        made = []
        for parent in leaves:
            for number in range(FAN_OUT):
                name = f"{parent or 'q'}-{number}"
                queues.set(QueueRules(name, parent, 100 + number % 2 * (level == 0), quotas))
                made.append(name)
        leaves = made
    return leaves


def measure(nodes: int, pods: int, *, queues: bool, members: bool) -> float:
    """Microseconds of CPU time of a decision. `members`: the pods are in queues."""
    world = filled(nodes, 1000, plain)
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    queue = SchedulingQueue(time.monotonic, framework.sort_key, framework.pre_enqueue, lambda _pod: framework.hints)
    leaves = declare_queues(world) if queues else []
    if queues:
        queue.order_by(queues_of(world.cache).turns)
    raws: list[dict[str, Any]] = [plain(index, "pending") for index in range(2 * pods)]
    chosen = random.Random(7)
    for raw in raws if members else ():
        raw["metadata"]["labels"][QUEUE_LABEL] = chosen.choice(leaves)
    arriving = iter([parse_pod(raw) for raw in raws])
    for _ in range(pods):
        _arrive(world, queue, next(arriving))
    below = random.Random(7).randrange
    started = time.process_time()
    for _ in range(pods):
        queued = queue.pop()
        assert queued is not None, "the queue is empty"
        decision = schedule(framework, world.cache, queued.pod, below)
        if not isinstance(decision, Placement):
            raise TypeError(f"{queued.pod.key} was not placed: {decision}")
        world.cache.assume(queued.pod, decision.node_name)
        queue.done(queued.uid)
        world.cache.groups.remove_waiting(queued.uid)
        _arrive(world, queue, next(arriving))
    return (time.process_time() - started) / pods * 1e6


def _arrive(world: World, queue: SchedulingQueue, pod: Any) -> None:
    world.cache.groups.add_waiting(pod)
    queue.add(pod)


CASES: Final = {
    "no queues": {"queues": False, "members": False},
    "1,000 queues, pods without a queue": {"queues": True, "members": False},
    "1,000 queues, pods in queues": {"queues": True, "members": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results = []
    for name, case in CASES.items():
        cost = min(measure(given.nodes, given.pods, **case) for _ in range(3))
        results.append({"workload": name, "nodes": given.nodes, "microseconds": round(cost, 1)})
        print(f"{name:36} {given.nodes:6} nodes {cost:8.0f} µs a decision", flush=True)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
