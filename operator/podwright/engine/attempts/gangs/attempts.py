"""Attempts at pod groups: a popped member brings the other waiting members along, and they are scheduled together.

    popped ─► GangMembers ─► core.gangs ─► placed: the binding cycles of all start, or none does
                                       └─► rejected, fault: all are requeued, and the group's status says why

A plan that takes longer than a slice is made in a child process (`planning`). Its members are then checked and placed
one by one, with other work between them. A member whose node is taken meanwhile gets another one. All of them wait in
Permit until it is known of which parts of the group the minimum is placed: the others are cancelled.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from podwright.core.cycle import Placement, schedule, still_fits
from podwright.core.framework.errors import PluginError
from podwright.core.framework.observer import Observer
from podwright.core.gangs.decisions import GangDecision, GangFault, GangPlacement, GangPreemption, GangRejection
from podwright.core.gangs.gang_preemption import preempts_from
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.objects.control_flow import CONTROL_FLOW
from podwright.core.objects.errors import described
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.plugins.gang_scheduling import GangScheduling
from podwright.core.queue import QueuedPod
from podwright.core.queue.queued_pod import Place
from podwright.core.state.deadline import TookLongError
from podwright.core.state.transaction import CacheTransaction
from podwright.engine.attempts.gangs.members import GONE, GangMembers
from podwright.engine.extenders import PolicyExtenders
from podwright.engine.intake.foreign_pods import ForeignPods
from podwright.engine.outcomes.binding.executor import BindingExecutor
from podwright.engine.outcomes.failures import Failures
from podwright.engine.planning.placing import assume, still_preempts
from podwright.engine.planning.planning import Planning
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.policies.active_policy import WAITS_FOR_POLICY, ActivePolicy
from podwright.engine.ports import SCHEDULER_ERROR, UNSCHEDULABLE, Ports, Verdict
from podwright.engine.process.slice import SLICE_SECONDS, Slice
from podwright.engine.process.steps import Steps, Turn, at_once
from podwright.engine.records import decision_log
from podwright.engine.records.log_fields import fields
from podwright.engine.records.metrics import GROUP_ALGORITHM_SECONDS
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)

NO_EXTENDERS: Final = (
    "the policy has extenders, which pod groups cannot use; let a policy without extenders decide about this group"
)
NOT_TOGETHER: Final = "another pod of the pod group could not be placed"


def _always() -> bool:
    return True


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
        planning: Planning,
        slices: Slice,
    ) -> None:
        self._planning = planning
        self._slice = slices
        self._decisions = state.decisions
        self._cache = state.cache
        self._queue = state.queue
        self._binding_cycles = state.binding_cycles
        self._sources = state.sources
        self._clock = state.clock
        self._groups = ports.groups
        self._solve = ports.solve
        self._metrics = ports.metrics
        self._policies = policies
        self._extenders = PolicyExtenders(ports)
        self._slow_plugins = state.slow_plugins
        self._binding_executor = binding_executor
        self._failures = failures
        self._foreign_pods = foreign_pods
        self._members = GangMembers(state, failures)
        self._delayed: dict[str, float] = {}
        """By key of groups that may not preempt yet: from when on they may, in seconds since the epoch."""

    def attempt(self, queued: QueuedPod, policy: ActivePolicy, started: float) -> None:
        """One attempt at the popped pod's group, which must be of a served API."""
        group = self._cache.groups.of(queued.pod)
        if group is None:
            self._failures.reject_by(queued, GONE, {GangScheduling.name}, self._clock() - started)
            return
        self._attempt_partially_placed(group, queued)
        self._attempt_group(group, queued, policy, started)

    def prioritize_partially_placed(self) -> None:
        """Moves partially placed gangs, left by a process that ended for example, before others of the same
        priority.
        """
        for group in self._cache.groups.partially_placed:
            for queued in self._active(group):
                self._queue.move_to_front(queued)

    def retry_delayed(self) -> None:
        """Tries the groups again that may preempt from now on."""
        now = self._sources.wall()
        for key in [key for key, until in self._delayed.items() if until <= now]:
            del self._delayed[key]
            for pod in self._cache.groups.members(key).unplaced():
                self._queue.activate(pod.uid)

    def _attempt_partially_placed(self, but: PodGroup, popped: QueuedPod) -> None:
        """Attempts the other partially placed gangs that sort no later than the popped pod: they need the same room."""
        key = self._policies.sort_key(popped.pod, 0.0)
        for group in self._cache.groups.partially_placed:
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
        if self._members.waits_in_lane(group, first):
            return
        taking = self._take(group, first, policy, started)
        if self._members.are_many(group):
            self._planning.add_taken(taking)
        elif (job := at_once(taking)) is not None:
            self._planning.add(job)

    def _take(self, group: PodGroup, first: QueuedPod, policy: ActivePolicy, started: float) -> Steps[_GangJob | None]:
        """Takes the members. An attempt at them follows, unless a child process decides: then this is returned."""
        members: list[QueuedPod] = []
        try:
            yield from self._members.take(members, group, first, policy.framework)
        except Exception as error:
            log.exception("the members of a pod group could not be taken", extra=fields(podGroup=group))
            self._requeue([first, *members], described(error), self._clock() - started)
            return None
        except BaseException:  # also if the loop ends meanwhile
            self.give_back([first, *members])
            raise
        if not members:
            return None
        same_policy = all(member.policy == policy.label for member in members)
        if same_policy and not first.costly and self._queue.wait_for_room(members):
            return None  # of costly ones, a child process counts
        for member in members:
            member.policy = policy.label
        try:
            return self._schedule(group, members, policy, started)
        except CONTROL_FLOW:
            raise
        except BaseException as error:
            log.exception("an attempt at a pod group failed", extra=fields(podGroup=group))
            self._requeue(members, described(error), self._clock() - started)
            return None

    def _schedule(
        self, group: PodGroup, members: Sequence[QueuedPod], policy: ActivePolicy, started: float
    ) -> _GangJob | None:
        if policy.refusal and all(self._policies.of(member.pod) is policy for member in members):
            self._wait_for_policy(group, members, policy, started)
            return None
        if policy.extenders and any(self._extenders.deciding(policy, member.pod) for member in members):
            self._refuse(group, members, started)
            return None
        if any(member.costly for member in members):
            nominated = self._cache.nominator.copy().node_of
            return _GangJob(group, members, policy=policy, started=started, nominated=nominated, gangs=self)
        cpu_started = self._sources.cpu()
        try:
            observer = self._slow_plugins.observer_if_slow(policy.compiled.name)
            decision = self._slice.run(lambda: self.decide(group, members, policy, observer))
        except TookLongError:
            self.give_back(members)
            return None
        seconds = self._sources.cpu() - cpu_started
        deque(self.carry_out(decision, members, policy, seconds=seconds, started=started), 0)
        return None

    def carry_out(
        self,
        decision: GangDecision,
        members: Sequence[QueuedPod],
        policy: ActivePolicy,
        *,
        seconds: float,
        started: float,
        nominated: Mapping[str, str] | None = None,
        priorities: Sequence[int] = (),
    ) -> Steps[bool]:
        """Carries a decision out, which took so many seconds of CPU. `nominated`: it was made on an earlier state of
        the cluster, with these nominations by uid, when the members had these `priorities`. Returns False if it does
        not fit any more.
        """
        fitted, planned = True, nominated is not None
        checked: Callable[[], bool] = _always
        preemption = decision.preemption if isinstance(decision, GangRejection) else None
        if nominated is not None and preemption is not None:
            checked = partial(self._still_preempts, members, preemption, nominated, priorities)
            if not checked():
                return False
            checked = partial(checked, made=True)
        policy.activity.decisions[0] += len(members)
        took = self._clock() - started
        self._metrics.observe(GROUP_ALGORITHM_SECONDS, took)
        self._decisions.add_group(decision, [member.pod for member in members], policy.label)
        if decision_log.enabled():
            decision_log.log_group_decision(decision, policy.label, took)
        for member in members:
            # Not if it waits for victims: the next attempt looks at the nominated nodes first, and does not search
            # again.
            member.slow = seconds >= SLICE_SECONDS and preemption is None
        if isinstance(decision, GangPlacement):
            fitted = yield from self._placed(decision, members, policy, started, planned=planned)
            placed = self._cache.groups.minimum_placed(decision.group)
            result = "scheduled" if placed else "unschedulable"
        elif isinstance(decision, GangRejection):
            self._not_scheduled(decision.group, Verdict(UNSCHEDULABLE, decision.message), decision.parts)
            self._delay(decision.group, [member.pod for member in members])
            self._members.in_steps.add(decision.group.key)
            try:
                fitted = yield from self._failures.reject_group(
                    members, decision, policy.framework, started, still_preempts=checked
                )
            finally:
                self._members.in_steps.discard(decision.group.key)
            result = "waiting_on_preemption" if fitted and decision.preemption is not None else "unschedulable"
        else:
            self._fault(decision, members, took)
            result = "error"
        profile = members[0].pod.scheduler_name
        self._metrics.group_attempt_took(result, profile, self._clock() - started)
        return fitted

    def _still_preempts(
        self,
        members: Sequence[QueuedPod],
        preemption: GangPreemption,
        nominated: Mapping[str, str],
        priorities: Sequence[int],
        *,
        made: bool = False,
    ) -> bool:
        """`nominated`, `priorities`: see `carry_out`. `made`: the members are nominated by now."""
        if preemption.victims and [member.pod.priority for member in members] != priorities:
            return False
        nominations = preemption.nominations
        if made and preemption.victims:
            node_of = self._cache.nominator.node_of
            if any(node_of(uid) != name for uid, name in nominations.items()):
                return False
            nominated = {**nominated, **nominations}
        return still_preempts(members[0].pod, {*nominations.values()}, preemption.victims, nominated, self._cache)

    def _delay(self, group: PodGroup, pods: Sequence[PodInfo]) -> None:
        """The group is tried again when it may preempt."""
        if (until := preempts_from(group, pods)) > self._sources.wall():
            self._delayed[group.key] = until

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
        """Refuses a group whose members extenders are interested in: groups are planned in one call, which cannot call
        extenders.
        """
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

    def may_decide(self, group: PodGroup, members: Sequence[QueuedPod], policy: ActivePolicy) -> bool:
        """True if the members of a group, which are in flight, still wait for a decision about this version of it."""
        return self._cache.groups.get(group.key) == group and all(
            self._queue.get(member.uid) is member
            and member.place is Place.IN_FLIGHT
            and not member.pod.terminating
            and self._cache.groups.key_of(member.pod) == group.key
            and self._cache.placement(member.uid) is None
            and self._policies.of(member.pod) is policy
            for member in members
        )

    def give_back(self, members: Sequence[QueuedPod]) -> None:
        """Puts the members into the lane, without a decision. The next attempt takes the members as they are then."""
        for member in members:
            if self._queue.get(member.uid) is not member or self._binding_cycles.has(member.uid):
                continue
            if member.place is not Place.IN_FLIGHT:
                continue  # it was rejected, and an event has held it since
            if self._cache.placement(member.uid) is not None:
                self._queue.done(member.uid)
            else:
                self._queue.wait_in_lane(member, ())

    def decide(
        self, group: PodGroup, members: Sequence[QueuedPod], policy: ActivePolicy, observer: Observer | None = None
    ) -> GangDecision:
        for named in self._cache.groups.named_by_pods(group) if self._foreign_pods else ():
            if problem := self._foreign_pods.problem(named.key, members[0].pod.scheduler_name):
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
        planner = GangPlanner(
            framework=policy.framework,
            cache=self._cache,
            group=group,
            below=self._sources.below,
            pack_by=pack_by,
            observer=observer,
            solve=self._solve,
        )
        return decide(planner, [queued.pod for queued in members], self._sources.wall())

    # Outcomes

    def _placed(
        self,
        decision: GangPlacement,
        members: Sequence[QueuedPod],
        policy: ActivePolicy,
        started: float,
        *,
        planned: bool,
    ) -> Steps[bool]:
        """Starts the binding cycles. Cancels all members of a part with fewer than its minimum. Returns False if that
        is the whole group because nodes were taken.
        """
        group, queued = decision.group, {member.uid: member for member in members}
        groups = self._cache.groups
        begun: list[QueuedPod] = []
        taken: list[QueuedPod] = []
        groups.starting.add(group.key)
        try:
            for placement in decision.placements:
                member, now = queued[placement.pod.uid], placement
                if planned:
                    yield
                    if self._queue.get(member.uid) is not member:
                        continue
                    found = self._as_it_is_now(placement, group, policy)
                    if found is None:
                        taken.append(member)
                        continue
                    now = found
                self._binding_executor.start(member, policy, now, started)
                begun.append(member)
        finally:
            groups.starting.discard(group.key)
            cancelled = self._let_go(group, begun)
        if cancelled is None:
            if taken:
                return False
            for rejection in decision.rejections:
                by = rejection.status_plugins | {GangScheduling.name}
                self._failures.reject_by(queued[rejection.pod.uid], NOT_TOGETHER, by, self._clock() - started)
            self._not_scheduled(group, Verdict(UNSCHEDULABLE, NOT_TOGETHER))
            return True
        self.give_back(taken)
        for rejection in decision.rejections:
            member = queued[rejection.pod.uid]
            self._failures.reject(member, rejection, policy.framework, self._clock() - started)
            # The minimum is placed. The next attempt, which follows at once, decides whether the rest preempts.
            self._queue.activate(member.uid)
        for named in groups.named_by_pods(group):
            why = decision.parts.get(named.key)
            if not why and group.composite and (named.key in cancelled or not groups.minimum_placed(named)):
                why = NOT_TOGETHER
            if why:
                self._groups.not_scheduled(named, Verdict(UNSCHEDULABLE, why))
            else:
                self._groups.scheduled(named)
        return True

    def _let_go(self, group: PodGroup, begun: Sequence[QueuedPod]) -> Collection[str] | None:
        """Lets the members that may start out of Permit, and cancels the others. Returns the keys of the cancelled
        members' groups; None if the group's minimum is not placed, so that no member may start.
        """
        standing = self._cache.groups.standing(group, [member.uid for member in begun])
        may_start, cancelled = frozenset(standing or ()), set[str]()
        for member in begun:
            if member.uid not in may_start:
                self._binding_cycles.cancel(member.uid, NOT_TOGETHER)
                cancelled.add(member.pod.group)
        self._binding_cycles.allow([member.uid for member in begun if member.uid in may_start], GangScheduling.name)
        return None if standing is None else cancelled

    def _not_scheduled(self, group: PodGroup, verdict: Verdict, parts: Mapping[str, str] | None = None) -> None:
        """The groups that pods name say so. `parts`: see GangPlacement."""
        groups = self._cache.groups
        for named in groups.named_by_pods(group):
            if group.composite and groups.minimum_placed(named):
                continue  # only others are left to place
            why = parts.get(named.key) if parts else None
            told = Verdict(verdict.reason, why) if why else verdict
            self._groups.not_scheduled(named, told)
            if not groups.minimum_placed(named):
                self._groups.below_minimum(named, told)

    def _as_it_is_now(self, placement: Placement, group: PodGroup, policy: ActivePolicy) -> Placement | None:
        """Returns the placement on the present cluster, perhaps on another node. None if the pod no longer fits, or the
        members must be placed close together.
        """
        framework = policy.framework
        try:
            state = still_fits(framework, self._cache, placement)
        except PluginError:
            return None
        if state is not None:
            return replace(placement, state=state)
        if group.near.binds or placement.pod.wish or self._cache.groups.has_close_parts(group):
            return None
        try:
            found = self._slice.run(
                lambda: schedule(framework, self._cache, placement.pod, self._sources.below, preempt=False)
            )
        except TookLongError:
            return None
        return found if isinstance(found, Placement) else None

    def fail(self, group: PodGroup, members: Sequence[QueuedPod], message: str, started: float) -> None:
        """The process that decided has ended without a decision."""
        self._fault(GangFault(group, "", message), members, self._clock() - started)

    def _fault(self, decision: GangFault, members: Sequence[QueuedPod], seconds: float) -> None:
        for member in members:
            self._failures.fail(member, decision.message, seconds, cause=(SCHEDULER_ERROR, decision.message))
        self._not_scheduled(decision.group, Verdict(SCHEDULER_ERROR, decision.message))


class _GangJob:
    """See `planning.Job`. For the members of a group."""

    def __init__(
        self,
        group: PodGroup,
        members: Sequence[QueuedPod],
        *,
        policy: ActivePolicy,
        started: float,
        nominated: Mapping[str, str],
        gangs: Gangs,
    ) -> None:
        self.pods = members
        self.policy = policy
        self.turn: Turn = None  # members start together
        self._group = group
        self._started = started
        self._gangs = gangs
        self._nominated = nominated
        self._priorities = [member.pod.priority for member in members]

    def decide(self) -> GangDecision:
        return self._gangs.decide(self._group, self.pods, self.policy)

    def assume(self, decision: GangDecision, transaction: CacheTransaction) -> bool:
        placements = decision.placements if isinstance(decision, GangPlacement) else ()
        preempts = isinstance(decision, GangRejection) and decision.preemption is not None
        return not preempts and all(assume(each, self.policy, transaction) for each in placements)

    def wanted(self) -> bool:
        return self._gangs.may_decide(self._group, self.pods, self.policy)

    def carry_out(self, decision: GangDecision, seconds: float) -> Steps[bool]:
        return self._gangs.carry_out(
            decision,
            self.pods,
            self.policy,
            seconds=seconds,
            started=self._started,
            nominated=self._nominated,
            priorities=self._priorities,
        )

    def charged(self, decision: GangDecision) -> Sequence[QueuedPod]:
        """Ordinary members are placed, or evict their victims, once, as ordinary pods do. A group that is rejected
        without that comes again and again.
        """
        preemption = decision.preemption if isinstance(decision, GangRejection) else None
        once = isinstance(decision, GangPlacement) or (preemption is not None and preemption.victims)
        return [pod for pod in self.pods if pod.cost is not None] if once else self.pods

    def give_back(self) -> Steps[None]:
        yield
        self._gangs.give_back(self.pods)

    def fail(self, message: str) -> Steps[None]:
        yield
        self._gangs.fail(self._group, self.pods, message, self._started)
