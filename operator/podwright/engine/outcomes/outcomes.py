"""Carries out decisions: a placement becomes a binding cycle, a rejection or a fault a failed attempt."""

from __future__ import annotations

import logging

from podwright.core.cycle import Decision, Placement, Rejection
from podwright.core.objects.control_flow import CONTROL_FLOW
from podwright.core.objects.errors import described
from podwright.core.queue import QueuedPod
from podwright.engine.outcomes.binding.executor import BindingExecutor
from podwright.engine.outcomes.failures import Failures
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.ports import Ports
from podwright.engine.records import decision_log
from podwright.engine.records.log_fields import fields
from podwright.engine.records.metrics import ALGORITHM_SECONDS
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)


class Outcomes:
    """See the module. `started`: when the attempt began, in seconds of the engine's clock."""

    def __init__(
        self, state: EngineState, ports: Ports, *, failures: Failures, binding_executor: BindingExecutor
    ) -> None:
        self._cache = state.cache
        self._cycles = state.binding_cycles
        self._decisions = state.decisions
        self._clock = state.clock
        self._metrics = ports.metrics
        self._recorder = ports.recorder
        self.failures = failures
        """Handles the pods that are not placed."""
        self._binding_executor = binding_executor
        self.turn = binding_executor.limiter.turn
        """Awaited before each of many decisions about pods that need not start together."""

    def carry_out(self, queued: QueuedPod, policy: ActivePolicy, decision: Decision, started: float) -> None:
        """Does what the decision says. Never raises: an error is a failed attempt."""
        seconds = self._clock() - started
        policy.activity.decisions[0] += 1
        try:
            self._metrics.observe(ALGORITHM_SECONDS, seconds)
            self._decisions.add(decision, policy.label)
            if decision_log.enabled():
                decision_log.log_decision(decision, policy.label, seconds)
            if isinstance(decision, Placement):
                self._binding_executor.start(queued, policy, decision, started)
            elif isinstance(decision, Rejection):
                self.failures.reject(queued, decision, policy.framework, seconds)
            else:
                self.failures.fail(queued, decision.message, seconds)
        except CONTROL_FLOW:
            raise
        except BaseException as error:
            log.exception("carrying out a decision failed", extra=fields(pod=queued.pod))
            self.abandon(queued, error, started)

    def abandon(self, queued: QueuedPod, error: BaseException, started: float) -> None:
        """Cleans up after an attempt that an exception interrupted."""
        if self._cache.is_assumed(queued.uid) and not self._cycles.has(queued.uid):
            self._cache.forget(queued.uid)
        self.failures.fail(queued, described(error), self._clock() - started)

    def skip(self, queued: QueuedPod) -> None:
        """Takes a pod that is being deleted out of the queue."""
        note = f"skip schedule deleting pod: {queued.pod.key}"
        self._recorder.record(queued.pod, "Warning", "FailedScheduling", "Scheduling", note)
        self.failures.drop(queued)
