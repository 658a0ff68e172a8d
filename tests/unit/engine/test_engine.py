"""The engine's loop and the binding cycle: every path that a pod can take, and what the cache and the queue say after it."""

from __future__ import annotations

import asyncio
import json

import pytest

from builders import make_node
from engine_kit import OURS, Rig, custom_policy, deciding, on_node, ours, settle
from podwright.core.framework.interface import (
    ClusterError,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
    ScorePlugin,
)
from podwright.core.framework.status import Code, Status, unschedulable
from podwright.engine import binding
from podwright.engine.decisions import ANNOTATION
from podwright.engine.failures import shortened
from podwright.engine.ports import SCHEDULER_ERROR, UNSCHEDULABLE

NO_PLACE = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."


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

    async def test_the_decision_rides_on_the_binding(self):
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
            }

    async def test_pods_before_their_nodes_wait_and_are_bound_when_one_comes(self):
        rig = Rig()
        rig.pod("web")
        async with deciding(rig):
            assert rig.cluster.bound == []
            assert [v.reason for _, v, _ in rig.status.written] == [SCHEDULER_ERROR]
            rig.node("a")
            rig.now += 5
            rig.engine.wake()
            await settle()
            assert rig.cluster.bound == [("web", "a")]

    async def test_what_is_assumed_counts_for_the_next_pod(self):
        rig = Rig()
        rig.node("a", allocatable={"cpu": "3"})
        for name in ("one", "two"):
            rig.pod(name, requests={"cpu": "2"})
        async with deciding(rig):
            assert rig.cluster.bound == [("one", "a")]
            assert rig.counts == {"unschedulable": 1}

    async def test_a_slow_binding_holds_nobody_up(self):
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

    async def test_no_more_bindings_are_posted_at_once_than_allowed(self):
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

    async def test_stopping_finishes_what_is_under_way(self):
        rig = Rig()
        rig.node("a")
        slow = asyncio.get_running_loop().create_future()
        rig.cluster.outcomes = [slow]
        rig.pod("slow")
        async with deciding(rig):
            asyncio.get_running_loop().call_later(0.05, slow.set_result, None)
            await rig.engine.stop(5)
            assert rig.recorder.notes("Scheduled") == ["Successfully assigned default/slow to a"]

    async def test_a_pod_that_is_being_deleted_is_let_go(self):
        rig = Rig()
        rig.node("a")
        rig.pod("web", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        async with deciding(rig):
            assert rig.cluster.bound == []
            assert rig.recorder.events == [("web", "FailedScheduling", "skip schedule deleting pod: default/web")]
            assert len(rig.engine.queue) == 0

    async def test_pods_of_other_schedulers_are_left_alone(self):
        rig = Rig()
        rig.node("a")
        rig.engine.pending.put(ours("web", spec={"schedulerName": "default-scheduler"}))
        async with deciding(rig):
            assert rig.cluster.bound == []


class TestRejection:
    async def test_a_rejected_pod_is_told_once_and_tried_again_when_something_may_help(self):
        rig = Rig()
        rig.node("a", allocatable={"cpu": "2"})
        blocker = on_node(ours("blocker", requests={"cpu": "2"}), "a")
        rig.engine.assigned.put(blocker)
        raw = rig.pod("web", requests={"cpu": "1"})
        async with deciding(rig):
            assert [(n, v.reason, v.message) for n, v, _ in rig.status.written] == [("web", UNSCHEDULABLE, NO_PLACE)]
            assert rig.recorder.events == [("web", "FailedScheduling", NO_PLACE)]
            assert rig.counts == {"unschedulable": 1}
            rig.engine.assigned.drop("default/blocker", blocker)
            await settle()
            assert rig.cluster.bound == [("web", "a")]
            rig.confirm(raw, "a")
            assert "default/web" in rig.status.forgotten

    async def test_an_unrelated_heartbeat_wakes_nobody(self):
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


class TestFailedBindings:
    """The API server's word counts: a Binding that failed is read back, and nothing is guessed."""

    async def test_not_bound_it_is_taken_back_told_and_tried_again_after_its_backoff(self):
        rig = Rig()
        rig.node("a")
        rig.cluster.outcomes = [ClusterError("etcd is away", 500)]
        raw = rig.pod("web")
        rig.cluster.objects["Pod", "web"] = raw
        async with deciding(rig):
            assert not rig.engine.cache.is_assumed("default/web")
            assert rig.placed_on("web") == ""
            ((_, verdict, _),) = rig.status.written
            assert (verdict.reason, verdict.message) == (SCHEDULER_ERROR, "etcd is away")
            assert rig.counts == {"backoff": 1}
            rig.now += 5
            rig.engine.wake()
            await settle()
            assert rig.cluster.bound == [("web", "a"), ("web", "a")]

    async def test_bound_after_all_it_counts_as_bound(self):
        rig = Rig()
        rig.node("a")
        rig.cluster.outcomes = [ClusterError("timeout")]
        rig.cluster.objects["Pod", "web"] = on_node(rig.pod("web"), "a")
        async with deciding(rig):
            assert rig.recorder.notes("Scheduled") == ["Successfully assigned default/web to a"]
            assert not rig.engine.cache.is_assumed("default/web")
            assert rig.placed_on("web") == "a"
            assert len(rig.engine.queue) == 0

    async def test_bound_elsewhere_it_counts_there(self):
        rig = Rig()
        rig.node("a", allocatable={"cpu": "8"})
        rig.node("b", allocatable={"cpu": "1"})
        rig.cluster.outcomes = [ClusterError("already assigned", 409)]
        rig.cluster.objects["Pod", "web"] = on_node(rig.pod("web", requests={"cpu": "2"}), "b")
        async with deciding(rig):
            assert rig.placed_on("web") == "b"
            assert rig.recorder.events == []
            assert len(rig.engine.queue) == 0

    @pytest.mark.parametrize(
        "there",
        [
            pytest.param(None, id="no pod of the name"),
            pytest.param(ours("web", uid="another"), id="another pod of the name"),
        ],
    )
    async def test_gone_it_is_forgotten_and_its_room_is_free(self, there):
        rig = Rig()
        rig.node("a", allocatable={"cpu": "2"})
        rig.cluster.outcomes = [ClusterError("not found", 404)]
        rig.pod("web", requests={"cpu": "2"})
        rig.cluster.objects["Pod", "web"] = there
        rig.pod("next", requests={"cpu": "2"})
        async with deciding(rig):
            assert rig.cluster.bound == [("web", "a"), ("next", "a")]
            assert rig.placed_on("web") == ""
            assert rig.recorder.notes("Scheduled") == ["Successfully assigned default/next to a"]

    async def test_without_an_answer_it_stays_assumed(self, monkeypatch):
        monkeypatch.setattr(binding, "READ_BACK_SECONDS", (0.01, 0.01))
        rig = Rig()
        rig.node("a")
        rig.cluster.outcomes = [ClusterError("timeout")]
        rig.cluster.unreachable = 3
        rig.cluster.objects["Pod", "web"] = rig.pod("web")
        async with deciding(rig):
            assert rig.engine.cache.is_assumed("default/web")
            await asyncio.sleep(0.2)
            assert not rig.engine.cache.is_assumed("default/web")

    async def test_while_there_are_no_answers_only_so_many_pods_are_tried(self, monkeypatch):
        monkeypatch.setattr(binding, "READ_BACK_SECONDS", (0.01, 0.01))
        rig = Rig(bindings_at_once=2)
        rig.node("a")
        rig.cluster.outcomes = [ClusterError("timeout")] * 2
        rig.cluster.unreachable = 6
        for number in range(5):
            rig.cluster.objects["Pod", f"p{number}"] = rig.pod(f"p{number}")
        async with deciding(rig):
            assert len(rig.cluster.bound) == 2
            await asyncio.sleep(0.2)
            assert {name for name, _ in rig.cluster.bound} == {f"p{number}" for number in range(5)}

    async def test_confirmed_by_the_watch_while_it_is_read_back_it_counts_as_bound(self, monkeypatch):
        monkeypatch.setattr(binding, "READ_BACK_SECONDS", (0.01, 0.01))
        rig = Rig()
        rig.node("a")
        rig.cluster.outcomes = [ClusterError("timeout")]
        rig.cluster.unreachable = 1
        raw = rig.pod("web")
        rig.cluster.objects["Pod", "web"] = raw
        async with deciding(rig):
            rig.confirm(raw, "a")
            await asyncio.sleep(0.1)
            assert rig.recorder.notes("Scheduled") == ["Successfully assigned default/web to a"]
            assert rig.placed_on("web") == "a"

    async def test_a_binding_that_the_watch_never_confirms_is_read_back(self):
        rig = Rig()
        rig.node("a")
        raw = rig.pod("web")
        rig.cluster.objects["Pod", "web"] = on_node(raw, "a")
        async with deciding(rig):
            await rig.engine._bindings.confirm_late()
            assert rig.engine.cache.is_assumed("default/web")
            rig.now += 60
            await rig.engine._bindings.confirm_late()
            assert not rig.engine.cache.is_assumed("default/web")
            assert rig.placed_on("web") == "a"

    async def test_a_node_that_vanished_gets_no_binding(self):
        rig = Rig({"Slow": Slow})
        rig.node("a")
        rig.engine.live.apply(custom_policy("preBind", "Slow"))
        rig.pod("web")
        Slow.gate = asyncio.get_running_loop().create_future()
        async with deciding(rig):
            rig.engine.nodes.drop("a", None)
            Slow.gate.set_result(None)
            await settle()
            assert rig.cluster.bound == []
            assert rig.status.written[-1][1].message == 'node "a" not found'


class Slow(Plugin, PreBindPlugin):
    """PreBind that waits for a gate."""

    name = "Slow"
    gate: asyncio.Future

    async def pre_bind(self, _state, _pod, _node_name):
        return await self.gate


class Waiter(Plugin, PermitPlugin):
    name = "Waiter"

    def permit(self, _state, _pod, _node_name):
        return Status(Code.WAIT), 30.0


class Reserver(Plugin, ReservePlugin):
    """Notes what it is asked, and answers as it is told."""

    name = "Reserver"
    answer: Status | Exception | None = None
    calls: list[tuple[str, str]]

    def reserve(self, _state, pod, _node_name):
        self.calls.append(("reserve", pod.name))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def unreserve(self, _state, pod, _node_name):
        self.calls.append(("unreserve", pod.name))


class Refuser(Plugin, PreBindPlugin, PermitPlugin):
    """PreBind or Permit that rejects, unless its enabling leaves the point out."""

    name = "Refuser"

    def permit(self, _state, _pod, _node_name):
        return unschedulable("not now"), 0.0

    async def pre_bind(self, _state, _pod, _node_name):
        return unschedulable("no volume")


class Broken(Plugin, ScorePlugin, PostBindPlugin):
    name = "Broken"

    def score(self, _state, _pod, _node):
        raise ZeroDivisionError("a bug")

    async def post_bind(self, _state, _pod, _node_name):
        raise ZeroDivisionError("a bug")


class TestPlugins:
    async def test_a_pod_waits_in_permit_until_it_is_allowed(self):
        rig = Rig({"Waiter": Waiter})
        rig.node("a")
        rig.engine.live.apply(custom_policy("permit", "Waiter"))
        rig.pod("web")
        rig.pod("other")
        async with deciding(rig):
            assert rig.cluster.bound == []
            assert rig.engine.cache.is_assumed("default/web")
            assert ("web", None, "a") in rig.status.written
            handle = rig.engine.live.of(rig.engine.flights.get("default/web").queued.pod).framework.handle
            assert {(waiting.pod.name, waiting.node_name) for waiting in handle.waiting_pods()} == {
                ("web", "a"),
                ("other", "a"),
            }
            for waiting in handle.waiting_pods():
                (waiting.allow if waiting.pod.name == "web" else lambda _plugin: None)("Waiter")
            await settle()
            assert rig.cluster.bound == [("web", "a")]
            assert [waiting.pod.name for waiting in handle.waiting_pods()] == ["other"]

    async def test_a_pod_that_is_deleted_while_it_waits_frees_its_room(self):
        rig = Rig({"Waiter": Waiter})
        rig.node("a", allocatable={"cpu": "2"})
        rig.engine.live.apply(custom_policy("permit", "Waiter"))
        raw = rig.pod("web", requests={"cpu": "2"})
        async with deciding(rig):
            rig.engine.pending.drop("default/web", raw)
            await settle()
            assert rig.placed_on("web") == ""
            assert len(rig.engine.queue) == 0
            assert rig.recorder.events == []

    @pytest.mark.parametrize("begun", [True, False], ids=["during PreBind", "before its task has begun"])
    async def test_a_pod_that_is_deleted_before_its_binding_is_posted_is_not_bound(self, begun):
        rig = Rig({"Slow": Slow})
        Slow.gate = asyncio.get_running_loop().create_future()
        rig.node("a")
        rig.engine.live.apply(custom_policy("preBind", "Slow"))
        async with deciding(rig):
            raw = rig.pod("web", requests={"cpu": "2"})
            if begun:
                await settle()
            else:
                rig.engine._attempt(rig.engine.queue.pop())
            rig.engine.pending.drop("default/web", raw)
            await settle()
            assert rig.placed_on("web") == ""
            assert len(rig.engine.flights) == len(rig.engine.queue) == 0
            assert rig.cluster.bound == []
            assert rig.engine._bindings._flying == 0

    async def test_a_pod_whose_binding_is_posted_is_not_taken_for_deleted(self):
        rig = Rig()
        rig.node("a")
        slow = asyncio.get_running_loop().create_future()
        rig.cluster.outcomes = [slow]
        raw = rig.pod("web")
        async with deciding(rig):
            rig.engine.pending.drop("default/web", raw)
            await settle()
            assert rig.engine.cache.is_assumed("default/web")
            slow.set_result(None)
            await settle()
            assert rig.recorder.notes("Scheduled") == ["Successfully assigned default/web to a"]

    async def test_a_preempted_pod_that_waits_is_cancelled_in_memory(self):
        rig = Rig({"Waiter": Waiter})
        rig.node("a", allocatable={"cpu": "2"})
        rig.engine.live.apply(custom_policy("permit", "Waiter"))
        rig.pod("low", requests={"cpu": "2"}, priority=0)
        async with deciding(rig):
            rig.pod("high", requests={"cpu": "2"}, priority=10)
            await settle()
            assert rig.evictor.evicted == []
            assert rig.placed_on("low") == ""
            assert rig.placed_on("high") == "a"
            assert rig.recorder.notes("Preempted") == [
                "Preempted by pod default/high on node a (in kube-scheduler memory)."
            ]

    @pytest.mark.parametrize("point", ["permit", "preBind"])
    async def test_a_rejection_after_the_decision_takes_everything_back(self, point):
        Reserver.calls, Reserver.answer = [], None
        rig = Rig({"Reserver": Reserver, "Refuser": Refuser})
        rig.node("a")
        policy = custom_policy(point, "Refuser")
        policy["spec"]["plugins"]["reserve"] = {"enabled": [{"name": "Reserver"}]}
        assert rig.engine.live.apply(policy).accepted
        rig.pod("web")
        async with deciding(rig):
            assert Reserver.calls == [("reserve", "web"), ("unreserve", "web")]
            assert rig.placed_on("web") == ""
            assert rig.cluster.bound == []
            (message,) = rig.recorder.notes("FailedScheduling")
            reason = "not now" if point == "permit" else "no volume"
            assert message == f"0/1 nodes are available: 1 {reason}."
            nominated = [node for _, _, node in rig.status.written if node is not None]
            assert nominated == ([] if point == "permit" else ["a", ""])

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            pytest.param(unschedulable("taken"), UNSCHEDULABLE, id="a rejection"),
            pytest.param(Status(Code.ERROR, ("broken",)), SCHEDULER_ERROR, id="an error"),
            pytest.param(ZeroDivisionError("a bug"), SCHEDULER_ERROR, id="an exception"),
        ],
    )
    async def test_a_failing_reserve_is_undone(self, answer, reason):
        Reserver.calls, Reserver.answer = [], answer
        rig = Rig({"Reserver": Reserver})
        rig.node("a")
        rig.engine.live.apply(custom_policy("reserve", "Reserver"))
        rig.pod("web")
        async with deciding(rig):
            assert ("unreserve", "web") in Reserver.calls
            assert rig.placed_on("web") == ""
            assert rig.status.written[0][1].reason == reason

    async def test_a_faulty_plugin_fails_the_attempt_and_nothing_else(self):
        rig = Rig({"Broken": Broken})
        rig.node("a")
        rig.node("b")
        policy = custom_policy("score", "Broken")
        policy["spec"]["match"] = {"podSelector": {"matchLabels": {"broken": "yes"}}}
        rig.engine.live.apply(policy)
        rig.pod("hurt", labels={"broken": "yes"})
        rig.pod("fine")
        async with deciding(rig):
            assert [name for name, _ in rig.cluster.bound] == ["fine"]
            ((name, verdict, _),) = rig.status.written
            assert (name, verdict.reason) == ("hurt", SCHEDULER_ERROR)
            assert "running score plugin 'Broken'" in verdict.message

    async def test_a_failing_post_bind_leaves_the_pod_bound(self):
        rig = Rig({"Broken": Broken})
        rig.node("a")
        rig.engine.live.apply(custom_policy("postBind", "Broken"))
        rig.pod("web")
        async with deciding(rig):
            assert rig.recorder.notes("Scheduled") == ["Successfully assigned default/web to a"]


class TestPolicies:
    async def test_a_policy_that_changes_gives_rejected_pods_another_chance(self):
        rig = Rig()
        rig.node("a", allocatable={"cpu": "1"})
        rig.pod("web", requests={"cpu": "2"})
        async with deciding(rig):
            before = len(rig.recorder.events)
            rig.engine.live.apply(
                {"metadata": {"name": "p", "generation": 1}, "spec": {"strategy": {"type": "Random"}}}
            )
            rig.engine.policies_changed()
            rig.now += 5
            rig.engine.wake()
            await settle()
            assert len(rig.recorder.events) > before

    async def test_pods_of_a_name_that_is_no_longer_served_are_let_go(self):
        rig = Rig()
        policy = {"metadata": {"name": "p", "generation": 1}, "spec": {"schedulerName": "other", "strategy": {}}}
        assert rig.engine.live.apply(policy).accepted
        rig.pod("web", spec={"schedulerName": "other"})
        rig.engine.live.remove("p")
        rig.node("a")
        async with deciding(rig):
            assert rig.cluster.bound == []
            assert len(rig.engine.queue) == 0

    async def test_a_bad_policy_changes_nothing(self):
        rig = Rig()
        bad = rig.engine.live.apply(custom_policy("score", "NoSuchPlugin"))
        assert not bad.accepted
        rig.node("a")
        rig.pod("web")
        async with deciding(rig):
            assert rig.cluster.bound == [("web", "a")]


def test_metrics_agree_with_the_queue():
    rig = Rig()
    rig.pod("web")
    rig.pod("held", spec={"schedulingGates": [{"name": "later"}]})
    value = rig.engine.metrics.registry.get_sample_value
    assert value("scheduler_pending_pods", {"queue": "active"}) == 1
    assert value("scheduler_pending_pods", {"queue": "gated"}) == 1
    assert value("scheduler_queue_incoming_pods_total", {"queue": "active", "event": "UnscheduledPodAdd"}) == 1


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param("short", "short", id="short enough"),
        pytest.param("x" * 1024, "x" * 1024, id="as long as may be"),
        pytest.param("x" * 1025, "x" * 1020 + " ...", id="too long"),
        pytest.param("é" * 600, "é" * 510 + " ...", id="characters of several bytes are not cut in two"),
    ],
)
def test_an_events_note_is_cut_at_1024_bytes(message, expected):
    assert shortened(message) == expected
    assert len(shortened(message).encode()) <= 1024


def test_the_name_that_is_served_by_default():
    assert Rig().engine.live.serves(OURS)
    assert not Rig().engine.live.serves("default-scheduler")
