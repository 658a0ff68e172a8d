"""Groups that become incomplete lose their nominations, and groups with errors report them in their status."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podwright.api.workload_grouping import parse_grouping
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import (
    GROUP_LABEL,
    GROVE_API,
    GROVE_LABEL,
    KAI_API,
    KAI_KIND,
    KIND,
    MADE_API,
    PLUGINS_API,
    PLUGINS_KIND,
    VOLCANO_API,
    VOLCANO_KIND,
    WORKLOAD_API,
)
from podwright.engine import engine as engine_module
from podwright.engine.attempts.gangs.group_changes import INCOMPLETE_SECONDS
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.groupings.workloads import grouping, reference
from support.objects.builders import in_group, make_pod, make_pod_group

ALL = {"cpu": "8"}


def rig_with(nodes: int = 2) -> Rig:
    """Nodes of 8 CPUs, and both APIs of pod groups."""
    rig = Rig()
    rig.engine.cache.groups.serve(WORKLOAD_API)
    rig.engine.cache.groups.serve(PLUGINS_API)
    for index in range(nodes):
        rig.node(f"n{index}")
    return rig


def preempting() -> Rig:
    """Two nodes, each filled by a pod of lower priority, and a gang that is nominated to both and waits for the
    evictions.
    """
    rig = rig_with()
    rig.evictor.waits = True
    for index in range(2):
        rig.engine.assigned.put(on_node(ours(f"low{index}", requests=ALL, priority=0), f"n{index}"))
    rig.engine.objects(KIND).put(make_pod_group("gang", 2, priority=100))
    for index in range(2):
        rig.pod(f"m{index}", requests=ALL, priority=100, spec=in_group())
    return rig


def delete_member(rig: Rig) -> None:
    rig.engine.pending.drop("default/m1", None)


def delete_group(rig: Rig) -> None:
    rig.engine.objects(KIND).drop("default/gang", None)


def raise_min_count(rig: Rig) -> None:
    rig.engine.objects(KIND).put(make_pod_group("gang", 3, priority=100))


async def advance(rig: Rig) -> None:
    rig.now += 20
    rig.engine.wake()
    await settle()


def custom_group(name: str = "gang", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": "u", "generation": 3}, "spec": spec}


class TestNominations:
    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(delete_member, id="a member is deleted"),
            pytest.param(delete_group, id="the group is deleted"),
            pytest.param(raise_min_count, id="the group needs more members"),
        ],
    )
    async def test_they_are_cleared_when_the_group_is_no_longer_complete(self, change):
        rig = preempting()
        async with deciding(rig):
            assert len(rig.engine.cache.nominator) == 2
            for index in range(2):
                rig.engine.assigned.drop(f"default/low{index}", None)
            rig.pod("plain", requests=ALL)
            await settle()
            assert rig.cluster.bound == []
            change(rig)
            await settle()
            assert len(rig.engine.cache.nominator) == 0
            assert ("m0", None, "") in rig.status.written
            assert [name for name, _ in rig.cluster.bound] == ["plain"]

    async def test_they_are_kept_while_the_group_is_complete(self):
        rig = preempting()
        async with deciding(rig):
            rig.pod("m2", requests=ALL, priority=100, spec=in_group())
            await settle()
            rig.engine.pending.drop("default/m2", None)
            for _ in range(2):
                rig.engine.group_changes.clear_stale_nominations()
                await settle()
            assert len(rig.engine.cache.nominator) == 2

    async def test_they_are_cleared_if_the_group_stays_incomplete_after_a_restart(self):
        rig = rig_with(nodes=1)
        rig.engine.objects(KIND).put(make_pod_group("gang", 2, priority=100))
        nominated = ours("m0", requests=ALL, priority=100, spec=in_group(), status={"nominatedNodeName": "n0"})
        rig.engine.pending.put(nominated)
        rig.pod("plain", requests=ALL)
        async with deciding(rig):
            rig.engine.group_changes.clear_stale_nominations()
            await settle()
            assert rig.cluster.bound == []
            rig.engine.group_changes.clear_stale_nominations()
            await settle()
            assert rig.cluster.bound == [("plain", "n0")]
            assert ("m0", None, "") in rig.status.written


class TestIncompleteGroups:
    TEXT = "waiting for minCount pods from a gang to appear in scheduling queue"

    @staticmethod
    async def wait(rig: Rig, seconds: float = INCOMPLETE_SECONDS) -> None:
        rig.now += seconds
        rig.engine.group_changes.report_incomplete()

    async def test_one_that_stays_incomplete_gets_an_event_once_and_a_condition_that_keeps_up(self):
        rig = rig_with()
        rig.engine.objects(KIND).put(make_pod_group("gang", 3))
        rig.pod("a", spec=in_group())
        async with deciding(rig):
            await self.wait(rig, INCOMPLETE_SECONDS - 1)
            assert (rig.recorder.events, rig.groups.written) == ([], [])
            await self.wait(rig, 1)
            await self.wait(rig)
            assert rig.recorder.events == [("gang", "FailedScheduling", f"{self.TEXT}: 1 of 3 exist")]
            rig.pod("b", spec=in_group())
            await settle()
            reasons = [("gang", "Unschedulable", f"{self.TEXT}: {count} of 3 exist") for count in (1, 2)]
            assert rig.groups.written == reasons
            rig.pod("c", spec=in_group())
            await settle()
            await self.wait(rig)
        assert rig.groups.written[-1] == ("gang", "", "")
        assert rig.recorder.notes("FailedScheduling") == [f"{self.TEXT}: 1 of 3 exist"]

    async def test_the_condition_of_one_with_a_foreign_member_names_the_error_also_after_it_was_reported(self):
        rig = rig_with()
        rig.engine.objects(KIND).put(make_pod_group("gang", 3))
        rig.pod("a", spec=in_group())
        async with deciding(rig):
            await self.wait(rig)
            rig.engine.foreign_pods.seen(make_pod("b", spec={**in_group(), "schedulerName": "other"}))
            await settle()
            rig.pod("c", spec=in_group())
            await settle()
        first, *later = [reason for _, reason, _ in rig.groups.written]
        assert (first, set(later)) == ("Unschedulable", {"SchedulerError"})

    async def test_one_with_a_foreign_member_has_the_error_as_its_only_event(self):
        rig = rig_with()
        rig.engine.objects(KIND).put(make_pod_group("gang", 3))
        rig.pod("a", spec=in_group())
        async with deciding(rig):
            rig.engine.foreign_pods.seen(make_pod("b", spec={**in_group(), "schedulerName": "other"}))
            await settle()
            await self.wait(rig)
        (note,) = rig.recorder.notes("FailedScheduling")
        assert "same .spec.schedulerName" in note

    async def test_a_pod_of_one_that_does_not_exist_gets_an_event_once(self):
        rig = rig_with()
        for name in ("a", "b"):
            rig.pod(name, spec=in_group("lost"))
        async with deciding(rig):
            for _ in range(3):
                await self.wait(rig)
        note = 'waiting for pods\'s pod group "lost" to appear in scheduling queue'
        assert rig.recorder.events == [("a", "FailedScheduling", note)]

    async def test_one_without_waiting_pods_is_not_reported(self):
        rig = rig_with()
        rig.engine.objects(KIND).put(make_pod_group("gang", 2))
        rig.engine.objects(KIND).put(make_pod_group("basic", None))
        rig.engine.assigned.put(on_node(ours("a", spec=in_group()), "n0"))
        rig.pod("huge", requests={"cpu": "99"}, spec=in_group("basic"))
        async with deciding(rig):
            rig.recorder.events.clear()
            await self.wait(rig)
            assert rig.recorder.events == []


class TestForeignPods:
    """Members that ask for a scheduler that we do not serve."""

    TEXT = (
        "all pods in a single pod group should have the same .spec.schedulerName set, "
        'got: "other" of pod default/b and "podwright"'
    )

    @pytest.mark.parametrize(
        ("kind", "group", "named"),
        [
            pytest.param(KIND, make_pod_group("gang", 2), {"spec": in_group()}, id="the Workload API"),
            pytest.param(PLUGINS_KIND, custom_group(minMember=2), {"labels": {GROUP_LABEL: "gang"}}, id="by label"),
        ],
    )
    async def test_the_status_of_their_group_names_one(self, kind, group, named):
        rig = rig_with()
        rig.engine.objects(kind).put(group)
        rig.pod("a", **named)
        theirs = make_pod("b", **{**named, "spec": {**named.get("spec", {}), "schedulerName": "other"}})
        async with deciding(rig):
            assert rig.groups.written == []
            rig.engine.pending.put(theirs)
            await settle()
            assert rig.groups.written == [("gang", "SchedulerError", self.TEXT)]
            assert rig.recorder.events == [("gang", "FailedScheduling", self.TEXT)]
            assert rig.cluster.bound == []
            rig.engine.pending.drop("default/b", None)
            rig.pod("b2", **named)
            await settle()
            assert {name for name, _ in rig.cluster.bound} == {"a", "b2"}
            assert rig.groups.written[-1] == ("gang", "", "")

    async def test_a_group_that_is_complete_without_them_is_not_placed(self):
        rig = rig_with()
        rig.engine.objects(KIND).put(make_pod_group("gang", 1))
        rig.engine.pending.put(make_pod("b", spec={**in_group(), "schedulerName": "other"}))
        rig.pod("a", spec=in_group())
        async with deciding(rig):
            assert rig.cluster.bound == []
            assert rig.groups.written[-1] == ("gang", "SchedulerError", self.TEXT)
            rig.engine.pending.drop("default/b", None)
            await advance(rig)
            assert rig.cluster.bound == [("a", "n0")]

    async def test_one_whose_scheduler_name_becomes_served_is_no_longer_foreign(self):
        rig = rig_with()
        rig.engine.objects(KIND).put(make_pod_group("gang", 2))
        theirs = make_pod("b", spec={**in_group(), "schedulerName": "other"})
        rig.pod("a", spec=in_group())
        async with deciding(rig):
            rig.engine.pending.put(theirs)
            spec = {"schedulerName": "other", "strategy": {"type": "LeastAllocated"}}
            policy = {"metadata": {"name": "p", "uid": "p", "generation": 1}, "spec": spec}
            assert rig.engine.policies.apply(policy).accepted
            rig.engine.pending.put(theirs)
            assert len(rig.engine.foreign_pods) == 0

    async def test_a_group_without_pods_of_ours_is_ignored(self):
        rig = rig_with()
        rig.engine.objects(KIND).put(make_pod_group("gang", 2))
        rig.engine.pending.put(make_pod("b", spec={**in_group(), "schedulerName": "other"}))
        async with deciding(rig):
            assert rig.groups.written == []

    async def test_those_missing_from_a_list_of_their_namespace_are_forgotten(self):
        rig = rig_with()
        rig.engine.objects(KIND).put(make_pod_group("gang", 2))
        foreign_pods = rig.engine.foreign_pods
        pods = [make_pod(name, spec={**in_group(), "schedulerName": "other"}) for name in "bc"]
        elsewhere = make_pod("d", namespace="elsewhere", spec={**in_group(), "schedulerName": "other"})
        for raw in (*pods, elsewhere):
            foreign_pods.seen(raw)
        foreign_pods.keep_only("default", {pods[1]["metadata"]["uid"]})
        assert [one.pod for one in foreign_pods.of("scheduling.k8s.io:default/gang")] == ["default/c"]
        assert len(foreign_pods) == 2


class TestInvalidGroups:
    @pytest.mark.parametrize(
        ("spec", "problem"),
        [
            pytest.param(
                {"minMember": 0}, "spec.minMember: expected a whole number of at least 1", id="a minimum of zero"
            ),
            pytest.param(
                {"minMember": 2, "scheduleTimeoutSeconds": 0},
                "spec.scheduleTimeoutSeconds: expected a whole number of at least 1",
                id="a timeout of zero",
            ),
            pytest.param(
                {"minMember": 2, "minResources": {"cpu": "x"}},
                "spec.minResources[cpu]: 'x' is not a quantity",
                id="an invalid quantity",
            ),
        ],
    )
    async def test_their_status_names_the_field(self, spec, problem):
        rig = rig_with()
        rig.engine.objects(PLUGINS_KIND).put(custom_group(**spec))
        for name in "ab":
            rig.pod(name, labels={GROUP_LABEL: "gang"})
        async with deciding(rig):
            text = f"PodGroup default/gang: {problem}"
            assert rig.groups.written == [("gang", "SchedulerError", text)]
            assert rig.recorder.events == [("gang", "FailedScheduling", text)]
            assert rig.counts == {"gated": 2}
            rig.engine.objects(PLUGINS_KIND).put(custom_group(minMember=2))
            await settle()
            assert {name for name, _ in rig.cluster.bound} == {"a", "b"}
            assert rig.groups.written[-1] == ("gang", "", "")

    async def test_no_error_is_reported_while_no_pod_of_ours_waits_for_them(self):
        rig = rig_with()
        async with deciding(rig):
            rig.engine.objects(PLUGINS_KIND).put(custom_group(minMember=0))
            await settle()
            assert rig.groups.written == rig.recorder.events == []
            for name in "ab":
                rig.pod(name, labels={GROUP_LABEL: "gang"})
                await settle()
            assert {reason for _, reason, _ in rig.groups.written} == {"SchedulerError"}
            assert len(rig.recorder.events) == 1

    async def test_the_last_valid_version_stays_active(self):
        rig = rig_with()
        rig.engine.objects(PLUGINS_KIND).put(custom_group(minMember=2))
        rig.engine.objects(PLUGINS_KIND).put(custom_group(minMember=0))
        for name in "ab":
            rig.pod(name, labels={GROUP_LABEL: "gang"})
        async with deciding(rig):
            assert {name for name, _ in rig.cluster.bound} == {"a", "b"}


async def test_nominations_are_kept_until_the_caches_are_complete(monkeypatch):
    monkeypatch.setattr(engine_module, "HOUSEKEEPING_SECONDS", 0.001)
    rig = rig_with()
    rig.pod("m2", spec=in_group(), status={"nominatedNodeName": "n1"})
    housekeeping = asyncio.create_task(rig.engine.run_housekeeping())
    await asyncio.sleep(0.05)
    housekeeping.cancel()
    assert rig.engine.cache.nominator.node_of("default/m2") == "n1"
    assert rig.status.written == []


async def test_a_node_that_is_added_again_with_a_member_completes_its_group():
    rig = rig_with(nodes=0)
    rig.node("n1", allocatable={"cpu": "1"})
    rig.engine.objects(KIND).put(make_pod_group("gang", 2))
    async with deciding(rig):
        rig.engine.assigned.put(on_node(ours("a", spec=in_group()), "n1"))
        rig.engine.nodes.drop("n1", None)
        rig.pod("b", spec=in_group())
        await settle()
        assert rig.counts == {"gated": 1}
        rig.node("n1", allocatable={"cpu": "1"})
        rig.node("n2")
        await settle()
        assert rig.placed_on("b")


class TestPodsThatNameSeveralGroups:
    def test_the_most_specific_one_counts_and_an_event_names_both(self):
        rig = Rig()
        for api in (PLUGINS_API, VOLCANO_API, KAI_API):
            rig.engine.cache.groups.serve(api)
        metadata = {"annotations": {"scheduling.k8s.io/group-name": "job", "pod-group-name": "run"}}
        raw = rig.pod("p", labels={GROUP_LABEL: "train"}, metadata=metadata)
        assert parse_pod(raw).group == f"{PLUGINS_API}:default/train"
        assert rig.recorder.notes("TwoPodGroups") == [
            (
                f"the pod names PodGroup default/job of {VOLCANO_API}, but also PodGroup default/train of {PLUGINS_API}, "
                "which counts"
            )
        ]

    def test_the_group_that_the_pod_grouper_of_kai_adds_to_a_pod_of_grove_is_not_mentioned(self):
        rig = Rig()
        for api in (GROVE_API, KAI_API, VOLCANO_API):
            rig.engine.cache.groups.serve(api)
        annotations = {"pod-group-name": "pg-gang-0"}
        rig.pod("p", labels={GROVE_LABEL: "gang-0"}, metadata={"annotations": annotations})
        assert rig.recorder.notes("TwoPodGroups") == []
        annotations |= {"scheduling.k8s.io/group-name": "job"}
        rig.pod("q", labels={GROVE_LABEL: "gang-0"}, metadata={"annotations": annotations})
        assert len(rig.recorder.notes("TwoPodGroups")) == 1

    @staticmethod
    def pods(rig: Rig) -> list[str]:
        """How the waiting pod `w` and the running pod `r` are grouped, and the members of both groups."""
        groups, cache = rig.engine.cache.groups, rig.engine.cache
        found = [cache.placement("default/r").pods["default/r"].group, rig.engine.queue.get("default/w").pod.group]
        for key in found:
            assert {"default/w"} == {*groups.members(key).waiting}
            assert {"default/r"} == {*groups.members(key).placed}
        return [key.partition(":")[0] for key in found]

    async def test_while_only_the_less_specific_one_is_served_it_counts_and_an_event_says_so(self):
        rig = Rig()
        rig.engine.cache.groups.serve(VOLCANO_API)
        rig.engine.objects(VOLCANO_KIND).put(custom_group("job", minMember=2))
        rig.node("n")
        metadata = {"annotations": {"scheduling.k8s.io/group-name": "job"}}
        rig.pod("p", labels={GROUP_LABEL: "train"}, metadata=metadata)
        async with deciding(rig):
            await settle()
            assert rig.counts == {"gated": 1}
            rig.pod("q", labels={GROUP_LABEL: "train"}, metadata=metadata)
            await settle()
            assert rig.placed_on("p") == rig.placed_on("q") == "n"
        text = (
            f"the pod names PodGroup default/train of {PLUGINS_API}, but also PodGroup default/job of {VOLCANO_API}, "
            "which counts while the other is not served, or may not be read"
        )
        assert rig.recorder.notes("TwoPodGroups") == [text, text]
        assert rig.recorder.notes("PodGroupNotRead") == []

    async def test_pods_follow_when_apis_come_and_go(self):
        rig = Rig()
        groups = rig.engine.cache.groups
        groups.serve(VOLCANO_API)
        rig.node("n")
        options = {
            "labels": {GROUP_LABEL: "train"},
            "metadata": {"annotations": {"scheduling.k8s.io/group-name": "job", "pod-group-name": "run"}},
        }
        rig.pod("w", **options)
        rig.engine.assigned.put(on_node(ours("r", **options), "n"))
        assert self.pods(rig) == [VOLCANO_API, VOLCANO_API]
        for change, wanted in (
            (lambda: groups.serve(PLUGINS_API), PLUGINS_API),
            (lambda: groups.serve(KAI_API), PLUGINS_API),
            (lambda: groups.withdraw(VOLCANO_API), PLUGINS_API),
            (lambda: groups.withdraw(PLUGINS_API), KAI_API),
        ):
            change()
            await rig.engine.group_changes.rank_all()
            assert self.pods(rig) == [wanted, wanted]
        notes = rig.recorder.notes("TwoPodGroups")
        assert f"{PLUGINS_API}, which counts" in notes[1]
        assert f"{KAI_API}, which counts while the other is not served" in notes[2]
        assert len(notes) == 3

    async def test_a_pod_is_in_the_group_that_a_grouping_makes_only_while_none_is_served(self):
        rig = Rig()
        rig.engine.cache.groups.serve(VOLCANO_API)
        rig.engine.workloads.set(parse_grouping(grouping(minCount="2")))
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "j"}}
        metadata = {"annotations": {"scheduling.k8s.io/group-name": "job"}, "ownerReferences": [reference(job)]}
        rig.pod("p", labels={GROUP_LABEL: "train"}, metadata=metadata)
        assert rig.engine.queue.get("default/p").pod.group == f"{VOLCANO_API}:default/job"
        rig.node("n")
        rig.engine.assigned.put(on_node(ours("s", labels={GROUP_LABEL: "train"}, metadata=metadata), "n"))
        assert rig.engine.cache.placement("default/s").pods["default/s"].group == f"{VOLCANO_API}:default/job"
        rig.engine.cache.groups.withdraw(VOLCANO_API)
        rig.pod("q", labels={GROUP_LABEL: "train"}, metadata=metadata)
        await settle()  # all pods are taken in again once, because there is a new grouping
        assert rig.engine.queue.get("default/q").pod.group.startswith(MADE_API)
        rig.engine.cache.groups.serve(PLUGINS_API)
        await rig.engine.group_changes.rank_all()
        assert rig.engine.queue.get("default/q").pod.group.startswith(MADE_API)
        rig.pod("r", labels={GROUP_LABEL: "train"}, metadata=metadata)
        assert rig.engine.queue.get("default/r").pod.group == f"{PLUGINS_API}:default/train"

    async def test_a_pod_of_another_scheduler_is_in_the_group_that_counts(self):
        rig = Rig()
        rig.engine.cache.groups.serve(VOLCANO_API)
        metadata = {"annotations": {"scheduling.k8s.io/group-name": "job"}}
        raw = make_pod("p", labels={GROUP_LABEL: "train"}, metadata=metadata)
        rig.engine.pending.put(raw | {"spec": {**raw["spec"], "schedulerName": "other"}})
        assert [each.pod for each in rig.engine.foreign_pods.of(f"{VOLCANO_API}:default/job")] == ["default/p"]

    def test_groups_that_nobody_serves_are_not_mentioned(self):
        rig = Rig()
        rig.engine.cache.groups.serve(PLUGINS_API)
        rig.pod("p", labels={GROUP_LABEL: "train"}, metadata={"annotations": {"pod-group-name": "run"}})
        assert rig.recorder.notes("TwoPodGroups") == []


async def test_a_group_that_is_made_anew_all_the_time_leaves_nothing_behind():
    rig = Rig()
    rig.engine.cache.groups.serve(KAI_API)
    rig.node("n")
    metadata = {"annotations": {"pod-group-name": "g"}, "labels": {"kai.scheduler/subgroup-name": "part"}}
    rig.pod("p", metadata=metadata)
    groups, key = rig.engine.cache.groups, f"{KAI_API}:default/g"
    async with deciding(rig):
        for number in range(100):
            parts = [{"name": "part" if number % 2 else "other", "minMember": 2}]
            named = {"name": "g", "namespace": "default", "uid": f"u{number}"}
            rig.engine.objects(KAI_KIND).put({"metadata": named, "spec": {"subGroups": parts}})
            await settle()
            rig.engine.objects(KAI_KIND).drop("default/g", None)
            await settle()
        assert (len(groups.members(key).waiting), groups.members(key).levels) == (1, None)
        assert (rig.placed_on("p"), len(groups.all())) == ("", 0)
        rig.engine.objects(KAI_KIND).put({"metadata": named, "spec": {"minMember": 1}})
        await settle()
        assert rig.placed_on("p") == "n"
