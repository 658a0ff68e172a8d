"""The engine: one loop that takes the next pod, asks the core for a decision and has it carried out. Start reading here.

    intake ─► cache, queue ─► _attempt: policy ─► core.cycle.schedule ─► Placement: binding ─► kube
                                                                    └─► Rejection, Fault: failures ─► kube

A decision is a plain call and the whole state is changed in this one thread, so there are no locks. The loop gives way every
few milliseconds, so that watches, bindings and health go on. It is started once all caches are complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from podwright.api.compile import Classes
from podwright.api.kube_scheduler_configuration import QUEUE_SORT
from podwright.api.scheduler_policy import PODWRIGHT_SCHEDULER_NAME
from podwright.core.cycle import Placement, Rejection, schedule
from podwright.core.framework.features import Features
from podwright.core.framework.interface import Cluster
from podwright.core.objects.pod import PodInfo
from podwright.core.queue import DEFAULT_WAITS, QueuedPod, SchedulingQueue, Waits
from podwright.core.state.cache import Cache
from podwright.engine.active_policies import ActivePolicies, EngineHandle
from podwright.engine.binding.checks import BoundNodeChecks
from podwright.engine.binding.cycle import BindingCycles, ConflictRecordingCluster
from podwright.engine.binding.executor import BindingExecutor
from podwright.engine.binding.limiter import PROMPT_LIMIT
from podwright.engine.failures import Failures
from podwright.engine.gangs.attempts import Gangs
from podwright.engine.gangs.group_changes import GroupChanges
from podwright.engine.intake.streams import NAMESPACE, AssignedPods, Namespaces, Nodes, Objects, PendingPods
from podwright.engine.invalid_objects import InvalidObjects
from podwright.engine.memory import MemoryReclaimer
from podwright.engine.metrics.metrics import Metrics
from podwright.engine.metrics.plugins import ONE_ATTEMPT_IN, Stopwatch
from podwright.engine.ports import Evictor, GroupWriter, NoGroups, Recorder, StatusWriter
from podwright.engine.preemption import Preemptions

log = logging.getLogger(__name__)

SLICE_SECONDS: Final = 0.003
"""How long the loop goes on before it gives way."""
HOUSEKEEPING_SECONDS: Final = 5.0
GIVE_BACK_EVERY: Final = 2
"""How often the house is kept until memory that is free is given back, if nothing is to be decided then."""
FLUSH_SECONDS: Final = 1.0
"""The queue moves what has waited long enough when it is asked for the next pod, so it is asked this often at least."""


@dataclass(frozen=True, slots=True)
class Outside:
    """The ports' real side, or a test's."""

    cluster: Cluster
    recorder: Recorder
    status: StatusWriter
    evictor: Evictor
    groups: GroupWriter = field(default_factory=NoGroups)


@dataclass(frozen=True, slots=True)
class Sources:
    """Time and chance. `clock` never steps back; `wall` is seconds since the epoch; `below(n)`: a random 0 to n - 1."""

    clock: Callable[[], float]
    wall: Callable[[], float]
    below: Callable[[int], int]


class Engine:
    """See the module. Its parts are there to be fed: `nodes`, `assigned`, `pending`, `objects(kind)`, `live`."""

    def __init__(
        self,
        classes: Classes,
        features: Features,
        outside: Outside,
        sources: Sources,
        *,
        metrics: Metrics | None = None,
        bindings_at_once: int = PROMPT_LIMIT,
        scheduler_name: str = PODWRIGHT_SCHEDULER_NAME,
        queue_sort: str = QUEUE_SORT,
        waits: Waits = DEFAULT_WAITS,
    ) -> None:
        """`scheduler_name`: whose pods the built-in default policy takes; `queue_sort`: the plugin that orders the queue;
        `waits`: how long pods wait in it.

        Raises ProfileError or PluginError where that plugin is none.
        """
        self.metrics = metrics or Metrics()
        self.invalid_objects = InvalidObjects(self.metrics.bad_objects)
        self.cache = Cache(on_invalid_group=self.invalid_objects.about)
        self.sources = sources
        self.binding_cycles = BindingCycles()
        cluster = ConflictRecordingCluster(outside.cluster, self.binding_cycles)
        handle = EngineHandle(self.cache, features, cluster, sources.wall)
        self.live = ActivePolicies(
            classes,
            features,
            handle,
            self.invalid_objects,
            scheduler_name,
            queue_sort,
            clock=sources.clock,
            observer=self.metrics.plugins,
        )
        self.queue = SchedulingQueue(
            sources.clock,
            self.live.sort_key,
            self.live.pre_enqueue,
            self.live.hints_of,
            on_incoming=self.metrics.incoming,
            on_hint=self.metrics.plugins.hint_took,
            waits=waits,
        )
        handle.waiting = self.binding_cycles.waiting
        cache, queue, status, invalid_objects, wake = (
            self.cache,
            self.queue,
            outside.status,
            self.invalid_objects,
            self.wake,
        )
        self._watch = Stopwatch(sources.clock, self.metrics.plugins.event_took)
        bound_node_checks = BoundNodeChecks(cache, outside.recorder)
        self.nodes = Nodes(cache, queue, invalid_objects, wake, self._watch, bound_node_checks.node_removed)
        self.assigned = AssignedPods(
            cache, queue, status, outside.recorder, invalid_objects, wake, self.live.listens, self._watch
        )
        self.group_watch = GroupChanges(cache, queue, status, outside.groups, outside.recorder, wake)
        self.foreign_pods = self.group_watch.foreign_pods
        self.pending = PendingPods(
            cache,
            queue,
            status,
            outside.recorder,
            self.binding_cycles,
            invalid_objects,
            wake,
            self.live.serves,
            self.live.of,
            self.foreign_pods,
            self._watch,
        )
        preemptions = Preemptions(
            cache,
            queue,
            self.binding_cycles,
            outside.recorder,
            status,
            outside.evictor,
            outside.groups,
            self.metrics,
            sources.clock,
            wake,
            self.assigned.going,
        )
        self._failures = Failures(cache, queue, outside.recorder, status, preemptions, self.metrics)
        self._deciding = False
        self.binding_executor = BindingExecutor(
            cache,
            queue,
            outside.cluster,
            self.binding_cycles,
            self._failures,
            self.assigned,
            outside.recorder,
            status,
            bound_node_checks,
            self.metrics,
            sources.clock,
            wake,
            bindings_at_once,
            expectations=features.enabled("NominatedNodeNameForExpectation"),
        )
        self._gangs = Gangs(
            cache,
            queue,
            self.live,
            self.binding_executor,
            self.binding_cycles,
            self._failures,
            preemptions,
            outside.groups,
            self.group_watch,
            self.metrics,
            sources.clock,
            sources.wall,
            sources.below,
        )
        self._recorder = outside.recorder
        self._attempts = 0
        self._memory_reclaimer = MemoryReclaimer(sources.clock)
        self._idle: asyncio.Future[None] | None = None
        self.rested = asyncio.Event()
        """Set once nothing was left to decide for the first time."""
        self._offer_gauges()

    def objects(self, kind: str) -> Objects:
        """The stream of one kind of the object store."""
        if kind == NAMESPACE:
            return Namespaces(self.cache, self.queue, self.invalid_objects, self.wake, self.live.of, self._watch)
        return Objects(kind, self.cache, self.queue, self.invalid_objects, self.wake, self._watch)

    def policies_changed(self) -> None:
        """Another set of policies is in force: what waits may be schedulable now."""
        self.queue.activate_all()
        self.wake()

    # The loop

    async def run(self) -> None:
        """Schedules until it is cancelled."""
        clock, queue, limiter = self.sources.clock, self.queue, self.binding_executor.limiter
        self._deciding = True
        self.group_watch.sweep()
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

    async def keep_house(self) -> None:
        """Looks after what nobody waits for, until it is cancelled."""
        looks = 0
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            try:
                self.binding_executor.checks.check()
                if self._deciding:  # before that, groups are incomplete because not all is known
                    self.group_watch.look()
                await self.binding_executor.confirm_late()
            except Exception:
                log.exception("confirming late bindings failed")
            looks += 1
            if looks >= GIVE_BACK_EVERY and self._idle is not None:
                looks = 0
                self.live.forget_findings()
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
        """Why a Binding that is under way must not be posted again; empty if it may."""
        return self.binding_executor.reason_not_to_bind(pod, node_name)

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """The tasks of bindings under way."""
        return self.binding_executor.tasks

    async def _rest(self) -> None:
        self.rested.set()
        due = self.queue.next_wakeup()
        now = self.sources.clock()
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
        started = self.sources.clock()
        profile = queued.pod.scheduler_name
        try:
            live = self.live.of(queued.pod)
            if live is None:
                self._failures.drop(queued)
            elif queued.pod.terminating:
                self._skip(queued)
            elif queued.pod.group and self.cache.groups.is_member(queued.pod):
                self._gangs.attempt(queued, live, started)
            else:
                self._attempts += 1
                runner = live if self._attempts % ONE_ATTEMPT_IN != 1 else live.measured or live
                decision = schedule(runner.framework, self.cache, queued.pod, self.sources.below)
                seconds = self.sources.clock() - started
                self.metrics.algorithm_seconds.observe(seconds)
                if isinstance(decision, Placement):
                    self.binding_executor.start(queued, runner, decision, started)
                elif isinstance(decision, Rejection):
                    self._failures.reject(queued, decision, live.framework, profile, seconds)
                else:
                    self._failures.fail(queued, decision.message, profile, seconds)
        except Exception as error:
            log.exception("an attempt at pod %s failed", queued.pod.key)
            if self.cache.is_assumed(queued.uid) and self.binding_cycles.get(queued.uid) is None:
                self.cache.forget(queued.uid)
            text = f"{type(error).__name__}: {error}"
            self._failures.fail(queued, text, profile, self.sources.clock() - started)

    def _skip(self, queued: QueuedPod) -> None:
        """A pod that is being deleted is let go."""
        note = f"skip schedule deleting pod: {queued.pod.key}"
        self._recorder.record(queued.pod, "Warning", "FailedScheduling", "Scheduling", note)
        self._failures.drop(queued)

    def _offer_gauges(self) -> None:
        offer = self.metrics.on_demand
        offer("scheduler_pending_pods", "Pending pods by queue.", "queue", lambda: dict(self.queue.counts()))
        offer("scheduler_inflight_events", "What is kept for pods in flight.", "event", self.queue.in_flight_events)
        self.metrics.on_demand_by(
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
