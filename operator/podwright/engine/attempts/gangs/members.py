"""Chooses the members of a pod group that an attempt takes together, and the time.

A group backs off as one: a new member waits with the others instead of starting an attempt, unless the group was too
small without it. Where members may be scheduled alone (a basic group, or a gang without parts that needs at most one
more), an attempt takes only the members that are due. Invariant: a popped pod is among the members that are taken, or
requeued, or dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podwright.core.framework.cost import is_costly_group
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod_group import PodGroup
from podwright.core.plugins.gang_scheduling import GangScheduling
from podwright.core.queue import QueuedPod
from podwright.core.queue.queued_pod import Place
from podwright.engine.outcomes.failures import Failures
from podwright.engine.process.steps import Steps
from podwright.engine.state import EngineState

GONE: Final = "the pod group is gone"
MOST_IN_LOOP: Final = 200
"""The most members to plan in the loop: more take longer than a slice, also in a small cluster."""


class GangMembers:
    """See the module."""

    def __init__(self, state: EngineState, failures: Failures) -> None:
        self._cache = state.cache
        self._queue = state.queue
        self._clock = state.clock
        self._failures = failures
        self.in_steps: set[str] = set()
        """The keys of groups whose members are taken or rejected in steps: what else is popped of them waits in the
        lane, which is busy meanwhile.
        """

    def waits_in_lane(self, group: PodGroup, first: QueuedPod) -> bool:
        """True if the popped member waits in the lane of costly pods now: because its group is taken or rejected in
        steps, or because so many members wait that each of them goes there by itself.
        """
        if group.key in self.in_steps or (not first.costly and self.are_many(group)):
            self._queue.wait_in_lane(first, ())
            return True
        return False

    def are_many(self, group: PodGroup) -> bool:
        """True if it takes long to take all that wait."""
        return self._cache.groups.members(group.key).unplaced_count > MOST_IN_LOOP

    def take(self, taken: list[QueuedPod], group: PodGroup, first: QueuedPod, framework: Framework) -> Steps[None]:
        """Adds the members to schedule now to `taken`, `first` among them, in the order in which they were added to the
        group; all are in flight.

        None if the group backs off: then `first` backs off with it. Also none if another member is costly, or if the
        members are many or, if they were not tried yet, costly together: then they wait in the lane of costly pods.
        Also requeues `first` if it is no longer a waiting member.
        """
        self.in_steps.add(group.key)
        try:
            yield from self._take(taken, group, first, framework)
        finally:
            self.in_steps.discard(group.key)

    def _take(self, taken: list[QueuedPod], group: PodGroup, first: QueuedPod, framework: Framework) -> Steps[None]:
        now = self._clock()
        needed = self._cache.groups.lacking(group)
        divided = self._cache.groups.members(group.key).levels is not None
        alone = needed <= 1 and not (group.near.binds or first.pod.wish or divided)
        slowest = None
        if not alone and not _was_tried(first):
            slowest = yield from self._slowest_tried(group, first, now)
        due: list[QueuedPod] = []
        if slowest is None:
            due, failed = yield from self._due(group, first, now, alone=alone)
            if len(due) < needed and failed:
                slowest = _longest_backoff(failed)
        if slowest is not None:
            self._queue.back_off_with(first, slowest)
        elif not first.costly and _is_costly(due, framework):
            self._queue.wait_in_lane(first, due)
        else:
            yield from self._take_all(taken, due, first)

    def _slowest_tried(self, group: PodGroup, first: QueuedPod, now: float) -> Steps[QueuedPod | None]:
        """The member with the longest backoff among the members tried before. None if no such member backs off, or if
        they are too few for the group's minimum.
        """
        members = self._cache.groups.members(group.key)
        needed = self._cache.groups.lacking(group)
        backing_off: list[QueuedPod] = []
        for uid in [*members.waiting]:
            yield
            queued = None if uid in members.placed else self._queue.get(uid)
            if queued is None or queued is first or not _was_tried(queued):
                continue
            if queued.place in (Place.BACKOFF, Place.UNSCHEDULABLE) and queued.backing_off(now):
                backing_off.append(queued)
            needed -= 1
            if needed <= 0:
                return _longest_backoff(backing_off)
        return None

    def _due(
        self, group: PodGroup, first: QueuedPod, now: float, *, alone: bool
    ) -> Steps[tuple[list[QueuedPod], list[QueuedPod]]]:
        """The members that can be tried now, and those that back off from an error."""
        early = first.backing_off(now)
        due: list[QueuedPod] = []
        failed: list[QueuedPod] = []
        for pod in self._cache.groups.members(group.key).unplaced():
            yield
            queued = self._queue.get(pod.uid)
            if queued is first:
                due.append(first)
            elif queued is None or queued.place is Place.IN_FLIGHT:
                continue
            elif queued.place is Place.GATED and not queued.rejectors:
                continue  # it was not tried yet; the others may have been released, which is done in steps
            elif queued.place is Place.BACKOFF and queued.errors and queued.backing_off(now):
                failed.append(queued)
            elif not alone or queued.place is Place.ACTIVE or (early and queued.place is Place.BACKOFF):
                due.append(queued)
        return due, failed

    def _take_all(self, taken: list[QueuedPod], due: Sequence[QueuedPod], first: QueuedPod) -> Steps[None]:
        for queued in due:
            yield
            gone = self._queue.get(queued.uid) is not queued
            if gone or (queued is not first and self._queue.take(queued.uid) is None):
                continue
            if queued.pod.terminating:
                self._failures.drop(queued)
            else:
                taken.append(queued)
        if first not in taken and self._queue.get(first.uid) is first:
            self._failures.reject_by(first, GONE, {GangScheduling.name}, 0.0)


def _was_tried(queued: QueuedPod) -> bool:
    """True if an attempt at the pod, or at its group, has failed before."""
    return bool(queued.rejections or queued.errors)


def _is_costly(due: Sequence[QueuedPod], framework: Framework) -> bool:
    """True if these members of a group belong in the lane: because they are many, one of them is costly, or those that
    were not tried yet are costly together.
    """
    if len(due) > MOST_IN_LOOP or any(queued.costly for queued in due):
        return True
    return is_costly_group((queued.pod for queued in due if not _was_tried(queued)), framework.costs)


def _longest_backoff(queued: Sequence[QueuedPod]) -> QueuedPod | None:
    return max(queued, key=lambda pod: pod.backoff_until, default=None)
