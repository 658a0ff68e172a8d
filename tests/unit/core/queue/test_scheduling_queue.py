import gc
import sys
import weakref

import pytest

from podwright.core.framework.cluster_events import NODE, POD, Action, ClusterEvent, EventHint, Hint
from podwright.core.objects.pod import parse_pod
from podwright.core.queue import Waits, hinting, in_flight
from support.objects.builders import make_pod
from support.queue.kit import NODE_ADDED, POD_GONE, Harness, rejected_by
from support.steps import run_steps


@pytest.fixture
def h():
    return Harness()


def test_pods_are_popped_by_priority_and_then_in_order_of_arrival(h):
    for name, priority in (("low", 1), ("first", 5), ("second", 5)):
        h.add(name, priority=priority)
    assert [h.pop(), h.pop(), h.pop(), h.pop()] == ["first", "second", "low", None]


def test_a_rejected_pod_waits_for_an_event_that_its_rejecting_plugin_registered(h):
    h.rejected("p", "Fit")
    assert h.pop() is None
    h.queue.move(POD_GONE)
    assert h.counts() == {"unschedulable": 1}
    h.queue.move(NODE_ADDED)
    assert h.counts() == {"backoff": 1}


def test_a_pod_is_popped_from_backoff_when_nothing_is_active(h):
    h.rejected("p", "Fit")
    h.queue.move(NODE_ADDED)
    assert h.queue.next_wakeup() == h.clock.now
    assert h.pop() == "p"


def test_a_pod_whose_attempt_was_an_error_completes_its_backoff(h):
    h.add("p")
    h.queue.fault(h.queue.pop())
    assert h.counts() == {"backoff": 1}
    assert h.pop() is None
    h.clock.now += 1
    assert h.pop() is None
    h.clock.now += 1
    assert h.queue.next_wakeup() <= h.clock.now
    assert h.pop() == "p"


def test_backoff_doubles_to_ten_seconds_and_ends_on_whole_seconds(h):
    h.clock.now = 1000.4
    h.add("p")
    waits = []
    for _ in range(6):
        queued = h.queue.pop()
        h.queue.fault(queued)
        waits.append(queued.backoff_until - h.clock.now)
        h.clock.now = queued.backoff_until + 1.4
    assert [round(wait + 0.4) for wait in waits] == [1, 2, 4, 8, 10, 10]
    assert queued.backoff_until == int(queued.backoff_until)


def test_initial_and_maximum_backoff_can_be_configured():
    h = Harness(Waits(initial_backoff=3, max_backoff=7))
    h.add("p")
    waits = []
    for _ in range(3):
        queued = h.queue.pop()
        h.queue.fault(queued)
        waits.append(queued.backoff_until - h.clock.now)
        h.clock.now = queued.backoff_until + 1
    assert waits == [3, 6, 7]


def test_the_longest_wait_without_an_event_can_be_configured():
    h = Harness(Waits(max_unschedulable=600))
    h.rejected("p", "Fit")
    h.clock.now += 599
    assert h.pop() is None
    h.clock.now += 31
    assert h.pop() == "p"


def test_errors_and_rejections_are_counted_separately(h):
    h.add("p")
    queued = h.queue.pop()
    h.queue.fault(queued)
    h.clock.now += 2
    h.queue.reject(h.queue.pop(), ["Fit"])
    assert (queued.errors, queued.rejections, queued.attempts) == (0, 1, 2)


def test_a_pod_that_was_rejected_as_pending_skips_its_backoff(h):
    h.rejected("p", (), pending=["Wait"])
    h.queue.move(NODE_ADDED)
    assert h.counts() == {"active": 1}


def test_a_hint_that_skips_an_event_leaves_the_pod_unschedulable(h):
    h.rejected("p", "Spread")
    h.queue.move(POD_GONE, "no")
    assert h.counts() == {"unschedulable": 1}
    h.queue.move(POD_GONE, "yes")
    assert h.counts() == {"backoff": 1}


def _quit(*_):
    raise GeneratorExit


@pytest.mark.parametrize(
    "hint",
    [
        pytest.param(lambda *_: 1 / 0, id="it raises"),
        pytest.param(lambda *_: sys.exit(1), id="it exits the process"),
        pytest.param(lambda *_: None, id="it returns nothing"),
        pytest.param(lambda *_: "QueueSkip", id="it returns a string"),
        pytest.param(lambda: Hint.SKIP, id="it takes no arguments"),
        pytest.param("QueueSkip", id="it is not callable"),
        pytest.param(_quit, id="it raises what is no Exception"),
    ],
)
def test_a_faulty_hint_queues_the_pod_rather_than_losing_it(h, hint):
    h.hints["Faulty"] = (EventHint(POD_GONE, hint),)
    h.rejected("p", "Faulty")
    h.queue.move(POD_GONE)
    assert h.counts() == {"backoff": 1}


def test_a_sample_of_the_calls_of_hints_is_measured(h):
    for number in range(hinting.SAMPLE_INTERVAL):
        h.rejected(f"p{number}", "Spread")
    h.queue.move(POD_GONE, "no")
    assert h.hinted == [("Spread", "AssignedPodDelete", "QueueSkip", 0.0)]


def test_the_label_of_several_changes_is_that_of_the_change_that_helps(h):
    h.hints["Fit"] = (EventHint(ClusterEvent(NODE, Action.UPDATE_NODE_TAINT)),)
    h.rejected("p", "Fit")
    h.queue.move(ClusterEvent(NODE, Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT))
    assert h.incoming[-1] == ("backoff", "NodeUpdateNodeTaint")


def test_an_event_for_pods_up_to_a_priority_moves_no_other_pods(h):
    for name, priority in (("low", 1), ("high", 5)):
        h.add(name, priority=priority)
        h.queue.reject(h.queue.pop(), ["Spread"])
    h.queue.move(POD_GONE, "yes", up_to_priority=1)
    assert h.counts() == {"backoff": 1, "unschedulable": 1}
    assert h.pop() == "low"


def test_a_rejection_without_plugins_counts_as_an_error(h):
    queued = h.rejected("p")
    assert (queued.errors, queued.rejections) == (1, 0)
    assert h.pop() is None


def test_a_pod_popped_from_backoff_is_reported_as_active(h):
    h.rejected("p", "Fit")
    h.queue.move(NODE_ADDED)
    h.queue.pop()
    assert h.incoming[-1] == ("active", "PopFromBackoffQ")


def test_the_plugins_that_rejected_waiting_pods_are_counted(h):
    h.rejected("one", "Fit", "Spread")
    h.rejected("two", "Fit", pending=["Wait"])
    h.add("gated", gates=["g"])
    assert rejected_by(h.queue) == {
        ("Fit", "default-scheduler"): 2,
        ("Spread", "default-scheduler"): 1,
        ("Wait", "default-scheduler"): 1,
        ("Gate", "default-scheduler"): 1,
    }
    h.queue.activate("default/one")
    h.queue.pop()
    assert rejected_by(h.queue)["Fit", "default-scheduler"] == 1


def test_events_recorded_for_pods_in_flight_are_counted(h):
    h.add("p")
    queued = h.queue.pop()
    h.queue.move(NODE_ADDED)
    h.queue.move(NODE_ADDED)
    assert h.queue.in_flight_events() == {"PodPopped": 1, "NodeAdd": 2}
    h.queue.done(queued.uid)
    assert h.queue.in_flight_events() == {}


def test_an_attempt_without_an_event_is_marked_as_flushed(h):
    queued = h.rejected("p", "Fit")
    h.clock.now += 400
    h.pop()
    assert queued.was_flushed
    h.queue.reject(queued, ["Fit"])
    assert not queued.was_flushed


def test_an_attempt_after_a_long_time_in_the_gate_is_not_marked_as_flushed(h):
    h.add("p", gates=["g"])
    h.clock.now += 400
    assert h.pop() is None
    h.queue.update(h.pod("p"))
    assert not h.queue.pop().was_flushed


def test_a_gate_that_opened_without_an_event_is_marked_as_flushed(h):
    h.add("p", gates=["g"])
    h.pre_enqueue = lambda _pod: None
    h.clock.now += 400
    assert h.queue.pop().was_flushed


def test_a_plugin_without_hints_is_helped_by_any_event(h):
    h.rejected("p", "Extender")
    h.queue.move(POD_GONE)
    assert h.counts() == {"backoff": 1}


def test_an_event_during_the_attempt_is_not_lost(h):
    h.add("p")
    queued = h.queue.pop()
    h.queue.move(NODE_ADDED)
    h.queue.reject(queued, ["Fit"])
    assert h.counts() == {"backoff": 1}


def test_an_event_before_the_attempt_does_not_count(h):
    h.add("other")
    h.add("p")
    other = h.queue.pop()
    h.queue.move(NODE_ADDED)
    queued = h.queue.pop()
    h.queue.reject(queued, ["Fit"])
    h.queue.done(other.uid)
    assert h.counts() == {"unschedulable": 1}


def test_a_pod_without_recording_that_fails_is_retried_as_after_an_error(h):
    h.add("p")
    queued = h.queue.pop()
    h.queue.stop_recording(queued.uid)
    h.queue.move(NODE_ADDED)
    assert h.queue.in_flight_events() == {}
    h.queue.reject(queued, ["Spread"])
    assert h.counts() == {"backoff": 1}
    assert h.pop() is None
    h.clock.now += 3
    assert h.pop() == "p"


def test_the_number_of_recorded_events_is_limited(h, monkeypatch):
    monkeypatch.setattr(in_flight, "MAX_RECORDED", 2)
    h.add("long")
    long = h.queue.pop()
    h.queue.move(NODE_ADDED)
    h.add("short")
    short = h.queue.pop()
    for _ in range(2):
        h.queue.move(NODE_ADDED)
    assert h.queue.in_flight_events()["NodeAdd"] == 2
    h.queue.reject(short, ["Spread"])
    assert h.counts() == {"unschedulable": 1}
    h.queue.reject(long, ["Spread"])
    assert h.counts() == {"backoff": 1, "unschedulable": 1}


def test_a_pod_waits_no_longer_than_five_minutes(h):
    h.rejected("p", "Fit")
    while h.clock.now < 1000 + 300 + 31:
        assert h.queue.next_wakeup() <= h.clock.now + 30
        h.clock.now += 30
        if h.pop():
            break
    assert 1300 < h.clock.now <= 1330 + 30


def test_an_update_without_a_hint_does_not_move_a_pod(h):
    h.rejected("p", "Fit")
    h.queue.update(h.pod("p", metadata={"resourceVersion": "2", "annotations": {"a": "b"}}))
    assert h.counts() == {"unschedulable": 1}


@pytest.mark.parametrize(
    "now",
    [
        pytest.param({"cpu": "1", "memory": "1Gi"}, id="it requests less"),
        pytest.param({"cpu": "1", "memory": "2Gi"}, id="it requests less of one resource and more of another"),
        pytest.param({"memory": "1Gi"}, id="it no longer requests a resource"),
    ],
)
def test_an_update_that_the_rejecting_plugin_registered_moves_the_pod(h, now):
    h.hints["Fit"] = (EventHint(ClusterEvent(POD, Action.UPDATE_POD_SCALE_DOWN)),)
    h.add("p", requests={"cpu": "2", "memory": "1Gi"})
    h.queue.reject(h.queue.pop(), ["Fit"])
    h.queue.update(h.pod("p", requests=now))
    assert h.counts() == {"backoff": 1}


def test_a_pod_that_is_updated_in_flight_is_retried_with_its_new_spec(h):
    h.hints["Fit"] = (EventHint(ClusterEvent(POD, Action.UPDATE_POD_TOLERATION)),)
    h.add("p")
    queued = h.queue.pop()
    h.queue.update(parse_pod(make_pod("p", spec={"tolerations": [{"operator": "Exists"}]})))
    h.queue.reject(queued, ["Fit"])
    assert h.counts() == {"backoff": 1}
    assert h.queue.pop().pod.tolerations.items


def test_a_deleted_pod_is_removed_from_every_queue(h):
    h.rejected("waiting", "Fit")
    h.add("active")
    h.add("gated", gates=["g"])
    for name in ("waiting", "active", "gated"):
        h.queue.delete(f"default/{name}")
    assert h.counts() == {}
    assert len(h.queue) == 0


def test_a_pod_that_was_deleted_in_flight_is_not_requeued(h):
    h.add("p")
    queued = h.queue.pop()
    h.queue.delete(queued.uid)
    h.queue.reject(queued, ["Fit"])
    assert h.counts() == {}


def test_every_entry_into_a_queue_is_reported(h):
    h.rejected("p", "Fit")
    h.queue.move(NODE_ADDED)
    assert h.incoming == [
        ("active", "UnscheduledPodAdd"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "NodeAdd"),
    ]


def test_a_pod_that_an_event_helped_in_flight_is_reported_in_backoff(h):
    h.add("p")
    queued = h.queue.pop()
    h.queue.move(NODE_ADDED)
    h.queue.reject(queued, ["Fit"])
    assert h.incoming == [("active", "UnscheduledPodAdd"), ("backoff", "ScheduleAttemptFailure")]


def test_of_backoffs_that_end_together_the_pod_of_highest_priority_is_popped_first(h):
    attempts = []
    for name, priority in (("low", 1), ("high", 5)):
        h.add(name, priority=priority)
        attempts.append(h.queue.pop())
    for queued in attempts:
        h.queue.reject(queued, ["Fit"])
    h.queue.move(NODE_ADDED)
    assert [h.pop(), h.pop()] == ["high", "low"]


def test_a_pod_whose_priority_rises_in_backoff_is_popped_first(h):
    for name in ("first", "second"):
        h.rejected(name, "Fit")
    h.queue.move(NODE_ADDED)
    h.queue.update(h.pod("second", priority=9))
    assert [h.pop(), h.pop()] == ["second", "first"]


def test_an_event_that_helps_every_pod_does_not_skip_backoff(h):
    h.rejected("p", (), pending=["Wait"])
    h.queue.activate_all()
    assert h.counts() == {"backoff": 1}


class Hints(dict):
    """A dict that can be referenced weakly."""


def test_hints_of_a_deleted_policy_are_released(h):
    h.hints = Hints(h.hints)
    reference = weakref.ref(h.hints)
    queued = h.rejected("p", "Fit")
    h.queue.activate(queued.uid)
    h.queue.pop()
    h.queue.move(NODE_ADDED)
    h.queue.reject(queued, ["Fit"])
    h.queue.delete(queued.uid)
    h.hints = {}
    h.clock.now += 40
    h.pop()
    gc.collect()
    assert reference() is None


def test_rejections_are_counted_in_steps_while_pods_come_and_go(monkeypatch):
    monkeypatch.setattr("podwright.core.queue.scheduling_queue.PODS_A_STEP", 2)
    h = Harness()
    for number in range(5):
        h.rejected(f"p{number}", "Fit")
    steps = h.queue.rejected_by()
    next(steps)
    for name in ("p2", "p4"):
        h.queue.delete(next(uid for uid in h.queue.uids() if h.queue.get(uid).pod.name == name))
    h.rejected("p5", "Fit")
    assert run_steps(steps) == ({("Fit", "default-scheduler"): 3}, 2)
    assert rejected_by(h.queue) == {("Fit", "default-scheduler"): 4}
