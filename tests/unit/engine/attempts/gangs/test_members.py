"""Which members of a pod group are tried, and when: a group backs off as one, and repeats no event."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.core.queue import SchedulingQueue, scheduling_queue
from podwright.engine.attempts.gangs.members import MOST_IN_LOOP
from podwright.engine.outcomes.failures import MEMBER_EVENTS, MEMBER_EVENTS_PER_SECOND
from podwright.engine.process import steps
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.objects.builders import in_group, make_pod_group
from support.waiting import until

TOO_MUCH = {"cpu": "16"}


def rig_with(nodes: int = 1, **groups: dict[str, Any]) -> Rig:
    """Nodes of 8 CPUs, and these groups."""
    rig = Rig()
    rig.engine.cache.groups.serve(WORKLOAD_API)
    for index in range(nodes):
        rig.node(f"n{index}")
    for name, options in groups.items():
        add_group(rig, name, **options)
    return rig


def add_group(rig: Rig, name: str, min_count: int | None = None, **spec: Any) -> None:
    rig.engine.objects(KIND).put(make_pod_group(name, min_count, **spec))


def member(rig: Rig, name: str, group: str = "gang", **options: Any) -> dict[str, Any]:
    spec = {**in_group(group), **options.pop("spec", {})}
    return rig.pod(name, spec=spec, **options)


async def advance(rig: Rig, seconds: float) -> None:
    rig.now += seconds
    rig.engine.wake()
    await settle()


def attempts(rig: Rig, name: str) -> int:
    queued = rig.engine.queue.get(f"default/{name}")
    assert queued is not None
    return queued.attempts


def bound(rig: Rig) -> set[str]:
    return {name for name, _ in rig.cluster.bound}


def reported(rig: Rig) -> list[str]:
    """The pods that have an event FailedScheduling, in its order."""
    members = {name for name, *_ in rig.status.written}
    return [name for name, reason, _ in rig.recorder.events if reason == "FailedScheduling" and name in members]


async def test_many_members_are_taken_in_steps_between_which_others_run(monkeypatch):
    size, turns = MOST_IN_LOOP + 1, 0
    rig, taken = rig_with(gang={"min_count": size}), []
    rig.node("large", allocatable={"cpu": str(size), "pods": str(size)})

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def take(queue, uid):
        taken.append(turns)
        return taking(queue, uid)

    taking = SchedulingQueue.take
    monkeypatch.setattr(SchedulingQueue, "take", take)
    monkeypatch.setattr(steps, "SLICE_SECONDS", -1.0)
    for index in range(size):
        member(rig, f"m{index}", requests={"cpu": "1"})
    counting = asyncio.create_task(count_turns())
    async with deciding(rig):
        await until(lambda: len(rig.cluster.bound) == size)
    counting.cancel()
    assert len(taken) == size - 1
    assert len(set(taken)) > size / 2


async def test_a_gang_that_is_complete_is_tried_once_and_whole_though_its_gates_open_one_by_one(monkeypatch):
    monkeypatch.setattr(scheduling_queue, "GATES_PER_TURN", 1)
    rig = rig_with(gang={"min_count": 5})
    async with deciding(rig):
        for index in range(5):
            member(rig, f"m{index}", requests={"cpu": "1"})
        await settle()
        assert bound(rig) == {f"m{index}" for index in range(5)}
        assert not reported(rig)


async def test_members_are_retried_after_an_error_while_they_are_taken(monkeypatch):
    size, taken = MOST_IN_LOOP + 1, []
    rig = rig_with(gang={"min_count": size})
    rig.node("large", allocatable={"cpu": str(size), "pods": str(size)})

    def take(queue, uid):
        taken.append(uid)
        if len(taken) == size // 2:
            raise ZeroDivisionError
        return taking(queue, uid)

    taking = SchedulingQueue.take
    monkeypatch.setattr(SchedulingQueue, "take", take)
    for index in range(size):
        member(rig, f"m{index}", requests={"cpu": "1"})
    async with deciding(rig):
        await until(lambda: rig.counts.get("backoff", 0) >= size // 2)
        assert not rig.cluster.bound
        rig.now += 20
        rig.engine.wake()
        await until(lambda: (rig.engine.wake(), len(rig.cluster.bound) == size)[-1])


async def test_members_are_tried_again_if_the_attempt_is_cancelled_while_they_are_taken(monkeypatch):
    size, taken = MOST_IN_LOOP + 1, []
    rig = rig_with(gang={"min_count": size})
    rig.node("large", allocatable={"cpu": str(size), "pods": str(size)})

    def take(queue, uid):
        taken.append(uid)
        if len(taken) == size // 2:
            rig.engine.planning.cancel()
        return taking(queue, uid)

    taking = SchedulingQueue.take
    monkeypatch.setattr(SchedulingQueue, "take", take)
    monkeypatch.setattr(steps, "SLICE_SECONDS", -1.0)
    for index in range(size):
        member(rig, f"m{index}", requests={"cpu": "1"})
    async with deciding(rig):
        await until(lambda: len(rig.cluster.bound) == size)
    assert len(taken) == size // 2 + size - 1


class TestNewMembers:
    @pytest.mark.parametrize("why", ["they fit nowhere", "the attempt is an error"])
    async def test_they_back_off_with_their_gang_and_are_then_tried_with_it(self, why):
        rig = rig_with(gang={"min_count": 2, "priority": 5})
        options = {"requests": TOO_MUCH, "priority": 5 if why == "they fit nowhere" else 6}
        for name in ("m0", "m1"):
            member(rig, name, **options)
        async with deciding(rig):
            assert reported(rig) == ["m0", "m1"]
            for index in range(2, 10):
                member(rig, f"m{index}", **options)
                await settle()
            assert attempts(rig, "m0") == 1
            assert attempts(rig, "m9") == 0
            assert reported(rig) == ["m0", "m1"]
            assert len(rig.recorder.notes("FailedScheduling")) == (3 if why == "they fit nowhere" else 2)
            await advance(rig, 3)
            assert {attempts(rig, f"m{index}") for index in range(2, 10)} == {1}
            assert attempts(rig, "m0") == 2

    async def test_one_that_completes_a_placement_is_tried_when_the_backoff_ends(self):
        rig = rig_with(gang={"min_count": 2})
        member(rig, "big", requests=TOO_MUCH)
        member(rig, "small", requests={"cpu": "1"})
        async with deciding(rig):
            member(rig, "too", requests={"cpu": "1"})
            await settle()
            assert bound(rig) == set()
            await advance(rig, 3)
            assert bound(rig) == {"small", "too"}

    async def test_one_that_joins_after_the_backoff_is_tried_with_the_others_at_once(self):
        rig = rig_with(gang={"min_count": 2})
        member(rig, "big", requests=TOO_MUCH)
        member(rig, "small", requests={"cpu": "1"})
        async with deciding(rig):
            await advance(rig, 20)
            member(rig, "too", requests={"cpu": "1"})
            await settle()
            assert bound(rig) == {"small", "too"}

    async def test_one_that_makes_a_gang_complete_again_is_tried_with_it_at_once(self):
        rig = rig_with(gang={"min_count": 2})
        member(rig, "big", requests=TOO_MUCH)
        member(rig, "small", requests={"cpu": "1"})
        async with deciding(rig):
            rig.engine.pending.drop("default/big", None)
            await settle()
            assert bound(rig) == set()
            member(rig, "too", requests={"cpu": "1"})
            await settle()
            assert bound(rig) == {"small", "too"}

    async def test_one_that_completes_a_gang_in_error_waits_for_its_backoff(self):
        rig = rig_with(gang={"min_count": 2, "priority": 5})
        member(rig, "right", requests={"cpu": "1"}, priority=5)
        member(rig, "wrong", requests={"cpu": "1"}, priority=6)
        async with deciding(rig):
            assert rig.counts == {"backoff": 2}
            rig.engine.pending.drop("default/wrong", None)
            member(rig, "mended", requests={"cpu": "1"}, priority=5)
            await settle()
            assert rig.counts == {"backoff": 2}
            await advance(rig, 3)
            assert bound(rig) == {"right", "mended"}

    async def test_an_event_that_helps_the_group_also_retries_members_that_back_off_with_it(self):
        rig = rig_with(gang={"min_count": 2})
        for name in ("m0", "m1"):
            member(rig, name, requests={"cpu": "8"})
        async with deciding(rig):
            member(rig, "m2", requests={"cpu": "8"})
            await settle()
            for index in range(1, 3):
                rig.node(f"n{index}")
            await settle()
            assert bound(rig) == {"m0", "m1", "m2"}

    async def test_those_of_a_basic_group_are_tried_alone(self):
        rig = rig_with(gang={"min_count": None})
        for index in range(5):
            member(rig, f"big{index}", requests=TOO_MUCH)
        async with deciding(rig):
            member(rig, "too", requests=TOO_MUCH)
            await settle()
            assert {attempts(rig, name) for name in ("big0", "too")} == {1}
            assert sorted(reported(rig)) == ["big0", "big1", "big2", "big3", "big4", "too"]
            member(rig, "small", requests={"cpu": "1"})
            await settle()
            assert bound(rig) == {"small"}
            assert attempts(rig, "big0") == 1

    async def test_those_of_a_basic_group_that_one_event_retries_are_tried_together(self):
        rig = rig_with(gang={"min_count": None})
        for index in range(5):
            member(rig, f"big{index}", requests=TOO_MUCH)
        async with deciding(rig):
            before = len(rig.groups.written)
            rig.engine.activate_all()
            await settle()
            assert {attempts(rig, f"big{index}") for index in range(5)} == {2}
            assert len(rig.groups.written) == before + 1

    async def test_those_of_a_basic_group_with_a_topology_constraint_do_not_choose_the_domain_alone(self):
        rig = rig_with(gang={"schedulingConstraints": {"topology": [{"key": "rack"}]}})
        for name, rack, cpu in (("small", "a", "2"), ("large", "b", "8")):
            rig.node(name, labels={"rack": rack}, allocatable={"cpu": cpu})
        member(rig, "waits", requests=TOO_MUCH)
        async with deciding(rig):
            for name in ("x", "y"):
                member(rig, name, requests={"cpu": "2"})
                await settle()
            assert attempts(rig, "x") == 0
            await advance(rig, 3)
            assert dict(rig.cluster.bound) == {"x": "large", "y": "large"}

    async def test_those_of_a_placed_gang_are_tried_alone(self):
        rig = rig_with(gang={"min_count": 2})
        for index in range(2):
            rig.engine.assigned.put(on_node(ours(f"there{index}", requests={"cpu": "1"}, spec=in_group()), "n0"))
        member(rig, "big", requests=TOO_MUCH)
        async with deciding(rig):
            assert attempts(rig, "big") == 1
            member(rig, "small", requests={"cpu": "1"})
            await settle()
            assert bound(rig) == {"small"}
            assert attempts(rig, "big") == 1


class TestEvents:
    async def test_members_get_an_event_for_each_cause_and_not_for_each_attempt(self):
        rig = rig_with(gang={"min_count": 2})
        for name in ("m0", "m1"):
            member(rig, name, requests=TOO_MUCH)
        async with deciding(rig):
            assert reported(rig) == ["m0", "m1"]
            rig.now += 20
            rig.node("n1")
            rig.engine.activate_all()
            await settle()
            assert attempts(rig, "m0") == 2
            assert reported(rig) == ["m0", "m1"]
            rig.now += 20
            for name in ("n0", "n1"):
                rig.node(name, taints=[{"key": "off", "effect": "NoSchedule"}])
            rig.engine.activate_all()
            await settle()
            assert attempts(rig, "m0") == 3
            assert reported(rig)[2:] == ["m0", "m1"]

    async def test_texts_stay_the_same_while_other_members_fit(self):
        """At each attempt another number of members fits, and another member is the first that does not."""
        rig = rig_with(gang={"min_count": 4})
        for index in range(4):
            member(rig, f"m{index}", requests={"cpu": "4"})
        async with deciding(rig):
            for cpu in ("12", "4", "2", "8"):
                rig.now += 20
                rig.node("n0", allocatable={"cpu": cpu})
                rig.engine.activate_all()
                await settle()
            assert attempts(rig, "m0") == 5
            assert len({message for _, _, message in rig.groups.written}) == 4
            assert len(reported(rig)) == 4
            (text,) = {note for name, _, note in rig.recorder.events if name == "gang"}
            assert text.startswith("minCount (4) cannot be satisfied, pod group preemption: ")

    async def test_an_unchanged_event_is_repeated_after_a_while(self):
        rig = rig_with(gang={"min_count": 2})
        for name in ("m0", "m1"):
            member(rig, name, requests=TOO_MUCH)
        async with deciding(rig):
            await advance(rig, 400)
            assert reported(rig) == ["m0", "m1", "m0", "m1"]

    async def test_while_many_gangs_wait_the_members_get_their_events_little_by_little(self):
        size, gangs = 20, 30
        rig = rig_with(nodes=2)
        for gang in range(gangs):
            add_group(rig, f"gang{gang}", size)
            for index in range(size):
                member(rig, f"m{gang}-{index}", f"gang{gang}", requests={"cpu": "1"})
        async with deciding(rig):
            await advance(rig, 0)
            assert len(reported(rig)) == gangs + MEMBER_EVENTS
            for cpu in range(5):  # the member that fits on no node is another one each time
                await advance(rig, 50)
                rig.node("n0", allocatable={"cpu": str(cpu)})
                rig.engine.activate_all()
                await settle()
            assert len(reported(rig)) == gangs + MEMBER_EVENTS + 250 * MEMBER_EVENTS_PER_SECOND
            assert len(set(reported(rig))) == len(reported(rig))


class TestMembersBeyondTheMinimum:
    async def test_they_preempt_once_the_minimum_is_placed(self):
        rig = rig_with(nodes=2, gang={"min_count": 1, "priority": 10})
        rig.engine.assigned.put(on_node(ours("low", requests={"cpu": "8"}, priority=0), "n1"))
        for name in ("m0", "m1"):
            member(rig, name, requests={"cpu": "8"}, priority=10)
        async with deciding(rig):
            assert rig.cluster.bound == [("m0", "n0")]
            assert [victim for victim, _, _ in rig.evictor.evicted] == ["low"]
            assert reported(rig)[:1] == ["m1"]
            assert "gang" not in [name for name, _, _ in rig.recorder.events]


class TestPartiallyPlacedGangs:
    """Gangs that have lost members, or whose placement was interrupted."""

    def partially_placed(self, rig: Rig, name: str, priority: int, rest: str = "4") -> None:
        """Two of three members are placed, and the third one is pending."""
        add_group(rig, name, 3, priority=priority)
        for index in range(2):
            there = ours(f"{name}{index}", priority=priority, requests={"cpu": "1"}, spec=in_group(name))
            rig.engine.assigned.put(on_node(there, "n0"))
        member(rig, f"{name}2", name, requests={"cpu": rest}, priority=priority)

    def gang(self, rig: Rig, name: str, priority: int) -> None:
        add_group(rig, name, 2, priority=priority, preemptionPolicy="Never")
        for index in range(2):
            options = {"requests": {"cpu": "3"}, "priority": priority}
            member(rig, f"{name}{index}", name, spec={"preemptionPolicy": "Never"}, **options)

    @pytest.mark.parametrize("start", [pytest.param(True, id="at the start"), pytest.param(False, id="later")])
    @pytest.mark.parametrize(
        ("priority", "first"),
        [
            pytest.param(1000, {"gang0", "gang1"}, id="a gang of higher priority comes first"),
            pytest.param(5, {"half2"}, id="at equal priority it comes first"),
            pytest.param(1, {"half2"}, id="a gang of lower priority comes later"),
        ],
    )
    async def test_it_is_completed_before_pods_of_no_higher_priority(self, start, priority, first):
        rig = rig_with()
        if start:
            self.gang(rig, "gang", priority)
            self.partially_placed(rig, "half", 5)
        async with deciding(rig):
            if not start:
                self.gang(rig, "gang", priority)
                self.partially_placed(rig, "half", 5)
                await settle()
            assert bound(rig) == first

    async def test_a_popped_one_is_tried_once(self):
        rig = rig_with()
        self.partially_placed(rig, "half", 5, rest="16")
        add_group(rig, "half", 4, priority=5)
        member(rig, "half3", "half", requests={"cpu": "16"}, priority=5)
        async with deciding(rig):
            assert {attempts(rig, "half2"), attempts(rig, "half3")} == {1}
            assert len(rig.groups.written) == 1
