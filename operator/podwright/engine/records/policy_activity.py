"""The activity of each policy: decisions, errors and the last faults, for its metrics and its status."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import field
from typing import Final

from podwright.api.policy_status import PackingStatus
from podwright.core.objects.dataclass import dataclass
from podwright.core.queue import SchedulingQueue
from podwright.engine.process.steps import Steps
from podwright.engine.records.metrics import Metrics
from podwright.engine.records.policy_metrics import POLICY_DECISIONS, POLICY_ERRORS

FAULTS: Final = 5
"""How many faults of a policy are remembered."""
FAULT_LENGTH: Final = 500
"""The longest text of a fault."""


@dataclass(slots=True, eq=False)
class Activity:
    """The work of one policy, all its generations together. `decisions` and `errors` are the series of the metrics.

    `faults`: by cause, times in seconds since the epoch, and texts; the latest is the last one.
    """

    decisions: array[int]
    errors: array[int]
    faults: dict[str, tuple[float, str]] = field(default_factory=dict)
    longest: float = 0.0
    """The seconds of the longest decision of the generation `label`."""
    label: str = ""
    packing: PackingStatus | None = None
    """The result of the last batch."""

    def took(self, label: str, seconds: float) -> None:
        """A decision of this generation took so many seconds."""
        if seconds > self.longest or label != self.label:
            self.longest, self.label = seconds, label


class Activities:
    """By the names of policies. `wall`: seconds since the epoch."""

    def __init__(self, metrics: Metrics, wall: Callable[[], float]) -> None:
        self._metrics = metrics
        self._wall = wall
        self._known: dict[str, Activity] = {}

    def of(self, name: str) -> Activity:
        found = self._known.get(name)
        if found is None:
            decisions = self._metrics.counter(POLICY_DECISIONS).of(name)
            errors = self._metrics.counter(POLICY_ERRORS).of(name)
            found = self._known[name] = Activity(decisions, errors)
        return found

    def fault(self, name: str, text: str, cause: str = "") -> None:
        """Notes a fault while this policy decided. Keeps the last text of each cause. `cause` "": the text is the
        cause.
        """
        activity = self.of(name)
        activity.errors[0] += 1
        key = cause or text[:FAULT_LENGTH]
        activity.faults.pop(key, None)
        if len(activity.faults) >= FAULTS:
            del activity.faults[next(iter(activity.faults))]
        activity.faults[key] = self._wall(), text[:FAULT_LENGTH]

    def keep(self, names: Collection[str]) -> None:
        """Forgets removed policies, and drops their series."""
        gone = self._known.keys() - names
        if gone:
            for name in gone:
                del self._known[name]
            for counter in (POLICY_DECISIONS, POLICY_ERRORS):
                self._metrics.counter(counter).keep_only("policy", self._known.keys())


def pending_by_policy(queue: SchedulingQueue) -> Steps[Counter[tuple[str, ...]]]:
    """Counts the pending pods that were under each policy in their last attempt. The queue may change between steps."""
    return queue.tally(lambda queued: [(queued.policy.rpartition("@")[0],)] if queued.policy else ())
