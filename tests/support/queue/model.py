"""What the scheduling queue must do, told pod by pod: no heaps, no buckets, no recorded events, only where each pod belongs.

Slow and plain on purpose. `test_queue_machine` does the same to a queue and to this model, and compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from podwright.core.framework.cluster_events import NODE, POD, Action, ClusterEvent, EventHint
from support.queue.kit import NODE_ADDED, POD_GONE

ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, FLYING = "active", "backoff", "unschedulable", "gated", "in-flight"
ANYTHING = "anything"
"""In place of the plugins that something helps: all of them."""
UNASKED = ClusterEvent(NODE, Action.UPDATE_NODE_LABEL)
"""Something that no plugin has asked for."""
GATE_OPENED = "TargetPodUpdatePodSchedulingGatesEliminated"
MOST_WAIT, MOST_IDLE, FLUSH_EVERY = 10, 300, 30

HINTS = {
    "Hold": (EventHint(POD_GONE),),
    "Labels": (EventHint(ClusterEvent(POD, Action.UPDATE_POD_LABEL)),),
    "Size": (EventHint(ClusterEvent(POD, Action.UPDATE_POD_SCALE_DOWN)),),
    "Other": (EventHint(ClusterEvent(POD, Action.UPDATE_POD_OTHER)),),
}
"""Beside those of the kit; `Extender` has none, so that everything helps it. `Hold` is what keeps a pod from being queued."""


def helped_by(event: ClusterEvent, what: str) -> frozenset[str]:
    """The plugins that something in the cluster helps."""
    of_it = {NODE_ADDED: {"Fit", "Wait"}, POD_GONE: {"Spread", "Hold"} if what == "yes" else {"Hold"}}
    return frozenset(of_it.get(event, set())) | {"Extender"}


@dataclass(frozen=True)
class Spec:
    """What may be changed of a pod."""

    priority: int = 0
    gates: int = 0
    label: str = "a"
    cpu: int = 2
    terminating: bool = False
    nominated: str = ""
    note: str = ""
    version: int = 1

    def change_to(self, now: Spec) -> tuple[str, frozenset[str]]:
        """The label of the update, which differs in one thing, and the plugins that it helps; without label, nobody cares."""
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
    """`missed`: whom it helped, of each thing that happened since its attempt began, and `start` how many had before."""

    name: str
    spec: Spec
    stamp: float
    where: str = ""
    gated_by: str = ""
    errors: int = 0
    rejections: int = 0
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    missed: list[frozenset[str]] = field(default_factory=list)
    start: int = 0
    settled: bool = False
    flushed: float = 0.0
    was_flushed: bool = False
    until: int = 0

    @property
    def rejected_by(self) -> frozenset[str]:
        return self.rejectors | self.pending

    @property
    def watches(self) -> bool:
        return self.where == FLYING and not self.settled

    def fails(self, now: float) -> None:
        failures = self.errors or self.rejections
        self.stamp = now
        self.until = int(now + min(MOST_WAIT, 2 ** (failures - 1))) if failures else 0

    def must_wait(self, now: float) -> bool:
        return bool(self.errors or self.rejections) and self.until >= int(now)

    def helped(self, plugins: frozenset[str]) -> frozenset[str]:
        wanted = self.rejected_by | ({self.gated_by} if self.where == GATED else set())
        return wanted if ANYTHING in plugins else wanted & plugins

    def helped_at_once(self, plugins: frozenset[str]) -> bool:
        return ANYTHING not in plugins and bool(plugins & self.pending)

    def rank(self) -> tuple[int, float]:
        return -self.spec.priority, self.stamp


class QueueModel:
    """`entered` counts entries as the queue reports them, by (queue, event); `held` are the pods that Hold lets nowhere."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.pods: dict[str, Pod] = {}
        self.held: set[str] = set()
        self.entered: Counter[tuple[str, str]] = Counter()
        self._happened: list[str] = []
        self.flush_at = now + FLUSH_EVERY

    def at(self, *where: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.where in where]

    def early(self) -> list[Pod]:
        """Those whose backoff ends early if nothing else is to do."""
        return [pod for pod in self.at(BACKOFF) if pod.rejected_by]

    def kept(self) -> Counter[str]:
        """What has happened since the oldest attempt began to which it may matter, and these attempts."""
        watching = [pod for pod in self.pods.values() if pod.watches]
        kept = Counter(self._happened[min(pod.start for pod in watching) :] if watching else ())
        if watching:
            kept["PodPopped"] = len(watching)
        return kept

    # Entering a queue

    def _enter(self, pod: Pod, where: str, event: str) -> None:
        gate = "Gate" if pod.spec.gates else "Hold" if pod.name in self.held else ""
        if where == UNSCHEDULABLE or not gate:
            pod.where, pod.gated_by = where, ""
            self.entered[where, event] += 1
            return
        if pod.where != GATED:
            self.entered[UNSCHEDULABLE, event] += 1
        pod.where, pod.gated_by, pod.was_flushed = GATED, gate, False

    def _retry(self, pod: Pod, event: str, *, at_once: bool = False) -> None:
        self._enter(pod, BACKOFF if pod.must_wait(self.now) and not at_once else ACTIVE, event)

    def _departs(self, pod: Pod) -> None:
        pod.where, pod.missed, pod.settled, pod.start = FLYING, [], False, len(self._happened)

    # What is done to it

    def add(self, name: str, spec: Spec) -> None:
        pod = self.pods[name] = Pod(name, spec, self.now)
        self._enter(pod, ACTIVE, "UnscheduledPodAdd")

    def forget(self, name: str) -> None:
        del self.pods[name]
        self.held.discard(name)

    def flush(self) -> None:
        """What time does, whenever somebody looks."""
        for pod in self.at(BACKOFF):
            if not pod.must_wait(self.now):
                self._enter(pod, ACTIVE, "BackoffComplete")
        if self.now < self.flush_at:
            return
        self.flush_at = self.now + FLUSH_EVERY
        for pod in self.at(UNSCHEDULABLE, GATED):
            if self.now - max(pod.stamp, pod.flushed) > MOST_IDLE:
                pod.flushed, pod.was_flushed = self.now, True
                self._retry(pod, "UnschedulableTimeout")

    def popped(self, name: str | None) -> None:
        """The queue has chosen: it must have had the choice, and none that is better."""
        active, early = self.at(ACTIVE), self.early()
        if name is None:
            assert not active
            assert not early
            return
        pod = self.pods[name]
        if active:
            assert pod.where == ACTIVE
            assert pod.rank() == min(other.rank() for other in active)
        else:
            assert pod in early
            assert (pod.until, *pod.rank()) == min((other.until, *other.rank()) for other in early)
            self.entered[ACTIVE, "PopFromBackoffQ"] += 1
        self._departs(pod)

    def take(self, name: str) -> bool:
        pod = self.pods[name]
        if pod.where in (FLYING, GATED):
            return False
        if pod.where != ACTIVE and name in self.held:
            self._enter(pod, ACTIVE, "ForceActivate")
            return False
        self._departs(pod)
        return True

    def reject(self, name: str, plugins: frozenset[str], pending: frozenset[str], *, count: bool) -> None:
        pod = self.pods[name]
        if pod.settled or not plugins | pending:
            self.fault(name)
            return
        pod.errors, pod.rejections = 0, pod.rejections + count
        pod.rejectors, pod.pending, pod.was_flushed = plugins, pending, False
        pod.fails(self.now)
        if any(pod.helped(plugins) for plugins in pod.missed):
            at_once = any(pod.helped_at_once(plugins) for plugins in pod.missed)
            self._retry(pod, "ScheduleAttemptFailure", at_once=at_once)
        else:
            self._enter(pod, UNSCHEDULABLE, "ScheduleAttemptFailure")

    def fault(self, name: str) -> None:
        """Of an attempt, or of what a pod has waited for."""
        pod = self.pods[name]
        if pod.where == FLYING:
            pod.was_flushed = False
        pod.errors, pod.rejectors, pod.pending = pod.errors + 1, frozenset(), frozenset()
        pod.fails(self.now)
        self._retry(pod, "ScheduleAttemptFailure")

    def happen(self, label: str, plugins: Iterable[str], *, exclude: str = "", up_to: int | None = None) -> None:
        helped = frozenset(plugins)
        self._note(label, helped)
        for pod in self.at(UNSCHEDULABLE, GATED):
            if pod.name != exclude and (up_to is None or pod.spec.priority <= up_to):
                self._wake(pod, label, helped)

    def everything_changed(self, name: str) -> None:
        """For one pod."""
        pod = self.pods[name]
        self._note("*All", frozenset({ANYTHING}), only=name)
        if pod.where in (UNSCHEDULABLE, GATED):
            self._wake(pod, "*All", frozenset({ANYTHING}))

    def activate(self, name: str) -> None:
        pod = self.pods[name]
        if pod.where == FLYING:
            self._note("*All", frozenset({ANYTHING}), only=name)
        elif pod.where != ACTIVE:
            self._enter(pod, ACTIVE, "ForceActivate")

    def fail_what_it_waits_for(self, name: str) -> None:
        pod = self.pods[name]
        if pod.where == FLYING:
            self._note("*All", frozenset({ANYTHING}), only=name)
        elif pod.where != ACTIVE:
            self.fault(name)

    def update(self, name: str, spec: Spec) -> None:
        pod = self.pods[name]
        label, helped = pod.spec.change_to(spec)
        pod.spec = spec
        if label:
            self._note(label, helped, only=name)
        if label and pod.where in (UNSCHEDULABLE, GATED):
            self._wake(pod, label, helped)

    def _wake(self, pod: Pod, label: str, plugins: frozenset[str]) -> None:
        if pod.helped(plugins):
            self._retry(pod, label, at_once=pod.helped_at_once(plugins))

    def _note(self, label: str, plugins: frozenset[str], only: str = "") -> None:
        watching = [pod for pod in self.pods.values() if pod.watches and only in ("", pod.name)]
        if watching:
            self._happened.append(label)
        for pod in watching:
            pod.missed.append(plugins)
