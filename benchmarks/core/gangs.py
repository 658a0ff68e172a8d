"""Measures gangs that fit only together: generated ones with a planted solution, and their twins with one pod more.

    python -m benchmarks.core.gangs --seeds 50

500 nodes in 5 zones, 20 blocks and 100 racks are 90 % full. A gang has up to eight kinds of members, of different sizes,
some of them with affinity, anti-affinity or spread. It is planted first, and the nodes are filled around it. One kind
is so large that only some nodes have room for it, and these are exactly enough (see BOTTLENECKS). So the twin, with one
member of it more, cannot be placed. Each plan is what an operator's child process does, the solver's process included.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangDecision, GangPlacement
from podwright.core.gangs.joint import COUNTED, NOT_FOUND, PROVED
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KIND, WORKLOAD_API, group_key
from podwright.core.plugins import PLUGINS
from podwright.engine.process.solving import solve
from podwright.simulator.world import World
from podwright.testing.objects import node, pod

HOST, RACK, BLOCK, ZONE = (
    "kubernetes.io/hostname",
    "example.com/rack",
    "example.com/block",
    "topology.kubernetes.io/zone",
)
NODES: Final = 500
ENDS: Final = (COUNTED, PROVED, NOT_FOUND)
CPU, MEMORY = 32_000, 128 << 10
"""Of a node, in thousandths and MiB."""
LARGE: Final = 8_000
"""CPU of the large kind. Few nodes, and none twice, have as much free."""
SIZES: Final = (500, 1_000, 1_500, 2_000, 3_000, 4_000)
BOTTLENECKS: Final = ("room", "slots", "racks", "zones", "leader")
"""room: nothing is left at all. slots: nodes with room for the large kind. racks: it is anti-affine to itself in a rack,
and some racks have several such nodes. zones: it is spread over zones, one of which has fewer such nodes. leader: it
needs the rack of a member of another kind, and no rack has more such nodes."""


@dataclass(slots=True)
class Kind:
    """Members of one kind, on the nodes where they are planted. `spec`: affinity or spread."""

    name: str
    cpu: int
    memory: int
    spec: dict[str, Any] = field(default_factory=dict)
    planted: list[int] = field(default_factory=list)


def near(kind: str, key: str, *, anti: bool = False) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"kind": kind}}}
    name = "podAntiAffinity" if anti else "podAffinity"
    return {"affinity": {name: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def even(kind: str, key: str) -> dict[str, Any]:
    selector = {"matchLabels": {"kind": kind}}
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


class Case:
    """A cluster, and a gang with a planted solution. Node i is in rack i // 5, block i // 25 and zone i // 100."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bottleneck = BOTTLENECKS[seed % len(BOTTLENECKS)]
        self.used = [0] * NODES
        self.used_memory = [0] * NODES
        self.kinds: list[Kind] = []
        self.spare: set[int] = set()
        """Nodes with as much room as the large kind needs, which are of no use to it."""
        self.large = self._large()
        for number in range(self.random.randint(2, 6)):
            self._ordinary(f"k{number}")
        self.free = [self._free(index) for index in range(NODES)]

    def _put(self, kind: Kind, index: int) -> bool:
        limit = LARGE - 500 + LARGE * (index in self.large.planted)
        if kind is not self.large and self.used[index] + kind.cpu > limit:
            return False
        kind.planted.append(index)
        self.used[index] += kind.cpu
        self.used_memory[index] += kind.memory
        return True

    def _large(self) -> Kind:
        kind = Kind("large", LARGE, LARGE * self.random.choice((1, 2, 3)))
        self.large = kind
        chosen = self.random.sample(range(NODES), 20)
        if self.bottleneck == "racks":
            kind.spec = near(kind.name, RACK, anti=True)
            racks = self.random.sample(range(NODES // 5), 12)
            chosen = [5 * rack + self.random.randrange(4) for rack in racks]
            self.spare.update(5 * rack + 4 for rack in racks[::2])
        elif self.bottleneck == "zones":
            kind.spec = even(kind.name, ZONE)
            least = self.random.randint(2, 4)
            chosen = [
                100 * zone + index
                for zone, count in enumerate([least] + [least + 1] * 4)
                for index in self.random.sample(range(100), count)
            ]
            self.spare.update(set(self.random.sample(range(100, NODES), 8)) - {*chosen})
        elif self.bottleneck == "leader":
            leader = Kind("leader", self.random.choice(SIZES[:3]), 1_000)
            kind.spec = near(leader.name, RACK)
            rack = self.random.randrange(NODES // 5)
            chosen = [5 * rack + index for index in range(4)]
            self.kinds.append(leader)
            self._put(leader, 5 * rack + 4)
            others = [each for each in self.random.sample(range(NODES // 5), 8) if each != rack]
            self.spare.update(5 * each + index for each in others for index in range(3))
        self.kinds.append(kind)
        for index in chosen:
            self._put(kind, index)
        return kind

    def _ordinary(self, name: str) -> None:
        choose = self.random
        cpu = choose.choice(SIZES)
        kind = Kind(name, cpu, cpu * choose.choice((1, 2, 4)))
        count = choose.randint(5, 30)
        shape = choose.choice(("plain", "plain", "apart", "spread", "rack", "beside"))
        nodes = [choose.randrange(NODES) for _ in range(count)]
        if shape == "apart":
            kind.spec, nodes = near(name, HOST, anti=True), choose.sample(range(NODES), count)
        elif shape == "spread":
            kind.spec, nodes = (
                even(name, ZONE),
                [100 * (i % 5) + choose.randrange(100) for i in range(count - count % 5)],
            )
        elif shape == "rack":
            rack = choose.randrange(NODES // 5)
            kind.spec, nodes = near(name, RACK), [5 * rack + i % 5 for i in range(min(count, 5))]
        elif shape == "beside":
            other = choose.choice(self.kinds)
            kind.spec = near(other.name, RACK)
            nodes = [choose.choice(other.planted) // 5 * 5 + choose.randrange(5) for _ in range(count)]
        self.kinds.append(kind)
        zones = [0] * 5
        for index in nodes:
            if shape == "spread" and zones[index // 100] > min(zones):
                continue
            zones[index // 100] += self._put(kind, index)
        if not kind.planted:
            self.kinds.remove(kind)

    def _free(self, index: int) -> tuple[int, int]:
        """CPU and memory that are free, with what the members take."""
        cpu, memory = self.used[index], self.used_memory[index]
        if self.bottleneck == "room":
            return cpu, memory + self.random.randrange(20_000)
        if index in self.spare:
            return cpu + LARGE, memory + self.large.memory
        if cpu:
            return cpu + self.random.choice((0, 0, 100, 300)), memory + self.random.randrange(2_000)
        return self.random.randrange(0, LARGE, 100), self.random.randrange(1, 24_000)

    def objects(self) -> dict[str, Any]:
        nodes, pods = [], []
        for index, (cpu, memory) in enumerate(self.free):
            names = (f"n{index}", f"r{index // 5}", f"b{index // 25}", f"z{index // 100}")
            labels = dict(zip((HOST, RACK, BLOCK, ZONE), names, strict=True))
            nodes.append(node(names[0], labels=labels, cpu=f"{CPU}m", memory=f"{MEMORY}Mi"))
            for half in range(2):
                name, amounts = f"f{index}-{half}", ((CPU - cpu + half) // 2, (MEMORY - memory + half) // 2)
                pods.append(pod(name, cpu=f"{amounts[0]}m", memory=f"{amounts[1]}Mi", nodeName=names[0]))
        return {"nodes": nodes, "pods": pods}

    def members(self, *, twin: bool) -> list[dict[str, Any]]:
        found = []
        for kind in self.kinds:
            extra = twin and kind is (
                min(self.kinds, key=lambda each: each.cpu) if self.bottleneck == "room" else self.large
            )
            for number in range(len(kind.planted) + extra):
                spec = {**kind.spec, "schedulingGroup": {"podGroupName": "gang"}}
                amounts = {"cpu": f"{kind.cpu}m", "memory": f"{kind.memory}Mi"}
                found.append(pod(f"{kind.name}-{number}", labels={"kind": kind.name}, **amounts, **spec))
        self.random.shuffle(found)
        return found


def run(case: Case, *, twin: bool) -> tuple[GangDecision, bool, float]:
    """The decision, whether the members fit one after the other, and how many seconds the decision took."""
    world = World()
    world.fill(case.objects())
    raws = case.members(twin=twin)
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
    spec = {"schedulingPolicy": {"gang": {"minCount": len(raws)}}}
    world.cache.set_object(KIND, {**group, "metadata": {"name": "gang", "namespace": "default"}, "spec": spec})
    pods = [parse_pod(raw, keep_raw=True) for raw in raws]
    for each in pods:
        world.cache.groups.add_waiting(each)
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    found = world.cache.groups.get(group_key(WORKLOAD_API, "default", "gang"))
    assert found is not None
    alone = decide(GangPlanner(framework, world.cache, found, lambda _n: 0), pods, 0.0)
    started = time.perf_counter()
    decision = decide(GangPlanner(framework, world.cache, found, lambda _n: 0, solve=solve), pods, 0.0)
    return decision, isinstance(alone, GangPlacement), time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--result", type=Path)
    asked = parser.parse_args()
    times: list[float] = []
    ends: Counter[str] = Counter()
    twins: Counter[str] = Counter()
    one_by_one = 0
    for seed in range(asked.first, asked.first + asked.seeds):
        case = Case(seed)
        for twin in (False, True):
            gc.collect()
            decision, alone, seconds = run(case, twin=twin)
            placed = isinstance(decision, GangPlacement)
            end = "placed" if placed else next((each for each in ENDS if each in decision.message), decision.message)
            (twins if twin else ends)[end] += 1
            if not twin and placed:
                times.append(seconds)
            one_by_one += alone
            print(seed, case.bottleneck, "twin" if twin else "", f"{seconds:.2f} s", end, flush=True)
    times.sort()
    figures = {
        "gangs": dict(ends),
        "twins": dict(twins),
        "placed_one_after_the_other": one_by_one,
        "median_s": round(times[len(times) // 2], 2),
        "p90_s": round(times[len(times) * 9 // 10], 2),
        "most_s": round(times[-1], 2),
        "within_1s": sum(each <= 1 for each in times),
        "within_5s": sum(each <= 5 for each in times),
    }
    print(json.dumps(figures, indent=1))
    if asked.result:
        asked.result.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
