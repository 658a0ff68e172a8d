"""QueueModel: a simple model of the scheduling queue, without heaps, buckets or recorded events. It only tracks the
place of each pod.

`test_queue_machine` applies the same steps to a queue and to this model, and compares them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from podwright.core.framework.cluster_events import NODE, POD, Action, ClusterEvent, EventHint
from support.queue.kit import NODE_ADDED, POD_GONE

ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, IN_FLIGHT = "active", "backoff", "unschedulable", "gated", "in-flight"
ANYTHING = "anything"
"""Stands for all plugins in the set of plugins that an event helps."""
WITHOUT_HINT = ClusterEvent(NODE, Action.UPDATE_NODE_LABEL)
"""An event for which no plugin has a hint."""
GATE_OPENED = "TargetPodUpdatePodSchedulingGatesEliminated"
MAX_BACKOFF, MAX_UNSCHEDULABLE, FLUSH_INTERVAL = 10, 300, 30

HINTS = {
    "Hold": (EventHint(POD_GONE),),
    "Labels": (EventHint(ClusterEvent(POD, Action.UPDATE_POD_LABEL)),),
    "Size": (EventHint(ClusterEvent(POD, Action.UPDATE_POD_SCALE_DOWN)),),
    "Other": (EventHint(ClusterEvent(POD, Action.UPDATE_POD_OTHER)),),
}
"""Hints in addition to those of the kit. `Extender` has no hints, so every event helps it. `Hold` is a PreEnqueue
plugin.
"""


def helped_by(event: ClusterEvent, what: str) -> frozenset[str]:
    """The plugins that an event helps. `what` is the object of the event."""
    helped = {NODE_ADDED: {"Fit", "Wait"}, POD_GONE: {"Spread", "Hold"} if what == "yes" else {"Hold"}}
    return frozenset(helped.get(event, set())) | {"Extender"}


@dataclass(frozen=True)
class Spec:
    """The fields of a pod that a test changes."""

    priority: int = 0
    gates: int = 0
    label: str = "a"
    cpu: int = 2
    terminating: bool = False
    nominated: str = ""
    note: str = ""
    version: int = 1

    def change_to(self, now: Spec) -> tuple[str, frozenset[str]]:
        """The label of an update of one field and the plugins that it helps; an empty label if the update is no
        event.
        """
        if now.label != self.label:
            return "TargetPodUpdatePodLabel", frozenset({"Labels", "Extender"})
        if now.cpu != self.cpu:
            less = now.cpu < self.cpu
            return f"TargetPodUpdatePodScale{'Down' if less else 'Up'}", frozenset(
                {"Extender"} | ({"Size"} if less else set())
            )
        if self.gates and not now.gates:
            return GATE_OPENED, frozenset({"Gate", "Other", "Extender"})
        if replace(now, version=0) != replace(self, version=0):
            return "TargetPodUpdate", frozenset({"Other", "Extender"})
        return "", frozenset()


@dataclass
class Pod:
    """`missed`: for each event since its attempt began, the plugins that it helped. `start`: the number of events
    before the attempt.
    """

    name: str
    spec: Spec
    timestamp: float
    place: str = ""
    gated_by: str = ""
    errors: int = 0
    rejections: int = 0
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    missed: list[frozenset[str]] = field(default_factory=list)
    start: int = 0
    stopped: bool = False
    flushed: float = 0.0
    was_flushed: bool = False
    backoff_until: int = 0

    @property
    def rejected_by(self) -> frozenset[str]:
        return self.rejectors | self.pending

    @property
    def records(self) -> bool:
        return self.place == IN_FLIGHT and not self.stopped

    def start_backoff(self, now: float) -> None:
        failures = self.errors or self.rejections
        self.timestamp = now
        self.backoff_until = int(now + min(MAX_BACKOFF, 2 ** (failures - 1))) if failures else 0

    def backs_off(self, now: float) -> bool:
        return bool(self.errors or self.rejections) and self.backoff_until >= int(now)

    def helped(self, plugins: frozenset[str]) -> frozenset[str]:
        rejectors = frozenset({self.gated_by}) if self.place == GATED else self.rejected_by
        return rejectors if ANYTHING in plugins else rejectors & plugins

    def skips_backoff(self, plugins: frozenset[str]) -> bool:
        return ANYTHING not in plugins and bool(plugins & self.pending)

    def rank(self) -> tuple[int, float]:
        return -self.spec.priority, self.timestamp


class QueueModel:
    """`entered` counts entries into queues by (queue, event). `held` are the pods that the plugin Hold gates."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.pods: dict[str, Pod] = {}
        self.held: set[str] = set()
        self.entered: Counter[tuple[str, str]] = Counter()
        self._events: list[str] = []
        self.flush_at = now + FLUSH_INTERVAL

    def at(self, *place: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.place in place]

    def poppable_early(self) -> list[Pod]:
        """The pods that leave backoff early if no pod is active."""
        return [pod for pod in self.at(BACKOFF) if pod.rejected_by]

    def recorded(self) -> Counter[str]:
        """The number of recorded events by label: those since the oldest attempt began. `PodPopped` counts the
        attempts.
        """
        recording = [pod for pod in self.pods.values() if pod.records]
        counted = Counter(self._events[min(pod.start for pod in recording) :] if recording else ())
        if recording:
            counted["PodPopped"] = len(recording)
        return counted

    # Entering a queue

    def _gate(self, pod: Pod) -> str:
        return "Gate" if pod.spec.gates else "Hold" if pod.name in self.held else ""

    def _enter(self, pod: Pod, place: str, event: str) -> None:
        gate = self._gate(pod)
        if place == UNSCHEDULABLE or not gate:
            pod.place, pod.gated_by = place, ""
            self.entered[place, event] += 1
            return
        if pod.place != GATED:
            self.entered[UNSCHEDULABLE, event] += 1
        pod.place, pod.gated_by, pod.was_flushed = GATED, gate, False

    def _retry(self, pod: Pod, event: str, *, skip_backoff: bool = False) -> None:
        self._enter(pod, BACKOFF if pod.backs_off(self.now) and not skip_backoff else ACTIVE, event)

    def _start_attempt(self, pod: Pod) -> None:
        pod.place, pod.missed, pod.stopped, pod.start = IN_FLIGHT, [], False, len(self._events)

    # Operations

    def add(self, name: str, spec: Spec) -> None:
        pod = self.pods[name] = Pod(name, spec, self.now)
        self._enter(pod, ACTIVE, "UnscheduledPodAdd")

    def forget(self, name: str) -> None:
        del self.pods[name]
        self.held.discard(name)

    def flush(self) -> None:
        """Ends backoffs and retries pods that were unschedulable for too long, as the queue does at each pop."""
        for pod in self.at(BACKOFF):
            if not pod.backs_off(self.now):
                self._enter(pod, ACTIVE, "BackoffComplete")
        if self.now < self.flush_at:
            return
        self.flush_at = self.now + FLUSH_INTERVAL
        for pod in self.at(UNSCHEDULABLE, GATED):
            if self.now - max(pod.timestamp, pod.flushed) > MAX_UNSCHEDULABLE:
                pod.flushed, pod.was_flushed = self.now, True
                self._retry(pod, "UnschedulableTimeout")

    def popped(self, name: str | None) -> None:
        """The queue popped this pod (None: no pod). Checks that this pod was the first."""
        active, early = self.at(ACTIVE), self.poppable_early()
        if name is None:
            assert not active
            assert not early
            return
        pod = self.pods[name]
        if active:
            assert pod.place == ACTIVE
            assert pod.rank() == min(other.rank() for other in active)
        else:
            assert pod in early
            assert (pod.backoff_until, *pod.rank()) == min((other.backoff_until, *other.rank()) for other in early)
            self.entered[ACTIVE, "PopFromBackoffQ"] += 1
        self._start_attempt(pod)

    def take(self, name: str) -> bool:
        pod = self.pods[name]
        if pod.place == IN_FLIGHT or (pod.place == GATED and not pod.rejected_by):
            return False
        if pod.place != ACTIVE and self._gate(pod):
            self._enter(pod, ACTIVE, "ForceActivate")
            return False
        self._start_attempt(pod)
        return True

    def reject(self, name: str, plugins: frozenset[str], pending: frozenset[str], *, count: bool) -> None:
        pod = self.pods[name]
        if pod.stopped or not plugins | pending:
            self.fault(name)
            return
        pod.errors, pod.rejections = 0, pod.rejections + count
        pod.rejectors, pod.pending, pod.was_flushed = plugins, pending, False
        pod.start_backoff(self.now)
        if any(pod.helped(plugins) for plugins in pod.missed):
            skip_backoff = any(pod.skips_backoff(plugins) for plugins in pod.missed)
            self._retry(pod, "ScheduleAttemptFailure", skip_backoff=skip_backoff)
        else:
            self._enter(pod, UNSCHEDULABLE, "ScheduleAttemptFailure")

    def fault(self, name: str) -> None:
        """The attempt of a pod failed with an error, or a pod waited for something that failed."""
        pod = self.pods[name]
        if pod.place == IN_FLIGHT:
            pod.was_flushed = False
        pod.errors, pod.rejectors, pod.pending = pod.errors + 1, frozenset(), frozenset()
        pod.start_backoff(self.now)
        self._retry(pod, "ScheduleAttemptFailure")

    def move(self, label: str, plugins: Iterable[str], *, exclude: str = "", up_to: int | None = None) -> None:
        helped = frozenset(plugins)
        self._record(label, helped)
        for pod in self.at(UNSCHEDULABLE, GATED):
            if pod.name != exclude and (up_to is None or pod.spec.priority <= up_to):
                self._retry_if_helped(pod, label, helped)

    def reconsider(self, name: str) -> None:
        """Another policy applies to one pod."""
        pod = self.pods[name]
        self._record("*All", frozenset({ANYTHING}), only=name)
        if pod.place in (UNSCHEDULABLE, GATED):
            self._retry_if_helped(pod, "*All", frozenset({ANYTHING}))

    def activate(self, name: str) -> None:
        pod = self.pods[name]
        if pod.place == IN_FLIGHT:
            self._record("*All", frozenset({ANYTHING}), only=name)
        elif pod.place != ACTIVE:
            self._enter(pod, ACTIVE, "ForceActivate")

    def recheck_gate(self, name: str) -> None:
        pod = self.pods[name]
        if pod.place in (UNSCHEDULABLE, GATED):
            pod.gated_by = self._gate(pod)
            pod.place = GATED if pod.gated_by else UNSCHEDULABLE
            pod.was_flushed = pod.was_flushed and not pod.gated_by
        elif pod.place != IN_FLIGHT and self._gate(pod):
            self._enter(pod, ACTIVE, "ScheduleAttemptFailure")

    def fail_waiting(self, name: str) -> None:
        pod = self.pods[name]
        if pod.place == IN_FLIGHT:
            self._record("*All", frozenset({ANYTHING}), only=name)
        elif pod.place != ACTIVE:
            self.fault(name)

    def update(self, name: str, spec: Spec) -> None:
        pod = self.pods[name]
        label, helped = pod.spec.change_to(spec)
        pod.spec = spec
        if label:
            self._record(label, helped, only=name)
        if label and pod.place in (UNSCHEDULABLE, GATED):
            self._retry_if_helped(pod, label, helped)

    def _retry_if_helped(self, pod: Pod, label: str, plugins: frozenset[str]) -> None:
        if pod.helped(plugins):
            self._retry(pod, label, skip_backoff=pod.skips_backoff(plugins))

    def _record(self, label: str, plugins: frozenset[str], only: str = "") -> None:
        recording = [pod for pod in self.pods.values() if pod.records and only in ("", pod.name)]
        if recording:
            self._events.append(label)
        for pod in recording:
            pod.missed.append(plugins)
