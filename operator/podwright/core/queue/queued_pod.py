"""QueuedPod: a pending pod, its place in the queue and the results of its attempts."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from math import inf
from typing import Final

from podwright.core.framework.cluster_events import EventHint
from podwright.core.framework.cost import AttemptCost
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.queue.pods_of_plugin import PodsOfPlugin


@dataclass(frozen=True, slots=True)
class Waits:
    """Waiting times in seconds. The defaults are kube-scheduler's.

    `initial_backoff` follows the first failed attempt, and doubles with each further one up to `max_backoff`. After
    `max_unschedulable`, an unschedulable or gated pod is retried even without an event.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_unschedulable: float = 300.0


DEFAULT_WAITS: Final = Waits()


class Place(Enum):
    """Where a pod is. The values are those of the metric label `queue`."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in-flight"


@dataclass(slots=True, eq=False)
class QueuedPod:
    """Times are in seconds of the queue's clock: `queued_at` when the pod was added, `timestamp` when it last entered a
    queue, `ready_at` when it first was active, `flushed_at` when it was last retried because of
    `Waits.max_unschedulable`.
    """

    pod: PodInfo
    uid: str = field(init=False)
    queued_at: float
    timestamp: float
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    """Consecutive attempts that failed with an error. Rejections are counted separately."""
    place: Place = Place.ACTIVE
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    gated_by: str = ""
    bound: Hashable = None
    """The bound of its queue that the last rejection named: see `Turns.bound_of`."""
    backoff_until: float = 0.0
    ready_at: float | None = None
    flushed_at: float = 0.0
    was_flushed: bool = False
    """The current attempt is due to `Waits.max_unschedulable`, not to an event."""
    for_room: bool = False
    """The current attempt is due to an event after which its group might have room."""
    room_in_vain: bool = False
    """The last attempt was due to such an event, too, and failed. As far as is known, there is room only by
    counting.
    """
    policy: str = ""
    """Name and generation of the policy that decided in the current or the last attempt, for the pod's events."""
    hints: Mapping[str, Sequence[EventHint]] | None = None
    """The hints of the policy under which the pod began to wait; None while it does not wait."""
    reported: dict[Hashable, tuple[str, float]] | None = None
    """Recent events about failures of the pod's group: by cause, the event's text, and when it was last recorded."""
    buckets: list[PodsOfPlugin[QueuedPod]] = field(default_factory=list)
    cost: AttemptCost | None = None
    """The estimated cost of an attempt; None for an ordinary pod."""
    cost_reported: bool = False
    events_seen: int = 0
    """How many events had happened when the last attempt started."""
    conflicts: int = 0
    """How often in a row the cluster changed so that what was decided did not fit any more."""
    slow: bool = False
    """The last attempt at the pod, or at its group, took much CPU time, or the next one at its group will."""

    def __post_init__(self) -> None:
        self.uid = self.pod.uid

    def last_report(self, cause: Hashable) -> tuple[str, float]:
        """The text of the last event of this cause, and when it was recorded, or ("", -inf)."""
        return (self.reported or {}).get(cause, ("", -inf))

    def report(self, cause: Hashable, note: str, *, keep_seconds: float) -> None:
        """An event of this cause is recorded now. Forgets events that were recorded `keep_seconds` ago or earlier."""
        now, recent = self.timestamp, self.reported or {}
        self.reported = {key: event for key, event in recent.items() if now < event[1] + keep_seconds}
        self.reported[cause] = note, now

    def forget_reports(self) -> None:
        self.reported = None

    @property
    def costly(self) -> bool:
        """True if the pod waits in the lane of costly pods when it is active."""
        return self.slow or self.cost is not None

    @property
    def rejectors(self) -> frozenset[str]:
        return self.unschedulable_plugins | self.pending_plugins

    def held_back_by(self) -> Iterator[tuple[str, str]]:
        """The plugins that rejected the waiting pod in its last attempt or gate it, each with the pod's scheduler
        name.
        """
        if self.place is not Place.IN_FLIGHT:
            for plugin in self.rejectors | ({self.gated_by} if self.gated_by else set()):
                yield plugin, self.pod.scheduler_name

    def start_backoff(self, waits: Waits) -> None:
        """Sets `backoff_until` from the number of failures, to a whole second as kube-scheduler does."""
        failures = self.errors or self.rejections
        if not failures:
            self.backoff_until = 0.0
            return
        wait = min(waits.max_backoff, waits.initial_backoff * 2.0 ** min(failures - 1, 30))
        self.backoff_until = float(int(self.timestamp + wait))

    def backing_off(self, now: float) -> bool:
        return bool(self.errors or self.rejections) and self.backoff_until >= int(now)
