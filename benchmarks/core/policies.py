"""Measures what 1,000 policies in force cost a decision, compared with one: `python -m benchmarks.core.policies`.

Each policy is for the pods with a label of its own. The pods are under one of them, and have a hundred different sets
of labels, so that the selection of a policy is not always found in the cache. Runs alternate; prints the median of
each, and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.core.decisions import node
from podwright.api.permissions import PolicySettings
from podwright.core.cycle import schedule
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.plugins import PLUGINS
from podwright.engine.invalid_objects import InvalidObjects
from podwright.engine.plugins.exceptions import PluginExceptions
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.policies.policy_plugins import Conduct
from podwright.engine.records.local_budgets import LocalBudgets
from podwright.engine.records.metrics import Metrics
from podwright.engine.records.policy_activity import Activities
from podwright.simulator.world import World

MANY: Final = 1_000
NODES: Final = 1_000
LABEL_SETS: Final = 100


def policy(number: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"team-{number:04}", "generation": 1, "uid": f"team-{number}"},
        "spec": {
            "match": {"podSelector": {"matchLabels": {"team": f"t{number}"}}},
            "strategy": {"type": "MostAllocated"},
        },
    }


def pod(number: int) -> PodInfo:
    metadata = {
        "name": f"p{number}",
        "namespace": "default",
        "uid": f"p{number}",
        "labels": {"team": "t0", "app": f"app-{number % LABEL_SETS}"},
    }
    container = {"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
    return parse_pod({"metadata": metadata, "spec": {"schedulerName": "podwright", "containers": [container]}})


class Bench:
    """Policies, nodes, and decisions about pods under the first policy."""

    def __init__(self, policies: int) -> None:
        self.world = World(clock=lambda: 0.0)
        metrics = Metrics(time.monotonic)
        conduct = Conduct(
            observer=metrics,
            exceptions=PluginExceptions(metrics),
            budgets=LocalBudgets(time.monotonic, cpu=time.thread_time),
            activities=Activities(metrics, wall=time.time),
        )
        self.policies = ActivePolicies(
            PLUGINS, self.world, settings=PolicySettings(), invalid_objects=InvalidObjects(metrics), conduct=conduct
        )
        for number in range(policies):
            assert self.policies.apply(policy(number)).accepted
        self.world.fill({"nodes": [node(index) for index in range(NODES)]})

    def decide(self, pods: Sequence[PodInfo]) -> float:
        """The seconds of a decision, on average."""
        started = time.perf_counter()
        for each in pods:
            active = self.policies.of(each)
            assert active is not None
            schedule(active.framework, self.world.cache, each, lambda _n: 0)
        return (time.perf_counter() - started) / len(pods)


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.core.policies", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="How many runs of each. Default: %(default)s.")
    rounds = parser.parse_args().rounds
    few, many = Bench(1), Bench(MANY)
    pods = [pod(number) for number in range(1_000)]
    for bench in (few, many):
        bench.decide(pods)
    taken = [(few.decide(pods), many.decide(pods)) for _ in range(rounds)]
    one, thousand = (statistics.median(column) * 1e6 for column in zip(*taken, strict=True))
    ratio = statistics.median(second / first for first, second in taken)
    print(f"one policy: {one:.0f} µs a decision; {MANY} policies: {thousand:.0f} µs; ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
