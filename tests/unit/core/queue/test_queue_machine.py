"""Random steps applied to the queue and to a simple model of it lead to the same state."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import cycle
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from podwright.core.framework.status import unresolvable
from podwright.core.queue import scheduling_queue
from podwright.engine.process.steps import at_once
from support.properties import examples
from support.queue.kit import NODE_ADDED, POD_GONE, Harness, rejected_by
from support.queue.model import (
    ACTIVE,
    ANYTHING,
    BACKOFF,
    GATED,
    HINTS,
    IN_FLIGHT,
    UNSCHEDULABLE,
    WITHOUT_HINT,
    QueueModel,
    Spec,
    helped_by,
)

EVENTS = st.tuples(st.sampled_from([NODE_ADDED, POD_GONE, WITHOUT_HINT]), st.sampled_from(["no", "yes"]))
PLUGINS = st.frozensets(
    st.sampled_from(["Fit", "Spread", "Labels", "Size", "Other", "Extender"]), min_size=1, max_size=2
)
REJECTED = st.tuples(
    st.just("rejected"),
    PLUGINS,
    st.sampled_from([frozenset(), {"Wait"}, {"Labels"}]),
    st.sampled_from([True, True, False]),
)
VERDICTS = st.one_of(
    REJECTED,
    REJECTED,
    st.sampled_from([("fault", (), (), True), ("rejected", (), (), True), ("rejected", (), ("Wait",), True)]),
)
"""(how the attempt failed, the plugins that rejected the pod, those that rejected it as Pending, whether the rejection
counts)
"""
PRIORITIES = st.integers(0, 2)
RARELY = st.sampled_from([False, False, False, False, True])
CHANGES = {
    "label": lambda spec: replace(spec, label="b" if spec.label == "a" else "a"),
    "less": lambda spec: replace(spec, cpu=spec.cpu - 1 or 3),
    "more important": lambda spec: replace(spec, priority=spec.priority + 1),
    "less important": lambda spec: replace(spec, priority=spec.priority - 1),
    "terminating": lambda spec: replace(spec, terminating=True),
    "nominated": lambda spec: replace(spec, nominated="" if spec.nominated == "b" else "b" if spec.nominated else "a"),
    "gate": lambda spec: replace(spec, gates=max(0, spec.gates - 1)),
    "annotation": lambda spec: replace(spec, note=spec.note + "x"),
    "only its version": lambda spec: replace(spec, version=spec.version + 1),
}

CHANGED = st.sampled_from(sorted(CHANGES))


def uid(name):
    return f"default/{name}"


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.h = Harness()
        self.h.hints.update(HINTS)
        self.h.pre_enqueue = self.gate
        self.queue = self.h.queue
        self.model = QueueModel(self.h.clock.now)
        self.late = {}
        self.count = 0

    @property
    def pods(self):
        return self.model.pods

    def gate(self, pod):
        plugin = "Gate" if pod.gates else "Hold" if pod.name in self.model.held else ""
        return unresolvable("held").by(plugin) if plugin else None

    def draw(self, data, *place):
        """The name of a pod at one of these places, or of any pod."""
        names = sorted(pod.name for pod in self.pods.values() if not place or pod.place in place)
        return data.draw(st.sampled_from(names))

    def manifest(self, name, spec):
        return self.h.pod(
            name,
            gates=[f"g{number}" for number in range(spec.gates)],
            priority=spec.priority,
            labels={"l": spec.label},
            requests={"cpu": str(spec.cpu)},
            metadata={
                "annotations": {"note": spec.note},
                "resourceVersion": str(spec.version),
                **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if spec.terminating else {}),
            },
            status={"nominatedNodeName": spec.nominated},
        )

    # Steps

    def add_pod(self, spec):
        self.count += 1
        name = f"p{self.count}"
        self.model.add(name, spec)
        self.queue.add(self.manifest(name, spec))
        return name

    def pop(self):
        self.model.flush()
        queued = self.queue.pop()
        name = None if queued is None else queued.pod.name
        self.model.popped(name)
        return name

    def take(self, name):
        taken = self.model.take(name)
        assert (self.queue.take(uid(name)) is not None) == taken
        return taken

    def fail(self, name, verdict):
        how, plugins, pending, count = verdict
        queued = self.queue.get(uid(name))
        if how == "fault":
            self.model.fault(name)
            self.queue.fault(queued)
        else:
            self.model.reject(name, frozenset(plugins), frozenset(pending), count=count)
            self.queue.reject(queued, plugins, pending, count=count)

    def move(self, event, what):
        self.model.move(event.label, helped_by(event, what))
        self.queue.move(event, what)

    def pass_time(self, seconds):
        self.h.clock.now += seconds
        self.model.now = self.h.clock.now

    # Rules

    @initialize(
        fates=st.lists(
            st.tuples(PRIORITIES, st.sampled_from([ACTIVE, GATED, IN_FLIGHT, "failed", "failed", "failed"]), VERDICTS),
            min_size=3,
            max_size=6,
        )
    )
    def start_with_pods(self, fates):
        for priority, fate, verdict in fates:
            name = self.add_pod(Spec(priority, gates=2 if fate == GATED else 0))
            if fate in (IN_FLIGHT, "failed"):
                self.take(name)
            if fate == "failed":
                self.fail(name, verdict)

    @rule(gates=st.sampled_from([0, 0, 1, 2]), priority=PRIORITIES, held=RARELY)
    def add(self, gates, priority, held):
        if held:
            self.model.held.add(f"p{self.count + 1}")
        self.add_pod(Spec(priority, gates=gates))

    @rule(verdicts=st.lists(VERDICTS, min_size=1, max_size=3), priority=PRIORITIES)
    def add_pods_that_fail(self, verdicts, priority):
        for verdict in verdicts:
            name = self.add_pod(Spec(priority))
            self.take(name)
            self.fail(name, verdict)

    @rule()
    def start_an_attempt(self):
        self.pop()

    @rule(meanwhile=st.lists(EVENTS, max_size=2), verdict=VERDICTS)
    def fail_an_attempt_after_events(self, meanwhile, verdict):
        name = self.pop()
        for event, what in meanwhile:
            self.move(event, what)
        if name is not None:
            self.fail(name, verdict)

    @rule(attempts=st.lists(st.tuples(VERDICTS, EVENTS, CHANGED), min_size=2, max_size=4), data=st.data())
    def fail_concurrent_attempts(self, attempts, data):
        attempted = []
        for verdict, (event, what), change in attempts:
            if (name := self.pop()) is None:
                name = self.add_pod(Spec())
                self.take(name)
            self.move(event, what)
            self.update(name, change)
            attempted.append((name, verdict))
        for name, verdict in data.draw(st.permutations(attempted)):
            self.fail(name, verdict)
            self.check_recorded_events()

    @rule(verdicts=st.lists(VERDICTS, min_size=1, max_size=3))
    def fail_all_active_pods(self, verdicts):
        """Pops all pods before the first fails, which checks their complete order."""
        attempted = []
        while (name := self.pop()) is not None:
            attempted.append(name)
        for name, verdict in zip(attempted, cycle(verdicts), strict=False):
            self.fail(name, verdict)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def take_a_pod(self, data):
        self.take(self.draw(data))

    @precondition(lambda self: self.model.at(BACKOFF, UNSCHEDULABLE))
    @rule(data=st.data(), verdict=VERDICTS)
    def take_a_waiting_pod_that_fails_again(self, data, verdict):
        name = self.draw(data, BACKOFF, UNSCHEDULABLE)
        if self.take(name):
            self.fail(name, verdict)

    @precondition(lambda self: self.model.at(IN_FLIGHT))
    @rule(data=st.data())
    def succeed(self, data):
        name = self.draw(data, IN_FLIGHT)
        self.model.forget(name)
        self.queue.done(uid(name))

    @precondition(lambda self: self.model.at(IN_FLIGHT))
    @rule(data=st.data())
    def stop_recording(self, data):
        name = self.draw(data, IN_FLIGHT)
        self.pods[name].stopped = True
        self.queue.stop_recording(uid(name))

    @precondition(lambda self: self.model.at(IN_FLIGHT))
    @rule(data=st.data(), verdict=VERDICTS)
    def fail_an_attempt(self, data, verdict):
        self.fail(self.draw(data, IN_FLIGHT), verdict)

    @rule(events=st.lists(EVENTS, min_size=1, max_size=3))
    def events_arrive(self, events):
        for event, what in events:
            self.move(event, what)

    @precondition(lambda self: self.pods)
    @rule(occurrence=EVENTS, data=st.data())
    def an_event_excludes_a_pod(self, occurrence, data):
        (event, what), name = occurrence, self.draw(data)
        self.model.move(event.label, helped_by(event, what), exclude=name)
        self.queue.move(event, what, exclude=uid(name))

    @rule(occurrence=EVENTS, priority=PRIORITIES)
    def an_event_excludes_pods_of_higher_priority(self, occurrence, priority):
        event, what = occurrence
        self.model.move(event.label, helped_by(event, what), up_to=priority)
        self.queue.move(event, what, up_to_priority=priority)

    @rule()
    def policies_change(self):
        self.h.hints = dict(self.h.hints)
        self.model.move("*All", {ANYTHING})
        self.queue.activate_all()

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), what=st.sampled_from(["activate", "reconsider", "fail"]))
    def retry_one_pod(self, data, what):
        name = self.draw(data)
        if what == "activate":
            self.model.activate(name)
            self.queue.activate(uid(name))
        elif what == "reconsider":
            self.model.reconsider(name)
            self.queue.reconsider(uid(name))
        else:
            self.model.fail_waiting(name)
            self.queue.fail_waiting(uid(name))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), change=CHANGED)
    def update_a_pod(self, data, change):
        self.update(self.draw(data), change)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), changes=st.lists(CHANGED, min_size=1, max_size=3))
    def update_a_waiting_pod(self, data, changes):
        """Updates of waiting pods and of pods in flight are more likely to have an effect."""
        place = {BACKOFF, UNSCHEDULABLE, IN_FLIGHT} & {pod.place for pod in self.pods.values()}
        name = self.draw(data, *place)
        for change in changes:
            self.update(name, change)

    def update(self, name, change):
        spec = CHANGES[change](self.pods[name].spec)
        self.model.update(name, spec)
        self.queue.update(self.manifest(name, spec))

    @precondition(lambda self: self.model.at(BACKOFF, UNSCHEDULABLE, IN_FLIGHT))
    @rule(data=st.data(), told=st.booleans())
    def a_plugin_starts_to_gate_a_pod(self, data, told):
        name = self.draw(data, BACKOFF, UNSCHEDULABLE, IN_FLIGHT)
        self.model.held.add(name)
        if told:
            self.recheck_gate(name)

    @precondition(lambda self: self.model.held)
    @rule(data=st.data(), then=st.sampled_from(["nothing", "event", "take", "told"]))
    def a_plugin_no_longer_gates_a_pod(self, data, then):
        name = data.draw(st.sampled_from(sorted(self.model.held)))
        self.model.held.discard(name)
        if then == "event":
            self.move(POD_GONE, "no")
        elif then == "take":
            self.take(name)
        elif then == "told":
            self.recheck_gate(name)

    def recheck_gate(self, name):
        self.model.recheck_gate(name)
        self.queue.recheck_gate(uid(name))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def delete(self, data):
        name = self.draw(data)
        if self.pods[name].place == IN_FLIGHT:
            self.late[name] = self.queue.get(uid(name))
        self.model.forget(name)
        self.queue.delete(uid(name))

    @precondition(lambda self: self.late)
    @rule(data=st.data(), again=st.booleans())
    def an_attempt_fails_after_its_pod_was_deleted(self, data, again):
        name = data.draw(st.sampled_from(sorted(self.late)))
        queued = self.late.pop(name)
        if again:
            self.model.add(name, Spec())
            self.queue.add(self.manifest(name, Spec()))
        self.queue.reject(queued, ["Fit"])

    @rule(seconds=st.sampled_from([0.3, 1, 5, 12]))
    def wait(self, seconds):
        self.pass_time(seconds)

    @rule(seconds=st.sampled_from([31, 31, 61, 301, 400]), verdict=VERDICTS, then=st.lists(EVENTS, max_size=2))
    def wait_long(self, seconds, verdict, then):
        """Time alone does nothing backoff_until somebody asks for a pod; then what happens finds those that still
        wait.
        """
        self.pass_time(seconds)
        if (name := self.pop()) is not None:
            self.fail(name, verdict)
        for event, what in then:
            self.move(event, what)

    # Invariants

    @invariant()
    def all_gates_are_looked_at(self):
        """Comes first, because invariants are checked in the order of their names."""
        at_once(self.queue.sort())

    @invariant()
    def every_pod_is_at_the_place_in_the_model(self):
        assert set(self.queue.uids()) == {uid(name) for name in self.pods}
        assert len(self.queue) == len(self.pods)
        for pod in self.pods.values():
            queued = self.queue.get(uid(pod.name))
            assert queued.place.value == pod.place
            assert pod.place != BACKOFF or queued.backoff_until == pod.backoff_until
        assert self.h.counts() == Counter(pod.place for pod in self.pods.values() if pod.place != IN_FLIGHT)

    @invariant()
    def entries_into_queues_are_reported(self):
        assert Counter(self.h.incoming) == self.model.entered

    @invariant()
    def errors_and_rejections_are_counted_separately(self):
        for pod in self.pods.values():
            queued = self.queue.get(uid(pod.name))
            assert (queued.errors, queued.rejections) == (pod.errors, pod.rejections)
            assert queued.was_flushed == pod.was_flushed

    @invariant()
    def rejecting_plugins_are_counted(self):
        counted = Counter()
        for pod in self.model.at(ACTIVE, BACKOFF, UNSCHEDULABLE, GATED):
            counted.update(pod.rejected_by | ({pod.gated_by} if pod.gated_by else set()))
        assert rejected_by(self.queue) == {(plugin, "default-scheduler"): n for plugin, n in counted.items()}

    @invariant()
    def only_events_for_pods_in_flight_are_recorded(self):
        self.check_recorded_events()

    def check_recorded_events(self):
        assert self.queue.in_flight_events() == self.model.recorded()

    @invariant()
    def the_next_wakeup_is_not_too_late(self):
        due, now = self.queue.next_wakeup(), self.h.clock.now
        if self.model.at(ACTIVE) or self.model.poppable_early():
            assert due == now
        elif waiting := [pod.backoff_until + 1.0 for pod in self.model.at(BACKOFF)]:
            assert due is not None
            assert due <= min(waiting)
        if self.model.at(UNSCHEDULABLE, GATED):
            assert due is not None
            assert due <= max(self.model.flush_at, now)

    def teardown(self):
        """After the longest time that a pod may wait without an event, every pod is popped unless it is gated."""
        for pod in self.model.at(IN_FLIGHT):
            self.fail(pod.name, ("rejected", {"Fit"}, (), True))
        held = {pod.name for pod in self.pods.values() if pod.spec.gates or pod.name in self.model.held}
        popped = set()
        for _ in range(3):
            self.pass_time(331)
            while (name := self.pop()) is not None:
                popped.add(name)
        assert popped >= set(self.pods) - held
        for name in sorted(popped):
            self.queue.done(uid(name))
        assert self.queue.in_flight_events() == {}


class LongQueueMachine(QueueMachine):
    """The same with more steps; `make fuzz` tries ten times as many examples."""


class GatesInTurnsMachine(QueueMachine):
    """Gates open one by one. What happens before the event was looked at for all of them comes to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = mock.patch.object(scheduling_queue, "GATES_PER_TURN", 1)
        self.patch.start()

    @rule(verdicts=st.lists(VERDICTS, min_size=1, max_size=2), told=st.booleans())
    def pods_are_gated(self, verdicts, told):
        for verdict in verdicts:
            name = self.add_pod(Spec())
            self.take(name)
            self.fail(name, verdict)
            self.model.held.add(name)
            self.recheck_gate(name)
            if told:
                self.model.held.add(f"p{self.count + 1}")
                self.add_pod(Spec())

    @precondition(lambda self: self.model.held and self.pods)
    @rule(
        data=st.data(),
        steps=st.lists(
            st.sampled_from(["move", "update", "recheck", "take", "activate", "fail", "reconsider", "pop"]),
            min_size=1,
            max_size=5,
        ),
    )
    def gates_open_while_pods_change(self, data, steps):
        self.model.held.clear()
        self.move(POD_GONE, "no")
        for step in steps:
            name = self.draw(data)
            if step == "move":
                self.move(*data.draw(EVENTS))
            elif step == "update":
                self.update(name, data.draw(CHANGED))
            elif step == "recheck":
                self.recheck_gate(name)
            elif step == "take":
                self.take(name)
            elif step == "activate":
                self.model.activate(name)
                self.queue.activate(uid(name))
            elif step == "fail":
                self.model.fail_waiting(name)
                self.queue.fail_waiting(uid(name))
            elif step == "reconsider":
                self.model.reconsider(name)
                self.queue.reconsider(uid(name))
            elif step == "pop":
                self.pop()

    def teardown(self):
        try:
            super().teardown()
        finally:
            self.patch.stop()


QueueMachine.TestCase.settings = settings(max_examples=examples(200), stateful_step_count=30, deadline=None)
LongQueueMachine.TestCase.settings = settings(max_examples=examples(70), stateful_step_count=50, deadline=None)
GatesInTurnsMachine.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)
TestQueueMachine = QueueMachine.TestCase
TestGatesInTurnsMachine = GatesInTurnsMachine.TestCase
TestLongQueueMachine = pytest.mark.slow(LongQueueMachine.TestCase)
