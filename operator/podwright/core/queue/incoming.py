"""Why a pod enters a part of the queue, in the words of the metric `scheduler_queue_incoming_pods_total`."""

from __future__ import annotations

from typing import Final

POD_ADD: Final = "UnscheduledPodAdd"
ATTEMPT_FAILED: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POPPED_EARLY: Final = "PopFromBackoffQ"
TIMEOUT: Final = "UnschedulableTimeout"
FORCED: Final = "ForceActivate"
