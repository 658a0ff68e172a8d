"""Engines whose attempts pause, and what happens meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.engine.pauses.slices import SLICE_SECONDS
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.objects.builders import in_group, make_pod_group

ALL = {"cpu": "8"}
MEMBERS = 12


class Clock:
    """Each reading takes a part of a slice. It stands still while `runs` is False."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.runs = True

    def __call__(self) -> float:
        self.now += SLICE_SECONDS / 3 if self.runs else 0.0
        return self.now

    def take(self, seconds: float) -> None:
        self.now += seconds


def full_nodes(rig: Rig) -> None:
    """Nodes that are full of pods of lower priority, and a gang that needs all of them."""
    rig.engine.cache.groups.serve(WORKLOAD_API)
    for i in range(MEMBERS):
        rig.node(f"n{i}")
        rig.engine.assigned.put(on_node(ours(f"low{i}", requests=ALL, priority=0), f"n{i}"))
    rig.engine.objects(KIND).put(make_pod_group("gang", MEMBERS, priority=10))
    for i in range(MEMBERS):
        rig.pod(f"m{i}", requests=ALL, priority=10, spec=in_group())


def a_preemptor(rig: Rig) -> dict[str, Any]:
    """Nodes that are full of pods of lower priority, and a pod that needs one of them."""
    for i in range(MEMBERS):
        rig.node(f"n{i}")
        rig.engine.assigned.put(on_node(ours(f"low{i}", requests=ALL, priority=0), f"n{i}"))
    return rig.pod("high", requests=ALL, priority=10)


def evicted(rig: Rig) -> set[str]:
    return {victim for victim, _, _ in rig.evictor.evicted}


class Others:
    """Another task, which calls `act` with the number of the turn as long as the attempt is undecided."""

    def __init__(self, rig: Rig, act: Any = None) -> None:
        self.turns = 0
        self.evicted_meanwhile = 0
        self._rig = rig
        self._act = act

    async def run(self) -> None:
        while not self._rig.recorder.notes("FailedScheduling") and not self._rig.cluster.bound and self.turns < 500:
            self.turns += 1
            if self._act is not None:
                self._act(self.turns)
            await asyncio.sleep(0)
        self.evicted_meanwhile = len(self._rig.evictor.evicted)
        self._rig.clock.runs = False


async def decided(rig: Rig, act: Any = None) -> Others:
    others = Others(rig, act)
    task = asyncio.create_task(others.run())
    async with deciding(rig):
        await task
        await settle()
    return others
