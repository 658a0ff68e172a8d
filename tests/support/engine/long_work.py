"""Engines whose attempts take longer than a slice, and a port that lets a test act while a child decides."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.engine.process.forks import CHILD_SECONDS, ChildError, NoChildError, Work
from podwright.engine.process.slice import SLICE_SECONDS
from support.engine.kit import Rig, on_node, ours
from support.objects.builders import in_group, make_pod_group

ALL = {"cpu": "8"}
MEMBERS = 12


class Clock:
    """Each reading takes a part of a slice. It stands still while `runs` is False."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.runs = True
        self.step = SLICE_SECONDS / 3

    def __call__(self) -> float:
        self.now += self.step if self.runs else 0.0
        return self.now

    def take(self, seconds: float) -> None:
        self.now += seconds


class FakeChildren:
    """Computes at once, and hands the messages over after `meanwhile` was called with the number of the child, from 1
    on.

    Meanwhile the `now` of `clock` stands still. `refuse`: there can be no child. `end`: children end before their first
    message, for this reason.
    """

    apart = False

    def __init__(self, meanwhile: Callable[[int], None] = lambda _child: None) -> None:
        self.meanwhile = meanwhile
        self.clock: Any = None
        self.started = 0
        self.seconds: list[float] = []
        self.refuse = ""
        self.end = ""

    def start(self, work: Work, seconds: float = CHILD_SECONDS) -> AsyncGenerator[bytes, None]:
        if self.refuse:
            raise NoChildError(self.refuse)
        self.started += 1
        self.seconds.append(seconds)
        now = getattr(self.clock, "now", None)
        messages = [*work()]
        if self.clock is not None:
            self.clock.now = now
        return self._messages(messages, self.started)

    async def _messages(self, messages: list[bytes], child: int) -> AsyncGenerator[bytes, None]:
        self.meanwhile(child)
        if self.end:
            raise ChildError(self.end)
        for message in messages:
            yield message


def full_nodes(rig: Rig, members: int = MEMBERS) -> None:
    """Nodes that are full of pods of lower priority, and a gang that needs all of them."""
    rig.engine.cache.groups.serve(WORKLOAD_API)
    for i in range(members):
        rig.node(f"n{i}")
        rig.engine.assigned.put(on_node(ours(f"low{i}", requests=ALL, priority=0), f"n{i}"))
    rig.engine.objects(KIND).put(make_pod_group("gang", members, priority=10))
    for i in range(members):
        rig.pod(f"m{i}", requests=ALL, priority=10, spec=in_group())


def a_preemptor(rig: Rig) -> dict[str, Any]:
    """Nodes that are full of pods of lower priority, and a pod that needs one of them."""
    for i in range(MEMBERS):
        rig.node(f"n{i}")
        rig.engine.assigned.put(on_node(ours(f"low{i}", requests=ALL, priority=0), f"n{i}"))
    return rig.pod("high", requests=ALL, priority=10)


def evicted(rig: Rig) -> set[str]:
    return {victim for victim, _, _ in rig.evictor.evicted}
