"""Carries out the effects of an outcome, row by row of the table in `states`. No other part ends a binding cycle."""

from __future__ import annotations

import logging

from podwright.core.objects.pod import PodInfo
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.intake.object_changes import ASSIGNED_POD_DELETE
from podwright.engine.outcomes.binding import debug
from podwright.engine.outcomes.binding.checks import BoundNodeChecks
from podwright.engine.outcomes.binding.cycle import BindingCycle, Ending
from podwright.engine.outcomes.binding.read_back import UnconfirmedBindings
from podwright.engine.outcomes.binding.states import EFFECTS, NOT_STARTED, PERMIT_OVER, BindingReport, Effects, Queueing
from podwright.engine.outcomes.failures import Failures
from podwright.engine.ports import Ports
from podwright.engine.records.decision_annotation import DEVICES_NAMED
from podwright.engine.records.log_fields import fields
from podwright.engine.records.metrics import SCHEDULED, SCHEDULED_AFTER_FLUSH
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)


class OutcomeEffects:
    """See the module."""

    def __init__(
        self,
        state: EngineState,
        ports: Ports,
        failures: Failures,
        assigned: AssignedPods,
        checks: BoundNodeChecks,
        unconfirmed: UnconfirmedBindings,
    ) -> None:
        self._cache = state.cache
        self._queue = state.queue
        self._clock = state.clock
        self._recorder = ports.recorder
        self._status = ports.status
        self._metrics = ports.metrics
        self._failures = failures
        self._assigned = assigned
        self._checks = checks
        self._unconfirmed = unconfirmed

    def apply(self, cycle: BindingCycle, ending: Ending, found: PodInfo | None = None) -> None:
        """Ends the cycle. `found`: the pod as it was read back."""
        effects = EFFECTS[ending.outcome]
        if cycle.debug:
            debug.check_outcome(cycle.queued.pod.key, cycle.state, ending.outcome)
        if effects.unreserve:
            self._unreserve(cycle)
        if effects.forget and self._cache.is_assumed(cycle.uid):
            self._cache.forget(cycle.uid)
        if effects.queue is not Queueing.KEEP:
            self._enqueue(cycle, effects, ending)
        if effects.report is not BindingReport.NOTHING:
            self._report(cycle, effects)
        if effects.free_room and cycle.state not in NOT_STARTED:
            pod = cycle.queued.pod.on(cycle.placement.node_name)
            self._queue.move(ASSIGNED_POD_DELETE, pod, None, exclude=cycle.uid)
        if effects.confirm and found is not None:
            self._assigned.take(found)
        cycle.end(ending.outcome)
        if cycle.debug:
            debug.check_effects(cycle.queued, ending.outcome, self._cache, self._queue, self._unconfirmed.newest)

    def _unreserve(self, cycle: BindingCycle) -> None:
        pod, placement = cycle.queued.pod, cycle.placement
        for fault in cycle.framework.unreserve(placement.state, pod, placement.node_name):
            log.warning("Unreserve failed", extra=fields(pod=pod, err=fault))
        self._failures.follow_ups.run(placement.state.follow_ups, pod)
        placement.state.follow_ups = []

    def _enqueue(self, cycle: BindingCycle, effects: Effects, ending: Ending) -> None:
        queued, status = cycle.queued, ending.status
        if effects.queue is Queueing.DONE:
            self._queue.done(cycle.uid)
            return
        if effects.queue is Queueing.RETRY or status is None:
            self._queue.fault(queued)
            return
        seconds = self._clock() - cycle.started
        if effects.queue is Queueing.REJECT:
            self._failures.reject_node(queued, status, seconds, permit_over=cycle.state in PERMIT_OVER)
        else:
            self._failures.fail(queued, status.message or status.code.text, seconds)

    def _report(self, cycle: BindingCycle, effects: Effects) -> None:
        if effects.report is BindingReport.BOUND:
            self._report_bound(cycle)
        elif effects.report is BindingReport.GONE:
            self._cache.groups.remove_waiting(cycle.uid)
            self._status.forget(cycle.uid)
        elif cycle.nominated:
            self._status.write(cycle.queued.pod, None, "")

    def _report_bound(self, cycle: BindingCycle) -> None:
        queued, node_name, now = cycle.queued, cycle.placement.node_name, self._clock()
        pod = queued.pod
        self._status.forget(queued.uid)
        self._metrics.attempt_took(SCHEDULED, pod.scheduler_name, now - cycle.started)
        self._metrics.pod_bound(
            now - (queued.queued_at if queued.ready_at is None else queued.ready_at), queued.attempts
        )
        if queued.was_flushed:
            self._metrics.count(SCHEDULED_AFTER_FLUSH)
        note = f"Successfully assigned {pod.key} to {node_name}"
        if devices := cycle.placement.state.devices:
            note += f" with {', '.join(devices[:DEVICES_NAMED])}"
        self._recorder.record(pod, "Normal", "Scheduled", "Binding", note)
        self._checks.pod_bound(pod, node_name)
        if self._cache.is_assumed(queued.uid):
            self._unconfirmed.add(pod, now)
