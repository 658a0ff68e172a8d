"""Turns: after a slow attempt, pods of other policies go first for as long as that attempt took.

Otherwise a policy with a slow plugin would delay the pods of all others: with a dozen pods of two seconds each, the
next pod in the queue waits for 24 seconds. With turns, it waits for one of them, and the slow policy gets half of the
time. Priorities still decide: a pod never goes before one of higher priority. Costly pods get no turns: they wait in a
lane (core/queue/active_pods.py). A custom QueueSort plugin orders pods by rules of its own, so there are no turns then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podwright.core.queue import QueuedPod
from podwright.core.queue.queued_pod import Place
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.state import EngineState

MOST: Final = 1_000
"""The most pods that get a turn after one slow attempt."""
LOOKS: Final = 10_000
"""The most active pods that are examined after one slow attempt."""


class Turns:
    """See the module."""

    def __init__(self, state: EngineState, policies: ActivePolicies) -> None:
        self._queue = state.queue
        self._clock = state.clock
        self._policies = policies
        self._uids: list[str] = []
        """The pods whose turn it is, the first one last."""
        self._end = 0.0
        self._looked_at = 0
        """How many of the active pods were examined. If there are too many, the next search begins after these."""

    def __len__(self) -> int:
        return len(self._uids)

    def begin(self, policy: ActivePolicy, seconds: float) -> None:
        """Begins turns after a slow attempt of this duration under this policy."""
        others = [
            queued
            for queued in self._next_active()
            if not queued.costly and self._policies.of(queued.pod) is not policy
        ]
        others.sort(key=lambda queued: (-queued.pod.priority, queued.timestamp))
        self._uids = [queued.uid for queued in reversed(others[:MOST])]
        self._end = self._clock() + seconds

    def _next_active(self) -> Sequence[QueuedPod]:
        active = self._queue.active()
        if len(active) <= LOOKS:
            return active
        start = self._looked_at % len(active)
        self._looked_at = start + LOOKS
        return (active[start:] + active[:start])[:LOOKS]

    def pop(self) -> QueuedPod | None:
        """The next pod whose turn it is, popped from the queue; None if the queue's own order applies."""
        while self._uids:
            if self._clock() >= self._end:
                self._uids.clear()
                break
            queued = self._queue.get(self._uids[-1])
            if queued is not None and queued.place is Place.ACTIVE:
                first = self._queue.first_active()
                if first is not None and first.pod.priority > queued.pod.priority:
                    break
                self._uids.pop()
                return self._queue.take(queued.uid)
            self._uids.pop()
        return None
