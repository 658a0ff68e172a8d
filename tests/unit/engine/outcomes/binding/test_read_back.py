"""Bindings that failed or stay unconfirmed: the pod is read back, and the cache and the queue follow what the API
server says.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from podwright.core.framework.cluster_events import ASSIGNED_POD, Action, ClusterEvent, EventHint
from podwright.core.framework.interface import ClusterError, EnqueueExtensions, PermitPlugin, Plugin
from podwright.core.framework.status import Code, Status
from podwright.engine.ports import SCHEDULER_ERROR
from podwright.kube import api_cluster
from support.engine.kit import Rig, Slow, custom_policy, deciding, on_node, ours, settle
from support.waiting import until

SHORT_PAUSES = replace(api_cluster.READ_RETRY, shortest=0.01, longest=0.01)


class TestReadBack:
    """Bind failed, so the API server is asked what became of the Binding."""

    async def test_a_pending_pod_is_forgotten_reported_and_retried_after_its_backoff(self):
        rig = Rig()
        rig.node("a")
        rig.cluster.outcomes = [ClusterError("etcd is away", 500)]
        raw = rig.pod("web")
        rig.cluster.objects["Pod", "web"] = raw
        async with deciding(rig):
            assert not rig.engine.cache.is_assumed("default/web")
            assert rig.placed_on("web") == ""
            ((_, verdict, _),) = rig.status.written
            message = 'running Bind plugin "DefaultBinder": etcd is away'
            assert (verdict.reason, verdict.message) == (SCHEDULER_ERROR, message)
            assert rig.counts == {"backoff": 1}
            rig.now += 5
            rig.engine.wake()
            await settle()
            assert rig.cluster.bound == [("web", "a"), ("web", "a")]

    async def test_a_pod_on_our_node_counts_as_bound(self):
        rig = Rig()
        rig.node("a")
        rig.cluster.outcomes = [ClusterError("timeout")]
        rig.cluster.objects["Pod", "web"] = on_node(rig.pod("web"), "a")
        async with deciding(rig):
            assert rig.recorder.notes("Scheduled") == ["Successfully assigned default/web to a"]
            assert not rig.engine.cache.is_assumed("default/web")
            assert rig.placed_on("web") == "a"
            assert len(rig.engine.queue) == 0

    @pytest.mark.parametrize("confirmed", [False, True], ids=["read back", "the watch shows it first"])
    async def test_a_pod_that_another_scheduler_bound_to_our_node_gets_no_second_event(self, confirmed):
        rig = Rig()
        rig.node("a")
        answer = asyncio.get_running_loop().create_future()
        rig.cluster.outcomes = [answer]
        raw = rig.pod("web")
        rig.cluster.objects["Pod", "web"] = on_node(raw, "a")
        async with deciding(rig):
            if confirmed:
                rig.confirm(raw, "a")
            answer.set_exception(ClusterError("already assigned", 409))
            await settle()
            assert rig.recorder.events == []
            assert rig.placed_on("web") == "a"
            assert len(rig.engine.queue) == len(rig.engine.binding_cycles) == 0

    async def test_a_pod_on_another_node_counts_there(self):
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
            pytest.param(None, id="no pod of this name"),
            pytest.param(ours("web", uid="another"), id="another pod of this name"),
        ],
    )
    async def test_a_pod_that_is_gone_is_forgotten_and_frees_its_room(self, there):
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

    async def test_a_pod_stays_assumed_until_the_api_server_answers(self, monkeypatch):
        monkeypatch.setattr(api_cluster, "READ_RETRY", SHORT_PAUSES)
        rig = Rig()
        rig.node("a")
        rig.cluster.outcomes = [ClusterError("timeout")]
        rig.cluster.unreachable = 3
        rig.cluster.objects["Pod", "web"] = rig.pod("web")
        async with deciding(rig):
            assert rig.engine.cache.is_assumed("default/web")
            await until(lambda: not rig.engine.cache.is_assumed("default/web"))

    @pytest.mark.parametrize(
        "trouble",
        [
            pytest.param(ZeroDivisionError("unexpected"), id="an unexpected exception"),
            pytest.param({"kind": "Status"}, id="an answer that is not a pod"),
        ],
    )
    async def test_reading_back_is_retried_after_any_error(self, monkeypatch, trouble):
        monkeypatch.setattr(api_cluster, "READ_RETRY", SHORT_PAUSES)
        rig = Rig()
        rig.node("a")
        rig.cluster.outcomes = [ClusterError("timeout")]
        answers = [trouble, trouble, rig.pod("web")]

        async def get(*_):
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(rig.cluster, "get", get)
        async with deciding(rig):
            await until(lambda: rig.counts == {"backoff": 1})
            assert rig.placed_on("web") == ""
            assert len(rig.engine.binding_cycles) == 0

    @pytest.mark.parametrize("node", ["a", ""], ids=["bound", "not bound"])
    async def test_a_pod_that_cannot_be_parsed_counts_on_the_node_that_it_names(self, node):
        rig = Rig()
        rig.node("a")
        rig.cluster.outcomes = [ClusterError("timeout")]
        raw = rig.pod("web")
        bad = {**on_node(raw, node), "spec": {**raw["spec"], "nodeName": node, "containers": "none"}}
        rig.cluster.objects["Pod", "web"] = bad
        async with deciding(rig):
            assert rig.placed_on("web") == node
            assert rig.counts == ({} if node else {"backoff": 1})

    @pytest.mark.parametrize(
        ("part", "method"),
        [
            pytest.param("cache", "forget", id="before the cache has forgotten the pod"),
            pytest.param("queue", "fault", id="before the pod is back in the queue"),
            pytest.param("queue", "move", id="after the pod is back in the queue"),
        ],
    )
    async def test_an_exception_while_the_effects_are_carried_out_does_not_lose_the_pod(
        self, monkeypatch, part, method
    ):
        rig = Rig()
        rig.node("a")
        rig.cluster.outcomes = [ClusterError("timeout")]
        rig.cluster.objects["Pod", "web"] = rig.pod("web")
        original = getattr(getattr(rig.engine, part), method)
        faults = [ZeroDivisionError("a bug")]

        def once(*arguments, **options):
            if faults:
                raise faults.pop()
            original(*arguments, **options)

        monkeypatch.setattr(getattr(rig.engine, part), method, once)
        async with deciding(rig):
            assert not faults
            assert rig.counts == {"backoff": 1}
            assert rig.engine.queue.uids() == ["default/web"]
            assert rig.placed_on("web") == ""
            assert len(rig.engine.binding_cycles) == 0

    async def test_pods_that_are_being_read_back_count_against_the_limit(self, monkeypatch):
        monkeypatch.setattr(api_cluster, "READ_RETRY", SHORT_PAUSES)
        rig = Rig(bindings_at_once=2)
        rig.node("a")
        rig.cluster.outcomes = [ClusterError("timeout")] * 2
        rig.cluster.unreachable = 6
        for number in range(5):
            rig.cluster.objects["Pod", f"p{number}"] = rig.pod(f"p{number}")
        async with deciding(rig):
            assert len(rig.cluster.bound) == 2
            await until(lambda: {name for name, _ in rig.cluster.bound} == {f"p{number}" for number in range(5)})

    async def test_a_pod_that_the_watch_confirms_while_it_is_read_back_counts_as_bound(self, monkeypatch):
        monkeypatch.setattr(api_cluster, "READ_RETRY", SHORT_PAUSES)
        rig = Rig()
        rig.node("a")
        rig.cluster.outcomes = [ClusterError("timeout")]
        rig.cluster.unreachable = 1
        raw = rig.pod("web")
        rig.cluster.objects["Pod", "web"] = raw
        async with deciding(rig):
            rig.confirm(raw, "a")
            await until(lambda: rig.recorder.notes("Scheduled"))
            assert rig.recorder.notes("Scheduled") == ["Successfully assigned default/web to a"]
            assert rig.placed_on("web") == "a"

    async def test_a_binding_that_the_watch_does_not_confirm_in_time_is_read_back(self):
        rig = Rig()
        rig.node("a")
        raw = rig.pod("web")
        rig.cluster.objects["Pod", "web"] = on_node(raw, "a")
        async with deciding(rig):
            await rig.engine.binding_executor.read_back_overdue()
            assert rig.engine.cache.is_assumed("default/web")
            rig.now += 60
            await rig.engine.binding_executor.read_back_overdue()
            assert not rig.engine.cache.is_assumed("default/web")
            assert rig.placed_on("web") == "a"
            placed = rig.engine.cache.placement("default/web").pods["default/web"]
            assert placed.raw is None  # only pending pods keep their objects

    async def test_no_binding_is_posted_to_a_node_that_was_deleted_during_pre_bind(self):
        rig = Rig({"Slow": Slow})
        rig.node("a")
        rig.engine.policies.apply(custom_policy("preBind", "Slow"))
        rig.pod("web")
        Slow.gate = asyncio.get_running_loop().create_future()
        async with deciding(rig):
            rig.engine.nodes.drop("a", None)
            Slow.gate.set_result(None)
            await settle()
            assert rig.cluster.bound == []
            assert rig.status.written[-1][1].message == 'node "a" not found'


class LaterPermit(Plugin, PermitPlugin, EnqueueExtensions):
    """Makes pods wait in Permit. The deletion of a pod may help pods that it has rejected."""

    name = "Later"

    def permit(self, _state, _pod, _node_name):
        return Status(Code.WAIT), 30.0

    def hints(self):
        return [EventHint(ClusterEvent(ASSIGNED_POD, Action.DELETE))]


async def test_a_rejected_pod_is_not_retried_because_of_the_room_that_it_frees_itself():
    rig = Rig({"Later": LaterPermit})
    rig.node("a")
    assert rig.engine.policies.apply(custom_policy("permit", "Later")).accepted
    rig.pod("web")
    async with deciding(rig):
        (waiting,) = rig.engine.binding_cycles.waiting()
        waiting.reject("Later", "not today")
        await settle()
        assert rig.counts == {"unschedulable": 1}
        assert rig.placed_on("web") == ""
