"""Batches: pods of a policy with packing Optimal are gathered for a moment, and decided together in a child process.

popped ─► `gather` ─► the lane ─► popped again ─► `take`: those that were gathered with it
    ─► core.gangs.packing ─► each decision is checked and carried out (see `pod_attempts`)

A pod that is alone in the end (`take_alone`) is decided as any other pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from podwright.core.objects.compaction import compact_regularly
from podwright.core.queue import QueuedPod
from podwright.core.queue.queued_pod import Place
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.process.steps import Steps, beside
from podwright.engine.state import EngineState

MOST_PODS: Final = 1_000
"""How many pods are decided together at most."""


class Batches:
    """See the module."""

    def __init__(self, state: EngineState, *, wake: Callable[[], None]) -> None:
        self._queue = state.queue
        self._clock = state.sources.clock
        self._wake = wake
        self._gathered: dict[str, dict[str, None]] = {}
        """By name of policies: the uids of pods in flight that wait for others."""
        self._due: dict[str, dict[str, None]] = {}
        """By name of policies: the uids of pods that wait in the lane."""
        self._moving: dict[str, list[str]] = {}
        """By name of policies: the uids of pods in flight on the way to the lane, the next one last."""
        compact_regularly(self)

    def compact(self) -> None:
        """Forgets pods that are gone, or were decided under another policy."""
        left = {name: {uid: None for uid in due if self._waiting(uid)} for name, due in self._due.items()}
        self._due = {name: due for name, due in left.items() if due}

    def _waiting(self, uid: str) -> QueuedPod | None:
        queued = self._queue.get(uid)
        return queued if queued is not None and queued.place is Place.ACTIVE else None

    def gather(self, queued: QueuedPod, policy: ActivePolicy) -> None:
        """The popped pod waits for others."""
        name = policy.compiled.name
        if name not in self._gathered:
            self._gathered[name] = {}
            seconds = policy.compiled.spec.packing_times.batch_seconds
            asyncio.get_running_loop().call_later(seconds, self._end, name)
        self._gathered[name][queued.uid] = None

    def _end(self, name: str) -> None:
        self._moving[name] = [*reversed(self._gathered.pop(name)), *self._moving.get(name, ())]
        beside(self._move(name), self._clock)

    def _move(self, name: str) -> Steps[None]:
        """Puts the gathered pods into the lane."""
        while uids := self._moving.get(name):
            queued = self._queue.get(uids.pop())
            if queued is not None and queued.place is Place.IN_FLIGHT:
                self._queue.wait_in_lane(queued, ())
                self._due.setdefault(name, {})[queued.uid] = None
            yield
        self._moving.pop(name, None)
        self._wake()

    def take_alone(self, queued: QueuedPod, policy: ActivePolicy) -> bool:
        """True if no others are to be decided with a pod that was popped from the lane."""
        name = policy.compiled.name
        if name in self._moving or not self._due.get(name, {}).keys() <= {queued.uid}:
            return False
        self._due.pop(name, None)
        return True

    def take(self, taken: list[QueuedPod], policy: ActivePolicy) -> Steps[None]:
        """Adds the pods of the lane to decide with the popped one in `taken`; all are in flight."""
        name = policy.compiled.name
        yield from self._move(name)
        for uid in list(self._due.get(name, ())):
            if len(taken) == MOST_PODS:
                break
            self._due.get(name, {}).pop(uid, None)
            queued = self._waiting(uid)
            if queued is not None and self._queue.take(uid) is not None:
                taken.append(queued)
            yield
