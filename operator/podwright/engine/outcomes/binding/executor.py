"""Runs binding cycles: what happens to a pod between its decision and the confirmation by the watch.

    start: assume ─► Reserve ─► Permit ──► _run: [wait] ─► [PreBind] ─► Bind ─► [PostBind] ──► (the watch confirms)

`start` is synchronous, so that the next decision counts the pod; `_run` is a task, one for each cycle. `states` has the
state machine, and `effects` carries out how a cycle ends. The outcome of a failed Binding is never guessed: the pod is
read back, and stays assumed until the API server answers.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from podwright.core.cycle import Placement
from podwright.core.framework.errors import PluginError
from podwright.core.framework.measured import measured
from podwright.core.framework.status import Code, Status
from podwright.core.objects.control_flow import CONTROL_FLOW, passes_through
from podwright.core.objects.errors import described
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.gang_scheduling import GangScheduling
from podwright.core.queue import QueuedPod
from podwright.core.queue.queued_pod import Place
from podwright.core.queues.queues import queues_of
from podwright.engine.extenders import PolicyExtenders
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.intake.object_changes import ASSIGNED_POD_DELETE
from podwright.engine.outcomes.binding import debug
from podwright.engine.outcomes.binding.checks import BoundNodeChecks, reason_not_to_bind
from podwright.engine.outcomes.binding.cycle import SHUTDOWN, BindingCycle, BindingCycles, Ending
from podwright.engine.outcomes.binding.device_rivals import DeviceRivals
from podwright.engine.outcomes.binding.effects import OutcomeEffects
from podwright.engine.outcomes.binding.limiter import BindLimiter
from podwright.engine.outcomes.binding.read_back import ReadBack, UnconfirmedBindings
from podwright.engine.outcomes.binding.states import (
    BindingOutcome,
    BindingState,
    outcome_of_failure,
    outcome_of_read_back,
)
from podwright.engine.outcomes.binding.waiting_pods import PermitWaitingPod
from podwright.engine.outcomes.failures import Failures
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.ports import ExtenderError, Ports
from podwright.engine.process.interruption import cancel, is_interruption
from podwright.engine.records.decision_annotation import annotations_of
from podwright.engine.records.log_fields import V2, fields
from podwright.engine.records.metrics import PERMIT_WAIT_SECONDS
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)

_BOUND: Final = Ending(BindingOutcome.BOUND)
_NO_EXTENDER: Final = Status(Code.SKIP)
_EFFECTS_FAILED: Final = Status(Code.ERROR, ("the end of the binding failed",))


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
        limiter: BindLimiter,
    ) -> None:
        """`binding_cycles`: those of `state`, with the methods that change them."""
        self._cache = state.cache
        self._queues = queues_of(state.cache)
        self._queue = state.queue
        self._clock = state.clock
        self._wake = state.wake
        self._arrivals = state.arrivals
        self._instance = state.instance
        self._status = ports.status
        self._metrics = ports.metrics
        self._extenders = PolicyExtenders(ports)
        self._cycles = binding_cycles
        self._follow_ups = failures.follow_ups
        self._reader = ReadBack(ports.pods)
        self._unconfirmed = UnconfirmedBindings(state, self._reader, assigned=assigned)
        self._device_rivals = DeviceRivals(state.cache, ports.recorder, metrics=ports.metrics)
        self.checks = BoundNodeChecks(state.cache, ports.recorder)
        self._effects = OutcomeEffects(
            state, ports, failures=failures, assigned=assigned, checks=self.checks, unconfirmed=self._unconfirmed
        )
        self.limiter = limiter
        """Limits the Bindings and plugins' requests that are with the API server. Pods that wait in Permit or PreBind
        are not counted.
        """
        self._nominate = state.features.enabled("NominatedNodeNameForExpectation")
        """True if the status of a pod in Permit or PreBind shows its node as the nominated one."""
        self._debug = debug.enabled()
        self._tasks: set[asyncio.Task[None]] = set()

    # The synchronous part

    def start(self, queued: QueuedPod, policy: ActivePolicy, placement: Placement, started: float) -> None:
        """Assumes the pod, runs Reserve and Permit, and begins the cycle's task unless they reject the pod."""
        if self._cache.placement(queued.uid) is not None:
            self._queue.done(queued.uid)
            return
        self._cache.assume(queued.pod, placement.node_name)
        self._arrivals.placed(queued.pod, placement.node_name, certain=True)
        cycle = BindingCycle(
            queued=queued,
            placement=placement,
            policy=policy,
            framework=measured(policy.framework, placement.state.observer),
            started=started,
            debug=self._debug,
        )
        if (failure := self._reserve_and_permit(cycle)) is not None:
            self._effects.apply(cycle, self._ending(cycle, failure))
            return
        if (nominated := self._cache.nominator.remove(queued.uid)) not in ("", placement.node_name):
            behind = self._cache.nominator.highest_behind(queued.pod)
            self._queue.move(ASSIGNED_POD_DELETE, queued.pod.on(nominated), None, up_to_priority=behind)
        self._cycles.add(cycle)
        if not (queued.pod.group and self.limiter.full):  # members start together; for others, the loop has waited
            self.limiter.acquire(cycle)
        task = asyncio.create_task(self._run(cycle), name="podwright binding")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _reserve_and_permit(self, cycle: BindingCycle) -> Status | None:
        pod, placement, framework = cycle.queued.pod, cycle.placement, cycle.framework
        try:
            status = framework.reserve(placement.state, pod, placement.node_name)
            if status is not None:
                return status
            cycle.enter(BindingState.RESERVED)
            status, timeouts = framework.permit(placement.state, pod, placement.node_name)
        except PluginError as error:
            return Status(Code.ERROR, (str(error),), error.plugin)
        if status is None:
            cycle.enter(BindingState.PERMITTED)
            return None
        if status.code is not Code.WAIT:
            return status
        cycle.wait_on_permit(PermitWaitingPod(pod, placement.node_name, timeouts=timeouts))
        return None

    @property
    def assumed(self) -> int:
        """Pods that are assumed: their cycle is in progress, or they are bound and the watch has not confirmed it."""
        return len(self._cycles) + self._unconfirmed.count

    # The task

    async def _run(self, cycle: BindingCycle) -> None:
        self.limiter.act_for(cycle)
        try:
            ending = await self._until_bound(cycle)
            if ending is _BOUND:
                self.limiter.completed(cycle)
            try:
                await self._finish(cycle, ending)
            except debug.BindingCycleError:
                raise
            except BaseException as error:
                if passes_through(error) or is_interruption(error):
                    raise
                log.exception("the end of a binding failed", extra=fields(pod=cycle.queued.pod))
                await self._recover(cycle, ending)
        except asyncio.CancelledError:
            self._effects.apply(cycle, Ending(BindingOutcome.INTERRUPTED))
            raise
        finally:
            self.limiter.release(cycle)
            self._cycles.remove(cycle)
            if cycle.readmit is not None:
                cycle.readmit()
            self._wake()
            if self._debug:
                registered = self._cycles.get(cycle.uid) is cycle
                debug.check_closed(cycle.queued.pod.key, registered=registered, holds_capacity=cycle in self.limiter)

    async def _until_bound(self, cycle: BindingCycle) -> Ending:
        """Everything up to PostBind. How the cycle ended; UNKNOWN if the Binding may have gone through."""
        try:
            status = await self._bind(cycle)
        except PluginError as error:
            status = Status(Code.ERROR, (str(error),), error.plugin)
        except (debug.BindingCycleError, *CONTROL_FLOW):
            raise
        except BaseException as error:
            if is_interruption(error):
                if cycle.stopped is None or isinstance(error, GeneratorExit):
                    raise
                return cycle.stopped
            log.exception("a binding failed", extra=fields(pod=cycle.queued.pod, node=cycle.placement.node_name))
            status = Status(Code.ERROR, (described(error),))
        return _BOUND if status is None else self._ending(cycle, status)

    def _ending(self, cycle: BindingCycle, failure: Status) -> Ending:
        """The ending of a failed cycle. A plugin's verdict counts even if the cycle was stopped right after it."""
        stopped = cycle.stopped
        if stopped is not None and (stopped.status is failure or stopped is SHUTDOWN):
            return stopped
        return Ending(outcome_of_failure(cycle.state, failure), failure)

    async def _bind(self, cycle: BindingCycle) -> Status | None:
        """None: the pod is bound."""
        pod, placement, framework = cycle.queued.pod, cycle.placement, cycle.framework
        state, node_name = placement.state, placement.node_name
        pre_bind = framework.pre_bind_plugins and framework.pre_bind_pre_flights(state, pod, node_name)
        if cycle.waiting is not None and cycle.waiting.allowed:
            cycle.permitted()  # the rest of its gang came in the same turn of the loop
        if cycle.waiting is not None or pre_bind or (pod.group and cycle not in self.limiter):
            status = await self._prepare(cycle, pre_bind=bool(pre_bind))
            if status is not None:
                return status
        if (stopped := cycle.stop_reason()) is not None:
            return stopped
        if reason := reason_not_to_bind(self._cache, framework, cycle.queued.pod, node_name):
            return Status(Code.ERROR, (reason,))
        self._queue.stop_recording(cycle.uid)
        cycle.enter(BindingState.BINDING)
        annotations = annotations_of(pod, cycle.policy.compiled, placement, self._instance.id, self._queues)
        if not cycle.policy.extenders or (status := await self._bind_by_extender(cycle)) is _NO_EXTENDER:
            status = await framework.bind(state, pod, node_name, annotations)
        if status is None and framework.post_bind_plugins:
            cycle.enter(BindingState.POST_BINDING)
            await self._post_bind(cycle)
        return status

    async def _bind_by_extender(self, cycle: BindingCycle) -> Status | None:
        """Lets the policy's extender bind the pod, if one does. `_NO_EXTENDER`: the plugins are to bind it."""
        extender = self._extenders.binding(cycle.policy, cycle.queued.pod)
        if extender is None:
            return _NO_EXTENDER
        try:
            await extender.bind(cycle.queued.pod, cycle.placement.node_name)
        except ExtenderError as error:
            if not extender.defined.settings.ignorable:
                return Status(Code.ERROR, (str(error),))
            skipped = fields(extender=extender.defined.name, pod=cycle.queued.pod, error=error)
            log.info("an extender failed to bind a pod, and is skipped, because it is ignorable", extra=skipped)
            return _NO_EXTENDER
        return None

    async def _prepare(self, cycle: BindingCycle, *, pre_bind: bool) -> Status | None:
        """Waits for Permit and runs PreBind, outside the limiter. Returns with capacity of the limiter, or why not to
        bind.
        """
        pod, node_name = cycle.queued.pod, cycle.placement.node_name
        if (reason := cycle.stop_reason()) is not None:
            return reason
        # A gang that is just starting keeps its members waiting for a moment only.
        waits = pre_bind or (cycle.waiting is not None and {*cycle.waiting.pending_plugins} != {GangScheduling.name})
        if self._nominate and waits and pod.nominated_node_name != node_name:
            self._status.write(pod, None, node_name)
            cycle.node_nominated()
        self.limiter.release(cycle)
        if cycle.waiting is not None and (status := await self._wait_on_permit(cycle, cycle.waiting)) is not None:
            return status
        if pre_bind and cycle.stop_reason() is None and (status := await self._pre_bind(cycle)) is not None:
            return status
        if (reason := cycle.stop_reason()) is not None:
            return reason
        await self.limiter.wait_for_capacity()
        self.limiter.acquire(cycle)
        return cycle.stop_reason()

    async def _wait_on_permit(self, cycle: BindingCycle, waiting: PermitWaitingPod) -> Status | None:
        started = self._clock()
        status = await waiting.wait()
        result = (Code.SUCCESS if status is None else status.code).text
        self._metrics.observe(PERMIT_WAIT_SECONDS, self._clock() - started, result)
        if status is None:
            cycle.permitted()
        else:
            cycle.permit_failed()
        return status

    async def _pre_bind(self, cycle: BindingCycle) -> Status | None:
        self._queue.stop_recording(cycle.uid)
        cycle.enter(BindingState.PRE_BINDING)
        placement = cycle.placement
        with cycle.cancellable():
            await self._follow_ups.finished(cycle.uid)
            status = await cycle.framework.pre_bind(placement.state, cycle.queued.pod, placement.node_name)
        if status is None:
            cycle.enter(BindingState.PRE_BOUND)
        return status

    async def _post_bind(self, cycle: BindingCycle) -> None:
        try:
            placement = cycle.placement
            await cycle.framework.post_bind(placement.state, cycle.queued.pod, placement.node_name)
        except PluginError as error:
            log.warning("a pod is bound, but PostBind failed", extra=fields(pod=cycle.queued.pod, err=error))

    def reason_not_to_bind(self, pod: PodInfo, node_name: str) -> str:
        """Why the Binding of a cycle in progress must not be posted again; empty if it may be."""
        cycle = self._cycles.get(pod.uid)
        return "" if cycle is None else reason_not_to_bind(self._cache, cycle.framework, cycle.queued.pod, node_name)

    # The end

    async def _finish(self, cycle: BindingCycle, ending: Ending) -> None:
        if ending.outcome is BindingOutcome.UNKNOWN and ending.status is not None:
            self._effects.apply(cycle, ending)
            await self._read_back(cycle, ending.status)
        else:
            self._effects.apply(cycle, ending)

    async def _read_back(self, cycle: BindingCycle, failure: Status) -> None:
        found = await self._reader.read(cycle.queued.pod)
        node_name = None if found is None else found.node_name
        if not self._cache.is_assumed(cycle.uid):  # The watch was faster, so its version of the pod counts.
            found, placement = None, self._cache.placement(cycle.uid)
            node_name = None if placement is None else placement.name
            if placement is not None:
                where = fields(pod=cycle.queued.pod, node=placement.name, err=failure.message)
                log.log(V2, "the request failed, but the pod is bound", extra=where)
        outcome = outcome_of_read_back(node_name, cycle.placement.node_name, failure, conflict=cycle.conflict)
        self._effects.apply(cycle, Ending(outcome, failure), found)

    async def _recover(self, cycle: BindingCycle, ending: Ending) -> None:
        """An exception interrupted the effects. Brings the pod to a safe place, so that it is not lost between queue
        and node.
        """
        cycle.enter(BindingState.RECOVERING)
        if self._cache.is_assumed(cycle.uid):
            await self._read_back(cycle, ending.status or _EFFECTS_FAILED)
            return
        lost = cycle.queued.place is Place.IN_FLIGHT and self._cache.placement(cycle.uid) is None
        self._effects.apply(cycle, Ending(BindingOutcome.LOST if lost else BindingOutcome.ENDED))

    async def read_back_overdue(self) -> None:
        """Reads back the pods that the watch should have shown on their node by now. Call it regularly."""
        await self._unconfirmed.read_back_overdue()

    async def drain(self, grace: float) -> bool:
        """Waits at most `grace` seconds for the cycles in progress and their follow-ups, then stops them. Returns
        whether none was interrupted.

        Pods that wait in Permit are stopped at once: no further decision is made, so nothing is likely to allow them.
        So are those whose PreBind plugins wait for an object, which may take minutes.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + grace
        self._cycles.end_waits()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=grace)
        ended = all(task.done() for task in self._tasks)
        for cycle in self._cycles:
            cycle.stop(SHUTDOWN)
        await cancel(self._tasks)
        return await self._follow_ups.drain(max(0.0, ends - loop.time())) and ended
