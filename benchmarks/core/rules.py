"""Measures what rules in CEL cost: decisions per second with and without them, in process, and the cost of single
expressions.

The policy has five filters and three scores over labels, taints and free resources. `--policies` puts as many policies
into force, whose pods take turns. The second table has the time of one expression on all nodes: recomputed, and
refreshed after one node changed; and the evaluator's time for one node.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from benchmarks.core.decisions import filled, plain
from podwright.api.compile import CompiledPolicy, compile_policy
from podwright.api.scheduler_policy import parse_policy
from podwright.core.cel_columns.kept import KeptColumns
from podwright.core.cel_columns.nodes import NodeColumns
from podwright.core.cycle import Placement, schedule
from podwright.core.framework.features import Features
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.plugins.rules.expression import Expression
from podwright.core.plugins.rules.owner import RuleOwner
from podwright.core.plugins.rules.subject import RuleSubject
from podwright.simulator.world import World

ZONE: Final = 'node.labels["topology.kubernetes.io/zone"]'
FILTERS: Final = (
    f"{ZONE} != params.avoided",
    f'pod.labels.app.startsWith("app-") || {ZONE} == "zone-0"',
    'node.taints.all(t, t.key != "dedicated" || t.value == pod.labels.app)',
    "node.free.cpu >= 500 && node.free.memory >= 1073741824",
    'node.podCount < 100 && !node.name.startsWith("gpu-")',
)
SCORES: Final = (
    "node.free.cpu * 100 / node.allocatable.cpu",
    f'{ZONE} == "zone-1" ? 100 : 20',
    "100 - 25 * size(node.taints)",
)
SINGLE: Final[Mapping[str, str]] = {
    "a label and a constant": 'node.labels["topology.kubernetes.io/zone"] == "zone-1"',
    "a label and the pod's": 'node.labels["kubernetes.io/hostname"] == pod.labels.app',
    "a macro over taints": 'node.taints.all(t, t.key != "dedicated" || t.value == pod.labels.app)',
    "free resources": "node.free.cpu >= 500 && node.free.memory >= 1073741824",
    "arithmetic": "double(node.free.cpu) * 100.0 / double(node.allocatable.cpu)",
    "a regular expression over names": 'node.name.matches("^node-0[0-9]+$")',
    "the pod's prefix of names": "node.name.startsWith(pod.labels.app)",
    "pods in the zone": 'podsInDomain("topology.kubernetes.io/zone", "app=app-1")',
    "all labels (interpreted)": "node.labels.exists(k, k.startsWith(pod.labels.app))",
}


def policy(index: int = 0, *, ruled: bool = True) -> CompiledPolicy:
    """A policy with the five filters and three scores; each policy has params of its own."""

    def rules(texts: Sequence[str]) -> list[dict[str, Any]]:
        return [{"name": f"r{i}", "expression": text} for i, text in enumerate(texts)]

    spec: dict[str, Any] = {"params": {"avoided": f"zone-{index + 7}"}}
    if ruled:
        spec["rules"] = {"filters": rules(FILTERS), "scores": rules(SCORES)}
    raw = {"metadata": {"name": f"p{index}", "generation": 1}, "spec": spec}
    return compile_policy(parse_policy(raw), PLUGINS, Features())


def rate(world: World, policies: Sequence[CompiledPolicy], pods: int) -> float:
    """Decisions per second of CPU time. The policies take turns, and each has decided before."""
    frameworks = [Framework(each.profile, PLUGINS, world) for each in policies]
    below = random.Random(7).randrange

    def decide(name: str, count: int) -> float:
        pending = [parse_pod(plain(i, name), keep_raw=True) for i in range(count)]
        started = time.process_time()
        for i, pod in enumerate(pending):
            decision = schedule(frameworks[i % len(frameworks)], world.cache, pod, below)
            if not isinstance(decision, Placement):
                raise TypeError(f"{pod.key} was not placed: {decision}")
            world.cache.assume(pod, decision.node_name)
        return count / (time.process_time() - started)

    decide("first", max(100, len(frameworks)))
    return decide("pending", pods)


def best(run: Callable[[], object], times: int = 20) -> float:
    """The shortest time of a run, in µs."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        found.append(time.perf_counter() - started)
    return min(found) * 1e6


def single(world: World, text: str) -> tuple[float, float, float]:
    """µs on all nodes again, µs after one node changed, and the evaluator's µs on one node."""
    expression = Expression(text, score=text == SINGLE["arithmetic"] or text.startswith("podsInDomain"))
    owner = RuleOwner("p", {"avoided": "zone-7"})
    kept = KeptColumns(NodeColumns(world.cache))
    asked = RuleSubject(parse_pod(plain(1, "asked"), keep_raw=True), owner, owner.params, world.cache)
    read = expression.scores if expression.program.result_type.name in ("int", "double") else None

    def column() -> None:
        if read is None:
            expression.column(asked, kept)
        else:
            read(asked, kept, bounded=True)

    def again() -> None:
        kept.clear()
        column()

    def refreshed() -> None:
        info = world.cache.node_at(17)
        world.cache.set_node(info.present)
        column()

    column()
    info = world.cache.node_at(17)
    return best(again), best(refreshed), best(lambda: expression.evaluate(asked, info, {}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--placed", type=int, default=10000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--policies", type=int, nargs="*", default=[1, 1000])
    given = parser.parse_args()
    for count in given.policies:
        for ruled in (False, True):
            policies = [policy(i, ruled=ruled) for i in range(count)]
            found = rate(filled(given.nodes, given.placed, plain), policies, given.pods)
            kind = "with rules" if ruled else "without rules"
            print(f"{count:5} policies {kind:14} {found:8.0f} decisions/s {1e6 / found:7.0f} µs", flush=True)
    world = filled(given.nodes, given.placed, plain)
    print(f"\n{'one expression, µs':34} {'all nodes':>10} {'one changed':>12} {'evaluator, a node':>18}")
    for name, text in SINGLE.items():
        print("{:34} {:10.0f} {:12.0f} {:18.1f}".format(name, *single(world, text)), flush=True)


if __name__ == "__main__":
    main()
