"""What became of each policy's work: decisions, errors and the last faults, for its metrics and its status."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from podwright.core.queue import SchedulingQueue
from podwright.engine.metrics.metrics import POLICY_DECISIONS, POLICY_ERRORS, Metrics

FAULTS: Final = 5
"""How many faults of a policy are remembered."""
FAULT_LENGTH: Final = 500
"""The longest text of a fault."""
PODS_AT_ONCE: Final = 1_000


@dataclass(slots=True, eq=False)
class Activity:
    """The work of one policy, all its generations together. `decisions` and `errors` are the series of the metrics.

    `faults`: times in seconds since the epoch, and texts; the latest is the last one. `version` rises with each fault that is new.
    """

    decisions: array[int]
    errors: array[int]
    faults: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=FAULTS))
    version: int = 0


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

    def fault(self, name: str, text: str) -> None:
        """Something went wrong while this policy decided. The same text again only gets a new time."""
        activity = self.of(name)
        activity.errors[0] += 1
        known = next((fault for fault in activity.faults if fault[1] == text[:FAULT_LENGTH]), None)
        if known is not None:
            activity.faults.remove(known)
        else:
            activity.version += 1
        activity.faults.append((self._wall(), text[:FAULT_LENGTH]))

    def keep(self, names: Collection[str]) -> None:
        """Forgets the policies that are gone, and drops their series."""
        gone = self._known.keys() - names
        if gone:
            for name in gone:
                del self._known[name]
            for counter in (POLICY_DECISIONS, POLICY_ERRORS):
                self._metrics.counter(counter).keep_only("policy", self._known.keys())


def pending_by_policy(queue: SchedulingQueue) -> Iterator[Counter[tuple[str]]]:
    """How many pods wait that were under each policy in their last attempt, in parts. The queue may change between two of them."""
    uids = queue.uids()
    for start in range(0, len(uids), PODS_AT_ONCE):
        part: Counter[tuple[str]] = Counter()
        for uid in uids[start : start + PODS_AT_ONCE]:
            queued = queue.get(uid)
            if queued is not None and queued.policy:
                part[(queued.policy.rpartition("@")[0],)] += 1
        yield part
