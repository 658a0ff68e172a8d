"""Groups that WorkloadGroupings make: which pods they take, and what becomes of pods whose owner is unknown."""

from __future__ import annotations

from weakref import ref

import pytest

from podwright.api.workload_grouping import parse_grouping
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.state.pod_groups import PodGroups
from podwright.engine.intake import workloads as module
from podwright.engine.ports import Regarding
from support.engine.kit import deciding, on_node, settle
from support.groupings.workloads import GroupedRig, grouping, owner, pod_of, reference

PARALLELISM = "owner.spec.?parallelism.orValue(1)"
JOBS = grouping(minCount=PARALLELISM)
TRAIN = owner(spec={"parallelism": 3})


def rig_with(*groupings, nodes=2) -> GroupedRig:
    """Nodes of 8 CPUs."""
    rig = GroupedRig()
    rig.group(*(groupings or (JOBS,)))
    for index in range(nodes):
        rig.node(f"n{index}")
    return rig


def pods(raw, count, **options):
    return [
        pod_of(raw, f"{raw['metadata']['name']}-{index}", requests={"cpu": "4"}, **options) for index in range(count)
    ]


async def test_groupings_that_come_together_take_the_pods_in_again_once():
    rig = rig_with()
    rig.own(TRAIN)
    rig.put(*pods(TRAIN, 3))
    async with deciding(rig):
        await settle()
        lists, taken, put = [], [], rig.engine.pending.put
        rig.engine.workloads.relist = lambda: lists.append(1)
        rig.engine.pending.put = lambda raw: (taken.append(raw["metadata"]["name"]), put(raw))
        waiting = pods(owner("large", spec={"parallelism": 9}), 2)
        rig.put(*waiting)
        taken.clear()
        rig.group(*(grouping(f"g{index}", kind="Other", minCount="2") for index in range(20)))
        await settle()
        assert lists == [1]
        assert sorted(taken) == ["large-0", "large-1"]


class TestGroups:
    async def test_the_pods_of_an_owner_start_together(self):
        rig = rig_with()
        rig.own(TRAIN)
        first, second, third = pods(TRAIN, 3)
        rig.put(first, second)
        async with deciding(rig):
            assert rig.counts == {"gated": 2}
            rig.put(third)
            await settle()
            assert rig.bound == {"train-0", "train-1", "train-2"}
            assert rig.minimums == {"Job default/train": 3}

    async def test_a_gang_that_does_not_fit_starts_no_pod_and_is_named_by_its_owner(self):
        rig = rig_with(nodes=1)
        rig.own(TRAIN)
        rig.put(*pods(TRAIN, 3))
        async with deciding(rig):
            await settle()
            assert rig.bound == set()
            assert "train" in {name for name, reason, _ in rig.recorder.events if reason == "FailedScheduling"}
            (group,) = rig.engine.cache.groups.all()
            regarding = Regarding.group(group, "podwright")
            assert (regarding.kind, regarding.api_version, regarding.uid) == ("Job", "batch/v1", "Job-train")

    async def test_pods_with_a_minimum_of_one_are_in_no_group(self):
        rig = rig_with()
        single = owner(spec={})
        rig.own(single)
        rig.put(pod_of(single, "train-0"))
        async with deciding(rig):
            await settle()
            assert rig.bound == {"train-0"}
            assert rig.minimums == {}

    async def test_the_highest_owner_that_a_grouping_selects_decides(self):
        sets = grouping(
            "sets",
            api_version="jobset.x-k8s.io/v1alpha2",
            kind="JobSet",
            through=[{"apiVersion": "batch/v1", "kind": "Job"}],
            minCount="2",
        )
        rig = rig_with(JOBS, sets)
        top = owner("set", api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet", spec={})
        jobs = [owner(f"job-{index}", spec={"parallelism": 1}, controller=top) for index in range(2)]
        rig.own(top, *jobs)
        rig.put(pod_of(jobs[0], "a"))
        async with deciding(rig):
            assert rig.counts == {"gated": 1}
            rig.put(pod_of(jobs[1], "b"))
            await settle()
            assert rig.bound == {"a", "b"}

    async def test_a_selector_chooses_among_owners_and_precedence_among_groupings(self):
        of_a = grouping("a", owner={"selector": {"matchLabels": {"team": "a"}}}, minCount="5", precedence=1)
        rig = rig_with(JOBS, of_a)
        theirs, others = owner("x", labels={"team": "a"}, spec={}), owner("y", spec={"parallelism": 2})
        rig.own(theirs, others)
        rig.put(pod_of(theirs, "x-0"), pod_of(others, "y-0"))
        assert rig.minimums == {"Job default/x": 5, "Job default/y": 2}

    async def test_a_key_divides_the_pods_of_an_owner(self):
        rig = rig_with(grouping(minCount="2", key="pod.labels['slice']"))
        rig.own(TRAIN)
        rig.put(*(pod_of(TRAIN, f"{key}-{index}", labels={"slice": key}) for key in "ab" for index in range(2)))
        assert sorted(
            len(rig.engine.cache.groups.members(group.key).waiting) for group in rig.engine.cache.groups.all()
        ) == [2, 2]

    async def test_a_pod_that_names_a_group_of_a_served_api_stays_there(self):
        rig = rig_with()
        rig.engine.cache.groups.serve("scheduling.x-k8s.io")
        rig.own(TRAIN)
        rig.put(pod_of(TRAIN, "a", labels={"scheduling.x-k8s.io/pod-group": "own"}))
        assert rig.minimums == {}

    async def test_a_grouping_without_a_minimum_keeps_pods_out_of_groups_below(self):
        none = grouping("none", api_version="apps/v1", kind="Deployment")
        sets = grouping("sets", api_version="apps/v1", kind="ReplicaSet", minCount="2")
        rig = rig_with(none, sets)
        top = owner("web", api_version="apps/v1", kind="Deployment", spec={})
        below = owner("web-1", api_version="apps/v1", kind="ReplicaSet", controller=top, spec={})
        rig.own(below)
        rig.put(pod_of(below, "a"))
        async with deciding(rig):
            await settle()
            assert rig.bound == {"a"}

    async def test_a_pod_may_own_others_through_a_stateful_set(self):
        sets = grouping(
            "lws",
            api_version="leaderworkerset.x-k8s.io/v1",
            kind="LeaderWorkerSet",
            through=[{"apiVersion": "apps/v1", "kind": "StatefulSet"}, {"apiVersion": "v1", "kind": "Pod"}],
            minCount="2",
        )
        rig = rig_with(sets)
        top = owner("llm", api_version="leaderworkerset.x-k8s.io/v1", kind="LeaderWorkerSet", spec={})
        leaders = owner("llm", api_version="apps/v1", kind="StatefulSet", controller=top)
        leader = pod_of(leaders, "llm-0")
        workers = owner(
            "llm-0", api_version="apps/v1", kind="StatefulSet", controller={**leader, "apiVersion": "v1", "kind": "Pod"}
        )
        rig.own(top, leaders, workers)
        rig.put(pod_of(workers, "llm-0-1"))
        async with deciding(rig):
            assert rig.bound == set()
            rig.put(leader)
            await settle()
            assert rig.bound == {"llm-0", "llm-0-1"}


class TestChanges:
    async def test_members_that_run_count_after_a_restart(self):
        rig = rig_with()
        running = on_node(pod_of(TRAIN, "train-0"), "n0")
        rig.engine.assigned.put(running)
        rig.own(TRAIN)
        rig.put(*pods(TRAIN, 3)[1:])
        async with deciding(rig):
            await settle()
            assert rig.bound == {"train-1", "train-2"}

    async def test_what_replaces_a_failed_pod_does_not_wait_for_those_that_have_succeeded(self):
        rig = rig_with()
        rig.own(TRAIN)
        members = pods(TRAIN, 3)
        rig.put(*members)
        async with deciding(rig):
            await settle()
            for raw, phase in zip(members, ("Succeeded", "Failed", "Succeeded"), strict=True):
                rig.confirm(raw, "n0")
                rig.engine.assigned.put({**on_node(raw, "n0"), "status": {"phase": phase}})
            rig.engine.compact()
            rig.put(pod_of(TRAIN, "again"))
            await settle()
            assert "again" in rig.bound
            assert rig.minimums == {"Job default/train": 1}
            rig.engine.assigned.put({**on_node(pod_of(TRAIN, "again"), "n0"), "status": {"phase": "Succeeded"}})
            rig.engine.compact()
            assert rig.minimums == {}, "all have succeeded"

    async def test_the_object_of_a_pod_that_runs_is_not_kept_until_its_owner_comes(self):
        class Body(dict):
            """A dict to which there may be weak references."""

        rig = rig_with()
        body = Body(on_node(pod_of(TRAIN, "train-0"), "n0"))
        kept = ref(body)
        rig.engine.assigned.put(body)
        del body
        assert kept() is None
        rig.own(TRAIN)
        await settle()
        assert rig.minimums == {"Job default/train": 3}

    async def test_pods_that_have_succeeded_count_after_a_restart_though_their_owner_comes_after_them(self):
        rig = rig_with()
        for raw in pods(TRAIN, 2):
            rig.engine.assigned.put({**on_node(raw, "n0"), "status": {"phase": "Succeeded"}})
        rig.own(TRAIN)
        rig.put(pod_of(TRAIN, "again"))
        async with deciding(rig):
            await settle()
            assert rig.bound == {"again"}

    async def test_a_pod_keeps_its_group_when_its_owner_goes(self):
        rig = rig_with(nodes=1)
        rig.own(TRAIN)
        first, *_ = pods(TRAIN, 3)
        rig.put(first)
        rig.engine.workloads.owner_gone("Job-train")
        rig.put({**first, "status": {"conditions": []}})
        assert rig.minimums == {"Job default/train": 3}
        assert len(rig.engine.cache.groups.members(next(iter(rig.engine.cache.groups.all())).key).waiting) == 1

    async def test_the_minimum_follows_the_owner(self):
        rig = rig_with()
        rig.own(TRAIN)
        rig.put(*pods(TRAIN, 2))
        async with deciding(rig):
            assert rig.bound == set()
            rig.own(owner(spec={"parallelism": 2}))
            await settle()
            assert rig.bound == {"train-0", "train-1"}

    async def test_the_minimum_follows_the_owner_if_a_pod_is_between(self):
        through = [{"apiVersion": "v1", "kind": "Pod"}]
        rig = rig_with(grouping(through=through, minCount=PARALLELISM, key="pod.name"))
        rig.own(TRAIN)
        leader = pod_of(TRAIN, "leader", uid="leader")
        rig.put(leader, pod_of({**leader, "apiVersion": "v1", "kind": "Pod"}, "worker"))
        rig.own(owner(spec={"parallelism": 2}))
        await settle()
        assert [group.min_count for group in rig.engine.cache.groups.all()] == [2, 2]

    async def test_a_change_of_an_owner_counts_few_of_its_groups_in_one_step(self, monkeypatch):
        monkeypatch.setattr(module, "AT_ONCE", 10)
        rig = rig_with(grouping(minCount=PARALLELISM, key="pod.name"))
        rig.own(TRAIN)
        rig.put(*pods(TRAIN, 25))
        for turn in range(5):
            rig.own(owner(spec={"parallelism": 4}, labels={"turn": str(turn)}))
        counted = []
        for _ in range(4):
            counted.append(sum(group.min_count == 4 for group in rig.engine.cache.groups.all()))
            rig.engine.workloads.step()
        assert counted == [0, 10, 20, 25]

    async def test_a_new_group_and_a_new_member_ask_no_pods_of_other_groups(self, monkeypatch):
        asked = []
        key_of = PodGroups.key_of
        monkeypatch.setattr(PodGroups, "key_of", lambda *args: (asked.append(args), key_of(*args))[1])
        rig = rig_with()
        for index in range(30):
            each = owner(f"j{index}", spec={"parallelism": 2})
            rig.put(*(pod_of(each, f"j{index}-{number}") for number in range(2)))
        for index in range(30):
            rig.own(owner(f"j{index}", spec={"parallelism": 2}))
        for _ in range(3):
            rig.engine.workloads.step()
        assert len(rig.minimums) == 30
        assert len(asked) <= 60 * 20

    async def test_a_new_grouping_takes_pods_that_wait_and_lists_those_that_run_again(self):
        rig = rig_with(grouping("other", kind="Other", minCount="2"))
        lists = []
        rig.engine.workloads.relist = lambda: lists.append(1)
        rig.put(*pods(TRAIN, 2))
        rig.group(JOBS)
        rig.own(TRAIN)
        async with deciding(rig):
            await settle()
            assert rig.bound == set()
            assert rig.minimums == {"Job default/train": 3}
            assert lists == [1]

    async def test_without_groupings_pods_are_alone_again(self):
        rig = rig_with()
        rig.own(TRAIN)
        rig.put(*pods(TRAIN, 2))
        async with deciding(rig):
            assert rig.bound == set()
            rig.engine.workloads.remove("jobs")
            await settle()
            assert rig.bound == {"train-0", "train-1"}

    async def test_an_owner_that_is_made_anew_has_another_group_and_nothing_is_left_of_the_old_ones(self):
        rig = rig_with(nodes=1)
        for turn in range(50):
            again = owner(uid=f"turn-{turn}", spec={"parallelism": 3})
            rig.own(again)
            raw = pod_of(again, "train-0", uid=f"pod-{turn}", requests={"cpu": "4"})
            rig.put(raw)
            assert rig.engine.cache.groups.members(rig.engine.queue.get(f"pod-{turn}").pod.group).total == 1
            rig.engine.pending.drop(f"pod-{turn}", raw)
            rig.engine.workloads.owner_gone(f"turn-{turn}")
        rig.engine.compact()
        assert rig.minimums == {}
        assert rig.engine.workloads.group_counts() == {}

    async def test_many_pods_are_taken_in_again_in_steps(self, monkeypatch):
        monkeypatch.setattr(module, "AT_ONCE", 10)
        rig = rig_with()
        rig.put(*pods(TRAIN, 25))
        rig.own(TRAIN)
        steps = 0
        while (
            not rig.engine.cache.groups.all()
            or rig.engine.cache.groups.members(next(iter(rig.engine.cache.groups.all())).key).total < 25
        ):
            rig.engine.workloads.step()
            steps += 1
        assert steps == 3


SLICED = {"key": "pod.labels[?'slice'].orValue('')", "minCount": "int(pod.annotations['size'])"}


class TestParts:
    def sliced(self, name, size=2, **options):
        metadata = {"annotations": {"size": str(size)}, "labels": {"slice": name[0]}}
        return pod_of(TRAIN, name, requests={"cpu": "4"}, metadata=metadata, **options)

    async def test_of_each_part_its_minimum_starts_or_nothing(self):
        rig = rig_with(grouping(minCount="2", subGroup=SLICED), nodes=1)
        rig.own(TRAIN)
        rig.put(*(self.sliced(name) for name in ("a0", "b0")))
        async with deciding(rig):
            await settle()
            assert rig.bound == set()
            rig.put(self.sliced("b1"))
            rig.now += 15
            rig.engine.wake()
            await settle()
            assert rig.bound == {"b0", "b1"}
            rig.node("more")
            rig.now += 15
            rig.engine.wake()
            await settle()
            assert rig.bound == {"b0", "b1"}
            rig.put(self.sliced("a1"))
            rig.now += 15
            rig.engine.wake()
            await settle()
            assert rig.bound == {"a0", "a1", "b0", "b1"}

    async def test_parts_may_have_different_minimums_and_pods_may_be_in_none(self):
        rig = rig_with(grouping(minCount="1", subGroup=SLICED))
        rig.own(TRAIN)
        pods = [*(self.sliced(f"a{index}", 3) for index in range(2)), *(self.sliced(f"b{index}") for index in range(2))]
        rig.put(*pods, pod_of(TRAIN, "driver"))
        async with deciding(rig):
            await settle()
            assert rig.bound == {"b0", "b1", "driver"}
            assert rig.minimums == {"Job default/train": 1}

    async def test_a_pod_that_changes_stays_in_its_part(self):
        rig = rig_with(grouping(minCount="1", subGroup=SLICED))
        rig.own(TRAIN)
        raw = self.sliced("a0")
        rig.put(raw)
        metadata = {**raw["metadata"], "labels": {"slice": "a", "new": "label"}, "resourceVersion": "2"}
        rig.put({**raw, "metadata": metadata})
        async with deciding(rig):
            await settle()
            assert rig.bound == set()
            rig.put(self.sliced("a1"))
            rig.now += 15
            rig.engine.wake()
            await settle()
            assert rig.bound == {"a0", "a1"}

    async def test_what_replaces_a_failed_pod_of_a_part_does_not_wait_for_those_that_have_succeeded(self):
        rig = rig_with(grouping(minCount="2", subGroup=SLICED))
        rig.own(TRAIN)
        first, second = self.sliced("a0"), self.sliced("a1")
        rig.put(first, second)
        async with deciding(rig):
            await settle()
            assert rig.bound == {"a0", "a1"}
            rig.engine.assigned.put({**on_node(first, "n0"), "status": {"phase": "Succeeded"}})
            rig.engine.assigned.drop("default/a1", None)
            rig.put(self.sliced("a2"))
            await settle()
            assert rig.bound == {"a0", "a1", "a2"}

    async def test_the_different_minimums_of_a_group_are_bounded(self, monkeypatch):
        monkeypatch.setattr(module, "MAX_SIZES", 3)
        rig = rig_with(grouping(minCount="1", subGroup=SLICED))
        rig.own(TRAIN)
        rig.put(*(self.sliced(f"{part}0", size) for size, part in enumerate("abcd", 2)))
        (text,) = rig.engine.cache.groups.awaited.values()
        assert text.endswith("spec.subGroup.minCount: has more than 3 different values in one group")

    async def test_parts_whose_pods_are_gone_are_forgotten(self, monkeypatch):
        monkeypatch.setattr(module, "MAX_SIZES", 3)
        rig = rig_with(grouping(minCount="1", subGroup=SLICED))
        rig.own(TRAIN)
        slices = [self.sliced(f"{part}0", size) for size, part in enumerate("abc", 2)]
        rig.put(*slices)
        for raw in slices[1:]:
            rig.engine.pending.drop(raw["metadata"]["uid"], raw)
        rig.engine.compact()
        rig.put(self.sliced("d0", 5), self.sliced("a1"))
        assert not rig.engine.cache.groups.awaited
        async with deciding(rig):
            await settle()
            assert rig.bound == {"a0", "a1"}

    @pytest.mark.parametrize(
        ("part", "where"),
        [
            ({"key": "1", "minCount": "1"}, "spec.subGroup.key"),
            ({"key": "'a'", "minCount": "'b'"}, "spec.subGroup.minCount"),
            ({"key": "'a'"}, "spec.subGroup.minCount"),
            ({"key": "nobody", "minCount": "1"}, "spec.subGroup.key"),
        ],
    )
    def test_its_expressions_are_type_checked(self, part, where):
        with pytest.raises(InvalidObjectError, match=where):
            parse_grouping(grouping(minCount="1", subGroup=part))


class TestUnknownOwners:
    async def test_a_pod_waits_for_its_owner_and_says_so(self):
        rig = rig_with()
        rig.put(pod_of(TRAIN, "train-0"))
        async with deciding(rig):
            assert rig.counts == {"gated": 1}
            rig.engine.group_changes.process()
            rig.now += 9
            rig.engine.workloads.tick()
            rig.engine.group_changes.report_incomplete()
            rig.now += 2
            rig.engine.group_changes.report_incomplete()
            assert rig.recorder.notes("FailedScheduling") == ["waiting for Job default/train, the owner of the pod"]
            rig.own(owner(spec={"parallelism": 1}))
            await settle()
            assert rig.bound == {"train-0"}

    async def test_an_owner_that_does_not_come_is_gone_and_the_pods_wait(self):
        rig = rig_with()
        rig.put(pod_of(TRAIN, "train-0"))
        async with deciding(rig):
            rig.now += module.GONE_SECONDS
            rig.engine.workloads.tick()
            rig.engine.group_changes.report_incomplete()
            await settle()
            assert rig.bound == set()
            assert rig.recorder.notes("FailedScheduling") == [
                "Job default/train does not exist, and WorkloadGroupings make pod groups from it"
            ]

    async def test_with_ignore_the_pods_of_an_owner_that_is_gone_start_alone_and_one_event_says_so(self):
        rig = rig_with(grouping(minCount=PARALLELISM, onFailure="Ignore"))
        rig.put(*pods(TRAIN, 2))
        async with deciding(rig):
            assert rig.bound == set()
            rig.now += module.GONE_SECONDS
            rig.engine.workloads.tick()
            await settle()
            assert rig.bound == {"train-0", "train-1"}
            assert rig.recorder.notes("WorkloadUnknown") == [
                (
                    "Job default/train does not exist, and WorkloadGroupings make pod groups from it; "
                    "its pods are scheduled one by one"
                )
            ]

    async def test_a_kind_that_cannot_be_read_is_named_and_its_pods_go_on_when_it_can(self):
        rig = rig_with()
        rig.engine.workloads.kind_read(("batch", "Job"), "RBAC does not let us list jobs.batch")
        rig.put(pod_of(TRAIN, "train-0"))
        async with deciding(rig):
            rig.now += module.GONE_SECONDS
            rig.engine.workloads.tick()
            rig.engine.group_changes.report_incomplete()
            assert rig.recorder.notes("FailedScheduling") == [
                "Job default/train cannot be read: RBAC does not let us list jobs.batch"
            ]
            rig.engine.workloads.kind_read(("batch", "Job"), "")
            rig.own(owner(spec={"parallelism": 1}))
            await settle()
            assert rig.bound == {"train-0"}

    async def test_a_pod_without_groupings_for_its_owner_never_waits(self):
        rig = rig_with()
        rig.put(pod_of(owner("web", api_version="apps/v1", kind="ReplicaSet"), "a"))
        async with deciding(rig):
            await settle()
            assert rig.bound == {"a"}

    async def test_an_owner_of_another_namespace_is_none(self):
        rig = rig_with()
        raw = owner(spec={"parallelism": 1})
        raw["metadata"]["namespace"] = "other"
        rig.own(raw)
        rig.put(pod_of(raw, "train-0"))
        async with deciding(rig):
            await settle()
            assert rig.bound == set()

    async def test_owners_that_own_each_other_end_the_walk(self):
        rig = rig_with()
        a, b = owner("a", spec={"parallelism": 2}), owner("b", spec={"parallelism": 2})
        a["metadata"]["ownerReferences"], b["metadata"]["ownerReferences"] = [reference(b)], [reference(a)]
        rig.own(a, b)
        raw = pod_of(a, "x")
        rig.put(raw)
        assert len(rig.minimums) == 1
        rig.engine.pending.drop(raw["metadata"]["uid"], raw)
        rig.engine.compact()
        assert rig.minimums == {}

    async def test_a_pod_that_owns_itself_and_for_which_an_expression_fails_is_not_taken_in_without_end(
        self, monkeypatch
    ):
        taken = []
        joined = module.Workloads.joined
        monkeypatch.setattr(module.Workloads, "joined", lambda *args: (taken.append(args), joined(*args))[1])
        rig = rig_with(grouping(api_version="v1", kind="Pod", minCount="2", key="pod.labels['app']"))
        itself = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "uid": "x"}}
        rig.put(pod_of(itself, "x", uid="x"))
        await settle()
        assert len(taken) <= 3

    @pytest.mark.parametrize(
        ("spec", "problem"),
        [
            pytest.param(
                {"minCount": "owner.spec.missing"}, "spec.minCount: no such key: missing", id="a missing field"
            ),
            pytest.param(
                {"minCount": "owner.spec.text"}, "spec.minCount: its value is 'no', expected a whole", id="a text"
            ),
            pytest.param({"minCount": "0 - 1"}, "spec.minCount: its value is -1, expected a whole", id="below zero"),
            pytest.param(
                {"minCount": "2", "key": "pod.annotations['big']"},
                "spec.key: its value has 10240 characters, expected a string of at most 253",
                id="a key of 10 KB",
            ),
            pytest.param(
                {"minCount": "2", "key": "owner.spec.number"}, "spec.key: its value is no string", id="a number"
            ),
            pytest.param(
                {"minCount": "owner.spec.many.map(x, owner.spec.many.map(y, 1).sum()).sum()"},
                "spec.minCount: operation cancelled: actual cost limit exceeded",
                id="a costly expression",
            ),
        ],
    )
    async def test_a_pod_waits_if_an_expression_fails_and_the_event_names_grouping_owner_and_field(self, spec, problem):
        rig = rig_with(grouping(**spec))
        rig.own(owner(spec={"text": "no", "number": 1, "many": [*range(500)]}))
        rig.put(pod_of(TRAIN, "train-0", metadata={"annotations": {"big": "x" * 10_240}}))
        async with deciding(rig):
            rig.now += module.GONE_SECONDS
            rig.engine.workloads.tick()
            rig.engine.group_changes.report_incomplete()
            (note,) = rig.recorder.notes("FailedScheduling")
            assert note.startswith(f"WorkloadGrouping jobs, Job default/train: {problem}")
            rig.own(owner(spec={"parallelism": 1}))
            rig.group(JOBS)
            await settle()
            assert rig.bound == {"train-0"}

    async def test_a_minimum_above_the_number_of_pods_is_told_with_both_numbers(self):
        rig = rig_with()
        rig.own(TRAIN)
        rig.put(*pods(TRAIN, 2))
        async with deciding(rig):
            rig.now += 10
            rig.engine.group_changes.report_incomplete()
            (note,) = rig.recorder.notes("FailedScheduling")
            assert "2 of 3 exist" in note
