"""Attempts at pod groups: all members get a node together, or none does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podwright.core.framework.interface import PermitPlugin, Plugin, ReservePlugin
from podwright.core.framework.status import unschedulable
from podwright.core.objects.pod_group import (
    COMPOSITE_API,
    COMPOSITE_KIND,
    GROUP_LABEL,
    KIND,
    PLUGINS_API,
    PLUGINS_KIND,
    WORKLOAD_API,
)
from podwright.core.plugins.gang_scheduling import TOO_FEW
from podwright.engine.outcomes.binding import cycle
from podwright.engine.outcomes.binding.waiting_pods import PermitWaitingPod
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.objects.builders import in_group, make_pod, make_pod_group


def rig_with(nodes: int = 2, **options: Any) -> Rig:
    """Nodes of 8 CPUs, and both APIs of pod groups."""
    rig = Rig(**options)
    rig.engine.cache.groups.serve(WORKLOAD_API)
    rig.engine.cache.groups.serve(PLUGINS_API)
    for index in range(nodes):
        rig.node(f"n{index}")
    return rig


def add_group(rig: Rig, raw: dict[str, Any], kind: str = KIND) -> None:
    rig.engine.objects(kind).put(raw)


def member(rig: Rig, name: str, group: str = "gang", cpu: str = "4", **options: Any) -> dict[str, Any]:
    spec = {**in_group(group), **options.pop("spec", {})}
    return rig.pod(name, requests={"cpu": cpu}, spec=spec, **options)


def bound(rig: Rig) -> set[str]:
    return {name for name, _ in rig.cluster.bound}


class TestWaitingForMembers:
    async def test_members_wait_for_their_group(self):
        rig = rig_with()
        member(rig, "a")
        async with deciding(rig):
            assert rig.counts == {"gated": 1}
            add_group(rig, make_pod_group(min_count=1))
            await settle()
            assert bound(rig) == {"a"}

    async def test_members_wait_until_there_are_enough_of_them(self):
        rig = rig_with()
        add_group(rig, make_pod_group(min_count=2))
        member(rig, "a")
        async with deciding(rig):
            assert bound(rig) == set()
            assert rig.counts == {"gated": 1}
            member(rig, "b")
            await settle()
            assert bound(rig) == {"a", "b"}
            assert rig.groups.written == [("gang", "", "")]

    async def test_members_placed_together_are_not_nominated(self):
        rig = rig_with()
        add_group(rig, make_pod_group(min_count=3))
        for name in "abc":
            member(rig, name, cpu="1")
        async with deciding(rig):
            assert bound(rig) == {"a", "b", "c"}
            assert rig.status.written == []

    @pytest.mark.parametrize("minimum", [6, None], ids=["gang", "basic"])
    async def test_members_placed_together_keep_to_the_limit_of_bindings(self, minimum):
        rig = rig_with(bindings_at_once=2)
        answers = rig.cluster.outcomes = [asyncio.get_running_loop().create_future() for _ in range(6)]
        waiting = [*answers]
        add_group(rig, make_pod_group(min_count=minimum))
        for name in "abcdef":
            member(rig, name, cpu="1")
        async with deciding(rig):
            for number in range(3):
                await settle()
                assert len(rig.cluster.bound) == 2 * number + 2
                for answer in waiting[2 * number : 2 * number + 2]:
                    answer.set_result(None)
            await settle()
            assert rig.status.written == []

    @pytest.mark.parametrize("ends", [False, True], ids=["", "the process ends meanwhile"])
    async def test_members_begin_their_bindings_in_several_turns_of_the_loop(self, monkeypatch, ends):
        monkeypatch.setattr(cycle, "ALLOWED_AT_ONCE", 2)
        turns, allow = [0], PermitWaitingPod.allow

        def counted(waiting: PermitWaitingPod, plugin: str) -> None:
            if not turns[-1]:
                asyncio.get_running_loop().call_soon(turns.append, 0)
            turns[-1] += 1
            allow(waiting, plugin)

        monkeypatch.setattr(PermitWaitingPod, "allow", counted)
        rig = rig_with()
        add_group(rig, make_pod_group(min_count=4))
        for name in "abcd":
            member(rig, name)
        rig.engine.pod_attempts.schedule_one(rig.engine.queue.pop())
        if ends:
            rig.engine.binding_cycles.end_waits()
        await settle()
        assert bound(rig) == {*"abcd"}
        assert ends or turns[:2] == [2, 2]

    async def test_a_gang_that_was_tried_without_nodes_is_placed_on_the_first_one(self):
        rig = rig_with(nodes=0)
        add_group(rig, make_pod_group(min_count=2))
        member(rig, "a")
        member(rig, "b")
        async with deciding(rig):
            assert bound(rig) == set()
            rig.node("n0")
            rig.now += 15
            rig.engine.wake()
            await settle()
            assert bound(rig) == {"a", "b"}

    async def test_a_member_bound_by_another_scheduler_counts(self):
        rig = rig_with()
        add_group(rig, make_pod_group(min_count=2))
        member(rig, "a")
        async with deciding(rig):
            assert rig.counts == {"gated": 1}
            rig.engine.assigned.put(on_node(ours("b", spec=in_group()), "n0"))
            await settle()
            assert bound(rig) == {"a"}

    async def test_members_are_counted_once(self):
        rig = rig_with()
        add_group(rig, make_pod_group(min_count=1))
        raw = member(rig, "a")
        members = rig.engine.cache.groups.members("scheduling.k8s.io:default/gang")
        async with deciding(rig):
            assert (members.total, members.assumed) == (1, 1)
            rig.confirm(raw, "n0")
            assert (members.total, members.assumed, set(members.placed)) == (1, 0, {"default/a"})
            rig.engine.assigned.drop("default/a", None)
            assert members.total == 0

    async def test_a_lower_min_count_releases_them(self):
        rig = rig_with()
        add_group(rig, make_pod_group(min_count=3))
        member(rig, "a")
        async with deciding(rig):
            add_group(rig, make_pod_group(min_count=2))
            await settle()
            assert bound(rig) == set()
            add_group(rig, make_pod_group(min_count=1))
            await settle()
            assert bound(rig) == {"a"}

    async def test_a_pod_that_names_a_group_of_an_unserved_api_is_an_ordinary_pod(self):
        rig = Rig()
        rig.node("n")
        member(rig, "a")
        async with deciding(rig):
            assert bound(rig) == {"a"}

    async def test_the_label_of_the_scheduler_plugins_project_names_a_group(self):
        rig = rig_with()
        raw = {"metadata": {"name": "gang", "namespace": "default"}, "spec": {"minMember": 2}}
        add_group(rig, raw, PLUGINS_KIND)
        rig.pod("a", labels={GROUP_LABEL: "gang"})
        async with deciding(rig):
            assert rig.counts == {"gated": 1}
            assert rig.engine.policies.pre_enqueue(rig.engine.queue.get("default/a").pod).reasons == (TOO_FEW,)
            rig.pod("b", labels={GROUP_LABEL: "gang"})
            await settle()
            assert bound(rig) == {"a", "b"}


class TestAllOrNothing:
    async def test_a_gang_that_fits_only_in_part_is_not_placed(self):
        rig = rig_with(nodes=2)
        add_group(rig, make_pod_group(min_count=5))
        for index in range(5):
            member(rig, f"p{index}")
        async with deciding(rig):
            assert bound(rig) == set()
            assert rig.engine.cache.pod_count == 0
            assert rig.counts == {"unschedulable": 5}
            message = (
                "minCount (5) cannot be satisfied: 4 scheduled, 0 remaining, "
                "pod group preemption: No preemption victims found for incoming preemptor"
            )
            assert rig.groups.written == [("gang", "Unschedulable", message)]
            messages = {name: verdict.message for name, verdict, _ in rig.status.written}
            assert messages["p4"] == "0/2 nodes are available: 2 Insufficient cpu."
            assert {messages[f"p{i}"] for i in range(4)} == {message}

    async def test_room_for_the_last_member_places_all(self):
        rig = rig_with(nodes=2)
        add_group(rig, make_pod_group(min_count=5))
        for index in range(5):
            member(rig, f"p{index}")
        async with deciding(rig):
            rig.now += 5
            rig.node("n2")
            await settle()
            assert bound(rig) == {f"p{index}" for index in range(5)}

    async def test_two_gangs_that_fit_only_one_at_a_time_are_not_both_placed_in_part(self):
        rig = rig_with(nodes=2)
        add_group(rig, make_pod_group("one", 4))
        add_group(rig, make_pod_group("two", 4))
        for index in range(4):
            member(rig, f"one{index}", "one")
            member(rig, f"two{index}", "two")
        async with deciding(rig):
            assert bound(rig) == {f"one{index}" for index in range(4)}
            assert rig.counts == {"unschedulable": 4}

    async def test_members_beyond_the_minimum_that_do_not_fit_wait(self):
        rig = rig_with(nodes=1)
        add_group(rig, make_pod_group(min_count=2))
        for index in range(3):
            member(rig, f"p{index}")
        async with deciding(rig):
            assert len(bound(rig)) == 2
            assert rig.groups.written[0] == ("gang", "", "")
            rig.now += 20
            rig.node("n1")
            await settle()
            assert len(bound(rig)) == 3

    async def test_the_members_of_a_basic_group_that_fit_are_placed(self):
        rig = rig_with(nodes=1)
        add_group(rig, make_pod_group(min_count=None))
        for index in range(3):
            member(rig, f"p{index}")
        async with deciding(rig):
            assert len(bound(rig)) == 2

    async def test_placed_members_count_for_new_ones(self):
        rig = rig_with(nodes=2)
        add_group(rig, make_pod_group(min_count=2))
        first, second = member(rig, "a"), member(rig, "b")
        async with deciding(rig):
            for raw in (first, second):
                rig.confirm(raw, dict(rig.cluster.bound)[raw["metadata"]["name"]])
            member(rig, "c")
            await settle()
            assert bound(rig) == {"a", "b", "c"}

    async def test_a_failed_reservation_of_one_member_cancels_all(self):
        class Refuses(Plugin, ReservePlugin):
            name = "Refuses"
            calls = 0

            def reserve(self, state, pod, node_name):
                type(self).calls += 1
                # In each attempt, both reservations of the plan succeed, and the second real one fails.
                return unschedulable("no") if self.calls % 4 == 0 else None

            def unreserve(self, state, pod, node_name):
                pass

        rig = rig_with(plugins={"Refuses": Refuses})
        policy = {
            "metadata": {"name": "p", "generation": 1},
            "spec": {"strategy": {"type": "Custom"}, "plugins": {"reserve": {"enabled": [{"name": "Refuses"}]}}},
        }
        assert rig.engine.policies.apply(policy).accepted
        add_group(rig, make_pod_group(min_count=2))
        member(rig, "a")
        member(rig, "b")
        async with deciding(rig):
            assert bound(rig) == set()
            assert rig.engine.cache.pod_count == 0
            assert sum(rig.counts.values()) == 2

    async def test_members_that_did_not_fit_are_requeued_when_the_others_are_cancelled(self):
        class Denies(Plugin, PermitPlugin):
            name = "Denies"
            rejects = True

            def permit(self, state, pod, node_name):
                return (unschedulable("no") if self.rejects and pod.name == "p1" else None), 0

        rig = rig_with(nodes=1, plugins={"Denies": Denies})
        policy = {
            "metadata": {"name": "p", "generation": 1},
            "spec": {"strategy": {"type": "Custom"}, "plugins": {"permit": {"enabled": [{"name": "Denies"}]}}},
        }
        assert rig.engine.policies.apply(policy).accepted
        add_group(rig, make_pod_group(min_count=2))
        for index in range(3):
            member(rig, f"p{index}")
        async with deciding(rig):
            assert bound(rig) == set()
            assert sum(rig.counts.values()) == 3
            assert rig.groups.written[-1][1] == "Unschedulable"
            Denies.rejects = False
            rig.now += 20
            rig.node("n1")
            await settle()
            assert bound(rig) == {"p0", "p1", "p2"}

    async def test_an_attempt_that_raises_requeues_all_members(self, monkeypatch):
        rig = rig_with()
        add_group(rig, make_pod_group(min_count=2))
        member(rig, "a")
        member(rig, "b")

        def fails(*_: Any) -> None:
            raise RuntimeError("by accident")

        monkeypatch.setattr("podwright.engine.attempts.gangs.attempts.decide", fails)
        async with deciding(rig):
            assert rig.counts == {"backoff": 2}
            assert {v.message for _, v, _ in rig.status.written} == {"RuntimeError: by accident"}

    async def test_a_terminating_member_is_left_out(self):
        rig = rig_with()
        add_group(rig, make_pod_group(min_count=1))
        member(rig, "a")
        member(rig, "b", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        async with deciding(rig):
            assert bound(rig) == {"a"}
            assert len(rig.engine.queue) == 0


class TestChangedGroup:
    def labelled(self, rig: Rig, name: str, group: str, **options: Any) -> dict[str, Any]:
        return rig.pod(name, labels={GROUP_LABEL: group} if group else {}, requests={"cpu": "1"}, **options)

    def custom(self, rig: Rig, name: str, members: int) -> None:
        raw = {"metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": members}}
        add_group(rig, raw, PLUGINS_KIND)

    async def test_a_pod_that_changes_its_group_counts_only_in_the_new_one(self):
        rig = rig_with()
        self.custom(rig, "one", 2)
        self.custom(rig, "two", 2)
        self.labelled(rig, "a", "one")
        self.labelled(rig, "b", "two")
        async with deciding(rig):
            self.labelled(rig, "a", "two")
            await settle()
            assert bound(rig) == {"a", "b"}
            self.labelled(rig, "c", "one")
            await settle()
            assert bound(rig) == {"a", "b"}

    async def test_a_pod_that_leaves_its_group_is_scheduled_alone(self):
        rig = rig_with()
        self.custom(rig, "one", 2)
        self.labelled(rig, "a", "one")
        async with deciding(rig):
            self.labelled(rig, "a", "")
            await settle()
            assert bound(rig) == {"a"}
            self.labelled(rig, "b", "one")
            await settle()
            assert bound(rig) == {"a"}


class TestPartiallyPlacedGangs:
    @pytest.mark.parametrize("other", [pytest.param("gang", id="another gang"), pytest.param("pods", id="other pods")])
    async def test_an_interrupted_gang_is_completed_before_others_take_its_room(self, other):
        rig = rig_with(nodes=2)
        for index in range(2):
            if other == "gang":
                member(rig, f"other{index}", "other")
            else:
                rig.pod(f"other{index}", requests={"cpu": "4"})
        add_group(rig, make_pod_group("other", 2))
        add_group(rig, make_pod_group("interrupted", 4))
        for index in range(2):
            raw = ours(f"there{index}", requests={"cpu": "4"}, spec=in_group("interrupted"))
            rig.engine.assigned.put(on_node(raw, f"n{index}"))
            member(rig, f"rest{index}", "interrupted")
        async with deciding(rig):
            assert bound(rig) == {"rest0", "rest1"}


class TestMembersThatDiffer:
    @pytest.mark.parametrize(
        ("other", "problem"),
        [
            pytest.param({"spec": {"priority": 7}}, "should have the same priority", id="priority"),
            pytest.param({"spec": {"preemptionPolicy": "Never"}}, "should have the same preemption policy", id="preemption policy"),
        ],
    )  # fmt: skip
    async def test_the_group_reports_an_error(self, other, problem):
        rig = rig_with()
        add_group(rig, make_pod_group(min_count=2))
        member(rig, "a")
        member(rig, "b", **other)
        async with deciding(rig):
            assert bound(rig) == set()
            ((group, reason, message), *_) = rig.groups.written
            assert (group, reason) == ("gang", "SchedulerError")
            assert problem in message

    async def test_members_must_have_the_priority_of_their_group(self):
        rig = rig_with()
        add_group(rig, make_pod_group(min_count=1, priority=5))
        member(rig, "a")
        async with deciding(rig):
            assert rig.groups.written[0][2] == (
                "all pods in a single pod group should have the same priority as the pod group's priority, got 0 and 5"
            )


class TestMinResources:
    async def test_a_gang_whose_min_resources_are_not_free_is_not_placed(self):
        rig = rig_with(nodes=1)
        raw = {
            "metadata": {"name": "gang", "namespace": "default"},
            "spec": {"minMember": 1, "minResources": {"cpu": "12"}},
        }
        add_group(rig, raw, PLUGINS_KIND)
        rig.pod("a", labels={GROUP_LABEL: "gang"})
        async with deciding(rig):
            assert bound(rig) == set()
            assert rig.groups.written[0][2].startswith(
                "minResources of the pod group are not free in the cluster: cpu, "
            )
            rig.now += 5
            rig.node("n1")
            await settle()
            assert bound(rig) == {"a"}


def composite(name: str, groups: int) -> dict[str, Any]:
    policy = {"gang": {"minGroupCount": groups}}
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"schedulingPolicy": policy}}


class TestHierarchies:
    def rig(self, *counts: int, groups: int = 1) -> Rig:
        """Pod groups `g0`, `g1`, … with these minimums, below a composite group."""
        rig = rig_with()
        rig.engine.cache.groups.serve(COMPOSITE_API)
        add_group(rig, composite("top", groups), COMPOSITE_KIND)
        for index, count in enumerate(counts):
            add_group(rig, make_pod_group(f"g{index}", count, parentCompositePodGroupName="top"))
        return rig

    async def test_conditions_are_those_of_the_groups_that_pods_name(self):
        rig = self.rig(1, 2)
        member(rig, "a", "g0")
        for name in ("b0", "b1"):
            member(rig, name, "g1", cpu="8")
        async with deciding(rig):
            assert bound(rig) == {"a"}
            assert ("g0", "", "") in rig.groups.written
            assert {name for name, reason, _ in rig.groups.written if reason == "Unschedulable"} == {"g1"}

    async def test_a_part_that_becomes_complete_is_tried_with_the_members_that_waited_for_it(self):
        rig = self.rig(1, 2)
        member(rig, "a", "g0")
        async with deciding(rig):
            assert bound(rig) == {"a"}
            member(rig, "b0", "g1")
            await settle()
            assert bound(rig) == {"a"}
            rig.now += 15
            member(rig, "b1", "g1")
            await settle()
            rig.now += 15
            rig.engine.wake()
            await settle()
            assert bound(rig) == {"a", "b0", "b1"}

    async def test_a_member_of_another_scheduler_in_any_of_the_groups_is_an_error(self):
        rig = self.rig(1, 1, groups=2)
        rig.engine.foreign_pods.seen(make_pod("x", spec={**in_group("g1"), "schedulerName": "other"}))
        for name, group in (("a", "g0"), ("b", "g1")):
            member(rig, name, group)
        async with deciding(rig):
            assert bound(rig) == set()
            assert {name for name, reason, _ in rig.groups.written if reason == "SchedulerError"} == {"g0", "g1"}

    async def test_a_group_that_the_others_do_not_need_is_not_reported_as_incomplete(self, monkeypatch):
        rig = self.rig(1, 2)
        member(rig, "a", "g0")
        member(rig, "b0", "g1")
        async with deciding(rig):
            rig.now += 60
            rig.engine.group_changes.report_incomplete()
            assert [note for note in rig.recorder.notes("FailedScheduling") if "to appear" in note] == []

    async def test_conditions_of_many_incomplete_groups_keep_up_once_in_a_round(self):
        size = 300
        rig = self.rig(*[1] * size, groups=size)
        member(rig, "p0", "g0")
        async with deciding(rig):
            rig.now += 60
            rig.engine.group_changes.report_incomplete()
            assert len(rig.groups.written) == size
            for index in range(1, size - 1):
                member(rig, f"p{index}", f"g{index}")
                await asyncio.sleep(0)
            assert len(rig.groups.written) == size
            rig.engine.group_changes.report_incomplete()
            assert len(rig.groups.written) == 2 * size
            assert f"sub-group scheduling.k8s.io:default/g{size - 1} has 0 of 1 pods" in rig.groups.written[-1][2]
            rig.engine.group_changes.report_incomplete()
            assert len(rig.groups.written) == 2 * size
