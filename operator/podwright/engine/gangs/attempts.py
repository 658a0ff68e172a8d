"""Attempts at pod groups: a member that is popped brings others that wait, and they are planned and carried out together.

    popped ─► musters ─► core.gangs ─► placed: all take off, or none does
                                └─► rejected, faulty: all go back to the queue, and the group's status says why

All of it happens between two turns of the loop, so nothing comes between a plan and what becomes of it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from podwright.core.gangs.decisions import GangDecision, GangFault, GangPlacement, GangRejection
from podwright.core.gangs.plan import Planner, decide
from podwright.core.objects.pod_group import PodGroup
from podwright.core.plugins.gang_scheduling import GangScheduling
from podwright.core.queue import QueuedPod
from podwright.core.queue.queued_pod import Place
from podwright.engine.active_policies import ActivePolicies, ActivePolicy
from podwright.engine.binding.executor import BindingExecutor
from podwright.engine.failures import Failures
from podwright.engine.gangs.members import GONE, GangMembers
from podwright.engine.intake.foreign_pods import ForeignPods
from podwright.engine.ports import SCHEDULER_ERROR, UNSCHEDULABLE, Ports, Verdict
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)

NOT_TOGETHER: Final = "another pod of the pod group could not be placed"


class Gangs:
    """See the module."""

    def __init__(
        self,
        state: EngineState,
        ports: Ports,
        policies: ActivePolicies,
        *,
        binding_executor: BindingExecutor,
        failures: Failures,
        foreign_pods: ForeignPods,
    ) -> None:
        self._cache = state.cache
        self._queue = state.queue
        self._binding_cycles = state.binding_cycles
        self._sources = state.sources
        self._clock = state.clock
        self._groups = ports.groups
        self._metrics = ports.metrics
        self._policies = policies
        self._binding_executor = binding_executor
        self._failures = failures
        self._foreign_pods = foreign_pods
        self._gang_members = GangMembers(state, failures)

    def attempt(self, queued: QueuedPod, live: ActivePolicy, started: float) -> None:
        """One attempt at the popped pod's group. The pod must name one that counts."""
        group = self._cache.groups.of(queued.pod)
        if group is None:
            self._failures.reject_by(queued, GONE, {GangScheduling.name}, self._clock() - started)
            return
        self._finish_halves(group, queued)
        self._try(group, queued, live, started)

    def halves_first(self) -> None:
        """Gangs that were broken off half-way, by the end of the process, say, come before others of their importance."""
        for group in self._cache.groups.partially_placed:
            for queued in self._active(group):
                self._queue.move_to_front(queued)

    def _finish_halves(self, but: PodGroup, popped: QueuedPod) -> None:
        """Halves that are no less important than the popped pod of another group come before it: they want its room."""
        key = self._policies.sort_key(popped.pod, 0.0)
        for group in self._cache.groups.partially_placed:
            first = None if group is but else next(iter(self._active(group)), None)
            if first is None or key < self._policies.sort_key(first.pod, 0.0):
                continue
            live = self._policies.of(first.pod)
            if live is not None and self._queue.take(first.uid) is not None:
                self._try(group, first, live, self._clock())

    def _active(self, group: PodGroup) -> Sequence[QueuedPod]:
        """The group's members whose turn it is, in the order in which they came."""
        waiting = (self._queue.get(pod.uid) for pod in self._cache.groups.members(group.key).unplaced())
        return [queued for queued in waiting if queued is not None and queued.place is Place.ACTIVE]

    def _try(self, group: PodGroup, first: QueuedPod, live: ActivePolicy, started: float) -> None:
        members = self._gang_members.muster(group, first)
        if not members:
            return
        try:
            self._attempt(group, members, live, started)
        except Exception as error:
            log.exception("an attempt at pod group %s failed", group.label)
            self._give_back(members, f"{type(error).__name__}: {error}", self._clock() - started)

    def _attempt(self, group: PodGroup, members: Sequence[QueuedPod], live: ActivePolicy, started: float) -> None:
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
        profile = members[0].pod.scheduler_name
        self._metrics.group_attempts(result, profile).observe(self._clock() - started)

    def _give_back(self, members: Sequence[QueuedPod], message: str, seconds: float) -> None:
        """Nobody is lost: members that did not get under way are tried again."""
        for member in members:
            if self._binding_cycles.has(member.uid) or member.place is not Place.IN_FLIGHT:
                continue
            if self._cache.is_assumed(member.uid):
                self._cache.forget(member.uid)
            self._failures.fail(member, message, member.pod.scheduler_name, seconds)

    def _decide(self, group: PodGroup, members: Sequence[QueuedPod], live: ActivePolicy) -> GangDecision:
        if problem := self._foreign_pods.problem(group.key, members[0].pod.scheduler_name):
            return GangFault(group, "", problem)
        for other in members:
            theirs = self._policies.of(other.pod)
            if theirs is not live and theirs is not None and other.pod.scheduler_name == members[0].pod.scheduler_name:
                text = (
                    f"all pods of a pod group must be under one policy, got {live.policy.name} and {theirs.policy.name}"
                )
                return GangFault(group, "", text)
        args = live.policy.profile.args.get(GangScheduling.name)
        pack_by = "" if args is None else args.topology_key
        planner = Planner(live.framework, self._cache, group, self._sources.below, pack_by)
        return decide(planner, [queued.pod for queued in members], self._sources.wall())

    # Ends

    def _placed(
        self, decision: GangPlacement, members: Sequence[QueuedPod], live: ActivePolicy, started: float
    ) -> bool:
        """Whether enough members have taken off; else none has."""
        queued = {member.uid: member for member in members}
        for placement in decision.placements:
            self._binding_executor.start(queued[placement.pod.uid], live, placement, started)
        if self._cache.groups.placed(decision.group.key) < decision.group.min_count:
            # A plugin changed its mind between the plan and now. No task has begun, so the others are simply stopped.
            for placement in decision.placements:
                self._binding_cycles.cancel(placement.pod.uid, NOT_TOGETHER)
            for rejection in decision.rejections:
                by = rejection.status_plugins | {GangScheduling.name}
                self._failures.reject_by(queued[rejection.pod.uid], NOT_TOGETHER, by, self._clock() - started)
            self._groups.not_scheduled(decision.group, Verdict(UNSCHEDULABLE, NOT_TOGETHER))
            return False
        for rejection in decision.rejections:
            member = queued[rejection.pod.uid]
            self._failures.reject(member, rejection, live.framework, member.pod.scheduler_name, self._clock() - started)
            # The group is placed; whether others must go for the rest is for another attempt, and that is made at once.
            self._queue.activate(member.uid)
        self._groups.scheduled(decision.group)
        return True

    def _rejected(
        self, decision: GangRejection, members: Sequence[QueuedPod], live: ActivePolicy, started: float
    ) -> None:
        self._groups.not_scheduled(decision.group, Verdict(UNSCHEDULABLE, decision.message))
        self._failures.reject_group(members, decision, live.framework, started)

    def _faulty(self, decision: GangFault, members: Sequence[QueuedPod], seconds: float) -> None:
        for member in members:
            self._failures.fail(member, decision.message, member.pod.scheduler_name, seconds, once=True)
        self._groups.not_scheduled(decision.group, Verdict(SCHEDULER_ERROR, decision.message))
