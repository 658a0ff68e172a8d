"""Pods removed at unusual moments leave nothing behind: no nomination, no member count, no pod waiting for their
room.
"""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod_group import KIND
from podwright.engine import engine
from podwright.engine.process import memory
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.objects.builders import in_group, make_pod_group


async def test_a_terminating_pod_loses_its_nomination_when_it_is_dropped():
    rig = Rig()
    rig.node("a")
    raw = ours("nominated", requests={"cpu": "6"}, status={"nominatedNodeName": "a"})
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    rig.engine.pending.put(raw)
    rig.pod("next", requests={"cpu": "6"})
    async with deciding(rig):
        assert not rig.engine.cache.nominator
        assert rig.cluster.bound == [("next", "a")]


async def test_a_deleted_pod_loses_its_nomination_even_when_the_queue_does_not_know_it():
    rig = Rig()
    rig.node("a")
    raw = rig.pod("nominated", status={"nominatedNodeName": "a"})
    rig.engine.queue.done("default/nominated")
    rig.engine.pending.drop("default/nominated", raw)
    assert not rig.engine.cache.nominator


async def test_a_member_deleted_during_its_binding_no_longer_counts():
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


async def test_a_waiting_pod_gets_the_room_of_a_pod_that_the_watch_first_shows_finished():
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


async def test_cached_verdicts_do_not_keep_removed_pods_in_memory(monkeypatch):
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
        rig.engine.policies.clear_cached_verdicts()
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


@pytest.mark.parametrize("remove", [bound_by_others, deleted, bound_and_deleted])
def test_the_series_of_events_of_a_pod_ends_when_it_leaves_the_pending_pods(remove):
    rig = Rig()
    rig.node("a")
    raw = rig.pod("web")
    remove(rig, raw)
    assert rig.recorder.forgotten == ["default/web"]


async def test_housekeeping_drops_cached_verdicts_lookup_caches_and_free_memory(monkeypatch):
    done = set()
    monkeypatch.setattr(engine, "HOUSEKEEPING_SECONDS", 0)
    monkeypatch.setattr(memory, "malloc_trim", lambda _kept: done.add("memory"))
    monkeypatch.setattr(memory, "clear_lookup_caches", lambda: done.add("lookups"))
    rig = Rig()
    monkeypatch.setattr(rig.engine.policies, "clear_cached_verdicts", lambda: done.add("verdicts"))
    async with deciding(rig):
        housekeeping = asyncio.create_task(rig.engine.run_housekeeping())
        async with asyncio.timeout(60):
            while done != {"verdicts", "lookups", "memory"}:
                await asyncio.sleep(0)
        housekeeping.cancel()
        await asyncio.gather(housekeeping, return_exceptions=True)


async def test_housekeeping_reclaims_memory_only_when_the_loop_is_idle(monkeypatch):
    """A pause in the middle of a burst costs more than it saves."""
    trimmed = []
    monkeypatch.setattr(engine, "HOUSEKEEPING_SECONDS", 0)
    monkeypatch.setattr(memory, "malloc_trim", trimmed.append)
    rig = Rig(bindings_at_once=1)
    rig.node("a")
    rig.cluster.outcomes = [asyncio.get_running_loop().create_future()]
    rig.pod("slow")
    rig.pod("next")
    async with deciding(rig):
        housekeeping = asyncio.create_task(rig.engine.run_housekeeping())
        await settle()
        assert trimmed == []
        housekeeping.cancel()
        await asyncio.gather(housekeeping, return_exceptions=True)
