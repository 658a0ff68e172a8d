"""Gangs over time: they grow, shrink, lose members, and are recreated by their controllers."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from podwright.core.objects.pod_group import GROUP_LABEL, PLUGINS_API, PLUGINS_KIND, VOLCANO_API, VOLCANO_KIND
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from support.control_plane.operator_process import CHECKOUT
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.groupings.workloads import GroupedRig, grouping, owner, pod_of
from support.objects.builders import in_group, make_pod_group, make_policy

RACK = "rack"
TASKS = {"minMember": 3, "minTaskMember": {"leader": 1, "worker": 2}}


class Elastic(Rig):
    """Nodes of one pod each, in racks of two."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        self.engine.cache.groups.serve(PLUGINS_API)
        for index in range(nodes):
            self.room(index)

    def room(self, index: int) -> None:
        self.node(f"n{index}", allocatable={"cpu": "4"}, labels={RACK: f"r{index // 2}"})

    def gang(self, needed: int) -> None:
        raw = {"metadata": {"name": "gang", "namespace": "default", "uid": "gang"}, "spec": {"minMember": needed}}
        self.engine.objects(PLUGINS_KIND).put(raw)

    def member(self, name: str, **options: Any) -> dict[str, Any]:
        labels = {GROUP_LABEL: "gang", **options.pop("labels", {})}
        return ours(name, labels=labels, requests={"cpu": "4"}, **options)

    def come(self, *names: str) -> None:
        for name in names:
            self.engine.pending.put(self.member(name))

    def runs(self, name: str, node: int, *, ending: bool = False, **options: Any) -> None:
        """The later a member is on a node, the later it has started."""
        raw = on_node(self.member(name, **options), f"n{node}")
        raw["status"] = {"phase": "Running", "startTime": f"1970-01-01T00:00:0{node}Z"}
        if ending:
            raw["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:10Z"
        self.engine.assigned.put(raw)

    def ends(self, name: str) -> None:
        self.engine.assigned.drop(f"default/{name}", None)

    async def later(self) -> None:
        self.now += 20
        self.engine.wake()
        await settle()

    @property
    def bound(self) -> dict[str, str]:
        return dict(self.cluster.bound)

    @property
    def evicted(self) -> list[str]:
        return sorted(name for name, _, _ in self.evictor.evicted)


# Minimum and wish


async def test_the_minimum_starts_at_once_and_the_others_as_room_comes():
    rig = Elastic(nodes=3)
    rig.gang(needed=2)
    rig.come("e0")
    async with deciding(rig):
        assert rig.bound == {}
        rig.come("e1", "e2", "e3", "e4")
        await settle()
        assert len(rig.bound) == 3
        for index, count in ((3, 4), (4, 5)):
            rig.room(index)
            await rig.later()
            assert len(rig.bound) == count


@pytest.mark.parametrize("by", ["a pod", "a gang", "pods of another queue", "a gang of another queue"])
async def test_what_is_more_than_the_minimum_goes_first_and_comes_again_when_there_is_room(by):
    rig = Elastic(nodes=4)
    rig.gang(needed=2)
    queued, grouped = "queue" in by, "gang" in by
    if queued:
        queues = queues_of(rig.engine.cache)
        for name, guarantee in (("theirs", 0), ("ours", 16000)):
            queues.set(QueueRules(name, quotas={"cpu": Quota(guarantee=guarantee)}))
    for index in range(4):
        rig.runs(f"e{index}", index, labels={QUEUE_LABEL: "theirs"} if queued else {})
    rig.engine.objects("PodGroup").put(make_pod_group("urgent", 2, priority=10))
    count = 1 if by == "a pod" else 2
    async with deciding(rig):
        for index in range(count):
            labels = {QUEUE_LABEL: "ours"} if queued else {}
            spec = in_group("urgent") if grouped else {}
            rig.pod(
                f"u{index}",
                requests={"cpu": "4"},
                labels=labels,
                priority=10 if grouped or not queued else 0,
                spec=spec,
            )
        await settle()
        await rig.later()
        assert rig.evicted == ["e2", "e3"][2 - count :]
        for name in rig.evicted:
            rig.ends(name)
            rig.come(f"{name}-again")
        await rig.later()
        assert rig.bound.keys() == {f"u{index}" for index in range(count)}
        for index in range(count):
            rig.room(4 + index)
        await rig.later()
        assert {f"{name}-again" for name in rig.evicted} <= rig.bound.keys()


# A member that dies


@pytest.mark.parametrize("by", ["its group", "its policy"])
async def test_a_member_that_dies_is_replaced_in_the_rack_of_the_others(by):
    rig = Elastic(nodes=8)
    if by == "its policy":
        packed = [{"name": "GangScheduling", "args": {"topologyKey": RACK}}]
        assert rig.engine.policies.apply(make_policy("p", 1, "p", pluginConfig=packed)).accepted
    near = {"schedulingConstraints": {"topology": [{"key": RACK}]}} if by == "its group" else {}
    rig.engine.objects("PodGroup").put(make_pod_group("gang", 2, **near))
    for name, node in (("a", "n4"), ("b", "n5")):
        rig.engine.assigned.put(on_node(ours(name, requests={"cpu": "4"}, spec=in_group()), node))
    async with deciding(rig):
        rig.ends("a")
        rig.pod("a-again", requests={"cpu": "4"}, spec=in_group())
        await settle()
        assert rig.bound == {"a-again": "n4"}


# Members that are made anew


async def test_what_a_gang_is_made_anew_of_starts_together_although_the_old_members_still_end():
    rig = Elastic(nodes=3)
    rig.gang(needed=2)
    for index in range(2):
        rig.runs(f"old{index}", index, ending=True)
    async with deciding(rig):
        rig.come("new0", "new1")
        await rig.later()
        assert rig.bound == {}, "there is room for one"
        rig.ends("old0")
        await rig.later()
        assert rig.bound.keys() == {"new0", "new1"}


async def test_the_old_members_that_end_do_not_say_where_the_new_ones_are():
    rig = Elastic(nodes=4)
    rig.engine.objects("PodGroup").put(make_pod_group("gang", 2, schedulingConstraints={"topology": [{"key": RACK}]}))
    for name, node in (("a", "n0"), ("b", "n1")):
        raw = on_node(ours(name, requests={"cpu": "4"}, spec=in_group()), node)
        raw["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:10Z"
        rig.engine.assigned.put(raw)
    async with deciding(rig):
        for name in ("a-again", "b-again"):
            rig.pod(name, requests={"cpu": "4"}, spec=in_group())
        await settle()
        assert set(rig.bound.values()) == {"n2", "n3"}


async def test_a_member_that_ends_makes_no_other_one_dispensable():
    rig = Elastic(nodes=3)
    rig.gang(needed=2)
    for index in range(3):
        rig.runs(f"e{index}", index, ending=index == 0)
    group = next(iter(rig.engine.cache.groups.all()))
    groups = rig.engine.cache.groups
    assert (groups.spares(group), groups.minimum_left(group, ["default/e0"])) == ({"default/e0"}, True)
    assert not groups.minimum_left(group, ["default/e1"])


async def test_the_members_that_a_gang_can_spare_are_those_that_started_last():
    rig = Elastic(nodes=3)
    rig.gang(needed=2)
    started = {"new0": "00:00:30", "new1": "00:00:10", "new2": "00:00:20"}
    async with deciding(rig):
        rig.come(*started)
        await rig.later()
    group = next(iter(rig.engine.cache.groups.all()))
    for name, at in started.items():
        raw = on_node(rig.member(name), rig.bound[name])
        rig.engine.assigned.put({**raw, "status": {"startTime": f"1970-01-01T{at}Z"}})
    assert rig.engine.cache.groups.spares(group) == {"default/new0"}


DEPLOYMENT = grouping(
    "deployments",
    api_version="apps/v1",
    kind="Deployment",
    through=[{"apiVersion": "apps/v1", "kind": "ReplicaSet"}],
    key="pod.labels['pod-template-hash']",
    minCount="int(owner.spec.replicas)",
)


def shipped(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(iter(yaml.safe_load_all((CHECKOUT / "manifests" / "groupings" / name).read_text())))
    return found


def leader_worker_set(rig: GroupedRig, revision: str) -> list[dict[str, Any]]:
    prefix = "leaderworkerset.sigs.k8s.io"
    top = owner("llm", api_version="leaderworkerset.x-k8s.io/v1", kind="LeaderWorkerSet", spec={})
    leaders = owner("llm", api_version="apps/v1", kind="StatefulSet", controller=top)
    rig.own(top, leaders)
    labels = {f"{prefix}/group-index": "0", f"{prefix}/template-revision-hash": revision}
    metadata = {"annotations": {f"{prefix}/size": "2"}}
    return [
        pod_of(leaders, f"llm-{revision}-{i}", labels=labels, metadata=metadata, requests={"cpu": "4"})
        for i in range(2)
    ]


def job_set(rig: GroupedRig, revision: str) -> list[dict[str, Any]]:
    template = {"spec": {"parallelism": 2, "completions": 2}}
    top = owner(
        "train",
        api_version="jobset.x-k8s.io/v1alpha2",
        kind="JobSet",
        spec={"replicatedJobs": [{"name": "w", "template": template}]},
    )
    job = owner(f"train-w-{revision}", controller=top, spec=template["spec"])
    rig.own(top, job)
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "w", "jobset.sigs.k8s.io/restart-attempt": revision}
    return [pod_of(job, f"w-{revision}-{i}", labels=labels, requests={"cpu": "4"}) for i in range(2)]


def deployment(rig: GroupedRig, revision: str) -> list[dict[str, Any]]:
    top = owner("web", api_version="apps/v1", kind="Deployment", spec={"replicas": 2})
    replicas = owner(f"web-{revision}", api_version="apps/v1", kind="ReplicaSet", controller=top)
    rig.own(top, replicas)
    return [
        pod_of(replicas, f"web-{revision}-{i}", labels={"pod-template-hash": revision}, requests={"cpu": "4"})
        for i in range(2)
    ]


@pytest.mark.parametrize(
    ("made", "makes"),
    [
        pytest.param(shipped("leaderworkerset.yaml"), leader_worker_set, id="a new revision of a LeaderWorkerSet"),
        pytest.param(shipped("jobset.yaml"), job_set, id="a restart of a JobSet"),
        pytest.param(DEPLOYMENT, deployment, id="a new ReplicaSet of a Deployment"),
    ],
)
async def test_old_pods_that_run_do_not_count_for_a_rolling_update(made, makes):
    rig = GroupedRig()
    rig.group(made)
    for index in range(3):
        rig.node(f"n{index}", allocatable={"cpu": "4"})
    async with deciding(rig):
        old = makes(rig, "1")
        rig.put(*old)
        await settle()
        nodes = dict(rig.cluster.bound)
        for raw in old:
            rig.confirm(raw, nodes[raw["metadata"]["name"]])
        new = makes(rig, "2")
        names = {raw["metadata"]["name"] for raw in new}
        rig.put(new[0])
        rig.now += 20
        await settle()
        assert rig.counts == {"gated": 1}, "the new gang has one of two pods"
        rig.put(new[1])
        await settle()
        assert not names & rig.bound, "there is room for one"
        rig.engine.assigned.drop(old[0]["metadata"]["uid"], None)
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert names <= rig.bound


class TestSucceededMembersOfVolcano:
    """Volcano's minimums count pods that have succeeded, as long as these are there."""

    def rig_with(self, succeeded: int, spec: dict[str, Any], phase: str = "Succeeded") -> Elastic:
        """A gang of three, whose first pods have ended, and whose last one has failed and was deleted."""
        rig = Elastic(3)
        rig.engine.cache.groups.serve(VOLCANO_API)
        rig.engine.objects(VOLCANO_KIND).put({"metadata": {"name": "gang", "namespace": "default"}, "spec": spec})
        for index in range(2):
            raw = on_node(self.member(f"m{index}", "worker" if index else "leader"), f"n{index}")
            rig.engine.assigned.put({**raw, "status": {"phase": phase if index < succeeded else "Running"}})
        return rig

    def member(self, name: str, task: str) -> dict[str, Any]:
        annotations = {"scheduling.k8s.io/group-name": "gang", "volcano.sh/task-spec": task}
        return ours(name, requests={"cpu": "4"}, metadata={"annotations": annotations})

    @pytest.mark.parametrize("succeeded", [1, 2])
    @pytest.mark.parametrize("spec", [{"minMember": 3}, TASKS], ids=["flat", "tasks"])
    async def test_what_replaces_a_failed_pod_starts(self, spec, succeeded):
        rig = self.rig_with(succeeded, spec)
        rig.engine.pending.put(self.member("again", "worker"))
        async with deciding(rig):
            await settle()
            assert set(rig.bound) == {"again"}

    @pytest.mark.parametrize("spec", [{"minMember": 3}, TASKS], ids=["flat", "tasks"])
    async def test_it_waits_if_the_others_have_failed_or_are_gone(self, spec):
        rig = self.rig_with(1, spec, phase="Failed")
        rig.engine.pending.put(self.member("again", "worker"))
        async with deciding(rig):
            await settle()
            assert set(rig.bound) == set()
            rig.engine.assigned.put({**on_node(self.member("m0", "leader"), "n0"), "status": {"phase": "Succeeded"}})
            rig.engine.assigned.drop("default/m0", None)
            await rig.later()
            assert set(rig.bound) == set()

    async def test_it_starts_also_if_the_others_are_seen_only_then(self):
        rig = self.rig_with(0, {"minMember": 3})
        rig.engine.assigned.drop("default/m0", None)
        rig.engine.pending.put(self.member("again", "worker"))
        async with deciding(rig):
            await settle()
            assert set(rig.bound) == set()
            rig.engine.assigned.put({**on_node(self.member("m0", "leader"), "n0"), "status": {"phase": "Succeeded"}})
            await rig.later()
            assert set(rig.bound) == {"again"}

    async def test_members_that_are_more_than_the_minimum_with_them_may_go(self):
        rig = self.rig_with(1, {"minMember": 1})
        groups = rig.engine.cache.groups
        (group,) = groups.all()
        assert groups.spares(group) == {"default/m1"}
        rig.engine.assigned.drop("default/m0", None)
        assert groups.spares(group) == set()

    async def test_nothing_is_kept_of_pods_and_groups_that_are_gone(self):
        rig = self.rig_with(2, {"minMember": 3})
        key = f"{VOLCANO_API}:default/gang"
        rig.engine.objects(VOLCANO_KIND).drop("default/gang", None)
        assert rig.engine.cache.groups.members(key).placed_count == 2
        moved = self.member("m0", "leader")
        moved["metadata"]["annotations"] = {}
        rig.engine.assigned.put({**on_node(moved, "n0"), "status": {"phase": "Succeeded"}})
        assert rig.engine.cache.groups.members(key).placed_count == 1
        rig.engine.assigned.drop("default/m1", None)
        assert rig.engine.cache.groups.members(key).placed_count == 0
