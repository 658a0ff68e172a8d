"""What happens while pods are in flight, and what it costs when many of them fail together."""

from __future__ import annotations

import sys

import pytest

from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint
from podwright.core.queue import in_flight
from podwright.core.queue.hinting import Happened
from podwright.core.queue.in_flight import InFlight
from support.queue.kit import NODE_ADDED, POD_GONE, Harness

RELABELLED = ClusterEvent(NODE, Action.UPDATE_NODE_LABEL)


@pytest.fixture
def h():
    return Harness()


def popped(h, count):
    for number in range(count):
        h.add(f"p{number}")
    return [h.queue.pop() for _ in range(count)]


def calls(work):
    """How many Python functions were called."""
    seen = 0

    def note(_frame, event, _argument):
        nonlocal seen
        seen += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return seen


def calls_to_reject(pods, events):
    h = Harness()
    flying = popped(h, pods)
    for number in range(events):
        h.queue.move((RELABELLED, POD_GONE)[number % 2], "no")

    def reject():
        for queued in flying:
            h.queue.reject(queued, ["Fit"])

    counted = calls(reject)
    assert h.counts() == {"unschedulable": pods}
    return counted


def test_pods_that_fail_together_do_not_each_go_through_all_that_cannot_matter_to_them():
    few, many = calls_to_reject(pods=100, events=10), calls_to_reject(pods=100, events=2_000)
    assert many - few < 10 * 2_000  # sorted by event, once; a look by each pod at each event would be 100 times 2,000


def test_hints_are_registered_for_an_event_or_not_for_all_pods_alike(h, monkeypatch):
    asked = []
    matches = ClusterEvent.matches
    monkeypatch.setattr(ClusterEvent, "matches", lambda self, other: asked.append(other) or matches(self, other))
    flying = popped(h, 50)
    for event in (RELABELLED, POD_GONE):
        h.queue.move(event, "no")
    asked.clear()
    for queued in flying:
        h.queue.reject(queued, ["Fit"])
    assert sorted(event.label for event in asked) == [POD_GONE.label, RELABELLED.label]


def test_two_sets_of_rejecting_plugins_are_helped_by_different_events(h):
    one, two, three = popped(h, 3)
    h.queue.move(NODE_ADDED)
    h.queue.reject(one, ["Spread"])
    h.queue.reject(two, ["Fit"])
    h.queue.reject(three, ["Fit", "Spread"])
    assert h.counts() == {"unschedulable": 1, "backoff": 2}


def test_profiles_are_told_apart_though_their_plugins_have_the_same_names(h):
    one, two = popped(h, 2)
    h.queue.move(NODE_ADDED)
    h.queue.reject(one, ["Fit"])
    h.hints = {"Fit": (EventHint(POD_GONE),)}
    h.queue.reject(two, ["Fit"])
    assert h.counts() == {"backoff": 1, "unschedulable": 1}


class Position(int):
    """A place in what is recorded that counts how often two are put in order."""

    compared = 0

    def __add__(self, other):
        return Position(int(self) + other)

    __radd__ = __add__

    def __lt__(self, other):
        Position.compared += 1
        return int(self) < other


def test_the_oldest_of_many_in_flight_is_not_looked_for(monkeypatch):
    flights = InFlight()
    flights._base = Position(0)
    monkeypatch.setattr(Position, "compared", 0)
    for number in range(500):
        flights.begin(f"p{number}")
    flights.record(Happened(RELABELLED, None, None))
    for number in range(500):
        flights.end(f"p{number}")
    assert Position.compared < 5 * 500


def test_what_only_those_that_have_landed_could_want_is_forgotten():
    flights = InFlight()
    for name in ("first", "second", "third"):
        flights.begin(name)
        flights.record(Happened(RELABELLED, name, None))
    flights.end("second")
    assert flights.counts() == {RELABELLED.label: 3, "PodPopped": 2}
    flights.end("first")
    assert flights.counts() == {RELABELLED.label: 1, "PodPopped": 1}
    assert missed(flights, "third") == ["third"]
    flights.end("third")
    assert flights.counts() == {}


def test_what_was_forgotten_before_the_last_attempt_began_does_not_come_back(monkeypatch):
    monkeypatch.setattr(in_flight, "MAX_RECORDED", 4)
    flights = InFlight()
    flights.begin("p0")
    for number in range(30):
        flights.begin(f"p{number + 1}")
        flights.record(Happened((RELABELLED, NODE_ADDED)[number % 2], number, None))
        assert missed(flights, f"p{number + 1}") == [number]
        assert missed(flights, f"p{number}") == sorted({max(number - 1, 0), number})
        flights.end(f"p{number}")
    kept = sum(len(positions) for positions in flights._sorted[""].values())
    assert kept <= 4 * 4


def missed(flights, uid):
    return sorted(happened.before for _, occurrences in flights.missed(uid) for happened in occurrences)


def test_an_update_of_a_pod_concerns_no_other_one_in_flight(h):
    h.hints["Fit"] = (EventHint(NODE_ADDED),)
    one, two = popped(h, 2)
    h.queue.update(h.pod("p0", labels={"changed": "yes"}))
    h.queue.reject(two, ["NoHints"])
    assert h.counts() == {"unschedulable": 1}
    h.queue.reject(one, ["NoHints"])
    assert h.counts() == {"unschedulable": 1, "backoff": 1}


def test_what_concerns_only_a_pod_that_has_settled_is_not_kept(h):
    settled, _other = popped(h, 2)
    h.queue.stop_recording(settled.uid)
    h.queue.update(h.pod("p0", labels={"changed": "yes"}))
    assert h.queue.in_flight_events() == {"PodPopped": 1}
