"""Resized pods: a lower request makes room for other pods, even if another request of the pod rises."""

from __future__ import annotations

from support.engine.kit import Rig, deciding, on_node, ours, settle


async def advance(rig: Rig) -> None:
    await settle()
    rig.now += 3
    rig.engine.wake()
    await settle()


async def test_a_placed_pod_resized_to_less_cpu_and_more_memory_makes_room():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "4", "memory": "8Gi"})
    rig.engine.assigned.put(on_node(ours("big", requests={"cpu": "4", "memory": "1Gi"}), "a"))
    rig.pod("waiting", requests={"cpu": "2"})
    async with deciding(rig):
        assert rig.counts == {"unschedulable": 1}
        rig.engine.assigned.put(on_node(ours("big", requests={"cpu": "1", "memory": "2Gi"}), "a"))
        await advance(rig)
        assert rig.placed_on("waiting") == "a"


async def test_a_waiting_pod_resized_to_less_cpu_and_more_memory_is_retried():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "4", "memory": "8Gi"})
    rig.pod("waiting", requests={"cpu": "6", "memory": "1Gi"})
    async with deciding(rig):
        assert rig.counts == {"unschedulable": 1}
        rig.pod("waiting", requests={"cpu": "2", "memory": "2Gi"})
        await advance(rig)
        assert rig.placed_on("waiting") == "a"
