"""QueuedPod: a pending pod and how its attempts went."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from podwright.core.objects.pod import PodInfo


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds. The backoff after the first failed attempt, which doubles with each further one; the longest backoff; and after
    how long an unschedulable or gated pod is looked at again even if nothing happened. The defaults are kube-scheduler's.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_unschedulable: float = 300.0


DEFAULT_WAITS: Final = Waits()


class Place(Enum):
    """Where a pod is; the values are those of the metric label `queue`."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in-flight"


@dataclass(slots=True, eq=False)
class QueuedPod:
    """`queued_at` is when it first came, `timestamp` when it last entered a queue, `ready_at` when it first was active,
    `flushed_at` when it last had waited too long: all in seconds of the clock.
    """

    pod: PodInfo
    queued_at: float
    timestamp: float
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    """Consecutive attempts that failed with an error; they count apart from rejections."""
    place: Place = Place.ACTIVE
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    gated_by: str = ""
    backoff_until: float = 0.0
    ready_at: float | None = None
    flushed_at: float = 0.0
    was_flushed: bool = False
    """Its attempt is due to the time that it had waited, not to an event."""
    told: tuple[str, str, str | None, float] | None = None
    """What people were told of it last: reason, message, nominated node, and when."""
    buckets: list[dict[str, QueuedPod]] = field(default_factory=list)

    @property
    def uid(self) -> str:
        return self.pod.uid

    @property
    def rejectors(self) -> frozenset[str]:
        return self.unschedulable_plugins | self.pending_plugins

    def start_backoff(self, waits: Waits) -> None:
        """Sets `backoff_until` by the failures so far, on a whole second as kube-scheduler does."""
        failures = self.errors or self.rejections
        if not failures:
            self.backoff_until = 0.0
            return
        wait = min(waits.max_backoff, waits.initial_backoff * 2.0 ** min(failures - 1, 30))
        self.backoff_until = float(int(self.timestamp + wait))

    def backing_off(self, now: float) -> bool:
        return bool(self.errors or self.rejections) and self.backoff_until >= int(now)
