"""Attempts at pod groups: a popped member brings the other waiting members along, and they are scheduled together.

    popped ─► GangMembers ─► core.gangs ─► placed: the binding cycles of all start, or none does
                                       └─► rejected, fault: all are requeued, and the group's status says why

Nothing changes between the plan and its execution: the attempt may pause while it plans, and then starts anew after a change (`slices`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from podwright.core.framework.cost import COSTLY_GROUP_SECONDS
from podwright.core.gangs.decisions import GangDecision, GangFault, GangPlacement, GangRejection
from podwright.core.gangs.plan import Planner, decide
from podwright.core.objects.control_flow import CONTROL_FLOW
from podwright.core.objects.errors import described
from podwright.core.objects.pod_group import PodGroup
from podwright.core.plugins.gang_scheduling import GangScheduling
from podwright.core.queue import QueuedPod
from podwright.core.queue.queued_pod import Place
from podwright.engine.binding.executor import BindingExecutor
from podwright.engine.decisions import decision_log
from podwright.engine.extenders import PolicyExtenders
from podwright.engine.gangs.members import GONE, GangMembers
from podwright.engine.intake.foreign_pods import ForeignPods
from podwright.engine.log_fields import fields
from podwright.engine.metrics.metrics import GROUP_ALGORITHM_SECONDS
from podwright.engine.pauses.slices import STILL_CHANGING, Undecided
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.policies.active_policy import WAITS_FOR_POLICY, ActivePolicy
from podwright.engine.ports import SCHEDULER_ERROR, UNSCHEDULABLE, Ports, Verdict
from podwright.engine.rejections.failures import Failures
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)

NO_EXTENDERS: Final = (
    "the policy has extenders, which pod groups cannot use; let a policy without extenders decide about this group"
)
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
        self._slices = state.slices
        self._decisions = state.decisions
        self._cache = state.cache
        self._queue = state.queue
        self._binding_cycles = state.binding_cycles
        self._sources = state.sources
        self._clock = state.clock
        self._groups = ports.groups
        self._metrics = ports.metrics
        self._policies = policies
        self._extenders = PolicyExtenders(ports)
        self._slow_plugins = state.slow_plugins
        self._binding_executor = binding_executor
        self._failures = failures
        self._foreign_pods = foreign_pods
        self._members = GangMembers(state, failures)

    def attempt(self, queued: QueuedPod, policy: ActivePolicy, started: float) -> None:
        """One attempt at the popped pod's group, which must be of a served API."""
        group = self._cache.groups.of(queued.pod)
        if group is None:
            self._failures.reject_by(queued, GONE, {GangScheduling.name}, self._clock() - started)
            return
        self._attempt_partially_placed(group, queued)
        if not self._may_decide(group, (queued,), policy):  # those attempts may have paused
            self._undecided((queued,))
            return
        self._attempt_group(group, queued, policy, started)

    def prioritize_partially_placed(self) -> None:
        """Moves partially placed gangs, left by a process that ended for example, before others of the same priority."""
        for group in self._cache.groups.partially_placed:
            for queued in self._active(group):
                self._queue.move_to_front(queued)

    def _attempt_partially_placed(self, but: PodGroup, popped: QueuedPod) -> None:
        """Attempts the other partially placed gangs that sort no later than the popped pod: they need the same room."""
        key = self._policies.sort_key(popped.pod, 0.0)
        for group in self._cache.groups.partially_placed:
            if self._cache.groups.get(group.key) is not group:  # it has changed while an attempt was paused
                continue
            first = None if group is but else next(iter(self._active(group)), None)
            if first is None or first.costly or key < self._policies.sort_key(first.pod, 0.0):
                continue
            policy = self._policies.of(first.pod)
            if policy is not None and self._queue.take(first.uid) is not None:
                self._attempt_group(group, first, policy, self._clock())

    def _active(self, group: PodGroup) -> Sequence[QueuedPod]:
        """The group's members in the active queue, in the order in which they were added to the group."""
        waiting = (self._queue.get(pod.uid) for pod in self._cache.groups.members(group.key).unplaced())
        return [queued for queued in waiting if queued is not None and queued.place is Place.ACTIVE]

    def _attempt_group(self, group: PodGroup, first: QueuedPod, policy: ActivePolicy, started: float) -> None:
        members = self._members.take(group, first, policy.framework)
        if not members:
            return
        for member in members:
            member.policy = policy.label
        try:
            self._schedule(group, members, policy, started)
        except CONTROL_FLOW:
            raise
        except BaseException as error:
            log.exception("an attempt at a pod group failed", extra=fields(podGroup=group))
            self._requeue(members, described(error), self._clock() - started)

    def _schedule(self, group: PodGroup, members: Sequence[QueuedPod], policy: ActivePolicy, started: float) -> None:
        if policy.refusal and all(self._policies.of(member.pod) is policy for member in members):
            self._wait_for_policy(group, members, policy, started)
            return
        if policy.extenders and any(self._extenders.deciding(policy, member.pod) for member in members):
            self._refuse(group, members, started)
            return
        cpu_started = self._slices.cpu()
        decision = self._slices.decide(
            lambda: self._decide(group, members, policy),
            wanted=lambda: self._may_decide(group, members, policy),
            in_lane=any(member.costly for member in members),
            about=members,
        )
        if decision is Undecided.NOT_NOW:
            self._undecided(members)
            return
        policy.activity.decisions[0] += len(members)
        seconds, cpu_seconds = self._clock() - started, self._slices.cpu() - cpu_started
        if decision is Undecided.STILL_CHANGING:
            decision = GangFault(group, "", STILL_CHANGING)
        self._metrics.observe(GROUP_ALGORITHM_SECONDS, seconds)
        self._decisions.add_group(decision, [member.pod for member in members], policy.label)
        if decision_log.enabled():
            decision_log.log_group_decision(decision, policy.label, seconds)
        for member in members:
            member.slow = member.undecided > 0 or cpu_seconds >= COSTLY_GROUP_SECONDS
        if isinstance(decision, GangPlacement):
            result = "scheduled" if self._placed(decision, members, policy, started) else "unschedulable"
        elif isinstance(decision, GangRejection):
            self._not_scheduled(decision.group, Verdict(UNSCHEDULABLE, decision.message))
            self._failures.reject_group(members, decision, policy.framework, started)
            result = "unschedulable" if decision.preemption is None else "waiting_on_preemption"
        else:
            self._fault(decision, members, seconds)
            result = "error"
        profile = members[0].pod.scheduler_name
        self._metrics.group_attempt_took(result, profile, self._clock() - started)

    def _wait_for_policy(
        self, group: PodGroup, members: Sequence[QueuedPod], policy: ActivePolicy, started: float
    ) -> None:
        """The group's policy has a refusal."""
        seconds = self._clock() - started
        for member in members:
            self._failures.wait_for_policy(member, policy, seconds)
        reason = f"the pod group waits because {policy.why_waits(members[0].pod)}"
        self._not_scheduled(group, Verdict(SCHEDULER_ERROR, reason))
        self._metrics.group_attempt_took("error", members[0].pod.scheduler_name, seconds)

    def _refuse(self, group: PodGroup, members: Sequence[QueuedPod], started: float) -> None:
        """Refuses a group whose members extenders are interested in: groups are planned in one call, which cannot call extenders."""
        seconds = self._clock() - started
        for member in members:
            self._failures.reject_by(member, NO_EXTENDERS, {WAITS_FOR_POLICY}, seconds, cause=NO_EXTENDERS)
        self._not_scheduled(group, Verdict(UNSCHEDULABLE, NO_EXTENDERS))
        self._metrics.group_attempt_took("unschedulable", members[0].pod.scheduler_name, seconds)

    def _requeue(self, members: Sequence[QueuedPod], message: str, seconds: float) -> None:
        """Retries the members whose binding cycles have not started."""
        for member in members:
            if self._binding_cycles.has(member.uid) or member.place is not Place.IN_FLIGHT:
                continue
            if self._cache.is_assumed(member.uid):
                self._cache.forget(member.uid)
            self._failures.fail(member, message, seconds)

    def _may_decide(self, group: PodGroup, members: Sequence[QueuedPod], policy: ActivePolicy) -> bool:
        """Whether the members of a group whose attempt was paused still wait for a decision about this version of it."""
        return self._cache.groups.get(group.key) is group and all(
            self._queue.get(member.uid) is member
            and not member.pod.terminating
            and member.pod.group == group.key
            and self._policies.of(member.pod) is policy
            for member in members
        )

    def _undecided(self, members: Sequence[QueuedPod]) -> None:
        """Puts the members into the lane, because the attempt could not be decided while the cluster changed. The next attempt takes the
        members as they are then.
        """
        left = [member for member in members if self._queue.get(member.uid) is member]
        for member in left:
            self._queue.wait_in_lane(member, ())

    def _decide(self, group: PodGroup, members: Sequence[QueuedPod], policy: ActivePolicy) -> GangDecision:
        if problem := self._foreign_pods.problem(group.key, members[0].pod.scheduler_name):
            return GangFault(group, "", problem)
        for member in members:
            other = self._policies.of(member.pod)
            if other is None or other is policy:
                continue
            if member.pod.scheduler_name != members[0].pod.scheduler_name and not other.refusal:
                continue
            for each in members:
                if (waiting := self._policies.of(each.pod)) is not None and waiting.compiled.misnamed:
                    return GangFault(group, "", waiting.why_waits(each.pod))
            names = f"{policy.compiled.name} and {other.compiled.name}"
            return GangFault(group, "", f"all pods of a pod group must be under one policy, got {names}")
        if policy.refusal:
            return GangFault(group, "", policy.why_waits(members[0].pod))
        args = policy.compiled.profile.args.get(GangScheduling.name)
        pack_by = "" if args is None else args.topology_key
        observer = self._slow_plugins.observer_if_slow(policy.compiled.name)
        planner = Planner(
            framework=policy.framework,
            cache=self._cache,
            group=group,
            below=self._sources.below,
            pack_by=pack_by,
            observer=observer,
        )
        return decide(planner, [queued.pod for queued in members], self._sources.wall())

    # Outcomes

    def _placed(
        self, decision: GangPlacement, members: Sequence[QueuedPod], policy: ActivePolicy, started: float
    ) -> bool:
        """Starts the binding cycles. False if fewer than the minimum have started: then all of them are cancelled."""
        queued = {member.uid: member for member in members}
        for placement in decision.placements:
            self._binding_executor.start(queued[placement.pod.uid], policy, placement, started)
        if self._cache.groups.placed(decision.group.key) < decision.group.min_count:
            # Reserve or Permit rejected a planned member. No task has run yet, so the other cycles can still be cancelled.
            for placement in decision.placements:
                self._binding_cycles.cancel(placement.pod.uid, NOT_TOGETHER)
            for rejection in decision.rejections:
                by = rejection.status_plugins | {GangScheduling.name}
                self._failures.reject_by(queued[rejection.pod.uid], NOT_TOGETHER, by, self._clock() - started)
            self._not_scheduled(decision.group, Verdict(UNSCHEDULABLE, NOT_TOGETHER))
            return False
        for rejection in decision.rejections:
            member = queued[rejection.pod.uid]
            self._failures.reject(member, rejection, policy.framework, self._clock() - started)
            # The minimum is placed. The next attempt, which follows at once, decides whether the rest preempts.
            self._queue.activate(member.uid)
        self._groups.scheduled(decision.group)
        return True

    def _not_scheduled(self, group: PodGroup, verdict: Verdict) -> None:
        self._groups.not_scheduled(group, verdict)
        if self._cache.groups.placed(group.key) < group.min_count:
            self._groups.below_minimum(group, verdict)

    def _fault(self, decision: GangFault, members: Sequence[QueuedPod], seconds: float) -> None:
        for member in members:
            self._failures.fail(member, decision.message, seconds, cause=(SCHEDULER_ERROR, decision.message))
        self._not_scheduled(decision.group, Verdict(SCHEDULER_ERROR, decision.message))
