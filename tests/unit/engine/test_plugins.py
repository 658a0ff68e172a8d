"""Plugins from Reserve to PostBind: their verdicts, and their faults."""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.framework.interface import (
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
    ScorePlugin,
)
from podwright.core.framework.status import Code, Status, unschedulable
from podwright.engine.ports import SCHEDULER_ERROR, UNSCHEDULABLE
from support.engine.kit import Rig, Slow, custom_policy, deciding, ours, settle


class Waiter(Plugin, PermitPlugin):
    name = "Waiter"

    def permit(self, _state, _pod, _node_name):
        return Status(Code.WAIT), 30.0


class Reserver(Plugin, ReservePlugin):
    """Records its calls, and returns or raises `answer`."""

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


class Rejecter(Plugin, PreBindPlugin, PermitPlugin):
    """Rejects pods in Permit and PreBind, whichever point the policy enables."""

    name = "Rejecter"

    def permit(self, _state, _pod, _node_name):
        return unschedulable("not now"), 0.0

    async def pre_bind(self, _state, _pod, _node_name):
        return unschedulable("no volume")


class Undoer(Plugin, ReservePlugin, PreBindPlugin):
    """Rejects the first PreBind. What Unreserve wants to be done takes until `gate` is set."""

    name = "Undoer"
    gate: asyncio.Event
    calls: list[str]

    def reserve(self, _state, _pod, _node_name):
        return None

    def unreserve(self, state, _pod, _node_name):
        state.follow_ups.append(self.undo)

    async def pre_bind(self, _state, _pod, _node_name):
        self.calls.append("preBind")
        return unschedulable("no") if self.calls == ["preBind"] else None

    async def undo(self):
        await self.gate.wait()
        self.calls.append("undone")


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
        rig.engine.policies.apply(custom_policy("permit", "Waiter"))
        rig.pod("web")
        rig.pod("other")
        async with deciding(rig):
            assert rig.cluster.bound == []
            assert rig.engine.cache.is_assumed("default/web")
            assert ("web", None, "a") in rig.status.written
            handle = rig.engine.policies.of(rig.engine.binding_cycles.get("default/web").queued.pod).framework.handle
            assert {(waiting.pod.name, waiting.node_name) for waiting in handle.waiting_pods()} == {
                ("web", "a"),
                ("other", "a"),
            }
            for waiting in handle.waiting_pods():
                (waiting.allow if waiting.pod.name == "web" else lambda _plugin: None)("Waiter")
            await settle()
            assert rig.cluster.bound == [("web", "a")]
            assert [waiting.pod.name for waiting in handle.waiting_pods()] == ["other"]

    async def test_a_pod_deleted_while_it_waits_in_permit_frees_its_resources(self):
        rig = Rig({"Waiter": Waiter})
        rig.node("a", allocatable={"cpu": "2"})
        rig.engine.policies.apply(custom_policy("permit", "Waiter"))
        raw = rig.pod("web", requests={"cpu": "2"})
        async with deciding(rig):
            rig.engine.pending.drop("default/web", raw)
            await settle()
            assert rig.placed_on("web") == ""
            assert len(rig.engine.queue) == 0
            assert rig.recorder.events == []

    async def test_a_pod_that_is_removed_and_added_at_once_is_retried(self):
        rig = Rig({"Waiter": Waiter})
        rig.node("a")
        rig.engine.policies.apply(custom_policy("permit", "Waiter"))
        raw = rig.pod("web")
        async with deciding(rig):
            before = rig.engine.binding_cycles.get("default/web")
            rig.engine.pending.drop("default/web", raw)
            rig.engine.pending.put(raw)
            await settle()
            assert rig.engine.binding_cycles.get("default/web") not in (None, before)
            assert rig.engine.pending.knows("default/web")

    async def test_a_pod_that_is_removed_added_and_removed_is_dropped(self):
        rig = Rig({"Waiter": Waiter})
        rig.node("a")
        rig.engine.policies.apply(custom_policy("permit", "Waiter"))
        raw = rig.pod("web")
        async with deciding(rig):
            rig.engine.pending.drop("default/web", raw)
            rig.engine.pending.put(raw)
            rig.engine.pending.drop("default/web", raw)
            await settle()
            assert len(rig.engine.binding_cycles) == len(rig.engine.queue) == 0
            assert rig.placed_on("web") == ""

    async def test_without_the_feature_gate_a_waiting_pod_is_not_nominated(self):
        rig = Rig({"Waiter": Waiter}, gates={"NominatedNodeNameForExpectation": False})
        rig.node("a")
        rig.engine.policies.apply(custom_policy("permit", "Waiter"))
        rig.pod("web")
        async with deciding(rig):
            assert rig.engine.cache.is_assumed("default/web")
            assert rig.status.written == []

    async def test_no_events_are_recorded_for_a_pod_in_pre_bind_and_a_failure_is_retried_after_backoff(self):
        rig = Rig({"Slow": Slow})
        Slow.gate = asyncio.get_running_loop().create_future()
        rig.node("a")
        rig.engine.policies.apply(custom_policy("preBind", "Slow"))
        rig.pod("web")
        async with deciding(rig):
            rig.node("b")
            assert rig.engine.queue.in_flight_events() == {}
            Slow.gate.set_exception(ZeroDivisionError("a bug"))
            await settle()
            assert rig.counts == {"backoff": 1}

    async def test_pre_bind_begins_when_what_the_last_attempt_has_done_is_undone(self):
        Undoer.calls, Undoer.gate = [], asyncio.Event()
        rig = Rig({"Undoer": Undoer})
        rig.node("a")
        policy = custom_policy("preBind", "Undoer")
        policy["spec"]["plugins"]["reserve"] = {"enabled": [{"name": "Undoer"}]}
        rig.engine.policies.apply(policy)
        rig.pod("web")
        async with deciding(rig):
            assert Undoer.calls == ["preBind"]
            rig.engine.queue.activate("default/web")
            rig.engine.wake()
            await settle()
            assert rig.placed_on("web") == "a"
            assert Undoer.calls == ["preBind"]
            Undoer.gate.set()
            await settle()
            assert Undoer.calls == ["preBind", "undone", "preBind"]
            assert rig.cluster.bound == [("web", "a")]

    @pytest.mark.parametrize("started", [True, False], ids=["during PreBind", "before its task has started"])
    async def test_a_pod_deleted_before_its_binding_is_posted_is_not_bound(self, started):
        rig = Rig({"Slow": Slow})
        Slow.gate = asyncio.get_running_loop().create_future()
        rig.node("a")
        rig.engine.policies.apply(custom_policy("preBind", "Slow"))
        async with deciding(rig):
            raw = rig.pod("web", requests={"cpu": "2"})
            if started:
                await settle()
            else:
                rig.engine.pod_attempts.schedule_one(rig.engine.queue.pop())
            rig.engine.pending.drop("default/web", raw)
            await settle()
            assert rig.placed_on("web") == ""
            assert len(rig.engine.binding_cycles) == len(rig.engine.queue) == 0
            assert rig.cluster.bound == []
            assert len(rig.engine.binding_executor.limiter) == 0

    async def test_a_pod_removed_after_its_binding_was_posted_counts_as_bound(self):
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

    @pytest.mark.parametrize(
        ("point", "message"),
        [
            pytest.param("permit", "waiting on permit for pod: preempted", id="in Permit"),
            pytest.param("preBind", "preempted by DefaultPreemption", id="in PreBind"),
        ],
    )
    async def test_the_binding_cycle_of_a_preempted_pod_is_stopped(self, point, message):
        Slow.gate = asyncio.get_running_loop().create_future()
        rig = Rig({"Waiter": Waiter, "Slow": Slow})
        rig.node("a", allocatable={"cpu": "2"})
        rig.engine.policies.apply(custom_policy(point, "Waiter" if point == "permit" else "Slow"))
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
            (verdict,) = [v for name, v, _ in rig.status.written if v is not None and name == "low"]
            assert (verdict.reason, verdict.message) == (SCHEDULER_ERROR, message)

    @pytest.mark.parametrize(
        ("answer", "message", "counts"),
        [
            pytest.param(
                Status(Code.PENDING, ("wait for it",)),
                "0/1 nodes are available: 1 wait for it.",
                {"unschedulable": 1},
                id="Pending",
            ),
            pytest.param(
                unschedulable("full", "full", "dirty"),
                "0/1 nodes are available: 1 dirty, 2 full.",
                {"unschedulable": 1},
                id="a reason given twice",
            ),
            pytest.param(
                Status(Code.ERROR, ("broken",)),
                'running Reserve plugin "Reserver": broken',
                {"backoff": 1},
                id="an error",
            ),
        ],
    )
    async def test_the_event_gives_the_reasons_of_a_rejection_by_reserve(self, answer, message, counts):
        Reserver.calls, Reserver.answer = [], answer
        rig = Rig({"Reserver": Reserver})
        rig.node("a")
        rig.engine.policies.apply(custom_policy("reserve", "Reserver"))
        rig.pod("web")
        async with deciding(rig):
            assert rig.recorder.notes("FailedScheduling") == [message]
            assert rig.counts == counts
            queued = rig.engine.queue.get("default/web")
            assert queued.pending_plugins == ({"Reserver"} if answer.code is Code.PENDING else frozenset())

    async def test_a_rejection_by_reserve_retries_no_other_pod(self):
        """Otherwise a plugin that rejects every pod would retry all waiting pods forever."""
        Reserver.calls, Reserver.answer = [], unschedulable("no")
        rig = Rig({"Reserver": Reserver})
        rig.node("a", allocatable={"cpu": "2"})
        rig.pod("big", requests={"cpu": "4"}, priority=5)
        async with deciding(rig):
            rig.engine.policies.apply(custom_policy("reserve", "Reserver"))
            rig.pod("web")
            await settle()
            assert ("reserve", "web") in Reserver.calls
            assert rig.counts == {"unschedulable": 2}
            assert rig.engine.queue.get("default/big").attempts == 1

    @pytest.mark.parametrize("point", ["permit", "preBind"])
    async def test_a_rejection_by_permit_or_pre_bind_unreserves_and_forgets_the_pod(self, point):
        Reserver.calls, Reserver.answer = [], None
        rig = Rig({"Reserver": Reserver, "Rejecter": Rejecter})
        rig.node("a")
        policy = custom_policy(point, "Rejecter")
        policy["spec"]["plugins"]["reserve"] = {"enabled": [{"name": "Reserver"}]}
        assert rig.engine.policies.apply(policy).accepted
        rig.pod("web")
        async with deciding(rig):
            assert Reserver.calls == [("reserve", "web"), ("unreserve", "web")]
            assert rig.placed_on("web") == ""
            assert rig.cluster.bound == []
            (message,) = rig.recorder.notes("FailedScheduling")
            assert message == ("0/1 nodes are available: 1 not now." if point == "permit" else "no volume")
            (verdict,) = [verdict for _, verdict, _ in rig.status.written if verdict is not None]
            assert (verdict.reason, verdict.message) == (UNSCHEDULABLE, message)
            assert rig.counts == ({"unschedulable": 1} if point == "permit" else {"backoff": 1})
            nominated = [node for _, _, node in rig.status.written if node is not None]
            assert nominated == ([""] if point == "permit" else ["a", ""])

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            pytest.param(unschedulable("taken"), UNSCHEDULABLE, id="a rejection"),
            pytest.param(Status(Code.ERROR, ("broken",)), SCHEDULER_ERROR, id="an error"),
            pytest.param(ZeroDivisionError("a bug"), SCHEDULER_ERROR, id="an exception"),
        ],
    )
    async def test_a_pod_is_unreserved_when_reserve_fails(self, answer, reason):
        Reserver.calls, Reserver.answer = [], answer
        rig = Rig({"Reserver": Reserver})
        rig.node("a")
        rig.engine.policies.apply(custom_policy("reserve", "Reserver"))
        rig.pod("web")
        async with deciding(rig):
            assert ("unreserve", "web") in Reserver.calls
            assert rig.placed_on("web") == ""
            assert rig.status.written[0][1].reason == reason
            assert rig.status.written[0][2] == ""

    @pytest.mark.parametrize("point", ["score", "reserve", "permit", "preBind"])
    async def test_any_failure_clears_the_nomination(self, point):
        Reserver.calls, Reserver.answer = [], unschedulable("taken")
        rig = Rig({"Broken": Broken, "Rejecter": Rejecter, "Reserver": Reserver})
        rig.node("a")
        rig.node("b")
        rig.engine.policies.apply(
            custom_policy(point, {"score": "Broken", "reserve": "Reserver"}.get(point, "Rejecter"))
        )
        rig.engine.pending.put(ours("web", status={"nominatedNodeName": "away"}))
        assert rig.engine.cache.nominator.node_of("default/web") == "away"
        async with deciding(rig):
            assert [node for _, verdict, node in rig.status.written if verdict is not None] == [""]
            assert rig.engine.cache.nominator.node_of("default/web") in ("", None)

    async def test_a_faulty_plugin_fails_only_the_attempt(self):
        rig = Rig({"Broken": Broken})
        rig.node("a")
        rig.node("b")
        policy = custom_policy("score", "Broken")
        policy["spec"]["match"] = {"podSelector": {"matchLabels": {"broken": "yes"}}}
        rig.engine.policies.apply(policy)
        rig.pod("hurt", labels={"broken": "yes"})
        rig.pod("fine")
        async with deciding(rig):
            assert [name for name, _ in rig.cluster.bound] == ["fine"]
            ((name, verdict, _),) = rig.status.written
            assert (name, verdict.reason) == ("hurt", SCHEDULER_ERROR)
            assert 'running Score plugins: plugin "Broken" failed with' in verdict.message

    async def test_a_failing_post_bind_leaves_the_pod_bound(self):
        rig = Rig({"Broken": Broken})
        rig.node("a")
        rig.engine.policies.apply(custom_policy("postBind", "Broken"))
        rig.pod("web")
        async with deciding(rig):
            assert rig.recorder.notes("Scheduled") == ["Successfully assigned default/web to a"]
