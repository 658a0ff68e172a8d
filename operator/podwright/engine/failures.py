"""Attempts that came to nothing: the pod goes back to the queue, people are told why, and preemption is carried out.

Only a pod that still is in the queue is told about; one that vanished or was bound by somebody else meanwhile is not.
"""

from __future__ import annotations

import logging
from typing import Final

from podwright.core.cycle import Fault, Rejection
from podwright.core.framework.status import Status
from podwright.core.objects.pod import PodInfo
from podwright.core.queue import QueuedPod, SchedulingQueue
from podwright.core.state.cache import Cache
from podwright.engine.flights import Flights
from podwright.engine.metrics import ERROR, UNSCHEDULABLE, Metrics
from podwright.engine.ports import SCHEDULER_ERROR, Evictor, Recorder, StatusWriter, Verdict
from podwright.engine.ports import UNSCHEDULABLE as REASON_UNSCHEDULABLE

log = logging.getLogger(__name__)

NOTE_BYTES: Final = 1024
"""The API server takes no longer note in an event."""


def shortened(message: str) -> str:
    """The message as an event can carry it."""
    data = message.encode()
    if len(data) <= NOTE_BYTES:
        return message
    return data[: NOTE_BYTES - 4].decode(errors="ignore") + " ..."


class Failures:
    """See the module."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        flights: Flights,
        recorder: Recorder,
        status: StatusWriter,
        evictor: Evictor,
        metrics: Metrics,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._flights = flights
        self._recorder = recorder
        self._status = status
        self._evictor = evictor
        self._metrics = metrics

    def rejected(self, queued: QueuedPod, decision: Rejection, profile: str, seconds: float) -> None:
        """No node was feasible."""
        self._metrics.attempts(UNSCHEDULABLE, profile).observe(seconds)
        self._queue.reject(queued, decision.status_plugins, decision.pending_plugins)
        if self._queue.get(queued.uid) is not queued:
            return
        nominated = decision.nominated_node
        if nominated is not None:
            self._nominate(queued.pod, nominated)
        self._tell(queued.pod, REASON_UNSCHEDULABLE, decision.message, nominated)
        if nominated:
            self._metrics.preemption_attempts.inc()
            self._preempt(queued.pod, nominated, decision.victims)

    def turned_down(self, queued: QueuedPod, status: Status, profile: str, seconds: float) -> None:
        """A plugin rejected the chosen node in Reserve, Permit or PreBind."""
        self._metrics.attempts(UNSCHEDULABLE, profile).observe(seconds)
        self._queue.reject(queued, {status.plugin} if status.plugin else ())
        reasons = sorted(f"1 {reason}" for reason in status.reasons)
        message = f"0/1 nodes are available: {', '.join(reasons)}." if reasons else "0/1 nodes are available:"
        self._told(queued, REASON_UNSCHEDULABLE, message)

    def faulty(self, queued: QueuedPod, message: str, profile: str, seconds: float) -> None:
        """The attempt failed with an error."""
        self._metrics.attempts(ERROR, profile).observe(seconds)
        self._queue.fault(queued)
        self._told(queued, SCHEDULER_ERROR, message)
        log.warning("pod %s: %s; trying again", queued.pod.key, message)

    def decided(self, queued: QueuedPod, decision: Rejection | Fault, profile: str, seconds: float) -> None:
        if isinstance(decision, Rejection):
            self.rejected(queued, decision, profile, seconds)
        else:
            self.faulty(queued, decision.message, profile, seconds)

    def _told(self, queued: QueuedPod, reason: str, message: str) -> None:
        if self._queue.get(queued.uid) is queued:
            self._tell(queued.pod, reason, message, None)

    def _tell(self, pod: PodInfo, reason: str, message: str, nominated: str | None) -> None:
        self._recorder.record(pod, "Warning", "FailedScheduling", "Scheduling", shortened(message))
        self._status.write(pod, Verdict(reason, message), nominated)

    # Preemption

    def _nominate(self, pod: PodInfo, node_name: str) -> None:
        if node_name:
            self._cache.nominator.add(pod, node_name)
        else:
            self._cache.nominator.remove(pod.uid)

    def _preempt(self, pod: PodInfo, node_name: str, victims: tuple[PodInfo, ...]) -> None:
        self._metrics.preemption_victims.observe(len(victims))
        for victim in victims:
            if not self._flights.cancel(victim.uid, "preempted"):
                self._evictor.evict(victim, pod, node_name, lambda _begun: None)
        for lower in [p for p in self._cache.nominator.on(node_name) if p.priority < pod.priority]:
            self._cache.nominator.remove(lower.uid)
            self._status.write(lower, None, "")
