"""The engine: one loop that takes the next pod, asks the core for a decision and has it carried out. Start reading here.

    intake ─► cache, queue ─► _attempt: policy ─► core.cycle.schedule ─► Placement: binding ─► kube
                                                                    └─► Rejection, Fault: failures ─► kube

A decision is a plain call and the whole state is changed in this one thread, so there are no locks. The loop gives way every
few milliseconds, so that watches, bindings and health go on. It is started once all caches are complete.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from podwright.api.compile import Classes, built_in_policy
from podwright.api.kube_scheduler_configuration import QUEUE_SORT
from podwright.api.scheduler_policy import PODWRIGHT_SCHEDULER_NAME
from podwright.core.cycle import Placement, Rejection, schedule
from podwright.core.framework.features import Features
from podwright.core.objects.pod import PodInfo
from podwright.core.queue import DEFAULT_WAITS, QueuedPod, SchedulingQueue, Waits
from podwright.core.state.cache import Cache
from podwright.engine.active_policies import ActivePolicies, EngineHandle
from podwright.engine.binding.cycle import BindingCycles, ConflictRecordingCluster
from podwright.engine.binding.executor import BindingExecutor
from podwright.engine.binding.limiter import PROMPT_LIMIT
from podwright.engine.failures import Failures
from podwright.engine.gangs.attempts import Gangs
from podwright.engine.gangs.group_changes import GroupChanges
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.intake.foreign_pods import ForeignPods
from podwright.engine.intake.nodes import Nodes
from podwright.engine.intake.objects import NAMESPACE, Namespaces, Objects
from podwright.engine.intake.pending_pods import PendingPods
from podwright.engine.invalid_objects import InvalidObjects
from podwright.engine.memory import MemoryReclaimer
from podwright.engine.metrics.plugins import ONE_ATTEMPT_IN
from podwright.engine.ports import Ports
from podwright.engine.preemption import Preemptions
from podwright.engine.state import EngineState, Sources

log = logging.getLogger(__name__)

SLICE_SECONDS: Final = 0.003
"""How long the loop goes on before it gives way."""
HOUSEKEEPING_SECONDS: Final = 5.0
GIVE_BACK_EVERY: Final = 2
"""How often the house is kept until memory that is free is given back, if nothing is to be decided then."""
FLUSH_SECONDS: Final = 1.0
"""The queue moves what has waited long enough when it is asked for the next pod, so it is asked this often at least."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """`scheduler_name`: whose pods the built-in default policy takes; `queue_sort`: the plugin that orders the queue; `waits`:
    how long pods wait in it; `bindings_at_once`: how many Bindings that are not slow may be with the API server.
    """

    scheduler_name: str = PODWRIGHT_SCHEDULER_NAME
    queue_sort: str = QUEUE_SORT
    waits: Waits = DEFAULT_WAITS
    bindings_at_once: int = PROMPT_LIMIT


DEFAULT_OPTIONS: Final = EngineOptions()


class Engine:
    """See the module. `nodes`, `assigned`, `pending`, `objects(kind)` and `policies` take in what the watches bring."""

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

        # What the parts share
        self.invalid_objects = InvalidObjects(metrics.bad_objects)
        self.cache = Cache(on_invalid_group=self.invalid_objects.about)
        self.binding_cycles = BindingCycles()
        cluster = ConflictRecordingCluster(ports.cluster, self.binding_cycles)
        handle = EngineHandle(self.cache, features, cluster, sources.wall, self.binding_cycles.waiting)
        default = built_in_policy(classes, features, options.scheduler_name, options.queue_sort)
        self.policies = ActivePolicies(
            classes, handle, default, self.invalid_objects, clock=clock, observer=metrics.plugins
        )
        self.queue = SchedulingQueue(
            clock,
            self.policies.sort_key,
            self.policies.pre_enqueue,
            self.policies.hints_of,
            on_incoming=metrics.incoming,
            on_hint=metrics.plugins.hint_took,
            waits=options.waits,
        )
        state = EngineState(
            self.cache, self.queue, self.binding_cycles, self.invalid_objects, features, sources, self.wake
        )

        # The parts, each built from those above it
        self.foreign_pods = ForeignPods()
        self.pending = PendingPods(state, ports, self.policies, self.foreign_pods)
        self.assigned = AssignedPods(state, ports, self.policies)
        preemptions = Preemptions(state, ports, self.assigned)
        self._failures = Failures(state, ports, preemptions)
        self.binding_executor = BindingExecutor(
            state,
            ports,
            self.binding_cycles,
            failures=self._failures,
            assigned=self.assigned,
            at_once=options.bindings_at_once,
        )
        self.nodes = Nodes(state, ports, on_delete=self.binding_executor.checks.node_removed)
        self.group_changes = GroupChanges(state, ports, self.foreign_pods)
        self._gangs = Gangs(
            state,
            ports,
            self.policies,
            binding_executor=self.binding_executor,
            failures=self._failures,
            foreign_pods=self.foreign_pods,
        )
        self._memory_reclaimer = MemoryReclaimer(clock)

        self._state = state
        self._ports = ports
        self._sources = sources
        self._metrics = metrics
        self._deciding = False
        self._attempts = 0
        self._idle: asyncio.Future[None] | None = None
        self.first_idle = asyncio.Event()
        """Set when there is nothing left to decide for the first time."""
        self._offer_gauges()

    def objects(self, kind: str) -> Objects:
        """The stream of one kind of the object store."""
        if kind == NAMESPACE:
            return Namespaces(self._state, self._ports, self.policies)
        return Objects(kind, self._state, self._ports)

    def activate_all(self) -> None:
        """Retries all waiting pods: other policies or pod group APIs are active now."""
        self.queue.activate_all()
        self.wake()

    # The loop

    async def run(self) -> None:
        """Schedules until it is cancelled."""
        clock, queue, limiter = self._sources.clock, self.queue, self.binding_executor.limiter
        self._deciding = True
        self.group_changes.sweep()
        self._gangs.halves_first()
        turn_ends = clock() + SLICE_SECONDS
        while True:
            queued = queue.pop()
            if queued is None:
                limiter.wake_next()
                await self._rest()
            else:
                self._attempt(queued)
                if limiter.full:
                    await limiter.wait_for_capacity()
                elif clock() < turn_ends:
                    continue
                else:
                    await asyncio.sleep(0)
            turn_ends = clock() + SLICE_SECONDS

    async def run_housekeeping(self) -> None:
        """Looks after what nobody waits for, until it is cancelled."""
        looks = 0
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            try:
                self.binding_executor.checks.check()
                if self._deciding:  # before that, groups are incomplete because not all is known
                    self.group_changes.look()
                await self.binding_executor.confirm_late()
            except Exception:
                log.exception("confirming late bindings failed")
            looks += 1
            if looks >= GIVE_BACK_EVERY and self._idle is not None:
                looks = 0
                self.policies.forget_findings()
                self.binding_executor.checks.prune()
                self._memory_reclaimer.give_back(self._attempts)

    async def stop(self, grace: float) -> None:
        """Waits for the bindings under way, at most `grace` seconds. `run` must have been cancelled."""
        await self.binding_executor.drain(grace)

    def wake(self) -> None:
        """There may be work."""
        idle = self._idle
        if idle is not None and not idle.done():
            idle.set_result(None)

    def reason_not_to_bind(self, pod: PodInfo, node_name: str) -> str:
        """The reason why a Binding in progress must not be posted again; empty if it may."""
        return self.binding_executor.reason_not_to_bind(pod, node_name)

    async def _rest(self) -> None:
        self.first_idle.set()
        due = self.queue.next_wakeup()
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

    def _attempt(self, queued: QueuedPod) -> None:
        started = self._sources.clock()
        profile = queued.pod.scheduler_name
        try:
            live = self.policies.of(queued.pod)
            if live is None:
                self._failures.drop(queued)
            elif queued.pod.terminating:
                self._skip(queued)
            elif queued.pod.group and self.cache.groups.is_member(queued.pod):
                self._gangs.attempt(queued, live, started)
            else:
                self._attempts += 1
                runner = live if self._attempts % ONE_ATTEMPT_IN != 1 else live.measured or live
                decision = schedule(runner.framework, self.cache, queued.pod, self._sources.below)
                seconds = self._sources.clock() - started
                self._metrics.algorithm_seconds.observe(seconds)
                if isinstance(decision, Placement):
                    self.binding_executor.start(queued, runner, decision, started)
                elif isinstance(decision, Rejection):
                    self._failures.reject(queued, decision, live.framework, profile, seconds)
                else:
                    self._failures.fail(queued, decision.message, profile, seconds)
        except Exception as error:
            log.exception("an attempt at pod %s failed", queued.pod.key)
            if self.cache.is_assumed(queued.uid) and not self.binding_cycles.has(queued.uid):
                self.cache.forget(queued.uid)
            text = f"{type(error).__name__}: {error}"
            self._failures.fail(queued, text, profile, self._sources.clock() - started)

    def _skip(self, queued: QueuedPod) -> None:
        """A pod that is being deleted is let go."""
        note = f"skip schedule deleting pod: {queued.pod.key}"
        self._ports.recorder.record(queued.pod, "Warning", "FailedScheduling", "Scheduling", note)
        self._failures.drop(queued)

    def _offer_gauges(self) -> None:
        offer = self._metrics.on_demand
        offer("scheduler_pending_pods", "Pending pods by queue.", "queue", lambda: dict(self.queue.counts()))
        offer("scheduler_inflight_events", "What is kept for pods in flight.", "event", self.queue.in_flight_events)
        self._metrics.on_demand_by(
            "scheduler_unschedulable_pods",
            "Pods that wait, by the plugins that rejected them.",
            ("plugin", "profile"),
            self.queue.rejected_by,
        )
        offer("scheduler_goroutines", "Bindings under way.", "operation", lambda: {"binding": len(self.binding_cycles)})
        offer(
            "scheduler_cache_size",
            "Nodes and pods in the cache.",
            "type",
            lambda: {
                "nodes": self.cache.table.count,
                "pods": self.cache.pod_count,
                "assumed_pods": self.binding_executor.assumed,
            },
        )
