"""What the queue would lose without a single line of it, one pod at a time: breaks that random steps find only by luck, or seldom."""

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


def flying(h, *names):
    """The pods, each in an attempt that began before the next one's."""
    for name in names:
        h.add(name)
    return [h.queue.pop() for _ in names]


def test_a_pod_still_hears_of_events_after_the_queue_has_looked_at_its_clock(h):
    h.rejected("p", "Fit")
    h.clock.now += 31
    assert h.pop() is None
    h.queue.move(NODE_ADDED)
    assert h.pop() == "p"


def test_a_bucket_that_is_empty_when_the_queue_looks_at_its_clock_is_filled_again(h):
    h.rejected("first", "Fit")
    h.queue.delete("default/first")
    h.clock.now += 31
    assert h.pop() is None
    h.rejected("second", "Fit")
    h.queue.move(NODE_ADDED)
    assert h.counts() == {"backoff": 1}


def test_what_the_second_oldest_attempt_waits_for_is_kept_when_the_oldest_ends(h):
    first, second = flying(h, "first", "second")
    h.queue.move(NODE_ADDED)
    (third,) = flying(h, "third")
    h.queue.done(first.uid)
    h.queue.reject(third, ["Fit"])
    assert h.counts() == {"unschedulable": 1}
    h.queue.reject(second, ["Fit"])
    assert h.counts() == {"unschedulable": 1, "backoff": 1}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda queue, queued: queue.delete(queued.uid), id="the pod is deleted"),
        pytest.param(lambda queue, queued: queue.done(queued.uid), id="the attempt ends well"),
        pytest.param(lambda queue, queued: queue.stop_recording(queued.uid), id="the attempt is settled"),
        pytest.param(lambda queue, queued: queue.fault(queued), id="the attempt was an error"),
        pytest.param(lambda queue, queued: queue.reject(queued, ["Fit"]), id="the pod is rejected"),
    ],
)
def test_nothing_is_kept_for_an_attempt_that_is_over(h, end):
    (queued,) = flying(h, "p")
    h.queue.move(NODE_ADDED)
    end(h.queue, queued)
    assert h.queue.in_flight_events() == {}
    h.queue.move(NODE_ADDED)
    assert h.queue.in_flight_events() == {}


def test_a_pod_is_not_taken_from_its_gate_before_the_gate_is_asked_again(h):
    held = {"p"}
    h.pre_enqueue = lambda pod: unresolvable("held").by("Gate") if pod.name in held else None
    h.add("p")
    held.clear()
    assert h.queue.take("default/p") is None
    assert h.counts() == {"gated": 1}
    h.queue.activate("default/p")
    assert h.queue.take("default/p").pod.name == "p"
    assert h.queue.take("default/p") is None


def test_what_one_pod_has_set_free_does_not_wake_that_pod(h):
    h.rejected("itself", "Spread")
    h.rejected("another", "Spread")
    h.queue.move(POD_GONE, "yes", exclude="default/itself")
    assert h.counts() == {"unschedulable": 1, "backoff": 1}
    assert h.pop() == "another"


def test_a_rejection_that_does_not_count_leaves_the_backoff_as_it_is(h):
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


def test_an_active_pod_that_becomes_important_overtakes_the_others(h):
    for name in ("first", "second", "third"):
        h.add(name)
    h.queue.update(h.pod("third", priority=9))
    h.queue.update(h.pod("first", priority=-1))
    assert [h.pop(), h.pop(), h.pop(), h.pop()] == ["third", "second", "first", None]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"terminating": True}, id="it is being deleted"),
        pytest.param({"nominated_node_name": "a"}, id="it was promised a node"),
        pytest.param({"priority": 7}, id="it became important"),
        pytest.param({"gates": ("one",)}, id="one of its gates opened"),
    ],
)
def test_a_change_is_seen_though_nobody_kept_what_the_server_had_said(change):
    before = replace(parse_pod(make_pod("p")), raw=None, gates=("one", "two"))
    assert pod_update(before, before) is None
    assert pod_update(before, replace(before, **change)) == OTHER


def test_the_promise_of_a_node_wakes_whom_a_plugin_rejected_for_want_of_one(h):
    h.hints["Promise"] = (EventHint(OTHER),)
    h.rejected("p", "Promise")
    h.queue.update(h.pod("p", status={"nominatedNodeName": "a"}))
    assert h.counts() == {"backoff": 1}


@pytest.mark.parametrize("outcome", ["reject", "fault"])
def test_an_attempt_that_ends_late_does_not_touch_the_pod_that_came_again(h, outcome):
    (late,) = flying(h, "p")
    h.queue.delete(late.uid)
    (again,) = flying(h, "p")
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
