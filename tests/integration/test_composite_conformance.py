"""Generated hierarchies of pod groups: Podwright's plan places the same of each as the real kube-scheduler does.

Each tree has a node of its own. kube-scheduler starts when all objects exist, so that its first attempt sees all pods.
PODWRIGHT_TREES is the number of trees, PODWRIGHT_TREES_SEED changes them.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangPlacement, GangRejection
from podwright.core.gangs.plan import GangPlanner
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import COMPOSITE_API, COMPOSITE_KIND, KIND, WORKLOAD_API, group_key
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from podwright.testing import Binaries, ControlPlane, Versions, node, pod, wait_until, workload_api
from podwright.testing.workload_api import COMPOSITES
from support.control_plane import operator_process as kit
from support.gangs.pod_groups import WORKLOAD
from support.properties import case_count

COUNT = case_count("PODWRIGHT_TREES", 200)
SEED = int(os.environ.get("PODWRIGHT_TREES_SEED") or 1)
SETTLED_SECONDS = 10.0
NAMESPACE = "default"
Json = dict[str, Any]

pytestmark = [pytest.mark.slow, pytest.mark.kubernetes(37, "CompositePodGroups")]


@pytest.fixture
def control_plane(binaries: Binaries) -> Iterator[ControlPlane]:
    api = workload_api(Versions.from_environ().kubernetes_minor)
    assert api is not None
    with ControlPlane(binaries=binaries, **api.composite_options) as cluster:
        yield cluster


class Tree:
    """A generated hierarchy: its objects, top down, and its pods."""

    def __init__(self, number: int, random: Random) -> None:
        self.name = f"t{number}"
        self.random = random
        self.groups: list[Json] = []
        self.pods: list[Json] = []
        self._composite(self.name, "", 1)
        requests = sum(int(each["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for each in self.pods)
        self.node = node(f"n-{self.name}", cpu=str(random.randint(1, max(1, requests))), labels={"tree": self.name})

    @property
    def root(self) -> str:
        return group_key(COMPOSITE_API, NAMESPACE, self.name)

    def _composite(self, name: str, parent: str, level: int) -> None:
        children = self.random.randint(1, 3)
        groups = None if self.random.random() < 0.2 else self.random.randint(1, children + (self.random.random() < 0.1))
        self._add("CompositePodGroup", COMPOSITES, name, parent, "minGroupCount", groups)
        for index in range(children):
            child = f"{name}-{index}"
            if level < 3 and self.random.random() < 0.3:
                self._composite(child, name, level + 1)
            else:
                self._leaf(child, name)

    def _leaf(self, name: str, parent: str) -> None:
        minimum = None if self.random.random() < 0.2 else self.random.randint(1, 3)
        self._add("PodGroup", WORKLOAD, name, parent, "minCount", minimum)
        cpu = str(self.random.randint(1, 2))
        for index in range(self.random.randint((minimum or 1) - (self.random.random() < 0.1), 4)):
            options: Json = {"schedulingGroup": {"podGroupName": name}, "nodeSelector": {"tree": self.name}}
            self.pods.append(
                pod(f"{name}-p{index}", NAMESPACE, scheduler="default-scheduler", cpu=cpu, memory=None, **options)
            )

    def _add(self, kind: str, version: str, name: str, parent: str, field: str, minimum: int | None) -> None:
        spec: Json = {
            "workloadRef": {"workloadName": "any", "templateName": "any"},
            "schedulingPolicy": {"basic": {}} if minimum is None else {"gang": {field: minimum}},
            **({"parentCompositePodGroupName": parent} if parent else {}),
        }
        self.groups.append(
            {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
        )


def leaf_of(raw: Mapping[str, Any]) -> str:
    return str(raw["spec"]["schedulingGroup"]["podGroupName"])


def planned(tree: Tree, groups: Mapping[str, Json], pods: Sequence[Json]) -> tuple[Counter[str], dict[str, str]]:
    """By leaf: how many pods Podwright places, and the status of the condition that its PodGroup gets."""
    world = World()
    world.cache.set_node(parse_node(tree.node))
    for api in (WORKLOAD_API, COMPOSITE_API):
        world.cache.groups.serve(api)
    for each in tree.groups:
        world.cache.set_object(KIND if each["kind"] == KIND else COMPOSITE_KIND, groups[each["metadata"]["name"]])
    for raw in pods:
        world.cache.groups.add_waiting(parse_pod(raw, keep_raw=True))
    root = world.cache.groups.get(tree.root)
    assert root is not None
    if not world.cache.groups.has_minimum(root):
        return Counter(), {}
    framework = Framework(default_profile("default-scheduler", PLUGINS, world.features), PLUGINS, world)
    waiting = world.cache.groups.members(tree.root).unplaced()
    decision = GangPlanner(framework, world.cache, root, lambda _n: 0).plan(waiting)
    assert isinstance(decision, GangPlacement | GangRejection), decision
    statuses = {key.rpartition("/")[2]: "False" if why else "True" for key, why in decision.parts.items()}
    if isinstance(decision, GangRejection):
        return Counter(), dict.fromkeys(statuses, "False")
    return Counter(each.pod.group.rpartition("/")[2] for each in decision.placements), statuses


def test_generated_trees_are_placed_as_by_kube_scheduler(control_plane):
    cluster = control_plane
    random = Random(SEED)
    trees = [Tree(number, random) for number in range(COUNT)]
    cluster.bulk.create(tree.node for tree in trees)
    created = cluster.bulk.create(group for tree in trees for group in tree.groups)
    groups = {raw["metadata"]["name"]: raw for raw in created}
    cluster.bulk.create(raw for tree in trees for raw in tree.pods)
    cluster.start_scheduler()
    settled = {"count": -1, "since": time.monotonic()}

    def is_settled() -> bool:
        bound = sum(bool(raw["spec"].get("nodeName")) for raw in kit.pods(cluster, NAMESPACE))
        if bound != settled["count"]:
            settled.update(count=bound, since=time.monotonic())
        return bound > 0 and time.monotonic() - settled["since"] > SETTLED_SECONDS

    wait_until(is_settled, 400, "kube-scheduler has tried all trees")
    listed = kit.pods(cluster, NAMESPACE)
    theirs = Counter(leaf_of(raw) for raw in listed if raw["spec"].get("nodeName"))
    conditions = {
        raw["metadata"]["name"]: kit.condition(raw, "PodGroupInitiallyScheduled").get("status", "")
        for raw in cluster.client.items(f"/apis/{WORKLOAD}/namespaces/{NAMESPACE}/podgroups")
    }
    wrong: dict[str, list[Any]] = {}
    placed = 0
    for tree in trees:
        leaves = [each["metadata"]["name"] for each in tree.groups if each["kind"] == KIND]
        ours, statuses = planned(tree, groups, tree.pods)
        placed += bool(ours)
        for leaf in leaves:
            found = ours[leaf], statuses.get(leaf, "")
            # The next attempt, at the pods that are left, may write False over the True of which it has not read yet.
            expected = theirs[leaf], "True" if theirs[leaf] else conditions[leaf]
            if found != expected:
                wrong.setdefault(tree.name, []).append((leaf, found, expected))
    assert COUNT // 5 < placed < COUNT - COUNT // 20, "some trees fit and some do not"
    assert not wrong, f"{len(wrong)} of {COUNT} trees differ, first: {next(iter(wrong.items()))}"
