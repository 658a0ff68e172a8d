"""The engine's loop: placements, rejections and policies, with their effects on cache and queue."""

from __future__ import annotations

import asyncio
import json

from podwright.engine.ports import UNSCHEDULABLE
from podwright.engine.records.decision_annotation import ANNOTATION
from support.engine.kit import OURS, Rig, custom_policy, deciding, on_node, ours, settle
from support.objects.builders import make_node

NO_NODE = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."


class TestPlacement:
    async def test_a_pod_is_assumed_bound_and_confirmed_by_the_watch(self):
        rig = Rig()
        rig.node("a")
        raw = rig.pod("web", requests={"cpu": "2"})
        async with deciding(rig):
            assert rig.cluster.bound == [("web", "a")]
            assert rig.engine.cache.is_assumed("default/web")
            assert rig.recorder.events == [("web", "Scheduled", "Successfully assigned default/web to a")]
            rig.confirm(raw, "a")
            assert not rig.engine.cache.is_assumed("default/web")
            assert rig.placed_on("web") == "a"
            assert len(rig.engine.queue) == 0

    async def test_the_binding_carries_the_decision_as_an_annotation(self):
        rig = Rig()
        rig.node("a")
        rig.node("full", allocatable={"cpu": "1"})
        rig.node("b")
        rig.pod("web", requests={"cpu": "2"})
        async with deciding(rig):
            (annotations,) = rig.cluster.annotations
            decision = json.loads(annotations[ANNOTATION])
            assert decision.pop("score") == decision["runnerUp"].pop("score")
            assert {decision["node"], decision["runnerUp"]["node"]} == {"a", "b"}
            del decision["node"], decision["runnerUp"]
            assert decision == {
                "policy": "built-in-default",
                "generation": 0,
                "nodes": 3,
                "feasible": 2,
                "rejected": {"NodeResourcesFit": 1},
                "uid": "default/web",
                "instance": "podwright",
            }

    async def test_the_decision_has_no_score_if_only_one_node_is_feasible(self):
        rig = Rig()
        rig.node("a")
        rig.node("full", allocatable={"cpu": "1"})
        rig.pod("web", requests={"cpu": "2"})
        async with deciding(rig):
            (annotations,) = rig.cluster.annotations
            assert json.loads(annotations[ANNOTATION]) == {
                "policy": "built-in-default",
                "generation": 0,
                "node": "a",
                "nodes": 2,
                "feasible": 1,
                "rejected": {"NodeResourcesFit": 1},
                "uid": "default/web",
                "instance": "podwright",
            }

    async def test_pods_wait_for_a_first_node_and_are_then_bound(self):
        rig = Rig()
        rig.pod("web")
        async with deciding(rig):
            assert rig.cluster.bound == []
            assert [v.reason for _, v, _ in rig.status.written] == ["Unschedulable"]
            rig.node("a")
            rig.now += 5
            rig.engine.wake()
            await settle()
            assert rig.cluster.bound == [("web", "a")]

    async def test_assumed_pods_count_in_the_next_decision(self):
        rig = Rig()
        rig.node("a", allocatable={"cpu": "3"})
        for name in ("one", "two"):
            rig.pod(name, requests={"cpu": "2"})
        async with deciding(rig):
            assert rig.cluster.bound == [("one", "a")]
            assert rig.counts == {"unschedulable": 1}

    async def test_a_slow_binding_does_not_delay_other_pods(self):
        rig = Rig()
        rig.node("a")
        slow = asyncio.get_running_loop().create_future()
        rig.cluster.outcomes = [slow]
        for name in ("slow", "two", "three"):
            rig.pod(name)
        async with deciding(rig):
            assert [name for name, _ in rig.cluster.bound] == ["slow", "two", "three"]
            assert [name for name, *_ in rig.recorder.events] == ["two", "three"]
            slow.set_result(None)
            await settle()
            assert [name for name, *_ in rig.recorder.events] == ["two", "three", "slow"]

    async def test_bindings_in_progress_stay_within_the_limit(self):
        rig = Rig(bindings_at_once=2)
        rig.node("a")
        answers = [asyncio.get_running_loop().create_future() for _ in range(3)]
        rig.cluster.outcomes = list(answers)
        for number in range(3):
            rig.pod(f"p{number}")
        async with deciding(rig):
            assert len(rig.cluster.bound) == 2
            answers[1].set_result(None)
            await settle()
            assert len(rig.cluster.bound) == 3
            for answer in answers:
                if not answer.done():
                    answer.set_result(None)
            await settle()

    async def test_stop_waits_for_bindings_in_progress(self):
        rig = Rig()
        rig.node("a")
        slow = asyncio.get_running_loop().create_future()
        rig.cluster.outcomes = [slow]
        rig.pod("slow")
        async with deciding(rig):
            asyncio.get_running_loop().call_later(0.05, slow.set_result, None)
            await rig.engine.stop(5)
            assert rig.recorder.notes("Scheduled") == ["Successfully assigned default/slow to a"]

    async def test_a_terminating_pod_is_skipped(self):
        rig = Rig()
        rig.node("a")
        rig.pod("web", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        async with deciding(rig):
            assert rig.cluster.bound == []
            assert rig.recorder.events == [("web", "FailedScheduling", "skip schedule deleting pod: default/web")]
            assert len(rig.engine.queue) == 0

    async def test_pods_of_other_schedulers_are_ignored(self):
        rig = Rig()
        rig.node("a")
        rig.engine.pending.put(ours("web", spec={"schedulerName": "default-scheduler"}))
        async with deciding(rig):
            assert rig.cluster.bound == []


class TestRejection:
    async def test_a_rejection_is_reported_once_and_retried_on_a_helpful_event(self):
        rig = Rig()
        rig.node("a", allocatable={"cpu": "2"})
        blocker = on_node(ours("blocker", requests={"cpu": "2"}), "a")
        rig.engine.assigned.put(blocker)
        raw = rig.pod("web", requests={"cpu": "1"})
        async with deciding(rig):
            assert [(n, v.reason, v.message) for n, v, _ in rig.status.written] == [("web", UNSCHEDULABLE, NO_NODE)]
            assert rig.recorder.events == [("web", "FailedScheduling", NO_NODE)]
            assert rig.counts == {"unschedulable": 1}
            rig.engine.assigned.drop("default/blocker", blocker)
            await settle()
            assert rig.cluster.bound == [("web", "a")]
            rig.confirm(raw, "a")
            assert "default/web" in rig.status.forgotten

    async def test_a_heartbeat_retries_no_pod(self):
        rig = Rig()
        rig.node("a", allocatable={"cpu": "1"})
        rig.pod("web", requests={"cpu": "2"})
        async with deciding(rig):
            before = len(rig.recorder.events)
            heartbeat = make_node("a", allocatable={"cpu": "1"})
            heartbeat["status"]["conditions"] = [{"type": "Ready", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]
            rig.engine.nodes.put(heartbeat)
            await settle()
            assert len(rig.recorder.events) == before
            assert rig.counts == {"unschedulable": 1}

    async def test_preemption_nominates_and_evicts(self):
        rig = Rig()
        rig.node("a", allocatable={"cpu": "2"})
        rig.engine.assigned.put(on_node(ours("low", requests={"cpu": "2"}, priority=0), "a"))
        rig.pod("high", requests={"cpu": "2"}, priority=10)
        async with deciding(rig):
            assert rig.evictor.evicted == [("low", "high", "a")]
            assert rig.status.written[-1][2] == "a"
            assert rig.engine.cache.nominator.node_of("default/high") == "a"
            rig.engine.assigned.drop("default/low", None)
            await settle()
            assert rig.cluster.bound == [("high", "a")]
            assert rig.engine.cache.nominator.node_of("default/high") == ""


class TestPolicies:
    async def test_rejected_pods_are_retried_when_a_policy_changes(self):
        rig = Rig()
        rig.node("a", allocatable={"cpu": "1"})
        rig.pod("web", requests={"cpu": "2"})
        async with deciding(rig):
            before = len(rig.recorder.events)
            rig.engine.policies.apply(
                {"metadata": {"name": "p", "generation": 1}, "spec": {"strategy": {"type": "Random"}}}
            )
            rig.engine.activate_all()
            rig.now += 5
            rig.engine.wake()
            await settle()
            assert len(rig.recorder.events) > before

    async def test_pods_are_dropped_when_their_scheduler_name_is_no_longer_served(self):
        rig = Rig()
        policy = {"metadata": {"name": "p", "generation": 1}, "spec": {"schedulerName": "other", "strategy": {}}}
        assert rig.engine.policies.apply(policy).accepted
        rig.pod("web", spec={"schedulerName": "other"})
        rig.engine.policies.remove("p")
        rig.node("a")
        async with deciding(rig):
            assert rig.cluster.bound == []
            assert len(rig.engine.queue) == 0

    async def test_an_invalid_policy_with_an_invalid_match_changes_nothing(self):
        rig = Rig()
        raw = custom_policy("score", "NoSuchPlugin")
        raw["spec"]["match"] = {"podSelector": {"matchLabels": {"-": "x"}}}
        bad = rig.engine.policies.apply(raw)
        assert not bad.accepted
        rig.node("a")
        rig.pod("web")
        async with deciding(rig):
            assert rig.cluster.bound == [("web", "a")]


def test_metrics_agree_with_the_queue():
    rig = Rig()
    rig.pod("web")
    rig.pod("held", spec={"schedulingGates": [{"name": "later"}]})
    value = rig.ports.metrics.registry.get_sample_value
    assert value("scheduler_pending_pods", {"queue": "active"}) == 1
    assert value("scheduler_pending_pods", {"queue": "gated"}) == 1
    assert value("scheduler_queue_incoming_pods_total", {"queue": "active", "event": "UnscheduledPodAdd"}) == 1


def test_the_scheduler_name_that_is_served_by_default():
    assert Rig().engine.policies.serves(OURS)
    assert not Rig().engine.policies.serves("default-scheduler")
