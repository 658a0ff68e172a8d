"""Measures gangs that fit only together: generated ones with a planted solution, and their twins with one pod more.

    python -m benchmarks.core.gangs --seeds 500 --result benchmarks/results/gangs-planted.json

500 nodes in 5 zones, 20 blocks and 100 racks are 90 % full. A gang has up to eight kinds of members, of different
sizes, some of them with affinity, anti-affinity or spread, between zones, blocks, racks or hosts. Half of the gangs
must be in one zone or one block, and of half, some kinds are sub-groups that must be in one block or rack each. A gang
is planted first, and the nodes are filled around it. One kind is so large that only some nodes have room for it, and
these are exactly enough (see BOTTLENECKS). So the twin, with one member of it more, cannot be placed. Each plan is what
an operator's child process does, the solver's process included. The seeds are the numbers from `--first` on.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import resource
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.framework import Framework
from podwright.core.framework.program import Answer, Program
from podwright.core.gangs.decisions import GangPlacement
from podwright.core.gangs.joint import COUNTED, NOT_FOUND, NOT_PLANNED, PROVED
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KAI_API, KAI_KIND, group_key
from podwright.core.objects.sub_groups import KAI_SUB_GROUP_LABEL
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
LEVELS: Final = {ZONE: 100, BLOCK: 25, RACK: 5, HOST: 1}
"""How many nodes a domain of each level has."""
ENDS: Final = (COUNTED, PROVED, NOT_FOUND, NOT_PLANNED)
CPU, MEMORY = 32_000, 128 << 10
"""Of a node, in thousandths and MiB."""
LARGE: Final = 8_000
"""CPU of the large kind. Few nodes, and none twice, have as much free."""
SIZES: Final = (500, 1_000, 1_500, 2_000, 3_000, 4_000)
BOTTLENECKS: Final = ("room", "slots", "racks", "zones", "leader")
"""The scarce resource. room: the members take all of it. slots: nodes with room for the large kind. racks: the large
kind repels itself within a rack, and some racks have several such nodes. zones: it spreads over zones, and one zone has
fewer such nodes. leader: it needs the rack of a member of another kind, and no rack has more such nodes.
"""


@dataclass(slots=True)
class Kind:
    """Members of one kind, on the nodes where they are planted. `spec`: affinity or spread. `within`: the topology
    level that must have all of them in one domain.
    """

    name: str
    cpu: int
    memory: int
    spec: dict[str, Any] = field(default_factory=dict)
    within: str = ""
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
        self.required = "" if self.bottleneck == "zones" else self.random.choice(("", "", ZONE, BLOCK))
        self.nodes = self._one(self.required) if self.required else range(NODES)
        """Where the gang is planted."""
        self.parts = self.random.random() < 0.5
        self.used = [0] * NODES
        self.used_memory = [0] * NODES
        self.kinds: list[Kind] = []
        self.spare: set[int] = set()
        """Nodes with as much room as the large kind needs, which are of no use to it."""
        self.large = self._large()
        for number in range(self.random.randint(2, 6)):
            self._ordinary(f"k{number}")
        self.free = [self._free(index) for index in range(NODES)]

    def _domains(self, key: str) -> list[range]:
        """The domains of a level in which the gang may be: their nodes."""
        size = LEVELS[key]
        return [range(first, first + size) for first in range(self.nodes.start, self.nodes.stop, size)]

    def _one(self, key: str) -> range:
        size = LEVELS[key]
        first = size * self.random.randrange(NODES // size)
        return range(first, first + size)

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
        chosen = self.random.sample(self.nodes, min(20, len(self.nodes) // 3))
        racks = self._domains(RACK)
        if self.bottleneck == "racks":
            kind.spec = near(kind.name, RACK, anti=True)
            racks = self.random.sample(racks, min(12, len(racks) - 1))
            chosen = [self.random.choice(rack[:4]) for rack in racks]
            self.spare.update(rack[4] for rack in racks[::2])
        elif self.bottleneck == "zones":
            kind.spec = even(kind.name, ZONE)
            least = self.random.randint(2, 4)
            counts = [least] + [least + 1] * 4
            chosen = [
                index
                for zone, count in zip(self._domains(ZONE), counts, strict=True)
                for index in self.random.sample(zone, count)
            ]
            self.spare.update(set(self.random.sample(range(LEVELS[ZONE], NODES), 8)) - {*chosen})
        elif self.bottleneck == "leader":
            leader = Kind("leader", self.random.choice(SIZES[:3]), 1_000)
            kind.spec = near(leader.name, RACK)
            rack, *others = self.random.sample(racks, min(9, len(racks)))
            chosen = [*rack[:4]]
            self.kinds.append(leader)
            self._put(leader, rack[4])
            self.spare.update(index for each in others for index in each[:3])
        elif self.required and self.bottleneck == "slots":
            # Another domain, which has one such node too few.
            elsewhere = next(each for each in iter(lambda: self._one(self.required), None) if each != self.nodes)
            self.spare.update(self.random.sample(elsewhere, len(chosen) - 1))
        self.kinds.append(kind)
        for index in chosen:
            self._put(kind, index)
        return kind

    def _ordinary(self, name: str) -> None:
        choose = self.random
        cpu = choose.choice(SIZES)
        kind = Kind(name, cpu, cpu * choose.choice((1, 2, 4)))
        count = choose.randint(5, 30)
        shape = choose.choice(("plain", "plain", "apart", "spread", "close", "beside"))
        nodes = choose.choices(self.nodes, k=count)
        if shape == "apart":
            key = choose.choice((HOST, HOST, RACK, BLOCK))
            domains = self._domains(key)
            domains = choose.sample(domains, min(count, max(1, len(domains) - 1)))
            kind.spec, nodes = near(name, key, anti=True), [choose.choice(each) for each in domains]
        elif shape == "spread" and not self.required:
            key = choose.choice((ZONE, BLOCK))
            domains = self._domains(key)
            nodes = [choose.choice(domains[i % len(domains)]) for i in range(count)]
            kind.spec = even(name, key)
        elif shape == "close":
            key = choose.choice((RACK, BLOCK))
            nodes = choose.choices(choose.choice(self._domains(key)), k=min(count, LEVELS[key]))
            if self.parts:
                kind.within = key
            else:
                kind.spec = near(name, key)
        elif shape == "beside":
            other, key = choose.choice(self.kinds), choose.choice((RACK, BLOCK))
            size = LEVELS[key]
            kind.spec = near(other.name, key)
            nodes = [choose.choice(other.planted) // size * size + choose.randrange(size) for _ in range(count)]
        self.kinds.append(kind)
        constraint = kind.spec.get("topologySpreadConstraints")
        size = LEVELS[constraint[0]["topologyKey"]] if constraint else NODES
        counts = [0] * (NODES // size)
        for index in nodes:
            if counts[index // size] == min(counts):
                counts[index // size] += self._put(kind, index)
        if not kind.planted:
            self.kinds.remove(kind)

    def _free(self, index: int) -> tuple[int, int]:
        """CPU and memory that are free, with what the members take."""
        cpu, memory = self.used[index], self.used_memory[index]
        if self.bottleneck == "room" and index in self.nodes:
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

    def group(self, counts: Counter[str]) -> dict[str, Any]:
        """A PodGroup of KAI. `counts`: members by kind."""

        def close(level: str) -> dict[str, Any]:
            return {"topology": "default", "requiredTopologyLevel": level} if level else {}

        spec: dict[str, Any] = {"topologyConstraint": close(self.required), "minMember": counts.total()}
        if self.parts:
            spec["subGroups"] = [
                {"name": kind.name, "minMember": counts[kind.name], "topologyConstraint": close(kind.within)}
                for kind in self.kinds
            ]
        return {"metadata": {"name": "gang", "namespace": "default"}, "spec": spec}

    def members(self, *, twin: bool) -> list[dict[str, Any]]:
        found = []
        for kind in self.kinds:
            extra = twin and kind is (
                min(self.kinds, key=lambda each: each.cpu) if self.bottleneck == "room" else self.large
            )
            for number in range(len(kind.planted) + extra):
                amounts = {"cpu": f"{kind.cpu}m", "memory": f"{kind.memory}Mi"}
                labels = {"kind": kind.name, KAI_SUB_GROUP_LABEL: kind.name}
                made = pod(f"{kind.name}-{number}", labels=labels, **amounts, **kind.spec)
                made["metadata"]["annotations"] = {"pod-group-name": "gang"}
                found.append(made)
        self.random.shuffle(found)
        return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """`seconds` and `cpu`: how long the decision took, with the solver's process."""

    end: str
    one_by_one: bool
    seconds: float
    cpu: float


def cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def run(case: Case, *, twin: bool) -> Outcome:
    world = World()
    world.cache.topologies.set("kai.scheduler/default", tuple(LEVELS))
    world.cache.groups.serve(KAI_API)
    world.fill(case.objects())
    raws = case.members(twin=twin)
    world.cache.set_object(KAI_KIND, case.group(Counter(raw["metadata"]["labels"]["kind"] for raw in raws)))
    pods = [parse_pod(raw, keep_raw=True) for raw in raws]
    for each in pods:
        world.cache.groups.add_waiting(each)
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    found = world.cache.groups.get(group_key(KAI_API, "default", "gang"))
    assert found is not None
    asked: list[object] = []

    def counted(program: Program, seconds: float) -> Answer:
        asked.append(program)
        return solve(program, seconds)

    began, started = cpu(), time.perf_counter()
    decision = decide(GangPlanner(framework, world.cache, found, lambda _n: 0, solve=counted), pods, 0.0)
    took = time.perf_counter() - started
    if isinstance(decision, GangPlacement):
        return Outcome("placed", not asked, took, cpu() - began)
    end = next((each for each in ENDS if each in decision.message), decision.message)
    return Outcome(end, False, took, cpu() - began)


def figures(outcomes: Sequence[Outcome], twins: Sequence[Outcome]) -> dict[str, Any]:
    placed = [each for each in outcomes if each.end == "placed"]
    found: dict[str, Any] = {
        "gangs": dict(Counter(each.end for each in outcomes)),
        "twins": dict(Counter(each.end for each in twins)),
        "placed_one_after_the_other": sum(each.one_by_one for each in outcomes),
    }
    for name, took in (
        ("seconds", sorted(each.seconds for each in placed)),
        ("cpu_seconds", sorted(each.cpu for each in placed)),
    ):
        found[name] = {
            "median": round(took[len(took) // 2], 2),
            "p90": round(took[len(took) * 9 // 10], 2),
            "most": round(took[-1], 2),
            "within_1": sum(each <= 1 for each in took),
            "within_5": sum(each <= 5 for each in took),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no further case after so long")
    parser.add_argument("--result", type=Path)
    asked = parser.parse_args()
    outcomes: tuple[list[Outcome], list[Outcome]] = [], []
    ends = time.monotonic() + 60 * asked.minutes
    for seed in range(asked.first, asked.first + asked.seeds):
        if time.monotonic() > ends:
            break
        case = Case(seed)
        for twin in (False, True):
            gc.collect()
            found = run(case, twin=twin)
            outcomes[twin].append(found)
            what = f"{case.bottleneck}, {case.required.rpartition('/')[2] or 'anywhere'}{', parts' * case.parts}"
            took = f"{found.seconds:.2f} s, {found.cpu:.2f} s of CPU"
            print(f"{seed} {what}{', twin' * twin}: {took}: {found.end}", flush=True)
    result = {"first_seed": asked.first, "seeds": len(outcomes[0]), **figures(*outcomes)}
    print(json.dumps(result, indent=1))
    if asked.result:
        asked.result.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
