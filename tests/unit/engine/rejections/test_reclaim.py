"""A queue takes room back: victims are evicted within their budgets, and the room is held for the claimant."""

from __future__ import annotations

from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from support.engine.kit import Rig, deciding, on_node, ours, settle

ONE = {"cpu": "1"}


def rig_with_queues() -> Rig:
    """A node of two CPUs that two pods of queue b fill. Queue a wants one."""
    rig = Rig()
    rig.evictor.waits = True
    rig.node("n", allocatable={"cpu": "2"})
    queues = queues_of(rig.engine.cache)
    for name in "ab":
        queues.set(QueueRules(name, quotas={"cpu": Quota()}))
    for name in ("b1", "b2"):
        running = ours(name, requests=ONE, priority=100, labels={QUEUE_LABEL: "b"})
        rig.engine.assigned.put(on_node(running, "n"))
    return rig


def put(rig: Rig, name: str, queue: str, priority: int) -> None:
    raw = rig.pod(name, requests=ONE, priority=priority, labels={QUEUE_LABEL: queue})
    queued = rig.engine.queue.get(raw["metadata"]["uid"])
    assert queued is not None
    queues_of(rig.engine.cache).add_waiting(queued.pod)


async def test_the_victim_is_evicted_within_its_budget_and_its_successor_leaves_the_room():
    rig = rig_with_queues()
    put(rig, "a1", "a", 0)
    async with deciding(rig):
        (victim,) = rig.evictor.answers
        assert rig.evictor.within_budgets == {victim}
        put(rig, "successor", "b", 100)
        await settle()
        rig.evictor.answers[victim](True)
        rig.engine.assigned.drop(f"default/{victim}", None)
        await settle()
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == [("a1", "n")]
    assert len(rig.evictor.evicted) == 1


async def test_a_refused_eviction_is_tried_again_after_a_while():
    rig = rig_with_queues()
    put(rig, "a1", "a", 0)
    async with deciding(rig):
        (victim,) = rig.evictor.answers
        rig.evictor.answers[victim](False)
        await settle()
        assert rig.counts == {"backoff": 1}
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert len(rig.evictor.evicted) == 2


async def test_other_preemptors_evict_as_before():
    rig = rig_with_queues()
    rig.pod("plain", requests=ONE, priority=1000)
    async with deciding(rig):
        assert len(rig.evictor.evicted) == 1
    assert rig.evictor.within_budgets == set()
