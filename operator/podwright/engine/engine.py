"""The engine: one loop that pops a pod, asks the core for a decision and carries it out. Start reading here.

    intake ─► cache, queue ─► pod_attempts ─► core.cycle.schedule ─► outcomes ─┬─► Placement: binding ─► kube
                                                                               └─► Rejection, Fault: failures ─► kube

Decisions are plain calls, and only this thread changes the state, so there are no locks. The loop yields every few
milliseconds to watches and bindings. After a slow attempt it pauses longer, because a watch event needs about six turns
of the event loop to be processed. What takes longer than a slice is decided in a child process (`planning`). The loop
starts when all caches are complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from podwright.api.kube_scheduler_configuration import QUEUE_SORT
from podwright.core.framework.errors import PluginError
from podwright.core.framework.features import Features
from podwright.core.framework.interface import Handle
from podwright.core.framework.profile import Classes
from podwright.core.objects.compaction import compact_all
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import Raw
from podwright.core.preemption.budgets import KIND as BUDGET
from podwright.core.queue import QueuedPod, SchedulingQueue
from podwright.core.queues.queues import queues_of
from podwright.core.state.cache import Cache
from podwright.engine.arrivals import Arrivals
from podwright.engine.attempts.batches import Batches
from podwright.engine.attempts.extended import ExtendedAttempts
from podwright.engine.attempts.gangs.attempts import Gangs
from podwright.engine.attempts.gangs.gathering import Gathering
from podwright.engine.attempts.gangs.group_changes import GroupChanges
from podwright.engine.attempts.gangs.reused_room import ReusedRoom
from podwright.engine.attempts.gangs.room import GangRoom
from podwright.engine.attempts.gangs.stale_gangs import StaleGangs
from podwright.engine.attempts.pod_attempts import PodAttempts
from podwright.engine.attempts.turns import Turns
from podwright.engine.draining import DrainedQueues
from podwright.engine.engine_options import DEFAULT_OPTIONS, EngineOptions
from podwright.engine.gauges import compute_gauges
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.intake.foreign_pods import ForeignPods
from podwright.engine.intake.node_signals import Minutes, NodeSignals
from podwright.engine.intake.nodes import Nodes
from podwright.engine.intake.objects import NAMESPACE, DisruptionBudgets, KindStream, Namespaces
from podwright.engine.intake.other_instances import OtherInstances
from podwright.engine.intake.pending_pods import PendingPods
from podwright.engine.intake.workloads import Workloads
from podwright.engine.invalid_objects import InvalidObjects
from podwright.engine.outcomes.binding.cycle import BindingCycles
from podwright.engine.outcomes.binding.executor import BindingExecutor
from podwright.engine.outcomes.binding.limiter import BindLimiter
from podwright.engine.outcomes.binding.plugin_cluster import PluginCluster
from podwright.engine.outcomes.failures import Failures
from podwright.engine.outcomes.outcomes import Outcomes
from podwright.engine.outcomes.preemption import Preemptions
from podwright.engine.planning.elsewhere import Elsewhere
from podwright.engine.planning.messages import Messages
from podwright.engine.planning.planning import Planning
from podwright.engine.plugins.exceptions import PluginExceptions
from podwright.engine.plugins.guard import PluginGuard
from podwright.engine.plugins.slow_plugins import SLOW_SECONDS, SlowPlugins
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.policies.policy_plugins import Conduct
from podwright.engine.policies.reconsideration import Reconsideration
from podwright.engine.ports import SCHEDULER_ERROR, Ports, Verdict
from podwright.engine.process.memory import MemoryReclaimer
from podwright.engine.process.quiet import Quiet
from podwright.engine.process.slice import Slice
from podwright.engine.process.steps import in_slices
from podwright.engine.queue_changes import QueueChanges
from podwright.engine.raw_objects import raw_objects_for
from podwright.engine.rebalance.rebalancing import Rebalancing
from podwright.engine.records.local_budgets import LocalBudgets
from podwright.engine.records.policy_activity import Activities
from podwright.engine.records.recent_decisions import RecentDecisions
from podwright.engine.reservations import ReservationChanges
from podwright.engine.shadow.answers import ShadowAnswers
from podwright.engine.shadow.shadow import Shadow
from podwright.engine.shadow.shadow_time import ShadowTime, earliest
from podwright.engine.state import EngineState, Sources
from podwright.engine.view.history import History

log = logging.getLogger(__name__)

SLICE_SECONDS: Final = 0.003
"""How long the loop runs before it yields."""
HOUSEKEEPING_SECONDS: Final = 5.0
COMPACT_EVERY: Final = 12
"""Caches are compacted in every twelfth round of housekeeping, also while the loop is busy."""
RECLAIM_EVERY: Final = 2
"""Memory is reclaimed in every second round of housekeeping, if the loop is idle then."""
PAUSE_SHARE: Final = 0.05
"""After a slow attempt the loop pauses for this share of its duration."""
PAUSE_SECONDS: Final = (0.01, 0.1)
"""The shortest and the longest of these pauses. An answer to a health check takes some turns of the event loop."""
FLUSH_SECONDS: Final = 1.0
"""The longest time between two calls of `queue.pop`, which also moves the pods whose backoff or maximum wait is over.
"""


def _gate_failed(ports: Ports, pod: PodInfo, error: PluginError) -> None:
    """A PreEnqueue plugin has failed: no attempt will tell the pod's user why it waits."""
    ports.recorder.record(pod, "Warning", "FailedScheduling", "Scheduling", str(error))
    ports.status.write(pod, Verdict(SCHEDULER_ERROR, str(error)), None)


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
        # The state that the parts share
        self.invalid_objects = InvalidObjects(metrics)
        self.cache = cache = Cache(self.invalid_objects.report, signals=sources.signals(options.policies))
        cache.devices.unreadable.on_problem = self.invalid_objects.report
        self.binding_cycles, limiter = BindingCycles(), BindLimiter(clock, options.bindings_at_once)
        self.activities = Activities(metrics, wall=sources.wall)
        self.budgets = LocalBudgets(
            clock,
            cpu=sources.cpu,
            charge_lane=lambda seconds: self.queue.charge_lane(seconds),  # noqa: PLW0108 -- the queue is built later
        )
        self.plugin_exceptions = PluginExceptions(metrics, activities=self.activities)
        cache.contain_indexes(self.plugin_exceptions.index_failed)
        self.plugin_guard = PluginGuard(
            metrics, clock=clock, cpu=sources.cpu, waits=sources.waits, budget=options.plugin_budget
        )
        handle = Handle(
            cache=cache,
            features=features,
            cluster=PluginCluster(ports.cluster, self.binding_cycles, store=cache.store, limiter=limiter),
            observer=metrics,
            clock=sources.wall,
            waiting=self.binding_cycles.waiting,
            recorder=lambda pod, kind, reason, note: ports.recorder.record(pod, kind, reason, "Scheduling", note),
        )
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
            gate_failed=partial(_gate_failed, ports),
        )
        self.queue = SchedulingQueue(
            clock,
            self.policies.sort_key,
            pre_enqueue=self.policies.pre_enqueue,
            hints_of=self.policies.hints_of,
            estimate=self.policies.estimate,
            room_checks=GangRoom(cache, self.policies).check,
            also_due=queues_of(cache).turns.due_claims,
            observer=metrics,
            waits=options.waits,
        )
        cache.deadline.others_wait = True
        slices, quiet = Slice(cache, clock=clock, cpu=sources.cpu), Quiet(ports.intake.hold_back, ports.intake.go_on)
        messages = Messages(cache, self.queue, shared=(handle,))
        self.planning = Planning(
            cache,
            self.queue,
            children=ports.children,
            messages=messages,
            slices=slices,
            quiet=quiet,
            budgets=self.budgets,
            exceptions=self.plugin_exceptions,
            metrics=metrics,
            clock=clock,
            cpu=sources.cpu,
            wake=self.wake,
        )
        self.elsewhere = Elsewhere(slices, cache.deadline, children=ports.children, messages=messages)
        self.decisions = RecentDecisions(sources.wall)
        self.slow_plugins = SlowPlugins(metrics)
        state = EngineState(
            cache=cache,
            queue=self.queue,
            binding_cycles=self.binding_cycles,
            invalid_objects=self.invalid_objects,
            slow_plugins=self.slow_plugins,
            quiet=quiet,
            decisions=self.decisions,
            features=features,
            sources=sources,
            instance=options.instance,
            arrivals=Arrivals(),
            raw_objects=raw_objects_for([each.defined.settings for each in ports.extenders.values()], cache.placement),
            wake=self.wake,
        )
        self.history = History(cache, self.queue, wall=sources.wall)
        # The parts, each built from parts above it
        self.foreign_pods = ForeignPods(cache.groups)
        self.workloads = Workloads(state, ports, take_again=self._take_again)
        self.pending = PendingPods(
            state, ports, policies=self.policies, foreign_pods=self.foreign_pods, workloads=self.workloads
        )
        self.other_instances = OtherInstances(state, ports, scheduler_name=options.policies.scheduler_name)
        self.assigned = AssignedPods(
            state,
            ports,
            policies=self.policies,
            other_instances=self.other_instances,
            workloads=self.workloads,
        )
        preemptions = Preemptions(state, ports, assigned=self.assigned)
        failures = Failures(state, ports, preemptions=preemptions)
        self.binding_executor = BindingExecutor(
            state,
            ports,
            binding_cycles=self.binding_cycles,
            failures=failures,
            assigned=self.assigned,
            limiter=limiter,
        )
        outcomes = Outcomes(state, ports, failures=failures, binding_executor=self.binding_executor)
        self._extended = ExtendedAttempts(
            state,
            ports,
            policies=self.policies,
            limiter=limiter,
            carry_out=outcomes.carry_out,
            at_once=options.attempts_at_extenders,
        )
        self.node_signals = NodeSignals(state, ports)
        self._minutes = Minutes(state, ports, wall=sources.wall, wanted=self.policies.waits_for_time)
        self.nodes = Nodes(
            state,
            ports,
            scheduler_name=options.policies.scheduler_name,
            on_delete=self.binding_executor.checks.node_removed,
        )
        self.reservations = ReservationChanges(state, sources.wall)
        self._queue_changes = QueueChanges(state, self.policies, wall=sources.wall)
        self.told_of_policies: list[Callable[[], None]] = []
        """Called when policies have changed, before pods are retried."""
        self.group_changes = GroupChanges(state, ports, foreign_pods=self.foreign_pods)
        self.stale_gangs = StaleGangs(state, ports, policies=self.policies, assigned=self.assigned)
        self.drained_queues = DrainedQueues(state, ports, assigned=self.assigned)
        self.gangs = Gangs(
            state,
            ports,
            policies=self.policies,
            binding_executor=self.binding_executor,
            failures=failures,
            foreign_pods=self.foreign_pods,
            planning=self.planning,
            slices=slices,
        )
        self.pod_attempts = PodAttempts(
            state,
            self.policies,
            budgets=self.budgets,
            gangs=self.gangs,
            extended=self._extended,
            outcomes=outcomes,
            planning=self.planning,
            slices=slices,
            batches=Batches(state, wake=self.wake),
            solve=ports.solve,
        )
        self.gathering = Gathering(
            state, ports, policies=self.policies, elsewhere=self.elsewhere, reservations=self.reservations
        )
        queues_of(self.cache).gather_after = options.gather_after
        self.reused_room = ReusedRoom(state, ports, reservations=self.reservations, leads=lambda: self.gathering.leads)
        self.assigned.on_left = self.reused_room.pod_left
        self.rebalancing = Rebalancing(
            state,
            ports,
            policies=self.policies,
            elsewhere=self.elsewhere,
            reservations=self.reservations,
            assigned=self.assigned,
            namespace=options.policies.namespace,
        )
        self.shadow = Shadow(
            state, policies=self.policies, metrics=metrics, answers=ShadowAnswers(slices, self.elsewhere)
        )
        self._shadow_time = ShadowTime(self.shadow, self.binding_cycles, metrics=metrics, clock=clock, wake=self.wake)
        self._turns = Turns(state, self.policies) if self.policies.policy_set.queue_sort == QUEUE_SORT else None
        self._memory_reclaimer = MemoryReclaimer(clock)
        self._state = state
        self._ports = ports
        self._sources = sources
        self._metrics = metrics
        self._started = False
        self._shadow_only = options.policies.shadow_only
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

    def objects(self, kind: str) -> KindStream:
        """The stream of one kind of the object store."""
        if kind == NAMESPACE:
            return Namespaces(self._state, self._ports, policies=self.policies)
        if kind == BUDGET:
            return DisruptionBudgets(self._state, self._ports)
        return KindStream(kind, self._state, ports=self._ports)

    def _take_again(self, raw: Raw) -> None:
        (self.assigned if raw["spec"].get("nodeName") else self.pending).put(raw)

    def activate_all(self) -> None:
        """Moves all waiting pods to the active queue. Call it when served pod group APIs have changed."""
        self.queue.activate_all()
        self.wake()

    def policies_changed(self, namespaces: Collection[str] | None = None) -> None:
        """Retries the waiting pods about which another policy, or another generation, now decides. `namespaces`: only
        pods of these may be concerned; None: all pods.
        """
        self._extended.release_all()
        for listener in self.told_of_policies:
            listener()
        self._queue_changes.policies_changed()
        if self._started:  # objects of the first lists are not events
            self.shadow.policies_changed()
        self._reconsideration.begin(namespaces)

    # The loop

    async def run(self) -> None:
        """Schedules until it is cancelled."""
        try:
            await self._run()
        finally:
            self._started = False
            self.planning.cancel()
            self.rebalancing.cancel()

    async def _run(self) -> None:
        clock, queue, limiter = self._sources.clock, self.queue, self.binding_executor.limiter
        self._started = True
        self.reservations.expire()  # from now on it is known which pods end before those that room is held for come
        if not self._shadow_only:
            self.other_instances.watch()
            self.gathering.take_over()
            self.rebalancing.moves.take_over()
        self.shadow.policies_changed()
        self.group_changes.process()
        await self.group_changes.rank_all()  # members that run must not be evicted by their own priority
        self.gangs.prioritize_partially_placed()
        slice_ends = clock() + SLICE_SECONDS
        shadow = self._shadow_time
        while True:
            await self.planning.quiet.over()
            if shadow.has_turn:
                await shadow.decide()
                slice_ends = clock() + SLICE_SECONDS
            queued = (self._turns.pop() if self._turns and not queue.is_unsorted else None) or queue.pop(if_sorted=True)
            if queued is None:
                if queue.is_unsorted:
                    await in_slices(queue.sort())
                    slice_ends = clock() + SLICE_SECONDS
                    continue
                if self._extended.release() or shadow.use_idle_time():
                    continue
                limiter.wake_next()
                await self._wait_for_work()
            elif queued.costly:
                self._plan(queued)
                await asyncio.sleep(0)
            else:
                self.pod_attempts.schedule_one(queued)
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

    def _plan(self, first: QueuedPod) -> None:
        """Lets a child process decide about a costly pod, and others that wait for the same."""
        queued: QueuedPod | None = first
        while queued is not None:
            self.pod_attempts.schedule_one(queued)
            queued = self.queue.pop_costly() if self.planning.has_room else None
        self.planning.start()

    async def _pause_after(self, queued: QueuedPod, seconds: float) -> None:
        """Gives other tasks time, and pods of other policies a turn, because an attempt at an ordinary pod took this
        long.
        """
        policy = self.policies.of(queued.pod)
        if policy is not None:
            self.slow_plugins.attempt_was_slow(policy.compiled.name, queued.pod, seconds)
        shortest, longest = PAUSE_SECONDS
        await asyncio.sleep(min(longest, max(shortest, PAUSE_SHARE * seconds)))
        if policy is not None and self._turns is not None:
            self._turns.begin(policy, seconds)

    async def run_housekeeping(self) -> None:
        """Does the periodic checks, compacts caches, and reclaims memory while the loop is idle, until it is
        cancelled.
        """
        rounds = until_compaction = 0
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            until_compaction += 1
            if until_compaction >= COMPACT_EVERY:
                until_compaction = 0
                self.compact()
            try:
                self._minutes.tick()
                self.reservations.expire()
                await self._queue_changes.sample_usage()
                if self._started and not self._shadow_only:
                    self.gathering.begin()
                    self.reused_room.release()
                    self.rebalancing.begin()
                    await self.stale_gangs.evict()
                    await self.drained_queues.evict()
                self.history.sample()
                self.binding_executor.checks.check()
                if self._started:  # groups look incomplete before the caches are
                    self.workloads.tick()
                    self.group_changes.clear_stale_nominations()
                    self.group_changes.report_incomplete()
                    self.gangs.retry_delayed()
                await self.binding_executor.read_back_overdue()
            except Exception:
                log.exception("housekeeping failed")
            rounds += 1
            if rounds >= RECLAIM_EVERY and self._idle is not None:
                rounds = 0
                self.policies.clear_cached_verdicts()
                self.binding_executor.checks.prune()
                self._memory_reclaimer.reclaim(self.pod_attempts.count)

    def compact(self) -> None:
        """Frees what caches keep of deleted objects. See core/objects/compaction.py."""
        self.policies.clear_cached_verdicts()
        self.binding_executor.checks.prune()
        self._metrics.keep_profiles(self.policies.policy_set.scheduler_names)
        compact_all()

    async def stop(self, grace: float) -> bool:
        """Waits at most `grace` seconds for the binding cycles in progress. `run` must have been cancelled.

        Returns whether all of them have ended within that time.
        """
        await self.gathering.stop()
        await self.rebalancing.stop()
        await self.planning.stop()
        await self._shadow_time.stop()
        await self._extended.stop()
        return await self.binding_executor.drain(grace)

    def wake(self) -> None:
        """Wakes the loop: there may be a pod to schedule."""
        idle = self._idle
        if idle is not None and not idle.done():
            idle.set_result(None)

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
