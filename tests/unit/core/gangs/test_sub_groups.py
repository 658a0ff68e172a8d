"""Gangs whose parts have minimums of their own: enough of each part get a node, or nothing of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.framework import Framework
from podwright.core.gangs.branches import branch_of
from podwright.core.gangs.decisions import GangPlacement, GangRejection
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.gangs.simulation import Simulation
from podwright.core.objects.kai_groups import KAI_SUB_GROUP_LABEL
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import (
    COMPOSITE_API,
    COMPOSITE_KIND,
    KAI_API,
    KAI_KIND,
    KIND,
    VOLCANO_API,
    VOLCANO_KIND,
    group_key,
)
from podwright.core.objects.sub_groups import SubGroup, leaves_of
from podwright.core.plugins import PLUGINS
from podwright.core.plugins.gang_scheduling import NO_PART, TOO_FEW, GangScheduling
from podwright.core.state.levels import Level
from podwright.simulator.world import World
from support.gangs.highs import by_highs
from support.objects.builders import in_group, make_node, make_pod
from support.properties import examples

METADATA = {"name": "gang", "namespace": "default", "uid": "gang"}


class Divided:
    """A node for `room` pods, and a group of KAI, or of Volcano, with waiting members."""

    def __init__(self, spec: Mapping[str, Any], room: int, kind: str = KAI_KIND) -> None:
        self.world = World()
        self.world.fill({"nodes": [make_node("n", allocatable={"cpu": str(room), "pods": "1000"})]})
        self.cache = self.world.cache
        self.kind = kind
        self.key = group_key(KAI_API if kind == KAI_KIND else VOLCANO_API, "default", "gang")
        self.cache.set_object(kind, {"metadata": METADATA, "spec": dict(spec)})
        self.cache.groups.serve(self.key.partition(":")[0])
        self.framework = Framework(default_profile("podwright", PLUGINS, self.world.features), PLUGINS, self.world)

    def pod(
        self,
        name: str,
        part: str = "",
        labels: Mapping[str, str] | None = None,
        node: str = "",
        task: str = "",
        cpu: str = "1",
    ):
        annotation = "pod-group-name" if self.kind == KAI_KIND else "scheduling.k8s.io/group-name"
        all_labels = {**({KAI_SUB_GROUP_LABEL: part} if part else {}), **(labels or {})}
        raw = make_pod(name, requests={"cpu": cpu}, labels=all_labels, node=node)
        raw["metadata"]["annotations"] = {annotation: "gang", **({"volcano.sh/task-spec": task} if task else {})}
        return parse_pod(raw, keep_raw=True)

    def waits(self, name: str, part: str = "", **options: Any) -> None:
        self.cache.groups.add_waiting(self.pod(name, part, **options))

    def plan(self) -> Any:
        group = self.cache.groups.get(self.key)
        assert group is not None
        waiting = self.cache.groups.members(self.key).unplaced()
        return GangPlanner(self.framework, self.cache, group, lambda _n: 0).plan(waiting)

    def placed(self) -> list[str]:
        """The names of the members that the plan places."""
        decision = self.plan()
        assert isinstance(decision, GangPlacement), decision
        names = sorted(placement.pod.name for placement in decision.placements)
        others = {rejection.pod.name for rejection in decision.rejections}
        assert others == {pod.name for pod in self.cache.groups.members(self.key).unplaced()} - {*names}
        return names

    def pre_enqueue(self, name: str, part: str = "") -> str:
        plugin = next(each for each in self.framework.pre_enqueue_plugins if isinstance(each, GangScheduling))
        status = plugin.pre_enqueue(self.pod(name, part))
        return "" if status is None else status.message


def sub_group(name: str, members: int | None = None, parent: str = "", groups: int | None = None) -> dict[str, Any]:
    found = {"name": name, "minMember": members, "parent": parent or None, "minSubGroup": groups}
    return {field: value for field, value in found.items() if value is not None}


LEADER_AND_WORKERS = {"subGroups": [sub_group("leader", 1), sub_group("workers", 2)]}


class TestKai:
    def test_the_minimum_of_one_part_is_not_used_up_by_another(self):
        cluster = Divided(LEADER_AND_WORKERS, room=3)
        for index in range(3):
            cluster.waits(f"l{index}", "leader")
        for index in range(2):
            cluster.waits(f"w{index}", "workers")
        assert cluster.placed() == ["l0", "w0", "w1"]

    def test_what_is_more_than_the_minimums_gets_what_is_left(self):
        cluster = Divided(LEADER_AND_WORKERS, room=4)
        for name in ("l0", "l1", "l2"):
            cluster.waits(name, "leader")
        for name in ("w0", "w1"):
            cluster.waits(name, "workers")
        assert cluster.placed() == ["l0", "l1", "w0", "w1"]

    def test_nothing_is_placed_if_a_part_stays_below_its_minimum(self):
        cluster = Divided(LEADER_AND_WORKERS, room=2)
        cluster.waits("l0", "leader")
        for name in ("w0", "w1"):
            cluster.waits(name, "workers")
        decision = cluster.plan()
        assert isinstance(decision, GangRejection)
        assert cluster.cache.pod_count == 0

    def test_enough_parts_are_enough_and_no_part_is_placed_halfway(self):
        replicas = [sub_group(f"r{index}", 2) for index in range(3)]
        cluster = Divided({"minSubGroup": 2, "subGroups": replicas}, room=5)
        for index in range(6):
            cluster.waits(f"p{index}", f"r{index % 3}")
        assert cluster.placed() == ["p0", "p1", "p3", "p4"]

    def test_members_wait_until_each_part_has_its_minimum(self):
        cluster = Divided(LEADER_AND_WORKERS, room=9)
        for name in ("w0", "w1", "w2"):
            cluster.waits(name, "workers")
        assert cluster.pre_enqueue("w3", "workers") == TOO_FEW
        cluster.waits("l0", "leader")
        assert cluster.pre_enqueue("w3", "workers") == ""

    def test_a_pod_that_names_no_part_of_its_group_waits(self):
        cluster = Divided(LEADER_AND_WORKERS, room=9)
        assert cluster.pre_enqueue("stray", "other") == NO_PART
        assert cluster.pre_enqueue("stray") == NO_PART

    def test_parts_that_are_placed_need_no_more(self):
        cluster = Divided(LEADER_AND_WORKERS, room=3)
        for name, part in (("l0", "leader"), ("w0", "workers")):
            cluster.cache.set_pod(cluster.pod(name, part, node="n"))
        group = cluster.cache.groups.get(cluster.key)
        assert cluster.cache.groups.lacking(group) == 1
        assert not cluster.cache.groups.minimum_placed(group)
        cluster.waits("w1", "workers")
        assert cluster.placed() == ["w1"]


class TestVolcano:
    def test_each_task_gets_its_minimum(self):
        spec = {"minMember": 3, "minTaskMember": {"head": 1, "worker": 2}}
        cluster = Divided(spec, room=3, kind=VOLCANO_KIND)
        for index in range(3):
            cluster.waits(f"h{index}", task="head")
            cluster.waits(f"w{index}", labels={"volcano.sh/task-spec": "worker"})
        assert cluster.placed() == ["h0", "w0", "w1"]

    def test_tasks_whose_sum_is_more_than_the_minimum_have_none(self):
        spec = {"minMember": 2, "minTaskMember": {"head": 1, "worker": 2}}
        cluster = Divided(spec, room=2, kind=VOLCANO_KIND)
        for name in ("w0", "w1"):
            cluster.waits(name, task="worker")
        assert cluster.placed() == ["w0", "w1"]

    def test_the_minimum_of_the_group_may_be_more_than_that_of_its_tasks(self):
        spec = {"minMember": 4, "minTaskMember": {"head": 1}}
        cluster = Divided(spec, room=3, kind=VOLCANO_KIND)
        for index in range(4):
            cluster.waits(f"p{index}", task="head" if index == 3 else "")
        assert isinstance(cluster.plan(), GangRejection)
        cluster.cache.set_node(parse_node(make_node("n", allocatable={"cpu": "4", "pods": "1000"})))
        assert len(cluster.placed()) == 4

    def test_a_policy_makes_a_part_of_each_value_of_its_labels(self):
        policy = {
            "name": "slice",
            "subGroupSize": 2,
            "minSubGroups": 2,
            "labelSelector": {"matchLabels": {"role": "worker"}},
            "matchLabelKeys": ["slice"],
        }
        cluster = Divided({"minMember": 5, "subGroupPolicy": [policy]}, room=5, kind=VOLCANO_KIND)
        cluster.waits("head", labels={"role": "head"})
        for index in range(6):
            cluster.waits(f"w{index}", labels={"role": "worker", "slice": str(index // 2)})
        assert cluster.placed() == ["head", "w0", "w1", "w2", "w3"]

    def test_a_part_that_came_with_its_pods_goes_with_them(self):
        policy = {"name": "slice", "minSubGroups": 1, "matchLabelKeys": ["slice"]}
        cluster = Divided({"minMember": 1, "subGroupPolicy": [policy]}, room=5, kind=VOLCANO_KIND)
        for index in range(3):
            cluster.waits(f"w{index}", labels={"slice": str(index)})
            cluster.cache.groups.remove_waiting(f"default/w{index}")
        cluster.waits("last", labels={"slice": "x"})
        levels = cluster.cache.groups.members(cluster.key).levels
        assert len(levels.root.below["slice"].below) == 1


TREES = st.recursive(
    st.integers(0, 3),
    lambda children: st.tuples(st.integers(0, 3), st.lists(children, min_size=1, max_size=3)),
    max_leaves=8,
)


def entries(tree: Any, parent: str, path: str, out: list[dict[str, Any]]) -> None:
    """The sub-groups of a generated tree below `parent`: a number is a leaf's minimum of pods, else (groups,
    children).
    """
    if isinstance(tree, int):
        out.append(sub_group(path, tree, parent))
        return
    groups, children = tree
    out.append(sub_group(path, parent=parent, groups=min(groups, len(children))))
    for index, child in enumerate(children):
        entries(child, path, f"{path}-{index}", out)


def least(part: SubGroup, pods: Mapping[str, int]) -> float:
    """How many pods a part needs for its minimum, of those that exist."""
    if not part.children:
        return part.pods if pods[part.name] >= part.pods else float("inf")
    return sum(sorted(least(child, pods) for child in part.children)[: part.groups])


def check_whole(part: SubGroup, placed: Mapping[str, int]) -> tuple[int, bool]:
    """How many pods of the part are placed, and whether its minimum is. Nothing of a part is placed without that."""
    if not part.children:
        count, met = placed[part.name], placed[part.name] >= part.pods
    else:
        found = [check_whole(child, placed) for child in part.children]
        count, met = sum(each[0] for each in found), sum(each[1] for each in found) >= part.groups
    assert met or count == 0, part
    return count, met


@settings(max_examples=examples(200), deadline=None)
@given(TREES, st.integers(0, 12), st.lists(st.integers(0, 4), min_size=8, max_size=8))
def test_a_tree_is_placed_if_and_only_if_its_cheapest_minimum_fits(tree, room, counts):
    out: list[dict[str, Any]] = []
    entries(tree, "", "s", out)
    cluster = Divided({"subGroups": out}, room)
    group = cluster.cache.groups.get(cluster.key)
    assert group is not None
    assert group.tree is not None
    pods = Counter[str]()
    for leaf, count in zip(leaves_of(group.tree), counts, strict=False):
        pods[leaf.name] = count
        for index in range(count):
            cluster.waits(f"{leaf.name}-p{index}", leaf.name)
    needed = least(group.tree, pods)
    note(f"needs {needed}")
    decision = cluster.plan()
    if needed:
        assert isinstance(decision, GangPlacement) == (needed <= room)
    if isinstance(decision, GangPlacement):
        check_whole(group.tree, Counter(each.pod.labels[KAI_SUB_GROUP_LABEL] for each in decision.placements))


@settings(max_examples=examples(200), deadline=None)
@given(TREES, st.lists(st.integers(0, 4), min_size=8, max_size=8))
def test_pods_come_in_an_order_in_which_they_may_be_placed(tree, counts):
    out: list[dict[str, Any]] = []
    entries(tree, "", "s", out)
    cluster = Divided({"subGroups": out}, 100)
    group = cluster.cache.groups.get(cluster.key)
    pods = Counter[str]()
    for leaf, count in zip(leaves_of(group.tree), counts, strict=False):
        pods[leaf.name] = count
        for index in range(count):
            cluster.waits(f"{leaf.name}-p{index}", leaf.name)
    members = cluster.cache.groups.members(cluster.key)
    branch = branch_of(cluster.cache, group, members.unplaced(), group.near)
    needed = least(group.tree, pods)
    assert (branch.reach >= 0) == (needed < float("inf"))
    if branch.reach < 0:
        return
    came = Counter[str]()
    for index, batch in enumerate(branch.in_order()):
        came.update(pod.labels[KAI_SUB_GROUP_LABEL] for pod in batch)
        assert index or came.total() == needed
        assert check_whole(group.tree, came)[1]
    assert came.total() == branch.reach


def test_pods_beyond_the_minimums_of_parts_come_with_parts_as_a_whole():
    policy = {"name": "p", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["part"]}
    cluster = Divided({"minMember": 5, "subGroupPolicy": [policy]}, 100, kind=VOLCANO_KIND)
    for name in ("a0", "a1", "b0", "b1", "c0", "a2"):
        cluster.waits(name, labels={"part": name[0]})
    group, members = cluster.cache.groups.get(cluster.key), cluster.cache.groups.members(cluster.key)
    first = next(branch_of(cluster.cache, group, members.unplaced(), group.near).in_order())
    assert sorted(pod.name for pod in first) == ["a0", "a1", "a2", "b0", "b1"]


STEPS = st.lists(
    st.tuples(st.sampled_from(("waits", "is placed", "leaves the queue", "leaves its node")), st.integers(0, 9)),
    max_size=40,
)


@settings(max_examples=examples(100), deadline=None)
@given(TREES, STEPS)
def test_the_counts_of_the_parts_follow_the_pods(tree, steps):
    out: list[dict[str, Any]] = []
    entries(tree, "", "s", out)
    cluster = Divided({"subGroups": out}, room=100)
    groups = cluster.cache.groups
    group = groups.get(cluster.key)
    assert group is not None
    assert group.tree is not None
    leaves = [leaf.name for leaf in leaves_of(group.tree)]
    for what, number in steps:
        pod = cluster.pod(f"p{number}", leaves[number % len(leaves)], node="n")
        if what == "waits":
            groups.add_waiting(pod)
        elif what == "is placed":
            groups.pod_added(pod, 0)
        elif what == "leaves the queue":
            groups.remove_waiting(pod.uid)
        else:
            groups.pod_removed(pod, 0)
        members = groups.members(cluster.key)
        part_of = {uid: each.labels[KAI_SUB_GROUP_LABEL] for uid, each in (members.waiting | members.placed).items()}
        placed = Counter(part_of[uid] for uid in members.placed)
        assert groups.lacking(group) == lacking(group.tree, placed)
        assert groups.minimum_placed(group) == (lacking(group.tree, placed) == 0)
        assert groups.has_minimum(group) == (lacking(group.tree, Counter(part_of.values())) == 0)
        for uid, each in members.placed.items():
            rest = placed - Counter([each.labels[KAI_SUB_GROUP_LABEL]])
            assert groups.minimum_left(group, [uid]) == (lacking(group.tree, rest) == 0)


def lacking(part: SubGroup, pods: Mapping[str, int]) -> int:
    if not part.children:
        return max(0, part.pods - pods[part.name])
    return sum(sorted(lacking(child, pods) for child in part.children)[: part.groups])


class TestTopology:
    """A hierarchy whose pod groups must each be in one rack."""

    def cluster(
        self, racks: Mapping[str, int], *members: int, above: str = "", placed: Mapping[str, str] | None = None
    ):
        """`placed`: the racks of members that have a node."""
        world = World()
        world.fill(
            {
                "nodes": [
                    make_node(n, labels={"rack": n, "row": n[0]}, allocatable={"cpu": str(c)}) for n, c in racks.items()
                ]
            }
        )
        top = {"schedulingPolicy": {"gang": {"minGroupCount": len(members)}}}
        if above:
            top["schedulingConstraints"] = {"topology": [{"key": above}]}
        cache = world.cache
        cache.set_object(COMPOSITE_KIND, {"metadata": {"name": "top", "namespace": "default"}, "spec": top})
        for index, count in enumerate(members):
            spec = {
                "schedulingPolicy": {"gang": {"minCount": count}},
                "parentCompositePodGroupName": "top",
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
            }
            cache.set_object(KIND, {"metadata": {"name": f"g{index}", "namespace": "default"}, "spec": spec})
            for number in range(count):
                name, spec = f"g{index}-{number}", in_group(f"g{index}")
                node = (placed or {}).get(name, "")
                pod = parse_pod(make_pod(name, requests={"cpu": "1"}, spec=spec, node=node), keep_raw=True)
                if node:
                    cache.set_pod(pod)
                else:
                    cache.groups.add_waiting(pod)
        framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
        key = group_key(COMPOSITE_API, "default", "top")
        group = cache.groups.get(key)
        assert group is not None
        return GangPlanner(framework, cache, group, lambda _n: 0).plan(cache.groups.members(key).unplaced())

    def racks(self, decision: Any) -> dict[str, set[str]]:
        assert isinstance(decision, GangPlacement), decision
        found: dict[str, set[str]] = {}
        for each in decision.placements:
            found.setdefault(each.pod.name[:2], set()).add(each.node_name)
        return found

    def test_each_part_is_in_one_domain_of_its_own(self):
        assert self.racks(self.cluster({"a1": 2, "a2": 3, "b1": 2}, 2, 3, 2)) == {
            "g0": {"a1"},
            "g1": {"a2"},
            "g2": {"b1"},
        }

    def test_a_part_that_is_placed_is_left_alone(self):
        assert self.racks(self.cluster({"a1": 2, "b1": 2}, 1, 1, placed={"g0-0": "a1"})) == {"g1": {"a1"}}

    def test_the_rest_of_a_part_goes_to_the_domain_of_those_that_are_placed(self):
        placed = {"g0-0": "b1", "g1-0": "a1"}
        assert self.racks(self.cluster({"a1": 2, "b1": 2}, 2, 2, placed=placed)) == {"g0": {"b1"}, "g1": {"a1"}}

    def test_each_placed_pod_is_looked_at_once_for_each_level(self, monkeypatch):
        reads, above = [], Level.__dict__["above"]
        counted = property(lambda level: (reads.append(level), above.__get__(level))[1], above.__set__)
        monkeypatch.setattr(Level, "above", counted)
        placed = {f"g{index}-0": "a" for index in range(99)}
        assert self.racks(self.cluster({"a": 100}, *[1] * 100, placed=placed)) == {"g9": {"a"}}
        assert len(reads) < 100 * 20

    def test_parts_are_in_domains_of_the_domain_above(self):
        assert self.racks(self.cluster({"a1": 9, "b1": 2, "b2": 2}, 2, 2, above="row")) in (
            {"g0": {"b1"}, "g1": {"b2"}}, {"g0": {"a1"}, "g1": {"a1"}},
        )  # fmt: skip
        assert self.racks(self.cluster({"a1": 3, "b1": 2, "b2": 2}, 2, 2, above="row")) == {"g0": {"b1"}, "g1": {"b2"}}

    def test_domains_within_domains_are_not_tried_without_end(self, monkeypatch):
        tried = []
        schedule = Simulation.schedule
        monkeypatch.setattr(Simulation, "schedule", lambda *args: (tried.append(args), schedule(*args))[1])
        world = World()
        world.fill(
            {"nodes": [make_node(f"n{i}", labels={"rack": f"r{i}"}, allocatable={"cpu": "2"}) for i in range(40)]}
        )
        cache = world.cache
        for level in range(10):
            spec = {
                "schedulingPolicy": {"gang": {"minGroupCount": 1}},
                "schedulingConstraints": {"topology": [{"key": "rack"}]} if level else {},
                **({"parentCompositePodGroupName": f"c{level - 1}"} if level else {}),
            }
            cache.set_object(COMPOSITE_KIND, {"metadata": {"name": f"c{level}", "namespace": "default"}, "spec": spec})
        leaf = {"schedulingPolicy": {"gang": {"minCount": 2}}, "parentCompositePodGroupName": "c9"}
        cache.set_object(KIND, {"metadata": {"name": "leaf", "namespace": "default"}, "spec": leaf})
        for number in range(2):
            apart = {"labelSelector": {"matchLabels": {"app": "leaf"}}, "topologyKey": "rack"}
            affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
            spec = {**in_group("leaf"), "affinity": affinity}
            raw = make_pod(f"p{number}", requests={"cpu": "1"}, labels={"app": "leaf"}, spec=spec)
            cache.groups.add_waiting(parse_pod(raw, keep_raw=True))
        framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
        key = group_key(COMPOSITE_API, "default", "c0")
        group = cache.groups.get(key)
        assert group is not None
        decision = GangPlanner(framework, cache, group, lambda _n: 0).plan(cache.groups.members(key).unplaced())
        assert isinstance(decision, GangRejection)
        assert len(tried) == 2 * 40

    def test_a_part_that_fits_in_no_domain_is_not_placed(self):
        decision = self.cluster({"a1": 2, "a2": 2}, 3)
        assert isinstance(decision, GangRejection)
        assert "0/2 placements are available" in next(iter(decision.parts.values()))

    @pytest.mark.parametrize(
        ("asked", "told"),
        [
            ({"requiredTopologyLevel": "rack"}, "no node has the label rack"),
            ({"requiredTopologyLevel": "rack", "topology": "dc"}, "there is no Topology dc of kai.scheduler"),
            ({"segmentRequiredTopologyLevel": "rack", "segmentSize": 1}, "no node has the label rack"),
        ],
    )
    def test_a_level_of_a_part_that_no_node_has_is_told(self, asked, told):
        parts = [sub_group("leader", 1), {**sub_group("workers", 2), "topologyConstraint": asked}]
        cluster = Divided({"subGroups": parts}, room=9)
        cluster.waits("l0", "leader")
        for name in ("w0", "w1"):
            cluster.waits(name, "workers")
        assert cluster.plan().message.endswith(told)


class TestJointly:
    """Parts are placed one after the other, and none is taken back for another one. What that misses is planned
    jointly.
    """

    def placed(self, cluster: Divided) -> list[str]:
        group = cluster.cache.groups.get(cluster.key)
        planner = GangPlanner(cluster.framework, cluster.cache, group, lambda _n: 0, solve=by_highs)
        decision = decide(planner, cluster.cache.groups.members(cluster.key).unplaced(), 0.0)
        assert isinstance(decision, GangPlacement), decision
        return sorted(placement.pod.name for placement in decision.placements)

    def test_two_parts_of_many_small_pods_are_enough_where_one_of_few_large_ones_takes_their_room(self):
        parts = [sub_group("large", 2), sub_group("b", 3), sub_group("c", 3)]
        cluster = Divided({"subGroups": parts, "minSubGroup": 2}, room=6)
        for part, count, cpu in (("large", 2, "2"), ("b", 3, "1"), ("c", 3, "1")):
            for index in range(count):
                cluster.waits(f"{part}{index}", part, cpu=cpu)
        assert isinstance(cluster.plan(), GangRejection)
        assert self.placed(cluster) == ["b0", "b1", "b2", "c0", "c1", "c2"]

    def test_parts_make_up_a_minimum_of_pods_that_the_first_ones_miss(self):
        policies = [
            {"name": name, "subGroupSize": size, "minSubGroups": least, "matchLabelKeys": [name]}
            for name, size, least in (("four", 4, 0), ("three", 3, 1))
        ]
        cluster = Divided({"minMember": 9, "subGroupPolicy": policies}, room=9, kind=VOLCANO_KIND)
        for name, size, count in (("four", 4, 1), ("three", 3, 3)):
            for index in range(count * size):
                cluster.waits(f"{name}{index}", labels={name: str(index // size)})
        assert isinstance(cluster.plan(), GangRejection)
        assert self.placed(cluster) == sorted(f"three{index}" for index in range(9))
