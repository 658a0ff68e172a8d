"""The queue beside a model of it that knows nothing of heaps, buckets and recorded events, whatever happens to both."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import cycle

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from podwright.core.framework.status import unresolvable
from support.queue.kit import NODE_ADDED, POD_GONE, Harness
from support.queue.model import (
    ACTIVE,
    ANYTHING,
    BACKOFF,
    FLYING,
    GATED,
    HINTS,
    UNASKED,
    UNSCHEDULABLE,
    QueueModel,
    Spec,
    helped_by,
)

EVENTS = st.tuples(st.sampled_from([NODE_ADDED, POD_GONE, UNASKED]), st.sampled_from(["no", "yes"]))
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
"""(how the attempt failed, the plugins that reject, those that do as Pending, whether it counts)"""
PRIORITIES = st.integers(0, 2)
ALMOST_NEVER = st.sampled_from([False, False, False, False, True])
CHANGES = {
    "label": lambda spec: replace(spec, label="b" if spec.label == "a" else "a"),
    "less": lambda spec: replace(spec, cpu=spec.cpu - 1 or 3),
    "more important": lambda spec: replace(spec, priority=spec.priority + 1),
    "less important": lambda spec: replace(spec, priority=spec.priority - 1),
    "terminating": lambda spec: replace(spec, terminating=True),
    "nominated": lambda spec: replace(spec, nominated="" if spec.nominated == "b" else "b" if spec.nominated else "a"),
    "gate": lambda spec: replace(spec, gates=max(0, spec.gates - 1)),
    "annotation": lambda spec: replace(spec, note=spec.note + "x"),
    "nothing that matters": lambda spec: replace(spec, version=spec.version + 1),
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

    def draw(self, data, *where):
        """The name of a pod that is there; of any, if nothing is said."""
        names = sorted(pod.name for pod in self.pods.values() if not where or pod.where in where)
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

    def come(self, spec):
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

    def happen(self, event, what):
        self.model.happen(event.label, helped_by(event, what))
        self.queue.move(event, what)

    def pass_time(self, seconds):
        self.h.clock.now += seconds
        self.model.now = self.h.clock.now

    # What may happen

    @initialize(
        fates=st.lists(
            st.tuples(PRIORITIES, st.sampled_from([ACTIVE, GATED, FLYING, "failed", "failed", "failed"]), VERDICTS),
            min_size=3,
            max_size=6,
        )
    )
    def much_has_happened_already(self, fates):
        for priority, fate, verdict in fates:
            name = self.come(Spec(priority, gates=2 if fate == GATED else 0))
            if fate in (FLYING, "failed"):
                self.take(name)
            if fate == "failed":
                self.fail(name, verdict)

    @rule(gates=st.sampled_from([0, 0, 1, 2]), priority=PRIORITIES, held=ALMOST_NEVER)
    def add(self, gates, priority, held):
        if held:
            self.model.held.add(f"p{self.count + 1}")
        self.come(Spec(priority, gates=gates))

    @rule(verdicts=st.lists(VERDICTS, min_size=1, max_size=3), priority=PRIORITIES)
    def some_come_and_fail(self, verdicts, priority):
        for verdict in verdicts:
            name = self.come(Spec(priority))
            self.take(name)
            self.fail(name, verdict)

    @rule()
    def begin_an_attempt(self):
        self.pop()

    @rule(meanwhile=st.lists(EVENTS, max_size=2), verdict=VERDICTS)
    def try_and_fail(self, meanwhile, verdict):
        """What is most frequent, in one step."""
        name = self.pop()
        for event, what in meanwhile:
            self.happen(event, what)
        if name is not None:
            self.fail(name, verdict)

    @rule(attempts=st.lists(st.tuples(VERDICTS, EVENTS, CHANGED), min_size=2, max_size=4), data=st.data())
    def try_some_at_once_and_have_them_fail_one_after_the_other(self, attempts, data):
        flying = []
        for verdict, (event, what), change in attempts:
            if (name := self.pop()) is None:
                name = self.come(Spec())
                self.take(name)
            self.happen(event, what)
            self.update(name, change)
            flying.append((name, verdict))
        for name, verdict in data.draw(st.permutations(flying)):
            self.fail(name, verdict)
            self.check_what_is_kept()

    @rule(verdicts=st.lists(VERDICTS, min_size=1, max_size=3))
    def try_all(self, verdicts):
        """The order of all shows only if nobody comes in between."""
        flying = []
        while (name := self.pop()) is not None:
            flying.append(name)
        for name, verdict in zip(flying, cycle(verdicts), strict=False):
            self.fail(name, verdict)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def take_one_out_of_its_turn(self, data):
        self.take(self.draw(data))

    @precondition(lambda self: self.model.at(BACKOFF, UNSCHEDULABLE))
    @rule(data=st.data(), verdict=VERDICTS)
    def take_one_that_waits_and_have_it_fail_again(self, data, verdict):
        name = self.draw(data, BACKOFF, UNSCHEDULABLE)
        if self.take(name):
            self.fail(name, verdict)

    @precondition(lambda self: self.model.at(FLYING))
    @rule(data=st.data())
    def succeed(self, data):
        name = self.draw(data, FLYING)
        self.model.forget(name)
        self.queue.done(uid(name))

    @precondition(lambda self: self.model.at(FLYING))
    @rule(data=st.data())
    def settle(self, data):
        name = self.draw(data, FLYING)
        self.pods[name].settled = True
        self.queue.stop_recording(uid(name))

    @precondition(lambda self: self.model.at(FLYING))
    @rule(data=st.data(), verdict=VERDICTS)
    def end_an_attempt(self, data, verdict):
        self.fail(self.draw(data, FLYING), verdict)

    @rule(happened=st.lists(EVENTS, min_size=1, max_size=3))
    def something_happens(self, happened):
        for event, what in happened:
            self.happen(event, what)

    @precondition(lambda self: self.pods)
    @rule(happened=EVENTS, data=st.data())
    def one_is_spared(self, happened, data):
        (event, what), name = happened, self.draw(data)
        self.model.happen(event.label, helped_by(event, what), exclude=name)
        self.queue.move(event, what, exclude=uid(name))

    @rule(happened=EVENTS, priority=PRIORITIES)
    def it_helps_none_that_are_more_important(self, happened, priority):
        event, what = happened
        self.model.happen(event.label, helped_by(event, what), up_to=priority)
        self.queue.move(event, what, up_to_priority=priority)

    @rule()
    def another_policy(self):
        self.h.hints = dict(self.h.hints)
        self.model.happen("*All", {ANYTHING})
        self.queue.activate_all()

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), what=st.sampled_from(["activate", "reconsider", "fail"]))
    def one_is_picked_out(self, data, what):
        name = self.draw(data)
        if what == "activate":
            self.model.activate(name)
            self.queue.activate(uid(name))
        elif what == "reconsider":
            self.model.everything_changed(name)
            self.queue.reconsider(uid(name))
        else:
            self.model.fail_what_it_waits_for(name)
            self.queue.fail_waiting(uid(name))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), change=CHANGED)
    def change(self, data, change):
        self.update(self.draw(data), change)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), changes=st.lists(CHANGED, min_size=1, max_size=3))
    def change_some_that_are_there_to_be_tried(self, data, changes):
        """Those that wait for something, or fly, are more likely to show whether it was noticed."""
        where = {BACKOFF, UNSCHEDULABLE, FLYING} & {pod.where for pod in self.pods.values()}
        name = self.draw(data, *where)
        for change in changes:
            self.update(name, change)

    def update(self, name, change):
        spec = CHANGES[change](self.pods[name].spec)
        self.model.update(name, spec)
        self.queue.update(self.manifest(name, spec))

    @precondition(lambda self: self.model.at(BACKOFF, UNSCHEDULABLE, FLYING))
    @rule(data=st.data())
    def a_plugin_holds_it_from_now_on(self, data):
        self.model.held.add(self.draw(data, BACKOFF, UNSCHEDULABLE, FLYING))

    @precondition(lambda self: self.model.held)
    @rule(data=st.data(), then=st.sampled_from(["nobody looks", "something happens", "it is taken"]))
    def it_is_held_no_more(self, data, then):
        name = data.draw(st.sampled_from(sorted(self.model.held)))
        self.model.held.discard(name)
        if then == "something happens":
            self.happen(POD_GONE, "no")
        elif then == "it is taken":
            self.take(name)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def delete(self, data):
        name = self.draw(data)
        if self.pods[name].where == FLYING:
            self.late[name] = self.queue.get(uid(name))
        self.model.forget(name)
        self.queue.delete(uid(name))

    @precondition(lambda self: self.late)
    @rule(data=st.data(), again=st.booleans())
    def an_attempt_ends_after_its_pod_was_deleted(self, data, again):
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
    def much_later(self, seconds, verdict, then):
        """Time alone does nothing until somebody asks for a pod; then what happens finds those that still wait."""
        self.pass_time(seconds)
        if (name := self.pop()) is not None:
            self.fail(name, verdict)
        for event, what in then:
            self.happen(event, what)

    # What always holds

    @invariant()
    def every_pod_is_where_the_model_says_and_nowhere_else(self):
        assert set(self.queue.uids()) == {uid(name) for name in self.pods}
        assert len(self.queue) == len(self.pods)
        for pod in self.pods.values():
            queued = self.queue.get(uid(pod.name))
            assert queued.place.value == pod.where
            assert pod.where != BACKOFF or queued.backoff_until == pod.until
        assert self.h.counts() == Counter(pod.where for pod in self.pods.values() if pod.where != FLYING)

    @invariant()
    def every_entry_into_a_queue_was_reported(self):
        assert Counter(self.h.incoming) == self.model.entered

    @invariant()
    def errors_and_rejections_are_counted_apart(self):
        for pod in self.pods.values():
            queued = self.queue.get(uid(pod.name))
            assert (queued.errors, queued.rejections) == (pod.errors, pod.rejections)
            assert queued.was_flushed == pod.was_flushed

    @invariant()
    def who_rejects_and_holds_pods_is_counted(self):
        counted = Counter()
        for pod in self.model.at(ACTIVE, BACKOFF, UNSCHEDULABLE, GATED):
            counted.update(pod.rejected_by | ({pod.gated_by} if pod.gated_by else set()))
        assert self.queue.rejected_by() == {(plugin, "default-scheduler"): n for plugin, n in counted.items()}

    @invariant()
    def nothing_is_kept_that_no_attempt_waits_for(self):
        self.check_what_is_kept()

    def check_what_is_kept(self):
        assert self.queue.in_flight_events() == self.model.kept()

    @invariant()
    def whoever_can_be_popped_is_not_slept_over(self):
        due, now = self.queue.next_wakeup(), self.h.clock.now
        if self.model.at(ACTIVE) or self.model.early():
            assert due == now
        elif waiting := [pod.until + 1.0 for pod in self.model.at(BACKOFF)]:
            assert due is not None
            assert due <= min(waiting)
        if self.model.at(UNSCHEDULABLE, GATED):
            assert due is not None
            assert due <= max(self.model.flush_at, now)

    def teardown(self):
        """Whatever happened: after the time that every pod may wait without an event, each is tried, but for those held."""
        for pod in self.model.at(FLYING):
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


class QueueMachineForLong(QueueMachine):
    """The same, as a run of all tests can bear."""


QueueMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
QueueMachineForLong.TestCase.settings = settings(max_examples=700, stateful_step_count=50, deadline=None)
TestQueueMachine = QueueMachine.TestCase
TestQueueMachineForLong = pytest.mark.slow(QueueMachineForLong.TestCase)
