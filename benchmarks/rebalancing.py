"""Nodes that rebalancing empties after a day of churn: `python -m benchmarks.rebalancing NODES.csv.gz TASKS.csv.gz`.

1,000 nodes of the list run tasks that are drawn from the other one, until 55 % of the GPUs are requested. Through a day
each task leaves once, in a random order, and others come in its place. All are of controllers that create them again.
Then one copy of the cluster has a RebalancePolicy that empties nodes, and others have rules as the descheduler's
HighNodeUtilization with nodeFit: in each round, the pods of nodes of which less than a threshold is requested, of each
resource, are evicted if another node takes them, and the scheduler places what comes in their place.

The bound: of each resource, the largest nodes that have as much as is requested. No packing needs fewer nodes. It does
not know which tasks ask for which model.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from podwright.simulator.replay.task_lists import GPU, read_nodes, read_tasks
from podwright.simulator.snapshot import Snapshot

NOW: Final = 1_700_000_000.0
RESOURCES: Final = (CPU, MEMORY, GPU)
ROUNDS: Final = 24


@dataclass
class Day:
    """A cluster after a day of churn. `strategy`: how pods are scored. The same for the same seed and strategy."""

    nodes: Sequence[Mapping[str, Any]]
    tasks: list[PodInfo]
    seed: int
    strategy: str
    share: float = 0.55
    cluster: LoadedCluster = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        metadata = {"name": "scores", "uid": "scores", "generation": 1}
        policy = {"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", "metadata": metadata}
        objects = [*self.nodes, {**policy, "spec": {"strategy": {"type": self.strategy}}}]
        self.cluster = load(Snapshot(objects=objects, taken_at=NOW), LoadOptions())
        self.number = 0
        running: list[PodInfo] = []
        leaving: list[PodInfo] = []
        while self.requested() < self.share:
            running.extend(self.come())
        leaving = self.random.sample(running, len(running))
        for pod in leaving:
            self.cluster.cache.remove_pod(pod.uid)
            while self.requested() < self.share:
                self.come()

    def requested(self) -> float:
        table = self.cluster.cache.table
        return float(table.requested(GPU).sum() / table.allocatable(GPU).sum())

    def framework_of(self, pod: PodInfo) -> Framework:
        policy = self.cluster.policies.of(pod)
        assert policy is not None, "the policy takes all pods"
        return policy.framework

    def come(self) -> Sequence[PodInfo]:
        """A task comes. One that fits nowhere is left out."""
        self.number += 1
        task, name = self.random.choice(self.tasks), f"task-{self.number}"
        owner = Owner("apps/v1", "ReplicaSet", name, name)
        made = replace(task, name=name, uid=name, key=f"default/{name}", owner=owner, scheduler_name="podwright")
        return [made] if self.place(replace(made, creation=NOW - 1e6)) else []

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


def rebalanced(day: Day) -> str:
    """Plans of an hour each, until there are no moves any more. Moves succeed at once."""
    spec = {"goals": [{"type": "EmptyNodes"}], "maxMoves": 1000, "cooldown": "0s"}
    metadata = {"name": "tidy", "uid": "tidy", "generation": 1}
    raw = {"apiVersion": "podwright.dev/v1alpha1", "kind": "RebalancePolicy", "metadata": metadata, "spec": spec}
    rules, cache, moves, plans, slowest = parse_rebalance_policy(raw), day.cluster.cache, 0, 0, 0.0
    twice: set[str] = set()
    again: set[str] = set()
    while plans < ROUNDS:
        started = time.process_time()
        plan = RebalancePlanner(cache, rules, view_of(day.cluster)).plan()
        slowest = max(slowest, time.process_time() - started)
        if not plan.steps:
            break
        plans += 1
        for move in plan.moves:
            pod = cache.nodes[move.source].pods[move.uid]
            again |= {pod.uid} & twice
            twice.add(pod.uid)
            cache.remove_pod(pod.uid)
            cache.set_pod(replace(pod, node_name=move.target))
        moves += len(plan.moves)
    return f"{plans} plans, {moves} moves, {len(again)} pods moved twice, at most {slowest:.1f} s of CPU for a plan"


def descheduled(day: Day, threshold: float) -> str:
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
    return f"{rounds} rounds, {evictions} evictions, {back} pods came back to a node that was being emptied, {lost} found none"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("nodes", help="the list of nodes")
    parser.add_argument("tasks", help="the list of tasks")
    parser.add_argument("--count", type=int, default=1000, help="how many nodes")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chosen = random.Random(given.seed).sample(read_nodes(given.nodes), given.count)
    tasks = [arrival.pod for arrival in read_tasks(given.tasks)]
    for strategy in ("LeastAllocated", "MostAllocated"):
        day = Day(chosen, tasks, given.seed, strategy)
        most = given.count - day.fewest()
        print(f"{strategy}: {day.cluster.cache.pod_count} pods, {day.empty()} nodes empty, at most {most} could be")
        figures = rebalanced(day)
        print(f"  rebalancing: {day.empty()} nodes empty ({day.empty() / most:.1%}); {figures}")
        for threshold in (0.2, 0.5, 0.8):
            day = Day(chosen, tasks, given.seed, strategy)
            figures = descheduled(day, threshold)
            print(f"  rules below {threshold:.0%}: {day.empty()} nodes empty ({day.empty() / most:.1%}); {figures}")


if __name__ == "__main__":
    main()
