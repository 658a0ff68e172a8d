"""Nodes that rebalancing empties after a day of churn: `python -m benchmarks.rebalancing NODES.csv.gz TASKS.csv.gz`.

1,000 nodes of the list run the tasks of the other one, which come and leave at their own times. The tasks of the trace
never request more than 1.2 % of the GPUs at a time. So days of the trace are drawn at random and run at once, until 55
% of the GPUs are requested at the end of the day. The tasks that already run when their day begins come first. A task
that fits nowhere is left out. All are of controllers that create them again. Then one copy of the cluster has a
RebalancePolicy that empties nodes, and others have the rules of the descheduler's HighNodeUtilization with nodeFit. In
each round, these rules evict the pods of underused nodes if other nodes have room for them, and the scheduler places
the pods that come in their place. A node is underused if less than a threshold of each resource is requested.

The bound: of each resource, the largest nodes that have as much as is requested. No packing needs fewer nodes. It does
not know which tasks ask for which model.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from podwright.api.rebalance_policy import parse_rebalance_policy
from podwright.core.cycle import Placement, find_feasible, schedule
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState
from podwright.core.objects.pod import Owner, PodInfo
from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.rebalance.planner import RebalancePlanner
from podwright.simulator.loaded import LoadedCluster, LoadOptions, load
from podwright.simulator.rebalance import view_of
from podwright.simulator.replay.stream import Arrival
from podwright.simulator.replay.task_lists import GPU, read_nodes, read_tasks
from podwright.simulator.snapshot import Snapshot

NOW: Final = 1_700_000_000.0
DAY: Final = 86_400.0
BUSY: Final = 100
"""So many tasks come on a day of the trace that counts."""
RESOURCES: Final = (CPU, MEMORY, GPU)
ROUNDS: Final = 24
THRESHOLDS: Final = (0.2, 0.5, 0.8)
RESULT: Final = Path("benchmarks/results/rebalancing.json")


def day_of(tasks: Sequence[Arrival], gpus: float, choose: random.Random) -> Sequence[tuple[float, int, PodInfo]]:
    """Returns the tasks that come (1) and leave (0) until the day ends, when as many GPUs are requested: seconds since
    the day began, the kind, and the task.
    """
    came = Counter(int(task.time // DAY) for task in tasks)
    days = sorted(day for day, count in came.items() if count >= BUSY)
    events: list[tuple[float, int, PodInfo]] = []
    number = 0
    while gpus > 0:
        number += 1
        begin = choose.choice(days) * DAY
        for task in tasks:
            comes, leaves = task.time - begin, task.time + (task.runs_for or 0.0) - begin
            if comes >= DAY or leaves <= 0:
                continue
            name = f"{task.pod.name}-{number}"
            owner = Owner("apps/v1", "ReplicaSet", name, name)
            pod = replace(task.pod, name=name, uid=name, key=f"default/{name}", owner=owner, creation=NOW - 1e6)
            events.append((comes, 1, pod))
            if leaves < DAY:
                events.append((leaves, 0, pod))
            else:
                gpus -= pod.requests.amounts.get(GPU, 0)
    return sorted(events, key=lambda event: (max(0.0, event[0]), event[1], event[0], event[2].name))


@dataclass
class Day:
    """A cluster at the end of a day. `strategy`: how pods are scored. The same for the same seed and strategy."""

    nodes: Sequence[Mapping[str, Any]]
    tasks: Sequence[Arrival]
    seed: int
    strategy: str
    share: float = 0.55
    cluster: LoadedCluster = field(init=False)

    def __post_init__(self) -> None:
        metadata = {"name": "scores", "uid": "scores", "generation": 1}
        policy = {"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", "metadata": metadata}
        self._objects = [*self.nodes, {**policy, "spec": {"strategy": {"type": self.strategy}}}]
        self.begin_again(())
        offered = float(self.cluster.cache.table.allocatable(GPU).sum())
        asked = lacking = self.share * offered
        while lacking > 0:  # because of tasks that fitted nowhere
            self._run(day_of(self.tasks, asked, random.Random(self.seed)))
            lacking = (self.share - self.requested()) * offered
            asked += lacking
        self.end = [pod for info in self.cluster.cache.nodes.values() for pod in info.pods.values()]

    def _run(self, events: Sequence[tuple[float, int, PodInfo]]) -> None:
        self.begin_again(())
        self.came = self.left = self.left_out = 0
        for _, comes, pod in events:
            if not comes:
                self.left += self.cluster.cache.placement(pod.uid) is not None
                self.cluster.cache.remove_pod(pod.uid)
            elif self.place(pod):
                self.came += 1
            else:
                self.left_out += 1

    def begin_again(self, pods: Sequence[PodInfo]) -> None:
        """These pods are placed, and no others."""
        self.random = random.Random(self.seed)
        self.cluster = load(Snapshot(objects=self._objects, taken_at=NOW), LoadOptions())
        for pod in pods:
            self.cluster.cache.set_pod(pod)

    def requested(self) -> float:
        table = self.cluster.cache.table
        return float(table.requested(GPU).sum() / table.allocatable(GPU).sum())

    def framework_of(self, pod: PodInfo) -> Framework:
        policy = self.cluster.policies.of(pod)
        assert policy is not None, "the policy takes all pods"
        return policy.framework

    def place(self, pod: PodInfo) -> str:
        """The node that the scheduler chooses; "" for none."""
        decision = schedule(self.framework_of(pod), self.cluster.cache, pod, self.random.randrange, preempt=False)
        if not isinstance(decision, Placement):
            return ""
        self.cluster.cache.set_pod(pod.on(decision.node_name))
        return decision.node_name

    def empty(self) -> int:
        return sum(not info.pods for info in self.cluster.cache.nodes.values())

    def fewest(self) -> int:
        """The bound: how many nodes any packing needs at least."""
        table, needed = self.cluster.cache.table, 0
        for resource in RESOURCES:
            largest = np.sort(table.allocatable(resource))[::-1].cumsum()
            needed = max(needed, int(np.searchsorted(largest, table.requested(resource).sum())) + 1)
        return needed


def rebalanced(day: Day) -> dict[str, Any]:
    """Plans of an hour each, until there are no moves any more. Moves succeed at once."""
    spec = {"goals": [{"type": "EmptyNodes"}], "maxMoves": 1000, "cooldown": "0s"}
    metadata = {"name": "tidy", "uid": "tidy", "generation": 1}
    raw = {"apiVersion": "podwright.dev/v1alpha1", "kind": "RebalancePolicy", "metadata": metadata, "spec": spec}
    rules, cache, moves, back, plans, slowest = parse_rebalance_policy(raw), day.cluster.cache, 0, 0, 0, 0.0
    moved: set[str] = set()
    again: set[str] = set()
    while plans < ROUNDS:
        started = time.process_time()
        plan = RebalancePlanner(cache, rules, view_of(day.cluster)).plan()
        slowest = max(slowest, time.process_time() - started)
        if not plan.steps:
            break
        plans += 1
        sources = {move.source for move in plan.moves}
        for move in plan.moves:
            pod = cache.nodes[move.source].pods[move.uid]
            again |= {pod.uid} & moved
            moved.add(pod.uid)
            back += move.target in sources
            cache.remove_pod(pod.uid)
            cache.set_pod(replace(pod, node_name=move.target))
        moves += len(plan.moves)
    pods = {"moved": len(moved), "moved_twice": len(again), "came_back": back}
    return {"plans": plans, "moves": moves, **pods, "plan_cpu_s": round(slowest, 1)}


def descheduled(day: Day, threshold: float) -> dict[str, Any]:
    """See the module."""
    cache, table, evictions, back, lost, rounds = day.cluster.cache, day.cluster.cache.table, 0, 0, 0, 0
    while rounds < ROUNDS:
        rounds += 1
        share = np.max([table.requested(each) / np.maximum(table.allocatable(each), 1) for each in RESOURCES], axis=0)
        low = (share < threshold) & table.valid
        victims = [(info.name, pod) for info in cache.nodes.values() if low[info.slot] for pod in info.pods.values()]
        evicted = []
        for source, pod in victims:
            framework = day.framework_of(pod)
            if len(
                find_feasible(
                    framework, cache, replace(pod, node_name=""), CycleState(), within=~low & table.valid
                ).feasible.slots
            ):
                cache.remove_pod(pod.uid)
                evicted.append((source, pod))
        if not evicted:
            break
        sources = {source for source, _ in evicted}
        for _, pod in evicted:
            node = day.place(replace(pod, node_name=""))
            back += node in sources
            lost += not node
        evictions += len(evicted)
    return {"rounds": rounds, "evictions": evictions, "came_back": back, "found_none": lost}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("nodes", help="the list of nodes")
    parser.add_argument("tasks", help="the list of tasks")
    parser.add_argument("--count", type=int, default=1000, help="how many nodes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULT)
    given = parser.parse_args()
    chosen = random.Random(given.seed).sample(read_nodes(given.nodes), given.count)
    tasks = read_tasks(given.tasks)
    runs: list[dict[str, Any]] = []
    for strategy in ("LeastAllocated", "MostAllocated"):
        day = Day(chosen, tasks, given.seed, strategy)
        churn = {"came": day.came, "left": day.left, "left_out": day.left_out, "requested": round(day.requested(), 4)}
        for threshold in (None, *THRESHOLDS):
            day.begin_again(day.end)
            before = {**churn, "pods": day.cluster.cache.pod_count, "empty_before": day.empty()}
            rule = "RebalancePolicy" if threshold is None else f"rules below {threshold:.0%}"
            figures = rebalanced(day) if threshold is None else descheduled(day, threshold)
            bound = given.count - day.fewest()
            share = round(day.empty() / bound, 4)
            after = {"empty": day.empty(), "bound": bound, "of_bound": share}
            runs.append({"strategy": strategy, "by": rule, **before, **after, **figures})
            print(runs[-1], file=sys.stderr)
            given.output.write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
