"""Details of the queue that the random steps of `test_queue_machine` rarely reach, one test for each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podwright.core.framework.cluster_events import POD, Action, ClusterEvent, EventHint
from podwright.core.framework.status import unresolvable
from podwright.core.objects.pod import parse_pod
from podwright.core.queue.updates import pod_update
from support.objects.builders import make_pod
from support.queue.kit import NODE_ADDED, POD_GONE, Harness

OTHER = ClusterEvent(POD, Action.UPDATE_POD_OTHER)


@pytest.fixture
def h():
    return Harness()


def in_flight(h, *names):
    """Adds and pops pods, one after another."""
    for name in names:
        h.add(name)
    return [h.queue.pop() for _ in names]


def test_events_still_reach_a_pod_after_a_flush(h):
    h.rejected("p", "Fit")
    h.clock.now += 31
    assert h.pop() is None
    h.queue.move(NODE_ADDED)
    assert h.pop() == "p"


def test_requests_to_retry_pods_soon_retry_them_every_few_seconds_only(h):
    h.rejected("p", "Fit")
    h.due = ["default/p"]
    h.clock.now += 40
    h.queue.reject(h.queue.pop(), ["Fit"])
    for _ in range(2):
        h.queue.retry_due_soon()
    h.clock.now += 3
    assert h.pop() is None
    h.clock.now += 3
    assert h.pop() == "p"


def test_a_pod_that_is_due_while_it_is_in_flight_is_retried_after_its_attempt(h):
    (queued,) = in_flight(h, "p")
    h.due = ["default/p"]
    h.queue.retry_due_soon()
    h.clock.now += 6
    assert h.pop() is None
    h.queue.reject(queued, ["Fit"])
    assert h.counts() == {"backoff": 1}


def test_a_bucket_that_a_flush_dropped_is_created_again(h):
    h.rejected("first", "Fit")
    h.queue.delete("default/first")
    h.clock.now += 31
    assert h.pop() is None
    h.rejected("second", "Fit")
    h.queue.move(NODE_ADDED)
    assert h.counts() == {"backoff": 1}


def test_events_for_the_second_oldest_attempt_remain_when_the_oldest_ends(h):
    first, second = in_flight(h, "first", "second")
    h.queue.move(NODE_ADDED)
    (third,) = in_flight(h, "third")
    h.queue.done(first.uid)
    h.queue.reject(third, ["Fit"])
    assert h.counts() == {"unschedulable": 1}
    h.queue.reject(second, ["Fit"])
    assert h.counts() == {"unschedulable": 1, "backoff": 1}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda queue, queued: queue.delete(queued.uid), id="the pod was deleted"),
        pytest.param(lambda queue, queued: queue.done(queued.uid), id="the attempt succeeded"),
        pytest.param(lambda queue, queued: queue.stop_recording(queued.uid), id="recording was stopped"),
        pytest.param(lambda queue, queued: queue.fault(queued), id="the attempt was an error"),
        pytest.param(lambda queue, queued: queue.reject(queued, ["Fit"]), id="the pod was rejected"),
    ],
)
def test_no_events_are_recorded_after_an_attempt(h, end):
    (queued,) = in_flight(h, "p")
    h.queue.move(NODE_ADDED)
    end(h.queue, queued)
    assert h.queue.in_flight_events() == {}
    h.queue.move(NODE_ADDED)
    assert h.queue.in_flight_events() == {}


def test_a_gated_pod_cannot_be_taken_before_pre_enqueue_lets_it_pass(h):
    held = {"p"}
    h.pre_enqueue = lambda pod: unresolvable("held").by("Gate") if pod.name in held else None
    h.add("p")
    held.clear()
    assert h.queue.take("default/p") is None
    assert h.counts() == {"gated": 1}
    h.queue.activate("default/p")
    assert h.queue.take("default/p").pod.name == "p"
    assert h.queue.take("default/p") is None


def test_a_pod_that_is_gated_since_its_first_attempt_can_be_taken_when_pre_enqueue_lets_it_pass(h):
    held = set()
    h.pre_enqueue = lambda pod: unresolvable("held").by("Gate") if pod.name in held else None
    h.rejected("p", "Fit")
    held.add("p")
    h.queue.recheck_gate("default/p")
    assert h.queue.take("default/p") is None
    assert h.counts() == {"gated": 1}
    held.clear()
    assert h.queue.take("default/p").pod.name == "p"


def test_an_event_can_exclude_a_pod(h):
    h.rejected("itself", "Spread")
    h.rejected("another", "Spread")
    h.queue.move(POD_GONE, "yes", exclude="default/itself")
    assert h.counts() == {"unschedulable": 1, "backoff": 1}
    assert h.pop() == "another"


def test_a_rejection_that_does_not_count_keeps_the_backoff(h):
    queued = h.rejected("p", "Fit", count=False)
    assert queued.rejections == 0
    h.queue.move(NODE_ADDED)
    assert h.counts() == {"active": 1}
    h.pop()
    h.queue.reject(queued, ["Fit"])
    h.queue.activate(queued.uid)
    h.pop()
    h.queue.reject(queued, ["Fit"], count=False)
    assert (queued.rejections, queued.backoff_until) == (1, h.clock.now + 1)


def test_an_active_pod_whose_priority_changes_is_reordered(h):
    for name in ("first", "second", "third"):
        h.add(name)
    h.queue.update(h.pod("third", priority=9))
    h.queue.update(h.pod("first", priority=-1))
    assert [h.pop(), h.pop(), h.pop(), h.pop()] == ["third", "second", "first", None]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"terminating": True}, id="it is terminating"),
        pytest.param({"nominated_node_name": "a"}, id="it was nominated to a node"),
        pytest.param({"priority": 7}, id="its priority changed"),
        pytest.param({"gates": ("one",)}, id="one of its gates was removed"),
    ],
)
def test_changes_are_detected_without_the_raw_object(change):
    before = replace(parse_pod(make_pod("p")), raw=None, gates=("one", "two"))
    assert pod_update(before, before) is None
    assert pod_update(before, replace(before, **change)) == OTHER


def test_a_nomination_is_an_update_of_the_pod(h):
    h.hints["Nomination"] = (EventHint(OTHER),)
    h.rejected("p", "Nomination")
    h.queue.update(h.pod("p", status={"nominatedNodeName": "a"}))
    assert h.counts() == {"backoff": 1}


@pytest.mark.parametrize("outcome", ["reject", "fault"])
def test_an_attempt_of_a_deleted_pod_does_not_affect_its_successor(h, outcome):
    (late,) = in_flight(h, "p")
    h.queue.delete(late.uid)
    (again,) = in_flight(h, "p")
    if outcome == "reject":
        h.queue.reject(late, ["Fit"])
    else:
        h.queue.fault(late)
    assert h.queue.get(late.uid) is again
    assert (h.counts(), h.incoming.count(("active", "UnscheduledPodAdd")), len(h.incoming)) == ({}, 2, 2)
    h.queue.reject(again, ["Fit"])
    h.clock.now += 400
    assert h.pop() == "p"
    assert h.pop() is None
