"""A pod changes while its binding cycle is in progress."""

from __future__ import annotations

import asyncio

from podwright.core.framework.interface import ClusterError
from support.engine.kit import Rig, deciding, ours, settle


async def test_a_pod_that_changed_during_a_failed_binding_is_retried_with_the_change():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "1"})
    answer = asyncio.get_running_loop().create_future()
    rig.cluster.outcomes = [answer]
    rig.pod("web", requests={"cpu": "1"})
    async with deciding(rig):
        assert rig.placed_on("web") == "a"
        grown = ours("web", requests={"cpu": "2"})
        rig.engine.pending.put(grown)
        rig.cluster.objects["Pod", "web"] = grown
        answer.set_result(ClusterError("try again", 409))
        await settle()
        rig.now += 3
        rig.engine.wake()
        await settle()
        assert rig.counts == {"unschedulable": 1}
        assert rig.cluster.bound == [("web", "a")]


async def test_a_pod_whose_deletion_begins_before_its_binding_is_posted_is_not_bound():
    rig = Rig()
    rig.node("a")
    raw = rig.pod("web")
    rig.engine.pod_attempts.schedule_one(rig.engine.queue.pop())
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    rig.engine.pending.put(raw)
    async with deciding(rig):
        assert rig.placed_on("web") == ""
        rig.now += 3
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == []
        assert rig.counts == {}
        assert rig.recorder.notes("FailedScheduling")[-1] == "skip schedule deleting pod: default/web"
        assert rig.placed_on("web") == ""


async def test_a_late_event_of_the_pending_watch_does_not_requeue_a_bound_pod():
    rig = Rig()
    rig.node("a")
    raw = rig.pod("web")
    async with deciding(rig):
        rig.confirm(raw, "a")
        rig.engine.pending.put(raw)
        await settle()
        assert rig.counts == {}
        assert rig.cluster.bound == [("web", "a")]
