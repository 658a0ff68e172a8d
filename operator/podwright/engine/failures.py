"""Attempts that came to nothing: the pod goes back to the queue, and people are told why. `preemption` carries preemption out.

Only a pod that still is in the queue is told about; one that vanished or was bound by somebody else meanwhile is not.
"""

from __future__ import annotations

import logging
from typing import Final

from podwright.core.cycle import Rejection
from podwright.core.framework.runtime import Framework
from podwright.core.framework.status import Status
from podwright.core.objects.pod import PodInfo
from podwright.core.queue import QueuedPod, SchedulingQueue
from podwright.core.state.cache import Cache
from podwright.engine.metrics import ERROR, UNSCHEDULABLE, Metrics
from podwright.engine.ports import SCHEDULER_ERROR, Recorder, StatusWriter, Verdict
from podwright.engine.ports import UNSCHEDULABLE as REASON_UNSCHEDULABLE
from podwright.engine.preemption import Preemptions

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
        recorder: Recorder,
        status: StatusWriter,
        preemptions: Preemptions,
        metrics: Metrics,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._recorder = recorder
        self._status = status
        self._preemptions = preemptions
        self._metrics = metrics

    def rejected(
        self, queued: QueuedPod, decision: Rejection, framework: Framework, profile: str, seconds: float
    ) -> None:
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
            self._preemptions.carry_out(framework, queued.pod, nominated, decision.victims)

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

    def _told(self, queued: QueuedPod, reason: str, message: str) -> None:
        """A node that it was promised is not where it goes, so the promise is over, in memory and in its status."""
        self._cache.nominator.remove(queued.uid)
        if self._queue.get(queued.uid) is queued:
            self._tell(queued.pod, reason, message, "")

    def _tell(self, pod: PodInfo, reason: str, message: str, nominated: str | None) -> None:
        self._recorder.record(pod, "Warning", "FailedScheduling", "Scheduling", shortened(message))
        self._status.write(pod, Verdict(reason, message), nominated)

    def _nominate(self, pod: PodInfo, node_name: str) -> None:
        if node_name:
            self._cache.nominator.add(pod, node_name)
        else:
            self._cache.nominator.remove(pod.uid)
