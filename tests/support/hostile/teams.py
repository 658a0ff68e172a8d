"""Measures the cost of 100 hostile LocalSchedulerPolicies for other teams' pods, in process: `python -m
support.hostile.teams`.

Each hostile team has a policy and pods of its own. Another team, whose policy is ordinary, has as many pending pods as
all of them. Nodes change meanwhile. The rate is that at which the other team's pods are decided, per second of CPU
time: all clocks are that of the thread, so that other processes of the machine change little. It is compared with its
rate alone, in runs that take turns, and with its rate beside the same pods of these teams without policies. Measurement
begins when the lane of costly pods has been open for some seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from podwright.api.spec.rules import MAX_EXPRESSION
from podwright.engine.process.memory import configure_memory, freeze_objects
from support.engine.kit import Rig, ours
from support.objects.builders import make_node
from support.policies.local import delegating, local_policy

TEAMS = 100
BACKLOG = 500
OTHER = "other-team"
DELEGATION = {
    "rules": True,
    "nodeFields": ["labels", "taints", "annotations", "images"],
    "maxRules": 128,
    "plugins": ["*"],
    "strategies": ["MostAllocated", "Random", "BalancedAllocation", "LeastAllocated"],
}


def _filters(*expressions: str) -> dict[str, Any]:
    return {"filters": [{"name": f"f{i}", "expression": text} for i, text in enumerate(expressions)]}


def _scores(*expressions: str) -> dict[str, Any]:
    return {"scores": [{"name": f"s{i}", "expression": text} for i, text in enumerate(expressions)]}


def _long(part: str, length: int) -> str:
    return " && ".join([part] * (length // (len(part) + 4)))


def hostile_specs() -> Iterator[tuple[str, dict[str, Any]]]:
    """The specs of hostile teams, with a name for each."""
    yield "an expression of 100 kB", {"rules": _filters(_long("node.labels.name != 'x'", 100_000))}
    yield "an expression of 10 KiB", {"rules": _filters(_long("node.labels.name != 'x'", MAX_EXPRESSION))}
    yield "1,000 rules", {"rules": _filters(*["node.labels.name != 'x'"] * 1_000)}
    many = [f"node.labels.name != 'x{i}'" for i in range(64)]
    yield (
        "128 rules",
        {"rules": _filters(*many) | _scores(*[f"node.labels.name == 'n{i}' ? {i} : 0" for i in range(64)])},
    )
    yield "a catastrophic regular expression", {"rules": _filters("!node.labels.long.matches('^(a+)+(b|a*)*$')")}
    yield "a regular expression that grows", {"rules": _filters("node.labels.long.matches('((a{1,30}){1,30}){1,30}')")}
    yield "deep nesting", {"rules": _filters("(" * 4_000 + "true" + ")" * 4_000)}
    deep: Any = "x"
    for _ in range(200):
        deep = {"x": deep}
    yield "a deep object", {"pluginConfig": [{"name": "ImageLocality", "args": {"x": deep}}]}
    values = [f"v{i}" for i in range(64)]
    everything = [{"key": f"k{i}", "operator": "NotIn", "values": values} for i in range(20)]
    yield (
        "selectors over everything",
        {"match": {"podSelector": {"matchExpressions": everything}}, "strategy": {"type": "Random"}},
    )
    yield (
        "counts of pods everywhere",
        {"rules": _scores(*[f"podsInDomain('name', 'app=a{i}') + podsOnNode('x!=y{i}')" for i in range(64)])},
    )
    text = "pod.name + node.labels.long + node.labels.name"
    yield "texts that nobody else builds", {"rules": _scores(*[f"size(({text}) + '{i}')" for i in range(64)])}
    listed = "[" + ", ".join(map(str, range(60))) + "]"
    yield (
        "nested macros",
        {"rules": _filters(f"{listed}.all(a, {listed}.all(b, {listed}.exists(c, c == a || c != b)))")},
    )
    yield "errors on all nodes", {"rules": _filters(*[f"node.labels['missing{i}'] == 'x'" for i in range(64)])}
    yield "more than is delegated", {"strategy": {"type": "NodeName"}, "precedence": 1_000_000_000}


@dataclass(frozen=True)
class Run:
    """The result of one run. `rate`: pods of the other team decided per second of CPU time; `hostile`: decided pods of
    hostile teams; `over_budget`: how many policies went over their budget.
    """

    rate: float
    hostile: int
    over_budget: int


class _CpuTime(Rig):
    """A rig whose time is the CPU time of the thread."""

    now = property(lambda _self: time.thread_time(), lambda _self, _value: None)
    stalled = property(lambda _self: 0.0, lambda _self, _value: None)


class Teams:
    """An engine with nodes and teams."""

    def __init__(self, nodes: int) -> None:
        self.rig = _CpuTime()
        self.rig.clock = time.thread_time
        self.nodes = nodes
        self.changed = 0
        self.rig.engine.policies.apply(delegating(delegation=DELEGATION))
        for index in range(nodes):
            self._node(index)
        self.apply(local_policy("ordinary", OTHER, strategy={"type": "MostAllocated"}))

    def _node(self, index: int, version: int = 0) -> None:
        labels = {"name": f"n{index}", "long": "a" * 60 + "b", "version": str(version)}
        room = {"cpu": "1000", "memory": "4000Gi", "pods": "1000"}
        self.rig.engine.nodes.put(make_node(f"n{index}", labels=labels, allocatable=room))

    def apply(self, raw: dict[str, Any]) -> bool:
        return self.rig.engine.policies.apply_local(raw).accepted

    def write_hostile_policies(self) -> int:
        """How many were accepted."""
        specs = [*hostile_specs()]
        return sum(self.apply(local_policy("hostile", f"team-{i}", **specs[i % len(specs)][1])) for i in range(TEAMS))

    def put(self, name: str, team: str, label: str) -> None:
        self.rig.engine.pending.put(ours(name, namespace=team, uid=name, labels={"app": label}))

    async def run(self, warm_up: float, seconds: float, *, pods: bool) -> Run:
        """Keeps BACKLOG pods of the other team pending and, with `pods`, as many of hostile teams. Measures after the
        warm-up.
        """
        engine, bound = self.rig.engine, self.rig.cluster.bound
        clock = time.thread_time
        gc.unfreeze()
        configure_memory()
        freeze_objects()
        loop = asyncio.create_task(engine.run())
        started, others = clock(), {"p": 0, "h": 0}
        made, seen, counted_from, counted_at = {"p": 0, "h": 0}, 0, 0, 0.0
        while clock() < started + warm_up + seconds:
            for name, _ in bound[seen:]:
                others[name[0]] += 1
            seen = len(bound)
            if not counted_at and clock() >= started + warm_up:
                counted_from, counted_at = others["p"], clock()
            for kind in ("p", "h") if pods else ("p",):
                while made[kind] < others[kind] + BACKLOG:
                    number = made[kind] = made[kind] + 1
                    self.put(f"{kind}{number}", OTHER if kind == "p" else f"team-{number % TEAMS}", f"a{number % 7}")
            self.changed += 1
            self._node(self.changed % self.nodes, version=self.changed)
            await asyncio.sleep(0.005)
        rate = (others["p"] - counted_from) / (clock() - counted_at)
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        await engine.stop(0)
        return Run(rate, others["h"], sum(account.times > 0 for account in engine.budgets.accounts))


def measure(*, policies: bool, pods: bool, nodes: int = 500, warm_up: float = 12.0, seconds: float = 8.0) -> Run:
    """A run with or without the hostile policies, and with or without pods of these teams."""
    teams = Teams(nodes)
    if policies:
        teams.write_hostile_policies()
    return asyncio.run(teams.run(warm_up, seconds, pods=pods))


def main() -> None:
    parser = argparse.ArgumentParser("python -m support.hostile.teams", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="How many runs of each. Default: %(default)s.")
    rounds = parser.parse_args().rounds
    runs = [
        (
            measure(policies=False, pods=False),
            measure(policies=True, pods=True),
            measure(policies=False, pods=True),
        )
        for _ in range(rounds)
    ]
    alone, hostile, plain = ([run[i] for run in runs] for i in range(3))
    rates = [median(run.rate for run in each) for each in (alone, hostile, plain)]
    of_alone = ", ".join(f"{b.rate / a.rate:.2f}" for a, b in zip(alone, hostile, strict=True))
    print(
        f"the other team, in pods per second of CPU time: {rates[0]:.0f} alone; {rates[1]:.0f} beside {TEAMS} teams with hostile policies "
        f"({rates[1] / rates[0]:.2f} of that; in each round {of_alone}); {rates[2]:.0f} beside the same teams without policies; "
        f"over their budget: {hostile[-1].over_budget}; hostile pods decided: {hostile[-1].hostile}, without policies {plain[-1].hostile}",
        flush=True,
    )


if __name__ == "__main__":
    main()
