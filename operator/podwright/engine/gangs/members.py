"""Which members of a pod group are tried together, and when it is their turn.

A group backs off as one: a newcomer waits with the others rather than pulling them out, unless the group was too small without
it. Where members may go alone (a basic group, a gang that lacks no more than one), only those whose turn it is are tried.
Invariant: a pod that was popped is in what `muster` returns, or back in the queue, or let go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podwright.core.objects.pod_group import PodGroup
from podwright.core.plugins.gang_scheduling import GangScheduling
from podwright.core.queue import QueuedPod
from podwright.core.queue.queued_pod import Place
from podwright.engine.failures import Failures
from podwright.engine.state import EngineState

GONE: Final = "the pod group is gone"


class GangMembers:
    """See the module."""

    def __init__(self, state: EngineState, failures: Failures) -> None:
        self._cache = state.cache
        self._queue = state.queue
        self._clock = state.clock
        self._failures = failures

    def muster(self, group: PodGroup, first: QueuedPod) -> Sequence[QueuedPod]:
        """The members that are tried now, in the order in which they came, `first` among them; they are in flight.

        Nobody, if the group backs off: then the first waits with the others. Should the first not be among those that wait,
        it is handed back.
        """
        now = self._clock()
        lacking = group.min_count - self._cache.groups.placed(group.key)
        alone = lacking <= 1 and not group.topology_key
        fellow = None if alone or _was_tried(first) else self._resting(group, first, now)
        due: list[QueuedPod] = []
        if fellow is None:
            due, faulty = self._due(group, first, now, alone=alone)
            if len(due) < lacking and faulty:
                fellow = _longest(faulty)
        if fellow is not None:
            self._queue.back_off_with(first, fellow)
            return ()
        return self._taken(due, first)

    def _resting(self, group: PodGroup, first: QueuedPod, now: float) -> QueuedPod | None:
        """Of the members that were tried, one that backs off the longest; None if they do not, or are too few."""
        members = self._cache.groups.members(group.key)
        lacking = group.min_count - len(members.placed)
        resting: list[QueuedPod] = []
        for uid in members.waiting:
            queued = None if uid in members.placed else self._queue.get(uid)
            if queued is None or queued is first or not _was_tried(queued):
                continue
            if queued.place in (Place.BACKOFF, Place.UNSCHEDULABLE) and queued.backing_off(now):
                resting.append(queued)
            lacking -= 1
            if lacking <= 0:
                return _longest(resting)
        return None

    def _due(
        self, group: PodGroup, first: QueuedPod, now: float, *, alone: bool
    ) -> tuple[list[QueuedPod], list[QueuedPod]]:
        """Who can be tried now, and who cannot because the last attempt at it was an error."""
        early = first.backing_off(now)
        due: list[QueuedPod] = []
        faulty: list[QueuedPod] = []
        for pod in self._cache.groups.members(group.key).unplaced():
            queued = self._queue.get(pod.uid)
            if queued is first:
                due.append(first)
            elif queued is None or queued.place in (Place.IN_FLIGHT, Place.GATED):
                continue
            elif queued.place is Place.BACKOFF and queued.errors and queued.backing_off(now):
                faulty.append(queued)
            elif not alone or queued.place is Place.ACTIVE or (early and queued.place is Place.BACKOFF):
                due.append(queued)
        return due, faulty

    def _taken(self, due: Sequence[QueuedPod], first: QueuedPod) -> Sequence[QueuedPod]:
        members: list[QueuedPod] = []
        for queued in due:
            if queued is not first and self._queue.take(queued.uid) is None:
                continue
            if queued.pod.terminating:
                self._failures.drop(queued)
            else:
                members.append(queued)
        if first not in members and self._queue.get(first.uid) is first:
            self._failures.reject_by(first, GONE, {GangScheduling.name}, 0.0)
        return members


def _was_tried(queued: QueuedPod) -> bool:
    """An attempt at it, or at its group, has failed before."""
    return bool(queued.rejections or queued.errors)


def _longest(queued: Sequence[QueuedPod]) -> QueuedPod | None:
    return max(queued, key=lambda pod: pod.backoff_until, default=None)
