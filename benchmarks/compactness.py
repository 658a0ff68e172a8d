"""Compares how close together gangs are placed, by Podwright and by the real kube-scheduler with its gates on.

    python -m benchmarks.compactness --cases 200

Each case is a hierarchy of its own, with zones, blocks, racks and hosts that are partly full, and one gang that has to
be in one domain of a level. kube-scheduler gets all cases at once, on a real control plane; each gang can only be on
the nodes of its case. Podwright plans each in process, with a Topology that lists the levels, and without one, where it
knows no more than the level that the group names.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangPlacement
from podwright.core.gangs.plan import GangPlanner
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KIND, WORKLOAD_API, group_key
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from podwright.testing import Binaries, ControlPlane, Versions, wait_until, workload_api
from podwright.testing.objects import node, pod

Json = dict[str, Any]
LEVELS: Final = ("zone", "block", "rack", "kubernetes.io/hostname")
REQUIRED: Final = LEVELS[:3]
CPU: Final = 8
CASE: Final = "case"
NAMESPACE: Final = "default"
_SECONDS: Final = 900
"""Within which kube-scheduler has to try all gangs."""


class Case:
    """Nodes, the pods that are on them, and a gang. `required`: the gang must be in one domain of this level."""

    def __init__(self, number: int, seed: int) -> None:
        choose = Random(f"{seed} {number}")
        self.name = f"c{number}"
        self.required = choose.choice(REQUIRED)
        self.nodes: list[Json] = []
        self.placed: list[Json] = []
        self.domains: dict[str, Sequence[str]] = {}
        """By node: the domain of each level."""
        for zone in range(2):
            for block in range(choose.randint(2, 3)):
                for rack in range(choose.randint(2, 4)):
                    for host in range(choose.randint(2, 5)):
                        self._add_node((zone, block, rack, host), taken=choose.randint(0, CPU))
        cpu, members = choose.randint(1, 3), choose.randint(2, 16)
        self.group: Json = {
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {
                "workloadRef": {"workloadName": "any", "templateName": "any"},
                "schedulingPolicy": {"gang": {"minCount": members}},
                "schedulingConstraints": {"topology": [{"key": self.required}]},
            },
        }
        options: Json = {"schedulingGroup": {"podGroupName": self.name}, "nodeSelector": {CASE: self.name}}
        self.members = [self._pod(f"m{index}", cpu, **options) for index in range(members)]

    def _add_node(self, path: Sequence[int], taken: int) -> None:
        names = ["-".join((self.name, *map(str, path[: level + 1]))) for level in range(len(LEVELS))]
        labels = {**dict(zip(LEVELS, names, strict=True)), CASE: self.name}
        self.nodes.append(node(names[-1], cpu=str(CPU), labels=labels))
        self.domains[names[-1]] = names
        if taken:
            self.placed.append(self._pod(f"taken-{len(self.placed)}", taken, nodeName=names[-1]))

    def _pod(self, name: str, cpu: int, **spec: Any) -> Json:
        return pod(f"{self.name}-{name}", NAMESPACE, scheduler="default-scheduler", cpu=str(cpu), memory=None, **spec)

    def spread(self, nodes: Sequence[str]) -> tuple[int, ...]:
        """In how many blocks, racks and hosts a gang on these nodes is. Empty if it is not placed."""
        places = [self.domains[each] for each in nodes]
        return tuple(len({names[level] for names in places}) for level in range(1, len(LEVELS))) if places else ()

    def planned(self, levels: Sequence[str]) -> tuple[int, ...]:
        """How Podwright spreads the gang, with a Topology of these levels."""
        world = World()
        world.fill({"nodes": self.nodes, "pods": self.placed})
        world.cache.groups.serve(WORKLOAD_API)
        if levels:
            world.cache.topologies.set("podwright.dev/default", tuple(levels))
        world.cache.set_object(KIND, self.group)
        for raw in self.members:
            world.cache.groups.add_waiting(parse_pod(raw, keep_raw=True))
        key = group_key(WORKLOAD_API, NAMESPACE, self.name)
        group = world.cache.groups.get(key)
        assert group is not None
        framework = Framework(default_profile("default-scheduler", PLUGINS, world.features), PLUGINS, world)
        waiting = world.cache.groups.members(key).unplaced()
        decision = GangPlanner(framework, world.cache, group, Random(self.name).randrange).plan(waiting)
        placements = decision.placements if isinstance(decision, GangPlacement) else ()
        return self.spread([each.node_name for each in placements])


def by_kube_scheduler(cases: Sequence[Case]) -> list[tuple[int, ...]]:
    versions = Versions.from_environ()
    api = workload_api(versions.kubernetes_minor)
    assert api is not None, "this version of Kubernetes has no PodGroups"
    with ControlPlane(binaries=Binaries(versions), **api.options) as cluster:
        cluster.bulk.create(raw for case in cases for raw in case.nodes)
        cluster.bulk.create(raw for case in cases for raw in case.placed)
        head = {"apiVersion": api.version, "kind": "PodGroup"}
        cluster.bulk.create({**head, **case.group} for case in cases)
        cluster.bulk.create(raw for case in cases for raw in case.members)
        cluster.start_scheduler(wait=False)
        path = f"/apis/{api.version}/namespaces/{NAMESPACE}/podgroups"
        wait_until(
            lambda: all(each.get("status", {}).get("conditions") for each in cluster.client.items(path)),
            _SECONDS,
            "kube-scheduler has tried all gangs",
        )
        pods = cluster.client.items(f"/api/v1/namespaces/{NAMESPACE}/pods")
    found: dict[str, list[str]] = {}
    for raw in pods:
        if "schedulingGroup" in raw["spec"] and raw["spec"].get("nodeName"):
            found.setdefault(raw["spec"]["schedulingGroup"]["podGroupName"], []).append(raw["spec"]["nodeName"])
    return [case.spread(found.get(case.name, ())) for case in cases]


def compared(ours: Sequence[tuple[int, ...]], theirs: Sequence[tuple[int, ...]]) -> Mapping[str, Any]:
    """Of the gangs that both place: how many are in fewer domains, by level, and in how many domains on average."""
    pairs = [*zip(ours, theirs, strict=True)]
    both = [(one, other) for one, other in pairs if one and other]
    one_only = Counter(
        "only this" if one else "only kube-scheduler" for one, other in pairs if bool(one) != bool(other)
    )
    found: dict[str, Any] = {"placed_by_both": len(both), "placed_by_one": dict(one_only)}
    for level, name in enumerate(("blocks", "racks", "hosts")):
        here = [(one[level], other[level]) for one, other in both]
        means = [round(sum(pair[who] for pair in here) / max(1, len(here)), 2) for who in (0, 1)]
        found[name] = {
            "in_fewer": sum(one < other for one, other in here),
            "in_more": sum(one > other for one, other in here),
            "mean": means[0],
            "mean_of_kube_scheduler": means[1],
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--result", type=Path)
    asked = parser.parse_args()
    cases = [Case(number, asked.seed) for number in range(asked.cases)]
    theirs = by_kube_scheduler(cases)
    result = {
        "cases": asked.cases,
        "seed": asked.seed,
        "kubernetes": Versions.from_environ().kubernetes,
        "with a Topology of all levels": compared([case.planned(LEVELS) for case in cases], theirs),
        "without a Topology": compared([case.planned(()) for case in cases], theirs),
    }
    print(json.dumps(result, indent=1))
    if asked.result:
        asked.result.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
