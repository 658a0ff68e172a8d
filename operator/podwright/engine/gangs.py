"""Attempts at pod groups: a member that is popped brings all that wait, and they are planned and carried out together.

    popped ─► the others taken ─► core.gangs ─► placed: all take off, or none does
                                           └─► rejected, faulty: all go back to the queue, and the group's status says why

All of it happens between two turns of the loop, so nothing comes between a plan and what becomes of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from podwright.core.gangs.decisions import GangDecision, GangFault, GangPlacement, GangRejection
from podwright.core.gangs.plan import Planner, decide
from podwright.core.objects.pod_group import PodGroup
from podwright.core.plugins.gang_scheduling import GangScheduling
from podwright.core.queue import QueuedPod, SchedulingQueue
from podwright.core.queue.queued_pod import Place
from podwright.core.state.cache import Cache
from podwright.engine.binding import Bindings
from podwright.engine.failures import Failures
from podwright.engine.flights import Flights
from podwright.engine.live import Live, LivePolicies
from podwright.engine.metrics import Metrics
from podwright.engine.ports import SCHEDULER_ERROR, UNSCHEDULABLE, GroupWriter, Verdict
from podwright.engine.preemption import Preemptions

log = logging.getLogger(__name__)

NOT_TOGETHER: Final = "another pod of the pod group could not be placed"
GONE: Final = "the pod group is gone"


class Gangs:
    """See the module."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        live: LivePolicies,
        bindings: Bindings,
        flights: Flights,
        failures: Failures,
        preemptions: Preemptions,
        groups: GroupWriter,
        metrics: Metrics,
        clock: Callable[[], float],
        wall: Callable[[], float],
        below: Callable[[int], int],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._live = live
        self._bindings = bindings
        self._flights = flights
        self._failures = failures
        self._preemptions = preemptions
        self._groups = groups
        self._metrics = metrics
        self._clock = clock
        self._wall = wall
        self._below = below

    def attempt(self, queued: QueuedPod, live: Live, started: float) -> None:
        """One attempt at the popped pod's group. The pod must name one that counts."""
        group = self._cache.groups.of(queued.pod)
        if group is None:
            self._failures.held_back(queued, GONE, {GangScheduling.name}, self._clock() - started)
            return
        self.finish_halves(but=group.key)
        self._try(group, self._muster(group, queued), live, started)

    def finish_halves(self, but: str = "") -> None:
        """Gangs that were broken off half-way, by the end of the process, say, come before others that want their room.

        `but`: the key of a group that is tried next anyway.
        """
        for group in self._cache.groups.halves:
            if group.key == but:
                continue
            waiting = [self._queue.get(pod.uid) for pod in self._cache.groups.members(group.key).unplaced()]
            first = next((queued for queued in waiting if queued is not None and queued.place is Place.ACTIVE), None)
            live = None if first is None else self._live.of(first.pod)
            if first is not None and live is not None and self._queue.take(first.uid) is not None:
                self._try(group, self._muster(group, first), live, self._clock())

    def _try(self, group: PodGroup, members: Sequence[QueuedPod], live: Live, started: float) -> None:
        try:
            self._attempt(group, members, live, started)
        except Exception as error:
            log.exception("an attempt at pod group %s failed", group.label)
            self._give_back(members, f"{type(error).__name__}: {error}", self._clock() - started)

    def _attempt(self, group: PodGroup, members: Sequence[QueuedPod], live: Live, started: float) -> None:
        decision = self._decide(group, members, live)
        seconds = self._clock() - started
        self._metrics.group_algorithm_seconds.observe(seconds)
        if isinstance(decision, GangPlacement):
            result = "scheduled" if self._placed(decision, members, live, started) else "unschedulable"
        elif isinstance(decision, GangRejection):
            self._rejected(decision, members, live, started)
            result = "unschedulable" if decision.preemption is None else "waiting_on_preemption"
        else:
            self._faulty(decision, members, seconds)
            result = "error"
        profile = members[0].pod.scheduler_name if members else ""
        self._metrics.group_attempts(result, profile).observe(self._clock() - started)

    def _give_back(self, members: Sequence[QueuedPod], message: str, seconds: float) -> None:
        """Nobody is lost: members that did not get under way are tried again."""
        for member in members:
            if self._flights.get(member.uid) is not None or member.place is not Place.IN_FLIGHT:
                continue
            if self._cache.is_assumed(member.uid):
                self._cache.forget(member.uid)
            self._failures.faulty(member, message, member.pod.scheduler_name, seconds)

    def _muster(self, group: PodGroup, first: QueuedPod) -> Sequence[QueuedPod]:
        """The members that can be tried now, in the order in which they came; they are in flight.

        Should the first not be among those that wait, it is handed back: nobody is left in flight.
        """
        members: list[QueuedPod] = []
        for pod in self._cache.groups.members(group.key).unplaced():
            queued = first if pod.uid == first.uid else self._queue.take(pod.uid)
            if queued is None:
                continue
            if queued.pod.terminating:
                self._failures.let_go(queued)
            else:
                members.append(queued)
        if first not in members and self._queue.get(first.uid) is first:
            self._failures.held_back(first, GONE, {GangScheduling.name}, 0.0)
        return members

    def _decide(self, group: PodGroup, members: Sequence[QueuedPod], live: Live) -> GangDecision:
        for other in members:
            theirs = self._live.of(other.pod)
            if theirs is not live and theirs is not None and other.pod.scheduler_name == members[0].pod.scheduler_name:
                text = (
                    f"all pods of a pod group must be under one policy, got {live.policy.name} and {theirs.policy.name}"
                )
                return GangFault(group, "", text)
        args = live.policy.profile.args.get(GangScheduling.name)
        pack_by = "" if args is None else args.topology_key
        planner = Planner(live.framework, self._cache, group, self._below, pack_by)
        return decide(planner, [queued.pod for queued in members], self._wall())

    # Ends

    def _placed(self, decision: GangPlacement, members: Sequence[QueuedPod], live: Live, started: float) -> bool:
        """Whether enough members have taken off; else none has."""
        queued = {member.uid: member for member in members}
        for placement in decision.placements:
            self._bindings.take_off(queued[placement.pod.uid], live, placement, started)
        if self._cache.groups.placed(decision.group.key) < decision.group.min_count:
            # A plugin changed its mind between the plan and now. No task has begun, so the others are simply stopped.
            for placement in decision.placements:
                self._flights.cancel(placement.pod.uid, NOT_TOGETHER)
            for rejection in decision.rejections:
                by = rejection.status_plugins | {GangScheduling.name}
                self._failures.held_back(queued[rejection.pod.uid], NOT_TOGETHER, by, self._clock() - started)
            self._groups.not_scheduled(decision.group, Verdict(UNSCHEDULABLE, NOT_TOGETHER))
            return False
        for rejection in decision.rejections:
            member = queued[rejection.pod.uid]
            self._failures.rejected(
                member, rejection, live.framework, member.pod.scheduler_name, self._clock() - started
            )
            # The group is placed; whether others must go for the rest is for another attempt, and that is made at once.
            self._queue.activate(member.uid)
        self._groups.scheduled(decision.group)
        return True

    def _rejected(self, decision: GangRejection, members: Sequence[QueuedPod], live: Live, started: float) -> None:
        nominations = {} if decision.preemption is None else decision.preemption.nominations
        for member in members:
            nominated = nominations.get(member.uid, "")
            self._failures.rejected_in_group(member, decision, nominated, self._clock() - started)
        self._groups.not_scheduled(decision.group, Verdict(UNSCHEDULABLE, decision.message))
        if decision.preemption is not None:
            pods = [member.pod for member in members if self._queue.get(member.uid) is member]
            self._preemptions.carry_out_gang(live.framework, pods, decision.preemption)

    def _faulty(self, decision: GangFault, members: Sequence[QueuedPod], seconds: float) -> None:
        for member in members:
            self._failures.faulty(member, decision.message, member.pod.scheduler_name, seconds)
        self._groups.not_scheduled(decision.group, Verdict(SCHEDULER_ERROR, decision.message))
