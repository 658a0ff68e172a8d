"""The engine: one loop that pops a pod, asks the core for a decision and carries it out. Start reading here.

    intake ─► cache, queue ─► schedule_one: policy ─► core.cycle.schedule ─► Placement: binding ─► kube
                                                                         └─► Rejection, Fault: failures ─► kube

Decisions are plain calls, and only this thread changes the state, so there are no locks. The loop yields every few
milliseconds to watches and bindings, also within a long attempt (`slices`), and pauses for them after a slow one: one turn of the event loop
between two slow attempts would serve them only after half a dozen of these. It starts when all caches are complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from podwright.api.compile import Classes
from podwright.api.kube_scheduler_configuration import QUEUE_SORT
from podwright.core.cycle import Decision, Placement, Rejection, schedule
from podwright.core.framework.features import Features
from podwright.core.objects.compaction import compact_all
from podwright.core.objects.control_flow import CONTROL_FLOW
from podwright.core.objects.errors import described
from podwright.core.objects.pod import PodInfo
from podwright.core.queue import QueuedPod, SchedulingQueue
from podwright.core.state.cache import Cache
from podwright.engine import decision_log
from podwright.engine.active_policies import ActivePolicies, ActivePolicy
from podwright.engine.arrivals import Arrivals
from podwright.engine.attempts import Attempts
from podwright.engine.binding.cycle import BindingCycles
from podwright.engine.binding.executor import BindingExecutor
from podwright.engine.binding.limiter import BindLimiter
from podwright.engine.binding.plugin_cluster import plugin_handle
from podwright.engine.engine_options import DEFAULT_OPTIONS, EngineOptions
from podwright.engine.extended_attempts import ExtendedAttempts
from podwright.engine.failures import Failures
from podwright.engine.gangs.attempts import Gangs
from podwright.engine.gangs.group_changes import GroupChanges
from podwright.engine.gangs.room import GangRoom
from podwright.engine.gauges import compute_gauges
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.intake.foreign_pods import ForeignPods
from podwright.engine.intake.node_signals import NodeSignals
from podwright.engine.intake.nodes import Nodes
from podwright.engine.intake.objects import NAMESPACE, Namespaces, Objects
from podwright.engine.intake.other_instances import OtherInstances
from podwright.engine.intake.pending_pods import PendingPods
from podwright.engine.intake.unreadable_devices import report_unreadable_devices
from podwright.engine.invalid_objects import InvalidObjects
from podwright.engine.local_budgets import Account, LocalBudgets
from podwright.engine.log_fields import fields
from podwright.engine.memory import MemoryReclaimer
from podwright.engine.metrics.metrics import ALGORITHM_SECONDS
from podwright.engine.plugins.exceptions import PluginExceptions
from podwright.engine.plugins.guard import PluginGuard, ThreadTimes
from podwright.engine.plugins.index_exceptions import IndexExceptions
from podwright.engine.plugins.policy_plugins import Conduct
from podwright.engine.plugins.slow_plugins import SLOW_SECONDS, SlowPlugins
from podwright.engine.policy_activity import Activities
from podwright.engine.ports import Ports
from podwright.engine.preemption import Preemptions
from podwright.engine.quiet import Quiet
from podwright.engine.raw_objects import raw_objects_for
from podwright.engine.recent_decisions import RecentDecisions
from podwright.engine.reconsideration import Reconsideration
from podwright.engine.shadow.shadow import Shadow
from podwright.engine.shadow.shadow_time import ShadowTime, earliest
from podwright.engine.slices import STILL_CHANGING, Slices, Undecided
from podwright.engine.state import EngineState, Sources
from podwright.engine.turns import Turns

log = logging.getLogger(__name__)

SLICE_SECONDS: Final = 0.003
"""How long the loop runs before it yields."""
HOUSEKEEPING_SECONDS: Final = 5.0
COMPACT_EVERY: Final = 12
"""Caches are compacted in every twelfth round of housekeeping, also while the loop is busy."""
RECLAIM_EVERY: Final = 2
"""Memory is reclaimed in every second round of housekeeping, if the loop is idle then."""
FLUSH_SECONDS: Final = 1.0
"""The longest time between two calls of `queue.pop`, which also moves the pods whose backoff or maximum wait is over."""


class Engine:
    """See the module. The watches feed `nodes`, `assigned`, `pending`, `objects(kind)` and `policies`."""

    def __init__(
        self,
        classes: Classes,
        features: Features,
        ports: Ports,
        sources: Sources,
        options: EngineOptions = DEFAULT_OPTIONS,
    ) -> None:
        """Raises ProfileError or PluginError if the built-in policy cannot be built."""
        metrics, clock = ports.metrics, sources.clock
        # The shared state
        self.invalid_objects = InvalidObjects(metrics)
        self.cache = Cache(self.invalid_objects.report, signals=sources.signals(options.policies))
        report_unreadable_devices(self.cache, self.invalid_objects.report)
        self.cache.contain_indexes(IndexExceptions(metrics).report)
        self.binding_cycles = BindingCycles()
        limiter = BindLimiter(clock, options.bindings_at_once)
        handle = plugin_handle(
            self.cache, features, ports, wall=sources.wall, binding_cycles=self.binding_cycles, limiter=limiter
        )
        self.activities = Activities(metrics, wall=sources.wall)
        self.plugin_exceptions = PluginExceptions(metrics, activities=self.activities)
        self.plugin_guard = PluginGuard(
            ThreadTimes(clock=clock, cpu=sources.cpu, waits=sources.waits), metrics, budget=options.plugin_budget
        )
        self.budgets = LocalBudgets(clock, cpu=sources.cpu)
        self.policies = ActivePolicies(
            classes,
            handle,
            settings=options.policies,
            invalid_objects=self.invalid_objects,
            conduct=Conduct(
                observer=metrics,
                exceptions=self.plugin_exceptions,
                budgets=self.budgets,
                activities=self.activities,
                guard=self.plugin_guard,
                disabled=options.disabled_plugins,
            ),
        )
        self.queue = SchedulingQueue(
            clock,
            self.policies.sort_key,
            pre_enqueue=self.policies.pre_enqueue,
            hints_of=self.policies.hints_of,
            observer=metrics,
            waits=options.waits,
        )
        self.budgets.charge_to(self.queue.charge_lane)
        self.slow_plugins = SlowPlugins(metrics)
        quiet = Quiet(ports.intake, clock=clock)
        self.slices = Slices(self.cache, quiet, clock=clock, cpu=sources.cpu, guard=self.plugin_guard)
        self.decisions = RecentDecisions(sources.wall)
        state = EngineState(
            cache=self.cache,
            queue=self.queue,
            binding_cycles=self.binding_cycles,
            invalid_objects=self.invalid_objects,
            slow_plugins=self.slow_plugins,
            slices=self.slices,
            decisions=self.decisions,
            features=features,
            sources=sources,
            instance=options.instance,
            arrivals=Arrivals(),
            raw_objects=raw_objects_for(
                [each.defined.settings for each in ports.extenders.values()], self.cache.placement
            ),
            wake=self.wake,
        )
        # The parts, each built from parts above it
        self.foreign_pods = ForeignPods()
        self.pending = PendingPods(state, ports, policies=self.policies, foreign_pods=self.foreign_pods)
        self.other_instances = OtherInstances(state, ports, scheduler_name=options.policies.scheduler_name)
        self.assigned = AssignedPods(state, ports, policies=self.policies, other_instances=self.other_instances)
        preemptions = Preemptions(state, ports, assigned=self.assigned)
        self._failures = Failures(state, ports, preemptions=preemptions)
        self.binding_executor = BindingExecutor(
            state,
            ports,
            binding_cycles=self.binding_cycles,
            failures=self._failures,
            assigned=self.assigned,
            limiter=limiter,
        )
        self._extended = ExtendedAttempts(
            state,
            ports,
            policies=self.policies,
            limiter=limiter,
            carry_out=self._carry_out,
            at_once=options.attempts_at_extenders,
        )
        self._trying = Attempts(
            self.slices,
            self.queue,
            limiter=self.binding_executor.limiter,
            clock=clock,
            schedule_one=self.schedule_one,
        )
        self.shadow = Shadow(state, policies=self.policies, metrics=metrics)
        self._shadow_time = ShadowTime(
            self.shadow, self.binding_cycles, attempts=self._trying, metrics=metrics, clock=clock
        )
        self.node_signals = NodeSignals(state, ports)
        self.nodes = Nodes(state, ports, on_delete=self.binding_executor.checks.node_removed)
        self.group_changes = GroupChanges(state, ports, foreign_pods=self.foreign_pods)
        self._gangs = Gangs(
            state,
            ports,
            policies=self.policies,
            binding_executor=self.binding_executor,
            failures=self._failures,
            foreign_pods=self.foreign_pods,
        )
        self.queue.room_checks = GangRoom(state, self.policies).check
        self._turns = Turns(state, self.policies) if self.policies.policy_set.queue_sort == QUEUE_SORT else None
        self._memory_reclaimer = MemoryReclaimer(clock)
        self._state = state
        self._ports = ports
        self._sources = sources
        self._metrics = metrics
        self._started = False
        self._shadow_only = options.policies.shadow_only
        self._attempts = 0
        self._idle: asyncio.Future[None] | None = None
        self._reconsideration = Reconsideration(self.queue, clock=sources.clock, wake=self.wake)
        self.first_idle = asyncio.Event()
        """Set when there is nothing left to decide for the first time."""
        compute_gauges(
            metrics,
            queue=self.queue,
            cache=self.cache,
            cycles=self.binding_cycles,
            executor=self.binding_executor,
            budgets=self.budgets,
        )

    def objects(self, kind: str) -> Objects:
        """The stream of one kind of the object store."""
        if kind == NAMESPACE:
            return Namespaces(self._state, self._ports, policies=self.policies)
        return Objects(kind, self._state, ports=self._ports)

    def activate_all(self) -> None:
        """Moves all waiting pods to the active queue. Call it when served pod group APIs have changed."""
        self.queue.activate_all()
        self.wake()

    def policies_changed(self, namespaces: Collection[str] | None = None) -> None:
        """Retries the waiting pods about which another policy, or another generation, decides from now on.

        `namespaces`: of which pods that may be so; None: of all.
        """
        self._extended.release_all()
        if self._started:  # what the first lists show has not just happened
            self.shadow.policies_changed()
        self._reconsideration.begin(namespaces)

    # The loop

    async def run(self) -> None:
        """Schedules until it is cancelled."""
        try:
            await self._run()
        finally:
            self.slices.abandon()

    async def _run(self) -> None:
        clock, queue, limiter = self._sources.clock, self.queue, self.binding_executor.limiter
        self._started = True
        if not self._shadow_only:
            self.other_instances.watch()
        self.shadow.policies_changed()
        self.group_changes.process()
        self._gangs.prioritize_partially_placed()
        slice_ends = clock() + SLICE_SECONDS
        shadow = self._shadow_time
        while True:
            if shadow.has_turn:
                await shadow.decide()
                slice_ends = clock() + SLICE_SECONDS
            queued = (self._turns.pop() if self._turns else None) or queue.pop()
            if queued is None:
                if self._extended.release() or shadow.use_idle_time():
                    continue
                limiter.wake_next()
                await self._wait_for_work()
            elif queued.costly:
                await self._trying.in_lane(queued)
            else:
                await self._trying.at(queued)
                late = clock() - slice_ends
                if limiter.full:
                    await limiter.wait_for_capacity()
                elif late < 0:
                    continue
                else:
                    await asyncio.sleep(0)
                if late >= SLOW_SECONDS:
                    await self._pause_after(queued, late)
            slice_ends = clock() + SLICE_SECONDS

    async def _pause_after(self, queued: QueuedPod, seconds: float) -> None:
        """An attempt at an ordinary pod took that long. Gives other tasks time, and pods of other policies a turn."""
        policy = self.policies.of(queued.pod)
        if policy is not None:
            self.slow_plugins.attempt_was_slow(policy.compiled.name, queued.pod, seconds)
        await self._trying.pause(seconds)
        if policy is not None and self._turns is not None:
            self._turns.begin(policy, seconds)

    async def run_housekeeping(self) -> None:
        """Does the periodic checks, compacts caches, and reclaims memory while the loop is idle, until it is cancelled."""
        rounds = until_compaction = 0
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            until_compaction += 1
            if until_compaction >= COMPACT_EVERY:
                until_compaction = 0
                self.compact()
            try:
                self.binding_executor.checks.check()
                if self._started:  # groups look incomplete before the caches are
                    self.group_changes.clear_stale_nominations()
                await self.binding_executor.read_back_overdue()
            except Exception:
                log.exception("housekeeping failed")
            rounds += 1
            if rounds >= RECLAIM_EVERY and self._idle is not None:
                rounds = 0
                self.policies.clear_cached_verdicts()
                self.binding_executor.checks.prune()
                self._memory_reclaimer.reclaim(self._attempts)

    def compact(self) -> None:
        """Frees what is kept of objects that are gone, and is not dropped with them. See core/objects/compaction.py."""
        self.policies.clear_cached_verdicts()
        self.binding_executor.checks.prune()
        self._metrics.keep_profiles(self.policies.policy_set.scheduler_names)
        compact_all()

    async def stop(self, grace: float) -> bool:
        """Waits at most `grace` seconds for the binding cycles in progress. `run` must have been cancelled.

        Returns whether all of them have ended by themselves.
        """
        await self._extended.stop()
        return await self.binding_executor.drain(grace)

    def wake(self) -> None:
        """Wakes the loop: there may be a pod to schedule."""
        idle = self._idle
        if idle is not None and not idle.done():
            idle.set_result(None)

    def bindings_throttled(self) -> None:
        """The API server answered a Binding, or a request of a plugin, with 429."""
        self.binding_executor.limiter.throttled()

    def reason_not_to_bind(self, pod: PodInfo, node_name: str) -> str:
        """The reason why a Binding in progress must not be posted again; empty if it may."""
        return self.binding_executor.reason_not_to_bind(pod, node_name)

    async def _wait_for_work(self) -> None:
        self.first_idle.set()
        due = earliest(self.queue.next_wakeup(), self._shadow_time.next_turn)
        now = self._sources.clock()
        timeout = None if due is None else min(FLUSH_SECONDS, max(due - now, 0.001))
        loop = asyncio.get_running_loop()
        idle = self._idle = loop.create_future()
        timer = None if timeout is None else loop.call_later(timeout, self.wake)
        try:
            await idle
        finally:
            self._idle = None
            if timer is not None:
                timer.cancel()

    def schedule_one(self, queued: QueuedPod) -> None:
        """One attempt at a popped pod, or at its pod group. Never raises: an error is a failed attempt."""
        started, cpu_started = self._sources.clock(), self.slices.cpu()
        try:
            policy = self.policies.of(queued.pod)
            if policy is None:
                self._failures.drop(queued)
            elif queued.pod.terminating:
                self._skip(queued)
            elif policy.account is not None and self._is_slowed(queued, policy, policy.account):
                return
            elif queued.pod.group and self.cache.groups.is_member(queued.pod):
                self._gangs.attempt(queued, policy, started)
            elif policy.refusal:
                self._failures.wait_for_policy(queued, policy, self._sources.clock() - started)
            else:
                queued.policy = policy.label
                if (refused := self.policies.passed_over(queued.pod)) is not None:
                    self._failures.warn_of_refusal(queued, refused)
                self._attempts += 1
                if policy.extenders and self._extended.start(queued, policy, started):
                    return
                observer = self.slow_plugins.observer_for(policy.compiled.name)
                decision = self.slices.decide(
                    lambda: schedule(policy.framework, self.cache, queued.pod, self._sources.below, observer=observer),
                    wanted=lambda: self._may_decide(queued, policy),
                    in_lane=queued.costly,
                    about=(queued,),
                )
                seconds = self._sources.clock() - started
                if isinstance(decision, Undecided):
                    self._undecided(queued, decision, seconds)
                    return
                queued.slow = seconds >= SLOW_SECONDS and self.slices.cpu() - cpu_started >= SLOW_SECONDS
                self._carry_out(queued, policy, decision, started)
        except CONTROL_FLOW:
            raise
        except BaseException as error:
            log.exception("an attempt failed", extra=fields(pod=queued.pod))
            self._abandon(queued, error, started)

    def _is_slowed(self, queued: QueuedPod, policy: ActivePolicy, account: Account) -> bool:
        """Whether the pod goes to the lane first, because its local policy is over its budget or on trial."""
        group = self.cache.groups.get(queued.pod.group) if queued.pod.group else None
        pods = 1 if group is None else max(1, group.min_count)
        if self.budgets.begin(account, in_lane=queued.costly, pods=pods):
            return False
        queued.policy = policy.label
        self._failures.slow_down(queued, account.why)
        return True

    def _carry_out(self, queued: QueuedPod, policy: ActivePolicy, decision: Decision, started: float) -> None:
        """Does what the decision says. Never raises: an error is a failed attempt."""
        seconds = self._sources.clock() - started
        policy.activity.decisions[0] += 1
        try:
            self._metrics.observe(ALGORITHM_SECONDS, seconds)
            self.decisions.add(decision, policy.label)
            if decision_log.enabled():
                decision_log.log_decision(decision, policy.label, seconds)
            if isinstance(decision, Placement):
                self.binding_executor.start(queued, policy, decision, started)
            elif isinstance(decision, Rejection):
                self._failures.reject(queued, decision, policy.framework, seconds)
            else:
                self._failures.fail(queued, decision.message, seconds)
        except CONTROL_FLOW:
            raise
        except BaseException as error:
            log.exception("carrying out a decision failed", extra=fields(pod=queued.pod))
            self._abandon(queued, error, started)

    def _abandon(self, queued: QueuedPod, error: BaseException, started: float) -> None:
        """An attempt was interrupted by an exception."""
        if self.cache.is_assumed(queued.uid) and not self.binding_cycles.has(queued.uid):
            self.cache.forget(queued.uid)
        self._failures.fail(queued, described(error), self._sources.clock() - started)

    def _may_decide(self, queued: QueuedPod, policy: ActivePolicy) -> bool:
        """Whether a pod whose attempt was paused still waits for a decision under this policy."""
        return (
            self.queue.get(queued.uid) is queued
            and not queued.pod.terminating
            and self.policies.of(queued.pod) is policy
        )

    def _undecided(self, queued: QueuedPod, why: Undecided, seconds: float) -> None:
        """A pod was deleted, or another policy applies to it, while its attempt was paused; or the cluster changed all the time."""
        if why is Undecided.STILL_CHANGING:
            self._failures.fail(queued, STILL_CHANGING, seconds)
        elif self.queue.get(queued.uid) is queued:
            self.queue.wait_in_lane(queued, ())

    def _skip(self, queued: QueuedPod) -> None:
        """Drops a pod that is being deleted."""
        note = f"skip schedule deleting pod: {queued.pod.key}"
        self._ports.recorder.record(queued.pod, "Warning", "FailedScheduling", "Scheduling", note)
        self._failures.drop(queued)
