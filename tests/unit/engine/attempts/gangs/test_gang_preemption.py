"""Preemption by a pod group: all members wait for all victims, and groups disrupted as a whole get a condition."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.pod_group import (
    GROUP_LABEL,
    KAI_API,
    KAI_KIND,
    KIND,
    PLUGINS_API,
    PLUGINS_KIND,
    WORKLOAD_API,
)
from podwright.core.plugins.default_preemption import GROUP_WAITING
from podwright.core.queue.hinting import Hinting
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.engine.attempts.gangs import members
from podwright.engine.attempts.gangs.attempts import Gangs
from podwright.engine.process import steps
from support.engine.kit import Rig, Slow, custom_policy, deciding, on_node, ours, settle
from support.engine.long_work import FakeChildren
from support.objects.builders import in_group, make_pod_group
from support.waiting import until

ALL = {"cpu": "8"}
TERMINATING = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


def full_nodes(*, waits: bool = True, members: int = 2, group: str = "", queues: str = "", **options: Any) -> Rig:
    """Nodes n0, n1, ..., each filled by a pod of lower priority, and a gang that needs all of them. `queues`: the gang
    is of the first one, which has all nodes guaranteed, and the others are of the second.
    """
    rig = Rig(**options)
    rig.evictor.waits = waits
    rig.engine.cache.groups.serve(WORKLOAD_API)
    gang, others = ({QUEUE_LABEL: name} for name in queues) if queues else ({}, {})
    for name in queues:
        quota = Quota(guarantee=8_000 * members if name == queues[0] else 0)
        queues_of(rig.engine.cache).set(QueueRules(name, quotas={"cpu": quota}))
    if group:
        add_group(rig, make_pod_group(group, 1, disruptionMode={"all": {}}))
    for i in range(members):
        rig.node(f"n{i}")
        rig.engine.assigned.put(lower(i, group, labels=others))
    add_group(rig, make_pod_group("gang", members, priority=10))
    for i in range(members):
        rig.pod(f"m{i}", requests=ALL, priority=10, labels=gang, spec=in_group())
    return rig


def lower(index: int, group: str = "", **options: Any) -> dict[str, Any]:
    spec = in_group(group) if group else {}
    return on_node(ours(f"low{index}", requests=ALL, priority=0, spec=spec, **options), f"n{index}")


def add_group(rig: Rig, raw: dict[str, Any]) -> None:
    rig.engine.objects(KIND).put(raw)


def delete(rig: Rig, *victims: str) -> None:
    for name in victims:
        rig.engine.assigned.drop(f"default/{name}", None)


def counting(monkeypatch: pytest.MonkeyPatch, *methods: tuple[type[Any], str]) -> list[str]:
    """The names of these methods, as often as they are called from now on."""
    called: list[str] = []

    def counted(owner: type[Any], name: str) -> Any:
        original = getattr(owner, name)
        return lambda *args, **options: called.append(name) or original(*args, **options)

    for owner, name in methods:
        monkeypatch.setattr(owner, name, counted(owner, name))
    return called


def held_by(rig: Rig, name: str) -> Any:
    status = rig.engine.policies.pre_enqueue(parse_pod(ours(name, spec=in_group())))
    return None if status is None else status.reasons


def metric(rig: Rig, name: str, **labels: str) -> float | None:
    return rig.ports.metrics.registry.get_sample_value(name, labels)


class TestWaiting:
    async def test_all_members_are_held_until_the_deletion_of_the_last_victim_has_begun(self):
        rig = full_nodes()
        async with deciding(rig):
            assert sorted(rig.evictor.evicted) == [("low0", "gang", "cluster"), ("low1", "gang", "cluster")]
            nominated = {rig.engine.cache.nominator.node_of(f"default/m{i}") for i in range(2)}
            assert nominated == {"n0", "n1"}
            assert {name: node for name, _, node in rig.status.written if node} == {"m0": "n0", "m1": "n1"}
            rig.evictor.answers["low0"](True)
            delete(rig, "low0")
            rig.now += 2
            rig.engine.wake()
            await settle()
            assert held_by(rig, "m0") == held_by(rig, "m1") == (GROUP_WAITING,)
            assert rig.cluster.bound == []
            rig.evictor.answers["low1"](True)
            assert held_by(rig, "m0") is None
            delete(rig, "low1")
            rig.now += 2
            rig.engine.wake()
            await settle()
            assert sorted(rig.cluster.bound) == [("m0", "n0"), ("m1", "n1")]
        assert len(rig.evictor.evicted) == 2

    async def test_the_group_is_retried_when_the_victims_are_gone_before_the_evictions_are_answered(self):
        rig = full_nodes()
        async with deciding(rig):
            delete(rig, "low0", "low1")
            await settle()
            assert rig.cluster.bound == []
            for name in ("low0", "low1"):
                rig.evictor.answers[name](True)
            await settle()
            assert len(rig.cluster.bound) == 2

    async def test_failed_evictions_retry_the_group_after_the_backoff_of_an_error(self):
        rig = full_nodes()
        async with deciding(rig):
            rig.evictor.answers["low0"](False)
            rig.evictor.answers["low1"](False)
            await settle()
            assert sorted(name for name, _, _ in rig.evictor.evicted) == ["low0", "low1"]
            rig.now += 2
            rig.engine.wake()
            await settle()
            assert sorted(name for name, _, _ in rig.evictor.evicted) == ["low0", "low0", "low1", "low1"]

    async def test_new_members_are_held_with_the_others_and_do_not_preempt(self):
        rig = full_nodes()
        for i in (2, 3):
            rig.node(f"n{i}")
            rig.engine.assigned.put(lower(i))
        async with deciding(rig):
            victims = list(rig.evictor.answers)
            for i in (2, 3):
                rig.pod(f"m{i}", requests=ALL, priority=10, spec=in_group())
                await settle()
            assert held_by(rig, "m3") == (GROUP_WAITING,)
            assert [name for name, _, _ in rig.evictor.evicted] == victims
            assert rig.counts["gated"] == 4

    async def test_the_deletion_of_a_victim_asks_no_member_while_the_group_is_held(self, monkeypatch):
        rig = full_nodes(members=10)
        async with deciding(rig):
            asked = counting(monkeypatch, (Framework, "pre_enqueue"), (Hinting, "helped"))
            for i in range(9):
                delete(rig, f"low{i}")
                rig.evictor.answers[f"low{i}"](True)
            assert asked == []
            rig.evictor.answers["low9"](True)
            delete(rig, "low9")
            rig.now += 2
            rig.engine.wake()
            await settle()
            assert len(rig.cluster.bound) == 10

    async def test_new_members_are_retried_with_the_others_when_these_are_released(self):
        rig = full_nodes()
        async with deciding(rig):
            rig.node("n2")
            rig.pod("m2", requests=ALL, priority=10, spec=in_group())
            await settle()
            for name in ("low0", "low1"):
                rig.evictor.answers[name](True)
            await settle()
            delete(rig, "low0", "low1")
            rig.now += 4
            rig.engine.wake()
            await settle()
            assert {name for name, _ in rig.cluster.bound} == {"m0", "m1", "m2"}

    async def test_members_of_other_groups_are_not_held(self):
        rig = full_nodes()
        add_group(rig, make_pod_group("other", 1))
        rig.node("n2")
        async with deciding(rig):
            rig.pod("free", requests=ALL, spec=in_group("other"))
            await settle()
            assert rig.cluster.bound == [("free", "n2")]

    async def test_no_other_pod_is_evicted_while_victims_terminate(self):
        rig = full_nodes()
        rig.node("n2")
        rig.engine.assigned.put(lower(2))
        async with deciding(rig):
            (first, second) = list(rig.evictor.answers)
            for name in (first, second):
                index = int(name[-1])
                terminating = lower(index, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
                terminating["status"] = {"conditions": [TERMINATING]}
                rig.engine.assigned.put(terminating)
                rig.evictor.answers[name](True)
            delete(rig, first)
            rig.now += 400
            rig.engine.wake()
            await settle()
            assert len(rig.evictor.evicted) == 2
            assert rig.groups.written[-1][2].endswith("pod group preemption: ongoing preemption on nominated nodes")
            assert len(rig.engine.cache.nominator) == 2
            delete(rig, second)
            rig.now += 20
            rig.engine.wake()
            await settle()
            assert len(rig.cluster.bound) == 2

    async def test_a_gang_that_would_not_fit_anyway_evicts_no_pod(self):
        rig = full_nodes(members=2)
        rig.engine.assigned.put({**lower(1), "spec": {**lower(1)["spec"], "priority": 100}})
        async with deciding(rig):
            assert rig.evictor.evicted == []
            assert rig.engine.cache.pod_count == 2


class TestSteps:
    """The work for each member of a large gang is a step of its own, between which others have their turn."""

    MEMBERS = 6

    @pytest.fixture(autouse=True)
    def _short_slices(self, monkeypatch):
        monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)
        monkeypatch.setattr(members, "MOST_IN_LOOP", self.MEMBERS - 1)

    @pytest.fixture
    def planned(self, monkeypatch) -> list[int]:
        """How many members each plan is for."""
        found: list[int] = []
        decide = Gangs.decide
        monkeypatch.setattr(
            Gangs, "decide", lambda *given, **more: found.append(len(given[2])) or decide(*given, **more)
        )
        return found

    def at_once(self, monkeypatch, owner: Any, method: str) -> list[int]:
        """By turn of the event loop, how often it calls a method."""
        turns, original = [0], getattr(owner, method)

        def counted(*args: Any, **options: Any) -> Any:
            if not turns[-1]:
                asyncio.get_running_loop().call_soon(turns.append, 0)
            turns[-1] += 1
            return original(*args, **options)

        monkeypatch.setattr(owner, method, counted)
        return turns

    async def test_members_are_rejected_one_by_one(self, monkeypatch, planned):
        rig = full_nodes(members=self.MEMBERS, children=FakeChildren())
        turns = self.at_once(monkeypatch, rig.engine.queue, "reject")
        async with deciding(rig):
            await until(lambda: len(rig.evictor.evicted) == self.MEMBERS)
        assert (sum(turns), max(turns)) == (self.MEMBERS, 1)
        assert planned == [self.MEMBERS]
        assert rig.children.started == 1, "many members are not planned in the loop"

    async def test_nobody_tries_a_part_of_a_gang_that_is_being_rejected(self, monkeypatch, planned):
        rig = full_nodes(members=self.MEMBERS, children=FakeChildren())
        for i in range(self.MEMBERS):
            rig.engine.assigned.put({**lower(i), "spec": {**lower(i)["spec"], "priority": 100}})
        reject = rig.engine.queue.reject

        def then_make_room(queued, *given):
            reject(queued, *given)
            if queued.uid == "default/m0" and len(planned) == 1:
                delete(rig, "low0")
                rig.engine.wake()

        monkeypatch.setattr(rig.engine.queue, "reject", then_make_room)
        async with deciding(rig):
            await until(lambda: (setattr(rig, "now", rig.now + 1), rig.engine.wake(), len(planned) > 1)[-1])
        assert planned == [self.MEMBERS] * len(planned)

    @pytest.fixture
    def between(self, monkeypatch) -> Any:
        """Does something once when the first member of a gang is rejected."""

        def then(rig: Rig, does: Any) -> None:
            reject, left = rig.engine.queue.reject, [does]

            def rejecting(queued, *given):
                reject(queued, *given)
                if left and queued.uid == "default/m0":
                    left.pop()()

            monkeypatch.setattr(rig.engine.queue, "reject", rejecting)

        return then

    async def test_members_are_nominated_one_by_one(self, monkeypatch, planned):
        rig = full_nodes(members=self.MEMBERS, children=FakeChildren())
        turns = self.at_once(monkeypatch, rig.engine.cache.nominator, "add")
        async with deciding(rig):
            await until(lambda: len(rig.evictor.evicted) == self.MEMBERS)
        assert (sum(turns), max(turns)) == (self.MEMBERS, 1)

    async def test_a_nomination_that_ends_between_two_steps_is_not_published(self, between, planned):
        rig = full_nodes(members=self.MEMBERS, children=FakeChildren())
        between(rig, lambda: rig.engine.cache.nominator.remove("default/m1"))
        async with deciding(rig):
            await until(lambda: len(rig.evictor.evicted) == self.MEMBERS)
        first = {name: bool(node) for name, _, node in reversed(rig.status.written)}
        assert first == {f"m{i}": i != 1 for i in range(self.MEMBERS)}
        last = {name: bool(node) for name, _, node in rig.status.written}
        assert last == {f"m{i}": True for i in range(self.MEMBERS)}
        assert planned == [self.MEMBERS] * 2

    async def test_no_pod_is_evicted_where_another_pod_got_the_room_between_two_steps(self, between, planned):
        rig = full_nodes(members=self.MEMBERS, children=FakeChildren())
        greater = parse_pod(ours("greater", requests=ALL, priority=50))
        between(rig, lambda: rig.engine.cache.nominator.add(greater, "n1"))
        async with deciding(rig):
            await until(lambda: len(planned) > 1)
            await settle()
        assert rig.evictor.evicted == []
        assert planned == [self.MEMBERS] * 2
        assert list(rig.engine.cache.nominator.nodes()) == ["n1"], "a gang that evicts no pod holds no room"

    async def test_no_pod_is_evicted_where_another_pod_gets_the_room_while_members_are_held(self, monkeypatch, planned):
        rig = full_nodes(members=self.MEMBERS, children=FakeChildren())
        greater, recheck = parse_pod(ours("greater", requests=ALL, priority=50)), rig.engine.queue.recheck_gate

        def then_nominate(uid: str) -> None:
            recheck(uid)
            rig.engine.cache.nominator.add(greater, "n1")

        monkeypatch.setattr(rig.engine.queue, "recheck_gate", then_nominate)
        async with deciding(rig):
            await until(lambda: len(planned) > 1)
            await settle()
        assert rig.evictor.evicted == []
        assert planned == [self.MEMBERS] * 2
        assert list(rig.engine.cache.nominator.nodes()) == ["n1"]

    async def test_lower_nominations_are_cleared_one_by_one(self, monkeypatch, planned):
        rig = full_nodes(members=self.MEMBERS, children=FakeChildren())
        nominator = rig.engine.cache.nominator
        for i in range(self.MEMBERS):
            nominator.add(parse_pod(ours(f"lower{i}", priority=5)), f"n{i}")
        turns = self.at_once(monkeypatch, nominator, "behind")
        async with deciding(rig):
            await until(lambda: len(rig.evictor.evicted) == self.MEMBERS)
        assert (sum(turns), max(turns)) == (self.MEMBERS, 1)
        assert {pod.name for node in nominator.nodes() for pod in nominator.on(node)} == {
            f"m{i}" for i in range(self.MEMBERS)
        }

    async def test_no_group_is_disrupted_where_another_pod_gets_the_room_meanwhile(self, monkeypatch, planned):
        rig = full_nodes(members=self.MEMBERS, group="victims", children=FakeChildren())
        nominator = rig.engine.cache.nominator
        greater, behind = parse_pod(ours("greater", requests=ALL, priority=50)), nominator.behind

        def then_nominate(pod: PodInfo, node_name: str) -> Any:
            found = behind(pod, node_name)
            nominator.add(greater, "n1")
            return found

        monkeypatch.setattr(nominator, "behind", then_nominate)
        async with deciding(rig):
            await until(lambda: len(planned) > 1)
            await settle()
        assert rig.evictor.evicted == []
        assert [each for each in rig.groups.written if each[1] == "DisruptionTarget"] == []

    async def test_a_gang_that_evicts_no_pod_keeps_the_nominations_that_it_had(self, between, monkeypatch):
        rig = full_nodes(members=self.MEMBERS, queues="ab", children=FakeChildren())
        nominator, decide = rig.engine.cache.nominator, Gangs.decide
        greater = parse_pod(ours("greater", requests=ALL, priority=50))
        found: list[Any] = []

        def looking(*given: Any, **more: Any) -> Any:
            on = {name: [pod.name for pod in nominator.on(name)] for name in nominator.nodes()}
            found.append((on, [pod.name for pod in nominator.holding_on("n99")]))
            return decide(*given, **more)

        monkeypatch.setattr(Gangs, "decide", looking)
        between(rig, lambda: nominator.add(greater, "n1"))
        nominator.add(rig.engine.queue.get("default/m0").pod, "n99")
        async with deciding(rig):
            await until(lambda: len(found) > 1)
        assert rig.evictor.evicted == []
        assert found == [({"n99": ["m0"]}, ["m0"]), ({"n99": ["m0"], "n1": ["greater"]}, ["m0"])]

    async def test_a_gang_whose_members_are_held_between_two_steps_is_planned_again_later(self, between, planned):
        rig = full_nodes(members=self.MEMBERS, children=FakeChildren())
        ended: list[str] = []

        def end_gang() -> None:
            rig.engine.objects(KIND).drop("default/gang", None)
            ended.append("gang")

        between(rig, end_gang)
        async with deciding(rig):
            await until(lambda: ended and len(rig.engine.cache.nominator) == 0)
            assert rig.evictor.evicted == []
            add_group(rig, make_pod_group("gang", self.MEMBERS, priority=10))
            await until(lambda: (setattr(rig, "now", rig.now + 1), rig.engine.wake(), rig.evictor.evicted)[-1])
            await until(lambda: len(rig.evictor.evicted) == self.MEMBERS)
        assert planned == [self.MEMBERS] * 2

    async def test_members_with_a_queue_hold_their_room_before_the_first_of_them_is_rejected(self, between, planned):
        rig = full_nodes(members=self.MEMBERS, queues="ab", children=FakeChildren())
        held: list[str] = []
        nominator = rig.engine.cache.nominator
        between(
            rig, lambda: held.extend(pod.name for i in range(self.MEMBERS) for pod in nominator.holding_on(f"n{i}"))
        )
        async with deciding(rig):
            await until(lambda: len(rig.evictor.evicted) == self.MEMBERS)
        assert sorted(held) == [f"m{i}" for i in range(self.MEMBERS)]

    async def test_members_are_released_one_by_one_and_tried_together(self, monkeypatch, planned):
        rig = full_nodes(members=self.MEMBERS, children=FakeChildren())
        async with deciding(rig):
            await until(lambda: len(rig.evictor.answers) == self.MEMBERS)
            await settle()
            turns = self.at_once(monkeypatch, rig.engine.queue, "recheck_gate")
            rig.now += 20
            for i in range(self.MEMBERS):
                rig.evictor.answers[f"low{i}"](True)
            delete(rig, *[f"low{i}" for i in range(self.MEMBERS)])
            rig.engine.wake()
            await until(lambda: len(rig.cluster.bound) == self.MEMBERS)
        assert max(turns) == 1
        assert planned == [self.MEMBERS] * 2


class TestMetrics:
    ATTEMPTS = "scheduler_workload_preemption_attempts_total"
    EVALUATIONS = "scheduler_preemption_evaluation_duration_seconds_count"

    def counts(self, rig, result):
        """Attempts, and searches for victims, with this result."""
        return (
            metric(rig, self.ATTEMPTS, result=result),
            metric(rig, self.EVALUATIONS, preemptor="podgroup", result=result),
        )

    async def test_attempts_count_while_victims_terminate_and_searches_do_not(self):
        rig = full_nodes()
        rig.node("n2")
        rig.engine.assigned.put(lower(2))
        async with deciding(rig):
            assert self.counts(rig, "Success") == (1, 1)
            for name in list(rig.evictor.answers):
                terminating = lower(int(name[-1]), metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
                terminating["status"] = {"conditions": [TERMINATING]}
                rig.engine.assigned.put(terminating)
                rig.evictor.answers[name](True)
            rig.now += 400
            rig.engine.wake()
            await settle()
            assert self.counts(rig, "Success") == (2, 1)

    async def test_a_search_without_victims_that_would_help_is_unschedulable(self):
        rig = full_nodes()
        rig.engine.assigned.put({**lower(1), "spec": {**lower(1)["spec"], "priority": 100}})
        async with deciding(rig):
            assert self.counts(rig, "Unschedulable") == (1, 1)
            assert self.counts(rig, "Success") == (None, None)

    async def test_a_group_that_may_not_preempt_counts_an_attempt_without_a_search(self):
        rig = full_nodes(members=0)
        rig.node("n0")
        rig.engine.assigned.put(lower(0))
        add_group(rig, make_pod_group("gang", 1, priority=10))
        rig.pod("m0", requests=ALL, priority=10, spec={**in_group(), "preemptionPolicy": "Never"})
        async with deciding(rig):
            assert self.counts(rig, "Unschedulable") == (1, None)


class TestOtherPods:
    async def test_only_nominations_of_lower_priority_to_its_nodes_are_cleared(self):
        rig = full_nodes()
        later = {"schedulingGates": [{"name": "later"}]}
        for name, node, priority in (("lower0", "n0", 5), ("lower1", "n1", 5), ("greater", "n1", 50)):
            waits = ours(name, priority=priority, spec=later)
            rig.engine.pending.put({**waits, "status": {"nominatedNodeName": node}})
        async with deciding(rig):
            nominator = rig.engine.cache.nominator
            assert {name: nominator.node_of(f"default/{name}") for name in ("lower0", "lower1", "greater")} == {
                "lower0": "",
                "lower1": "",
                "greater": "n1",
            }
            assert {name for name, verdict, node in rig.status.written if (verdict, node) == (None, "")} == {
                "lower0",
                "lower1",
            }

    async def test_a_victim_in_pre_bind_is_not_deleted_but_its_binding_cycle_is_stopped(self):
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
    async def test_a_group_disrupted_as_a_whole_gets_one_condition(self):
        rig = full_nodes(group="victims")
        async with deciding(rig):
            assert [each for each in rig.groups.written if each[1] == "DisruptionTarget"] == [
                ("victims", "DisruptionTarget", "podwright: preempting to accommodate a higher priority podgroup")
            ]
            assert metric(rig, "scheduler_preemption_workload_disruptions_sum", preemptor="podgroup") == 1
            assert metric(rig, "scheduler_workload_preemption_victims_sum") == 2

    async def test_a_pod_that_needs_one_node_evicts_the_whole_group(self):
        rig = Rig()
        rig.evictor.waits = True
        add_group(rig, make_pod_group("victims", 1, disruptionMode={"all": {}}))
        for i in range(2):
            rig.node(f"n{i}")
            rig.engine.assigned.put(lower(i, "victims"))
        rig.pod("high", requests=ALL, priority=10)
        async with deciding(rig):
            (where,) = {node for _, _, node in rig.evictor.evicted}
            assert sorted(rig.evictor.evicted) == [("low0", "high", where), ("low1", "high", where)]
            assert rig.groups.written == [
                ("victims", "DisruptionTarget", "podwright: preempting to accommodate a higher priority pod")
            ]
            assert metric(rig, "scheduler_preemption_workload_disruptions_sum", preemptor="pod") == 1
            for name in ("low0", "low1"):
                rig.evictor.answers[name](True)
            delete(rig, "low0", "low1")
            rig.now += 2
            rig.engine.wake()
            await settle()
            assert rig.cluster.bound == [("high", where)]
            assert (
                metric(rig, "scheduler_preemption_execution_duration_seconds_count", preemptor="pod", result="success")
                == 1
            )


class TestLosses:
    """A gang of two pods on one node, and a pod that needs the place of one of them."""

    @staticmethod
    def rig(api: str = WORKLOAD_API, **args: Any) -> Rig:
        rig = Rig()
        rig.engine.cache.groups.serve(api)
        policy = {"pluginConfig": [{"name": "GangScheduling", "args": args}], "schedulerName": "podwright"}
        assert rig.engine.policies.apply(
            {"metadata": {"name": "p", "uid": "p", "generation": 1}, "spec": policy}
        ).accepted
        rig.node("n")
        member: dict[str, Any] = {"requests": {"cpu": "4"}, "priority": 0}
        if api == WORKLOAD_API:
            add_group(rig, make_pod_group("gang", 2, priority=0))
            member["spec"] = in_group()
        else:
            group = {"metadata": {"name": "gang", "namespace": "default"}, "spec": {"minMember": 2}}
            rig.engine.objects(PLUGINS_KIND).put(group)
            member["labels"] = {GROUP_LABEL: "gang"}
        for name in ("m0", "m1"):
            rig.engine.assigned.put(on_node(ours(name, **member), "n"))
        rig.pod("high", requests={"cpu": "4"}, priority=10)
        return rig

    async def test_the_status_of_a_gang_says_that_a_part_of_it_was_preempted(self):
        rig = self.rig()
        async with deciding(rig):
            await settle()
        assert len(rig.evictor.evicted) == 1
        text = "1 of the pods of the pod group are preempted, 1 of minCount (2) are left"
        assert rig.groups.lost == [("gang", "PreemptionByScheduler", text)]
        assert rig.groups.written == []

    @pytest.mark.parametrize(
        ("api", "args"),
        [
            pytest.param(WORKLOAD_API, {"eviction": "Whole"}, id="a policy says so"),
            pytest.param(PLUGINS_API, {}, id="by default for scheduling.x-k8s.io"),
        ],
    )
    async def test_a_gang_is_evicted_as_a_whole(self, api, args):
        rig = self.rig(api, **args)
        async with deciding(rig):
            await settle()
        assert sorted(name for name, _, _ in rig.evictor.evicted) == ["m0", "m1"]
        assert [reason for _, reason, _ in rig.groups.written] == ["DisruptionTarget"]
        assert rig.groups.lost == []

    async def test_a_policy_may_have_pods_of_a_labelled_gang_evicted_one_by_one(self):
        rig = self.rig(PLUGINS_API, eviction="AsDeclared")
        async with deciding(rig):
            await settle()
        assert len(rig.evictor.evicted) == 1
        assert [name for name, _, _ in rig.groups.lost] == ["gang"]


class TestGroupsOfKai:
    def rig(self, **spec: Any) -> Rig:
        """A node, filled by a gang of KAI of low priority, and another gang that needs it."""
        rig = Rig()
        rig.evictor.waits = True
        rig.engine.cache.groups.serve(KAI_API)
        rig.node("n0")
        self.group(rig, "low", spec)
        low = lower(0)
        low["metadata"]["annotations"] = {"pod-group-name": "low"}
        rig.engine.assigned.put(low)
        return rig

    def group(self, rig: Rig, name: str, spec: dict[str, Any]) -> None:
        created = datetime.fromtimestamp(rig.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata = {"name": name, "namespace": "default", "creationTimestamp": created}
        rig.engine.objects(KAI_KIND).put({"metadata": metadata, "spec": spec})

    def waits(self, rig: Rig, name: str = "high", **spec: Any) -> None:
        self.group(rig, name, spec)
        rig.pod(name, requests=ALL, priority=10, metadata={"annotations": {"pod-group-name": name}})

    @pytest.mark.parametrize(
        ("preemptibility", "evicted"), [("non-preemptible", []), ("preemptible", ["low0"]), (None, ["low0"])]
    )
    @pytest.mark.parametrize("alone", [False, True], ids=["by a gang", "by a pod"])
    async def test_one_that_is_not_preemptible_is_not_evicted(self, preemptibility, evicted, alone):
        rig = self.rig(preemptibility=preemptibility)
        if alone:
            rig.pod("high", requests=ALL, priority=10)
        else:
            self.waits(rig)
        async with deciding(rig):
            await settle()
            assert [name for name, _, _ in rig.evictor.evicted] == evicted
            assert rig.cluster.bound == []

    async def test_one_with_a_delay_preempts_when_that_has_passed(self):
        rig = self.rig()
        self.waits(rig, preemptionDelay="1m30s")
        async with deciding(rig):
            await settle()
            for seconds in (30, 59):
                rig.now += seconds
                rig.engine.gangs.retry_delayed()
                rig.engine.wake()
                await settle()
                assert rig.evictor.evicted == []
            (note,) = {note for note in rig.recorder.notes("FailedScheduling") if "preemptionDelay" in note}
            assert "as spec.preemptionDelay says" in note
            rig.now += 1
            rig.engine.gangs.retry_delayed()
            rig.engine.wake()
            await settle()
            assert [name for name, _, _ in rig.evictor.evicted] == ["low0"]

    async def test_a_delay_that_cannot_be_read_is_an_error_of_its_group_alone(self):
        rig = self.rig()
        self.waits(rig, "bad", preemptionDelay="soon")
        async with deciding(rig):
            await settle()
            notes = {note for note in rig.recorder.notes("FailedScheduling") if "preemptionDelay" in note}
            assert notes == {"PodGroup default/bad: spec.preemptionDelay: 'soon' is not a duration"}
            self.waits(rig)
            await settle()
            assert [name for name, _, _ in rig.evictor.evicted] == ["low0"]
