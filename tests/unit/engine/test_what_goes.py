"""Pods that go at odd moments leave nothing behind: no promise, no count, and no pod that waits for their room."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod_group import KIND
from podwright.engine import engine
from podwright.engine import memory as tuning
from podwright.kube.runtime import _forever
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.objects.builders import in_group, make_pod_group


async def test_a_promise_ends_with_a_pod_that_was_let_go_before():
    rig = Rig()
    rig.node("a")
    raw = ours("promised", requests={"cpu": "6"}, status={"nominatedNodeName": "a"})
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    rig.engine.pending.put(raw)
    rig.pod("next", requests={"cpu": "6"})
    async with deciding(rig):
        assert not rig.engine.cache.nominator
        assert rig.cluster.bound == [("next", "a")]


async def test_a_promise_to_a_pod_that_the_queue_does_not_know_ends_when_it_goes():
    rig = Rig()
    rig.node("a")
    raw = rig.pod("promised", status={"nominatedNodeName": "a"})
    rig.engine.queue.done("default/promised")
    rig.engine.pending.drop("default/promised", raw)
    assert not rig.engine.cache.nominator


async def test_a_member_that_vanishes_while_it_is_bound_is_not_counted_any_more():
    rig = Rig()
    rig.node("a")
    rig.engine.objects(KIND).put(make_pod_group(min_count=1))
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    rig.cluster.outcomes.append(answer)
    raw = rig.pod("gone", spec=in_group())
    async with deciding(rig):
        rig.engine.pending.drop("default/gone", raw)
        answer.set_exception(ClusterError("not found", 404))
        await settle()
        assert rig.engine.cache.groups.members("scheduling.k8s.io:default/gang").total == 0


async def test_the_room_of_a_pod_that_is_first_seen_finished_is_offered():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "4"})
    raw = rig.pod("short", requests={"cpu": "4"})
    async with deciding(rig):
        rig.pod("waits", requests={"cpu": "4"})
        await settle()
        assert rig.cluster.bound == [("short", "a")]
        rig.now += 20
        rig.engine.assigned.put({**on_node(raw, "a"), "status": {"phase": "Succeeded"}})
        await settle()
        assert rig.cluster.bound[-1] == ("waits", "a")


async def test_work_of_which_a_part_was_cancelled_by_others_goes_on(monkeypatch):
    monkeypatch.setattr("podwright.kube.runtime.RESTART_SECONDS", 0)
    rounds = 0

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        part = asyncio.create_task(asyncio.sleep(60))
        if rounds == 1:
            part.cancel()
        await part

    task = asyncio.create_task(_forever("work", work))
    await settle()
    assert rounds == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


async def test_what_was_found_out_about_nodes_does_not_keep_pods(monkeypatch):
    rig = Rig()
    rig.node("a", allocatable={"cpu": "4"})
    raw = rig.pod("there", requests={"cpu": "4"}, priority=1)
    async with deciding(rig):
        rig.confirm(raw, "a")
        kept = weakref.ref(rig.engine.cache.placement("default/there").pods["default/there"])
        rig.pod("waits", requests={"cpu": "4"}, priority=5)
        await settle()
        rig.engine.assigned.drop("default/there", None)
        await settle()
        gc.collect()
        assert kept() is not None
        rig.engine.policies.forget_findings()
        gc.collect()
        assert kept() is None


def bound_by_others(rig, raw):
    rig.engine.assigned.put(on_node(raw, "a"))


def deleted(rig, raw):
    rig.engine.pending.drop("default/web", raw)


def bound_and_deleted(rig, raw):
    rig.engine.assigned.put(on_node(raw, "a"))
    rig.recorder.forgotten.clear()
    rig.engine.assigned.drop("default/web", raw)


@pytest.mark.parametrize("goes", [bound_by_others, deleted, bound_and_deleted])
def test_events_of_a_pod_are_kept_no_longer_than_they_can_be_repeated(goes):
    rig = Rig()
    rig.node("a")
    raw = rig.pod("web")
    goes(rig, raw)
    assert rig.recorder.forgotten == ["default/web"]


async def test_housekeeping_lets_go_of_findings_lookups_and_free_memory(monkeypatch):
    done = set()
    monkeypatch.setattr(engine, "HOUSEKEEPING_SECONDS", 0)
    monkeypatch.setattr(tuning, "_trim", lambda _kept: done.add("memory"))
    monkeypatch.setattr(tuning, "_forget_lookups", lambda: done.add("lookups"))
    rig = Rig()
    monkeypatch.setattr(rig.engine.policies, "forget_findings", lambda: done.add("findings"))
    async with deciding(rig):
        keeping = asyncio.create_task(rig.engine.run_housekeeping())
        await settle()
        assert done == {"findings", "lookups", "memory"}
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def test_housekeeping_waits_until_nothing_is_to_be_decided(monkeypatch):
    """A pause in the middle of a burst would cost more than it brings."""
    given_back = []
    monkeypatch.setattr(engine, "HOUSEKEEPING_SECONDS", 0)
    monkeypatch.setattr(tuning, "_trim", given_back.append)
    rig = Rig(bindings_at_once=1)
    rig.node("a")
    rig.cluster.outcomes = [asyncio.get_running_loop().create_future()]
    rig.pod("slow")
    rig.pod("next")
    async with deciding(rig):
        keeping = asyncio.create_task(rig.engine.run_housekeeping())
        await settle()
        assert given_back == []
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
