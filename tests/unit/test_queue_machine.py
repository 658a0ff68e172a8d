"""The queue beside a model of it that knows nothing of heaps, buckets and recorded events, whatever happens to both."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from podwright.core.framework.events import NODE, Action, ClusterEvent
from queue_kit import NODE_ADDED, POD_GONE, Harness

IRRELEVANT = ClusterEvent(NODE, Action.UPDATE_NODE_LABEL)
ANYTHING = "anything"
FLYING = "in-flight"
MOST_WAIT, MOST_IDLE = 10, 300
EVENTS = st.tuples(st.sampled_from([NODE_ADDED, POD_GONE, IRRELEVANT]), st.sampled_from(["no", "yes"]))
VERDICTS = st.one_of(
    st.just((True, frozenset(), frozenset())),
    st.tuples(
        st.just(False),
        st.frozensets(st.sampled_from(["Fit", "Spread"])),
        st.sampled_from([frozenset(), frozenset(["Wait"])]),
    ),
)
"""(fault, the plugins that reject, those that do as Pending)"""


@dataclass
class Pod:
    """What the model knows of a pod. `missed`: the plugins that were helped since its attempt began."""

    name: str
    priority: int
    stamp: float
    where: str = "active"
    gated: bool = False
    errors: int = 0
    rejections: int = 0
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    missed: list[set[str]] = field(default_factory=list)
    settled: bool = False
    flushed: float = 0.0
    until: int = 0

    def fails(self, now: float) -> None:
        self.stamp = now
        self.until = int(now + min(MOST_WAIT, 2 ** ((self.errors or self.rejections) - 1)))

    def must_wait(self, now: float) -> bool:
        return bool(self.errors or self.rejections) and self.until >= int(now)

    def helped(self, plugins: set[str]) -> set[str]:
        return set(self.rejectors | self.pending) if ANYTHING in plugins else plugins & (self.rejectors | self.pending)

    def rank(self) -> tuple[int, float]:
        return -self.priority, self.stamp


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.h = Harness()
        self.pods: dict[str, Pod] = {}
        self.count = 0
        self.flush_at = self.now + 30
        self.entered: Counter[tuple[str, str]] = Counter()

    @property
    def now(self) -> float:
        return self.h.clock.now

    def draw(self, data, *where):
        return data.draw(st.sampled_from(sorted(name for name, pod in self.pods.items() if pod.where in where)))

    def enter(self, pod: Pod, where: str, event: str) -> None:
        pod.where = where
        self.entered["unschedulable" if where == "gated" else where, event] += 1

    def retry(self, pod: Pod, event: str, *, at_once: bool = False) -> None:
        self.enter(pod, "backoff" if pod.must_wait(self.now) and not at_once else "active", event)

    def rest(self, where: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.where == where]

    # What may happen

    @rule(gated=st.booleans(), priority=st.integers(0, 2))
    def add(self, gated, priority):
        self.count += 1
        pod = self.pods[f"p{self.count}"] = Pod(f"p{self.count}", priority, self.now, gated=gated)
        self.enter(pod, "gated" if gated else "active", "UnscheduledPodAdd")
        self.h.add(pod.name, gates=["g"] if gated else (), priority=priority)

    @rule()
    def begin_an_attempt(self):
        self.pop()

    def pop(self):
        self.flush()
        active, backoff = self.rest("active"), [pod for pod in self.rest("backoff") if pod.rejectors | pod.pending]
        queued = self.h.queue.pop()
        if queued is None:
            assert not active
            assert not backoff
            return
        pod = self.pods[queued.pod.name]
        if active:
            assert pod.where == "active"
            assert pod.rank() == min(other.rank() for other in active)
        else:
            assert pod in backoff
            assert (pod.until, *pod.rank()) == min((other.until, *other.rank()) for other in backoff)
            self.entered["active", "PopFromBackoffQ"] += 1
        pod.where, pod.missed, pod.settled = FLYING, [], False

    def flush(self) -> None:
        for pod in self.rest("backoff"):
            if not pod.must_wait(self.now):
                self.enter(pod, "active", "BackoffComplete")
        if self.now < self.flush_at:
            return
        self.flush_at = self.now + 30
        for pod in (*self.rest("unschedulable"), *self.rest("gated")):
            if self.now - max(pod.stamp, pod.flushed) > MOST_IDLE:
                pod.flushed = self.now
                if not pod.gated:
                    self.retry(pod, "UnschedulableTimeout")

    @precondition(lambda self: self.rest(FLYING))
    @rule(data=st.data())
    def succeed(self, data):
        name = self.draw(data, FLYING)
        del self.pods[name]
        self.h.queue.done(f"default/{name}")

    @precondition(lambda self: self.rest(FLYING))
    @rule(data=st.data())
    def settle(self, data):
        pod = self.pods[self.draw(data, FLYING)]
        pod.settled = True
        self.h.queue.settle(f"default/{pod.name}")

    @rule(data=st.data(), meanwhile=st.lists(EVENTS, max_size=2), verdict=VERDICTS)
    def try_and_fail(self, data, meanwhile, verdict):
        """What is most frequent, in one step."""
        self.pop()
        for event, what in meanwhile:
            self.happen(event, what)
        if self.rest(FLYING):
            self.fail(data, verdict)

    @precondition(lambda self: self.rest(FLYING))
    @rule(data=st.data(), verdict=VERDICTS)
    def fail(self, data, verdict):
        fault, plugins, pending = verdict
        pod = self.pods[self.draw(data, FLYING)]
        queued = self.h.queue.get(f"default/{pod.name}")
        if fault:
            self.h.queue.fault(queued)
        else:
            self.h.queue.reject(queued, plugins, pending)
        if fault or pod.settled or not plugins | pending:
            pod.errors, pod.rejectors, pod.pending = pod.errors + 1, frozenset(), frozenset()
            pod.fails(self.now)
            self.retry(pod, "ScheduleAttemptFailure")
            return
        pod.errors, pod.rejections, pod.rejectors, pod.pending = 0, pod.rejections + 1, plugins, pending
        pod.fails(self.now)
        if any(pod.helped(helped) for helped in pod.missed):
            at_once = any(pod.helped(helped) & pod.pending for helped in pod.missed if ANYTHING not in helped)
            self.retry(pod, "ScheduleAttemptFailure", at_once=at_once)
        else:
            self.enter(pod, "unschedulable", "ScheduleAttemptFailure")

    @rule(happened=EVENTS)
    def something_happens(self, happened):
        self.happen(*happened)

    def happen(self, event, what):
        helps = {NODE_ADDED: {"Fit", "Wait"}, POD_GONE: {"Spread"} if what == "yes" else set()}.get(event, set())
        self.spread(helps, event.label)
        self.h.queue.move(event, what)

    @rule()
    def another_policy(self):
        self.spread({ANYTHING}, "*All")
        self.h.queue.activate_all()

    def spread(self, plugins: set[str], event: str) -> None:
        for pod in self.rest(FLYING):
            if not pod.settled:
                pod.missed.append(plugins)
        for pod in self.rest("unschedulable"):
            if by := pod.helped(plugins):
                self.retry(pod, event, at_once=ANYTHING not in plugins and bool(by & pod.pending))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def activate(self, data):
        pod = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        if pod.where == FLYING and not pod.settled:
            pod.missed.append({ANYTHING})
        elif pod.where in ("unschedulable", "backoff"):
            self.enter(pod, "active", "ForceActivate")
        self.h.queue.activate(f"default/{pod.name}")

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), label=st.sampled_from(["a", "b"]))
    def change_what_cannot_matter(self, data, label):
        pod = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        self.h.queue.update(
            self.h.pod(pod.name, gates=["g"] if pod.gated else (), labels={"l": label}, priority=pod.priority)
        )

    @precondition(lambda self: self.rest("gated"))
    @rule(data=st.data())
    def open_its_gate(self, data):
        pod = self.pods[self.draw(data, "gated")]
        pod.gated = False
        self.enter(pod, "active", "TargetPodUpdatePodSchedulingGatesEliminated")
        self.h.queue.update(self.h.pod(pod.name, priority=pod.priority))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def delete(self, data):
        name = data.draw(st.sampled_from(sorted(self.pods)))
        del self.pods[name]
        self.h.queue.delete(f"default/{name}")

    @rule(seconds=st.sampled_from([0.3, 1, 5, 40, 400]))
    def wait(self, seconds):
        self.h.clock.now += seconds

    # What always holds

    @invariant()
    def every_pod_is_where_the_model_says_and_nowhere_else(self):
        assert {uid.removeprefix("default/") for uid in self.h.queue.uids()} == set(self.pods)
        for pod in self.pods.values():
            queued = self.h.queue.get(f"default/{pod.name}")
            assert queued.place.value == pod.where
            assert pod.where != "backoff" or queued.backoff_until == pod.until
        counts = Counter(pod.where for pod in self.pods.values() if pod.where != FLYING)
        assert self.h.counts() == counts

    @invariant()
    def every_entry_into_a_queue_was_reported(self):
        assert Counter(self.h.incoming) == self.entered

    @invariant()
    def errors_and_rejections_are_counted_apart(self):
        for pod in self.pods.values():
            queued = self.h.queue.get(f"default/{pod.name}")
            assert (queued.errors, queued.rejections) == (pod.errors, pod.rejections)

    @invariant()
    def whoever_can_be_popped_is_not_slept_over(self):
        due = self.h.queue.next_wakeup()
        early = [pod for pod in self.rest("backoff") if pod.rejectors | pod.pending]
        if self.rest("active") or early:
            assert due == self.now
        elif waiting := [pod.until + 1.0 for pod in self.rest("backoff")]:
            assert due is not None
            assert due <= min(waiting)
        if self.rest("unschedulable") or self.rest("gated"):
            assert due is not None
            assert due <= max(self.flush_at, self.now)

    def teardown(self):
        """Whatever happened: after the events and the time that every plugin asks for, each pod is tried."""
        for pod in self.rest(FLYING):
            self.h.queue.fault(self.h.queue.get(f"default/{pod.name}"))
        for pod in self.pods.values():
            self.h.queue.update(self.h.pod(pod.name, labels={"l": "end"}))
        self.h.clock.now += 400
        self.h.queue.activate_all()
        self.h.clock.now += 400
        popped = set()
        while (queued := self.h.queue.pop()) is not None:
            popped.add(queued.pod.name)
        assert popped == set(self.pods)


QueueMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestQueueMachine = QueueMachine.TestCase
