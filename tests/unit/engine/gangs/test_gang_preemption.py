"""A pod group's preemption carried out: all members wait for all victims, and groups that go as a whole are told."""

from __future__ import annotations

import asyncio
from typing import Any

from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.core.plugins.default_preemption import GROUP_WAITING
from support.engine.kit import Rig, Slow, custom_policy, deciding, on_node, ours, settle
from support.objects.builders import in_group, make_pod_group

ALL = {"cpu": "8"}
GOING = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


def siege(*, waits: bool = True, members: int = 2, group: str = "", **options: Any) -> Rig:
    """Nodes n0, n1, … each filled by a lesser pod, and a gang that wants all of them."""
    rig = Rig(**options)
    rig.evictor.waits = waits
    rig.engine.cache.groups.serve(WORKLOAD_API)
    if group:
        add_group(rig, make_pod_group(group, 1, disruptionMode={"all": {}}))
    for i in range(members):
        rig.node(f"n{i}")
        rig.engine.assigned.put(lesser(i, group))
    add_group(rig, make_pod_group("gang", members, priority=10))
    for i in range(members):
        rig.pod(f"m{i}", requests=ALL, priority=10, spec=in_group())
    return rig


def lesser(index: int, group: str = "", **options: Any) -> dict[str, Any]:
    spec = in_group(group) if group else {}
    return on_node(ours(f"low{index}", requests=ALL, priority=0, spec=spec, **options), f"n{index}")


def add_group(rig: Rig, raw: dict[str, Any]) -> None:
    rig.engine.objects(KIND).put(raw)


def gone(rig: Rig, *victims: str) -> None:
    for name in victims:
        rig.engine.assigned.drop(f"default/{name}", None)


def held_by(rig: Rig, name: str) -> Any:
    status = rig.engine.policies.pre_enqueue(parse_pod(ours(name, spec=in_group())))
    return None if status is None else status.reasons


def metric(rig: Rig, name: str, **labels: str) -> float | None:
    return rig.ports.metrics.registry.get_sample_value(name, labels)


class TestTheGroupWaits:
    async def test_all_members_are_held_until_the_deletion_of_the_last_victim_has_begun(self):
        rig = siege()
        async with deciding(rig):
            assert sorted(rig.evictor.evicted) == [("low0", "gang", "cluster"), ("low1", "gang", "cluster")]
            nominated = {rig.engine.cache.nominator.node_of(f"default/m{i}") for i in range(2)}
            assert nominated == {"n0", "n1"}
            assert {name: node for name, _, node in rig.status.written if node} == {"m0": "n0", "m1": "n1"}
            rig.evictor.answers["low0"](True)
            gone(rig, "low0")
            rig.now += 2
            rig.engine.wake()
            await settle()
            assert held_by(rig, "m0") == held_by(rig, "m1") == (GROUP_WAITING,)
            assert rig.cluster.bound == []
            rig.evictor.answers["low1"](True)
            assert held_by(rig, "m0") is None
            gone(rig, "low1")
            rig.now += 2
            rig.engine.wake()
            await settle()
            assert sorted(rig.cluster.bound) == [("m0", "n0"), ("m1", "n1")]
        assert len(rig.evictor.evicted) == 2

    async def test_victims_that_are_gone_before_the_answers_come_leave_nobody_waiting(self):
        rig = siege()
        async with deciding(rig):
            gone(rig, "low0", "low1")
            await settle()
            assert rig.cluster.bound == []
            for name in ("low0", "low1"):
                rig.evictor.answers[name](True)
            await settle()
            assert len(rig.cluster.bound) == 2

    async def test_after_evictions_that_failed_the_group_tries_again_after_the_backoff_of_an_error(self):
        rig = siege()
        async with deciding(rig):
            rig.evictor.answers["low0"](False)
            rig.evictor.answers["low1"](False)
            await settle()
            assert sorted(name for name, _, _ in rig.evictor.evicted) == ["low0", "low1"]
            rig.now += 2
            rig.engine.wake()
            await settle()
            assert sorted(name for name, _, _ in rig.evictor.evicted) == ["low0", "low0", "low1", "low1"]

    async def test_members_that_come_meanwhile_are_held_with_the_others_and_preempt_nobody(self):
        rig = siege()
        for i in (2, 3):
            rig.node(f"n{i}")
            rig.engine.assigned.put(lesser(i))
        async with deciding(rig):
            victims = list(rig.evictor.answers)
            for i in (2, 3):
                rig.pod(f"m{i}", requests=ALL, priority=10, spec=in_group())
                await settle()
            assert held_by(rig, "m3") == (GROUP_WAITING,)
            assert [name for name, _, _ in rig.evictor.evicted] == victims
            assert rig.counts["gated"] == 2

    async def test_members_that_come_meanwhile_are_tried_with_the_others_once_these_may_go(self):
        rig = siege()
        async with deciding(rig):
            rig.node("n2")
            rig.pod("m2", requests=ALL, priority=10, spec=in_group())
            await settle()
            for name in ("low0", "low1"):
                rig.evictor.answers[name](True)
            await settle()
            gone(rig, "low0", "low1")
            rig.now += 4
            rig.engine.wake()
            await settle()
            assert {name for name, _ in rig.cluster.bound} == {"m0", "m1", "m2"}

    async def test_members_of_other_groups_are_not_held(self):
        rig = siege()
        add_group(rig, make_pod_group("other", 1))
        rig.node("n2")
        async with deciding(rig):
            rig.pod("free", requests=ALL, spec=in_group("other"))
            await settle()
            assert rig.cluster.bound == [("free", "n2")]

    async def test_while_victims_are_going_nobody_else_must_go(self):
        rig = siege()
        rig.node("n2")
        rig.engine.assigned.put(lesser(2))
        async with deciding(rig):
            (first, second) = list(rig.evictor.answers)
            for name in (first, second):
                index = int(name[-1])
                going = lesser(index, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
                going["status"] = {"conditions": [GOING]}
                rig.engine.assigned.put(going)
                rig.evictor.answers[name](True)
            gone(rig, first)
            rig.now += 400
            rig.engine.wake()
            await settle()
            assert len(rig.evictor.evicted) == 2
            assert rig.groups.said[-1][2].endswith("pod group preemption: ongoing preemption on nominated nodes")
            assert len(rig.engine.cache.nominator) == 2
            gone(rig, second)
            rig.now += 20
            rig.engine.wake()
            await settle()
            assert len(rig.cluster.bound) == 2

    async def test_a_gang_that_would_not_fit_even_then_makes_nobody_go(self):
        rig = siege(members=2)
        rig.engine.assigned.put({**lesser(1), "spec": {**lesser(1)["spec"], "priority": 100}})
        async with deciding(rig):
            assert rig.evictor.evicted == []
            assert rig.engine.cache.pod_count == 2


class TestAttemptsAreCounted:
    ATTEMPTS = "scheduler_workload_preemption_attempts_total"
    EVALUATIONS = "scheduler_preemption_evaluation_duration_seconds_count"

    def counts(self, rig, result):
        """Attempts, and searches for victims, that ended like this."""
        return (
            metric(rig, self.ATTEMPTS, result=result),
            metric(rig, self.EVALUATIONS, preemptor="podgroup", result=result),
        )

    async def test_with_victims_and_while_these_are_going(self):
        rig = siege()
        rig.node("n2")
        rig.engine.assigned.put(lesser(2))
        async with deciding(rig):
            assert self.counts(rig, "Success") == (1, 1)
            for name in list(rig.evictor.answers):
                going = lesser(int(name[-1]), metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
                going["status"] = {"conditions": [GOING]}
                rig.engine.assigned.put(going)
                rig.evictor.answers[name](True)
            rig.now += 400
            rig.engine.wake()
            await settle()
            assert self.counts(rig, "Success") == (2, 1)

    async def test_without_victims_that_would_help(self):
        rig = siege()
        rig.engine.assigned.put({**lesser(1), "spec": {**lesser(1)["spec"], "priority": 100}})
        async with deciding(rig):
            assert self.counts(rig, "Unschedulable") == (1, 1)
            assert self.counts(rig, "Success") == (None, None)

    async def test_of_a_group_that_may_not_preempt_without_a_search(self):
        rig = siege(members=0)
        rig.node("n0")
        rig.engine.assigned.put(lesser(0))
        add_group(rig, make_pod_group("gang", 1, priority=10))
        rig.pod("m0", requests=ALL, priority=10, spec={**in_group(), "preemptionPolicy": "Never"})
        async with deciding(rig):
            assert self.counts(rig, "Unschedulable") == (1, None)


class TestOthers:
    async def test_lesser_promises_of_all_its_nodes_are_taken_back_and_the_others_kept(self):
        rig = siege()
        later = {"schedulingGates": [{"name": "later"}]}
        for name, node, priority in (("lesser0", "n0", 5), ("lesser1", "n1", 5), ("greater", "n1", 50)):
            waits = ours(name, priority=priority, spec=later)
            rig.engine.pending.put({**waits, "status": {"nominatedNodeName": node}})
        async with deciding(rig):
            nominator = rig.engine.cache.nominator
            assert {name: nominator.node_of(f"default/{name}") for name in ("lesser0", "lesser1", "greater")} == {
                "lesser0": "",
                "lesser1": "",
                "greater": "n1",
            }
            assert {name for name, verdict, node in rig.status.written if (verdict, node) == (None, "")} == {
                "lesser0",
                "lesser1",
            }

    async def test_a_victim_that_waits_in_pre_bind_is_cancelled_and_not_deleted(self):
        Slow.gate = asyncio.get_running_loop().create_future()
        rig = Rig(plugins={"Slow": Slow})
        rig.engine.policies.apply(custom_policy("preBind", "Slow"))
        rig.engine.cache.groups.serve(WORKLOAD_API)
        rig.node("n0")
        rig.pod("low0", requests=ALL, priority=0)
        async with deciding(rig):
            assert rig.placed_on("low0") == "n0"
            Slow.gate = asyncio.get_running_loop().create_future()
            Slow.gate.set_result(None)
            add_group(rig, make_pod_group("gang", 1, priority=10))
            rig.pod("m0", requests=ALL, priority=10, spec=in_group())
            await settle()
            assert rig.evictor.evicted == []
            assert rig.recorder.notes("Preempted") == [
                "Preempted by podgroup group-gang on node cluster (in kube-scheduler memory)."
            ]
            assert rig.cluster.bound == [("m0", "n0")]


class TestGroupsAsVictims:
    async def test_a_group_that_goes_as_a_whole_is_told_once(self):
        rig = siege(group="victims")
        async with deciding(rig):
            assert [said for said in rig.groups.said if said[1] == "DisruptionTarget"] == [
                ("victims", "DisruptionTarget", "podwright: preempting to accommodate a higher priority podgroup")
            ]
            assert metric(rig, "scheduler_preemption_workload_disruptions_sum", preemptor="podgroup") == 1
            assert metric(rig, "scheduler_workload_preemption_victims_sum") == 2

    async def test_a_pod_that_wants_one_nodes_room_makes_the_whole_group_go(self):
        rig = Rig()
        rig.evictor.waits = True
        add_group(rig, make_pod_group("victims", 1, disruptionMode={"all": {}}))
        for i in range(2):
            rig.node(f"n{i}")
            rig.engine.assigned.put(lesser(i, "victims"))
        rig.pod("high", requests=ALL, priority=10)
        async with deciding(rig):
            (where,) = {node for _, _, node in rig.evictor.evicted}
            assert sorted(rig.evictor.evicted) == [("low0", "high", where), ("low1", "high", where)]
            assert rig.groups.said == [
                ("victims", "DisruptionTarget", "podwright: preempting to accommodate a higher priority pod")
            ]
            assert metric(rig, "scheduler_preemption_workload_disruptions_sum", preemptor="pod") == 1
            for name in ("low0", "low1"):
                rig.evictor.answers[name](True)
            gone(rig, "low0", "low1")
            rig.now += 2
            rig.engine.wake()
            await settle()
            assert rig.cluster.bound == [("high", where)]
            assert (
                metric(rig, "scheduler_preemption_execution_duration_seconds_count", preemptor="pod", result="success")
                == 1
            )
