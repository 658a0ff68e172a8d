"""The binding cycle: what happens to a pod between its decision and its confirmation by the watch.

    assume ─► reserve ─► permit ─► [wait] ─► PreBind ─► Bind ─► PostBind ─► (the watch confirms)
                 └───────────┴─────────┴────────┴─────────┴──► unreserve ─► forget ─► back to the queue

`start` is the part that is over at once; the rest runs as a task of its own, many side by side. Whether a Binding that
failed has gone through is never guessed: the pod is read back, and stays assumed until there is an answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from podwright.core.cycle import Placement
from podwright.core.framework.errors import PluginError
from podwright.core.framework.status import Code, Status
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.queue import QueuedPod
from podwright.core.queue.queued_pod import Place
from podwright.engine.active_policies import ActivePolicy
from podwright.engine.binding.checks import BoundNodeChecks, reason_not_to_bind
from podwright.engine.binding.cycle import BindingCycle, BindingCycles
from podwright.engine.binding.decision_annotation import annotations_of
from podwright.engine.binding.limiter import PROMPT_LIMIT, BindLimiter
from podwright.engine.binding.waiting_pods import WaitingPod
from podwright.engine.failures import Failures
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.intake.object_changes import POD_GONE
from podwright.engine.metrics.metrics import SCHEDULED
from podwright.engine.ports import Ports
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)

CONFIRM_SECONDS: Final = 30.0
"""How long the watch may take to confirm a Binding before the pod is read back."""
READ_BACK_SECONDS: Final = (0.2, 5.0)
ENDING: Final = Status(Code.ERROR, ("the scheduler ends",))
"""Whose pod waits at the end of this process is left to the next one, and nobody needs to be told."""


class BindingExecutor:
    """See the module."""

    def __init__(
        self,
        state: EngineState,
        ports: Ports,
        binding_cycles: BindingCycles,
        *,
        failures: Failures,
        assigned: AssignedPods,
        at_once: int = PROMPT_LIMIT,
    ) -> None:
        """`binding_cycles`: those of `state`, here to be changed; `at_once`: how many Bindings the limiter lets through."""
        self._cache = state.cache
        self._queue = state.queue
        self._clock = state.clock
        self._wake = state.wake
        self._cluster = ports.cluster
        self._recorder = ports.recorder
        self._status = ports.status
        self._metrics = ports.metrics
        self._binding_cycles = binding_cycles
        self._failures = failures
        self._assigned = assigned
        self.limiter = BindLimiter(state.clock, at_once)
        """For Bindings that are with the API server; who waits in Permit or PreBind has none."""
        self.checks = BoundNodeChecks(state.cache, ports.recorder)
        self._expectations = state.features.enabled("NominatedNodeNameForExpectation")
        """Whether a pod that is held before its Binding shows the node it is expected on as its nominated one."""
        self._unconfirmed: deque[tuple[float, PodInfo]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    # Up to the task

    def start(self, queued: QueuedPod, live: ActivePolicy, placement: Placement, started: float) -> None:
        """Assume, reserve and permit, then off it goes."""
        pod, node_name, framework = queued.pod, placement.node_name, live.framework
        if self._cache.placement(queued.uid) is not None:
            self._queue.done(queued.uid)
            return
        self._cache.assume(pod, node_name)
        cycle = BindingCycle(queued, placement, live, started)
        try:
            status = framework.reserve(placement.state, pod, node_name)
            if status is None:
                status, waits = framework.permit(placement.state, pod, node_name)
                if status is not None and status.code is Code.WAIT:
                    cycle.waiting, status = WaitingPod(pod, node_name, waits), None
        except PluginError as error:
            status = Status(Code.ERROR, (str(error),), error.plugin)
        if status is not None:
            self._land(cycle, status)
            return
        self._cache.nominator.remove(queued.uid)
        self._binding_cycles.add(cycle)
        self.limiter.acquire(cycle)
        task = asyncio.create_task(self._run(cycle), name="podwright binding")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def assumed(self) -> int:
        """Pods that are assumed: under way, or bound and not confirmed by the watch."""
        return len(self._binding_cycles) + sum(self._cache.is_assumed(pod.uid) for _, pod in self._unconfirmed)

    # The task

    async def _run(self, cycle: BindingCycle) -> None:
        try:
            status = await self._outcome(cycle)
            try:
                await self._end(cycle, status)
            except Exception:
                # Whatever went wrong, the pod must not be left between queue and node.
                log.exception("pod %s: the end of its binding failed", cycle.queued.pod.key)
                if self._cache.is_assumed(cycle.uid):
                    await self._read_back(cycle, status or Status(Code.ERROR, ("the end of the binding failed",)))
                elif cycle.queued.place is Place.IN_FLIGHT and self._cache.placement(cycle.uid) is None:
                    self._queue.fault(cycle.queued)
        finally:
            self.limiter.release(cycle)
            self._binding_cycles.remove(cycle)
            if cycle.readmit is not None:
                cycle.readmit()
            self._wake()

    async def _end(self, cycle: BindingCycle, status: Status | None) -> None:
        if status is None:
            self._bound(cycle)
        elif cycle.posted:
            await self._read_back(cycle, status)
        elif cycle.stopped is ENDING:
            self._give_up(cycle)
        else:
            self._land(cycle, status)

    async def _outcome(self, cycle: BindingCycle) -> Status | None:
        try:
            return await self._cycle(cycle)
        except PluginError as error:
            return Status(Code.ERROR, (str(error),), error.plugin)
        except asyncio.CancelledError:
            if cycle.stopped is None:
                raise
            return cycle.stopped
        except Exception as error:
            log.exception("binding pod %s to %s failed", cycle.queued.pod.key, cycle.placement.node_name)
            return Status(Code.ERROR, (f"{type(error).__name__}: {error}",))

    async def _cycle(self, cycle: BindingCycle) -> Status | None:
        pod, node_name, framework = cycle.queued.pod, cycle.placement.node_name, cycle.live.framework
        state = cycle.placement.state
        works = framework.pre_bind_plugins and framework.pre_bind_pre_flights(state, pod, node_name)
        if cycle.waiting is not None and cycle.waiting.allowed:
            cycle.waiting = None  # the rest of its gang came in the same breath
        if cycle.waiting is not None or works:
            status = await self._held(cycle, pre_bind=bool(works))
            if status is not None:
                return status
        if cycle.stopped is not None:
            return cycle.stopped
        if why := reason_not_to_bind(self._cache, framework, pod, node_name):
            return Status(Code.ERROR, (why,))
        self._settle(cycle)
        cycle.posted = True
        annotations = annotations_of(cycle.live.policy, cycle.placement)
        status = await framework.bind(state, pod, node_name, annotations)
        if status is None and framework.post_bind_plugins:
            await self._after(cycle)
        return status

    async def _held(self, cycle: BindingCycle, *, pre_bind: bool) -> Status | None:
        """Permit's wait and PreBind's work, for which nobody else has to wait."""
        pod, node_name = cycle.queued.pod, cycle.placement.node_name
        if cycle.stopped is not None:
            return cycle.stopped
        if self._expectations and pod.nominated_node_name != node_name:
            self._status.write(pod, None, node_name)
            cycle.expected = True
        self.limiter.release(cycle)
        try:
            status = None
            if cycle.waiting is not None:
                started = self._clock()
                status = await cycle.waiting.wait()
                result = (Code.SUCCESS if status is None else status.code).text
                self._metrics.permit_wait_seconds.labels(result).observe(self._clock() - started)
                cycle.waiting = None
            if status is None and cycle.stopped is None and pre_bind:
                self._settle(cycle)
                cycle.working = asyncio.current_task()
                status = await cycle.live.framework.pre_bind(cycle.placement.state, pod, node_name)
        finally:
            cycle.working = None
        if status is None and cycle.stopped is None:
            await self.limiter.wait_for_capacity()
            self.limiter.acquire(cycle)
        return status or cycle.stopped

    def _settle(self, cycle: BindingCycle) -> None:
        cycle.settled = True
        self._queue.stop_recording(cycle.uid)

    async def _after(self, cycle: BindingCycle) -> None:
        try:
            pod, node_name = cycle.queued.pod, cycle.placement.node_name
            await cycle.live.framework.post_bind(cycle.placement.state, pod, node_name)
        except PluginError as error:
            log.warning("pod %s is bound, but %s", cycle.queued.pod.key, error)

    def reason_not_to_bind(self, pod: PodInfo, node_name: str) -> str:
        """Why a Binding that is under way must not be posted again; empty if it may."""
        cycle = self._binding_cycles.get(pod.uid)
        return "" if cycle is None else reason_not_to_bind(self._cache, cycle.live.framework, pod, node_name)

    # Ends

    def _bound(self, cycle: BindingCycle) -> None:
        queued, node_name, now = cycle.queued, cycle.placement.node_name, self._clock()
        pod = queued.pod
        self._queue.done(queued.uid)
        self._status.forget(queued.uid)
        self._metrics.attempts(SCHEDULED, pod.scheduler_name).observe(now - cycle.started)
        self._metrics.bound(now - (queued.queued_at if queued.ready_at is None else queued.ready_at), queued.attempts)
        if queued.was_flushed:
            self._metrics.after_flush.inc()
        note = f"Successfully assigned {pod.key} to {node_name}"
        self._recorder.record(pod, "Normal", "Scheduled", "Binding", note)
        self.checks.pod_bound(pod, node_name)
        if self._cache.is_assumed(queued.uid):
            self._unconfirmed.append((now + CONFIRM_SECONDS, pod))

    def _land(self, cycle: BindingCycle, status: Status) -> None:
        """The pod was not bound and will not be: everything is taken back."""
        queued, placement, framework = cycle.queued, cycle.placement, cycle.live.framework
        for fault in framework.unreserve(placement.state, queued.pod, placement.node_name):
            log.warning("pod %s: %s", queued.pod.key, fault)
        if self._cache.is_assumed(queued.uid):
            self._cache.forget(queued.uid)
        profile, seconds = queued.pod.scheduler_name, self._clock() - cycle.started
        if status.rejected:
            self._failures.reject_node(queued, status, profile, seconds, settled=cycle.settled)
        else:
            self._failures.fail(queued, status.message or status.code.text, profile, seconds)
        if self._binding_cycles.get(queued.uid) is cycle:  # Else nobody has seen the pod on that node.
            self._queue.move(POD_GONE, queued.pod.on(placement.node_name), None, spare=queued.uid)

    def _give_up(self, cycle: BindingCycle) -> None:
        """The process ends before the pod could be bound. The next one must not find a promise that nobody keeps."""
        self._take_back(cycle)
        if self._cache.is_assumed(cycle.uid):
            self._cache.forget(cycle.uid)
        if cycle.expected:
            self._status.write(cycle.queued.pod, None, "")

    async def _read_back(self, cycle: BindingCycle, status: Status) -> None:
        pod = cycle.queued.pod
        found = await self._read(pod)
        if not self._cache.is_assumed(pod.uid):
            self._confirmed_meanwhile(cycle, status)
        elif found is None:
            self._vanished(cycle)
        elif not found.node_name:
            self._land(cycle, status)
        else:
            self._is_on(cycle, found.node_name)
            self._assigned.take(found)

    def _confirmed_meanwhile(self, cycle: BindingCycle, status: Status) -> None:
        """The watch has spoken while we asked."""
        where = self._cache.placement(cycle.uid)
        if where is None:
            self._vanished(cycle)
        else:
            log.info("pod %s: %s; it runs on %s", cycle.queued.pod.key, status.message, where.name)
            self._is_on(cycle, where.name)

    def _is_on(self, cycle: BindingCycle, node_name: str) -> None:
        """The pod has a node. Whoever was refused has not bound it, not even where two of us chose alike."""
        if node_name != cycle.placement.node_name:
            self._elsewhere(cycle)
        elif cycle.conflict:
            self._take_back(cycle)
            self._queue.done(cycle.uid)
        else:
            self._bound(cycle)

    def _vanished(self, cycle: BindingCycle) -> None:
        self._take_back(cycle)
        if self._cache.is_assumed(cycle.uid):
            self._cache.forget(cycle.uid)
        self._queue.done(cycle.uid)
        self._cache.groups.remove_waiting(cycle.uid)
        self._status.forget(cycle.uid)
        self._queue.move(POD_GONE, cycle.queued.pod.on(cycle.placement.node_name), None)

    def _elsewhere(self, cycle: BindingCycle) -> None:
        self._take_back(cycle)
        self._queue.done(cycle.uid)
        self._queue.move(POD_GONE, cycle.queued.pod.on(cycle.placement.node_name), None)

    def _take_back(self, cycle: BindingCycle) -> None:
        placement = cycle.placement
        for fault in cycle.live.framework.unreserve(placement.state, cycle.queued.pod, placement.node_name):
            log.warning("pod %s: %s", cycle.queued.pod.key, fault)

    async def _read(self, pod: PodInfo) -> PodInfo | None:
        """The pod as the API server has it, None if it is gone or another one has its name. Asks until it is told.

        Any error will do to ask again: without an answer the pod would be neither waiting nor on its node.
        """
        shortest, longest = READ_BACK_SECONDS
        pause = shortest
        while True:
            try:
                raw = await self._cluster.get("Pod", pod.name, pod.namespace)
                return None if raw is None or raw["metadata"].get("uid") != pod.uid else _understood(raw, pod)
            except Exception as error:  # noqa: BLE001 -- the pod would be lost between queue and node
                if pause == shortest:
                    log.warning("pod %s: cannot read it back yet: %s", pod.key, str(error) or repr(error))
            await asyncio.sleep(pause)
            pause = min(longest, 2 * pause)

    # Confirmation

    async def confirm_late(self) -> None:
        """Reads back the pods that were bound long ago and that the watch has not shown yet; forgets those that it has."""
        now = self._clock()
        self._unconfirmed = deque(entry for entry in self._unconfirmed if self._cache.is_assumed(entry[1].uid))
        while self._unconfirmed and self._unconfirmed[0][0] <= now:
            _, pod = self._unconfirmed.popleft()
            if not self._cache.is_assumed(pod.uid) or self._binding_cycles.get(pod.uid) is not None:
                continue
            found = await self._read(pod)
            if not self._cache.is_assumed(pod.uid):
                continue
            if found is not None and found.node_name:
                self._assigned.take(found)
                continue
            log.warning("pod %s was bound but is %s", pod.key, "gone" if found is None else "pending")
            placement = self._cache.placement(pod.uid)
            self._cache.forget(pod.uid)
            self._queue.move(POD_GONE, pod.on(placement.name if placement else ""), None)
            if found is None:
                self._cache.groups.remove_waiting(pod.uid)
            else:
                self._queue.add(found)
            self._wake()

    async def drain(self, grace: float) -> None:
        """Waits for the bindings under way, at most `grace` seconds, then ends them. Whoever waits in Permit is let go at once:
        nothing more is decided, so there is mostly nothing more to wait for.
        """
        for cycle in self._binding_cycles:
            if cycle.waiting is not None and not cycle.waiting.allowed and cycle.stopped is None:
                cycle.stop(ENDING)
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=grace)
        for cycle in self._binding_cycles:
            if cycle.stopped is None and not cycle.posted:
                cycle.stop(ENDING)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _understood(raw: Mapping[str, Any], pod: PodInfo) -> PodInfo:
    """What was read back; where that cannot be understood (any more), the pod as we know it, on the node that it has."""
    try:
        return parse_pod(raw)
    except InvalidObjectError as error:
        log.warning("pod %s: read back, but %s", pod.key, error)
        node_name = raw["spec"].get("nodeName")
        return pod.on(node_name) if node_name else pod
