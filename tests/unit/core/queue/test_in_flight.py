"""Events that arrive while pods are in flight, and the cost when many attempts fail together."""

from __future__ import annotations

import gc
import sys
from collections import OrderedDict
from types import FunctionType, ModuleType

import pytest

from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint
from podwright.core.queue import in_flight
from podwright.core.queue.hinting import Occurrence
from podwright.core.queue.in_flight import InFlight
from support.costs.call_counts import calls_of
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
    """The number of calls of Python functions."""
    return calls_of(work, ("call",))


def calls_to_reject(pods, events):
    h = Harness()
    attempts = popped(h, pods)
    for number in range(events):
        h.queue.move((RELABELLED, POD_GONE)[number % 2], "no")

    def reject():
        for queued in attempts:
            h.queue.reject(queued, ["Fit"])

    counted = calls(reject)
    assert h.counts() == {"unschedulable": pods}
    return counted


def test_pods_that_fail_together_do_not_each_scan_all_recorded_events():
    few, many = calls_to_reject(pods=100, events=10), calls_to_reject(pods=100, events=2_000)
    assert (
        many - few < 10 * 2_000
    )  # events are grouped once; a scan of all events for each pod would take 100 * 2,000 calls


def test_the_plugins_with_hints_for_an_event_are_determined_once_for_all_pods(h, monkeypatch):
    checked = []
    matches = ClusterEvent.matches
    monkeypatch.setattr(ClusterEvent, "matches", lambda self, other: checked.append(other) or matches(self, other))
    attempts = popped(h, 50)
    for event in (RELABELLED, POD_GONE):
        h.queue.move(event, "no")
    checked.clear()
    for queued in attempts:
        h.queue.reject(queued, ["Fit"])
    assert sorted(event.label for event in checked) == [POD_GONE.label, RELABELLED.label]


def test_missed_events_are_checked_for_the_plugins_that_rejected_the_pod(h):
    one, two, three = popped(h, 3)
    h.queue.move(NODE_ADDED)
    h.queue.reject(one, ["Spread"])
    h.queue.reject(two, ["Fit"])
    h.queue.reject(three, ["Fit", "Spread"])
    assert h.counts() == {"unschedulable": 1, "backoff": 2}


def test_plugins_of_one_name_in_two_profiles_have_separate_hints(h):
    one, two = popped(h, 2)
    h.queue.move(NODE_ADDED)
    h.queue.reject(one, ["Fit"])
    h.hints = {"Fit": (EventHint(POD_GONE),)}
    h.queue.reject(two, ["Fit"])
    assert h.counts() == {"backoff": 1, "unschedulable": 1}


class CountingDict(OrderedDict):
    """Counts the entries that are iterated over."""

    steps = 0

    def __iter__(self):
        return self.counted(super().__iter__())

    def values(self):
        return self.counted(super().values())

    def items(self):
        return self.counted(super().items())

    def counted(self, entries):
        for entry in entries:
            CountingDict.steps += 1
            yield entry


def test_the_oldest_attempt_is_found_without_a_search(monkeypatch):
    monkeypatch.setattr(in_flight, "OrderedDict", CountingDict)
    monkeypatch.setattr(CountingDict, "steps", 0)
    attempts = InFlight()
    for number in range(500):
        attempts.begin(f"p{number}")
    attempts.record(Occurrence(RELABELLED, None, None))
    for number in range(500):
        attempts.end(f"p{number}")
    assert 0 < CountingDict.steps < 5 * 500


def test_events_older_than_every_attempt_are_dropped():
    attempts = InFlight()
    for name in ("first", "second", "third"):
        attempts.begin(name)
        attempts.record(Occurrence(RELABELLED, name, None))
    attempts.end("second")
    assert attempts.counts() == {RELABELLED.label: 3, "PodPopped": 2}
    attempts.end("first")
    assert attempts.counts() == {RELABELLED.label: 1, "PodPopped": 1}
    assert missed(attempts, "third") == ["third"]
    attempts.end("third")
    assert attempts.counts() == {}


def test_dropped_events_are_not_missed_and_take_no_memory(monkeypatch):
    monkeypatch.setattr(in_flight, "MAX_RECORDED", 4)
    attempts = InFlight()
    attempts.begin("p0")
    sizes = {}
    for number in range(1000):
        attempts.begin(f"p{number + 1}")
        attempts.record(Occurrence((RELABELLED, NODE_ADDED)[number % 2], number, None))
        assert missed(attempts, f"p{number + 1}") == [number]
        assert missed(attempts, f"p{number}") == sorted({max(number - 1, 0), number})
        attempts.end(f"p{number}")
        sizes[number] = reachable_bytes(attempts) if number in (99, 999) else 0
    assert 0 < sizes[999] < 2 * sizes[99]


def reachable_bytes(root):
    """The size of all objects that are reachable from an object, in bytes."""
    seen, remaining, total = set(), [root], 0
    while remaining:
        item = remaining.pop()
        if id(item) in seen or isinstance(item, type | ModuleType | FunctionType):
            continue
        seen.add(id(item))
        total += sys.getsizeof(item)
        remaining += gc.get_referents(item)
    return total


def missed(attempts, uid):
    return sorted(occurrence.before for _, occurrences in attempts.missed(uid) for occurrence in occurrences)


def test_an_update_of_a_pod_does_not_concern_other_pods_in_flight(h):
    h.hints["Fit"] = (EventHint(NODE_ADDED),)
    one, two = popped(h, 2)
    h.queue.update(h.pod("p0", labels={"changed": "yes"}))
    h.queue.reject(two, ["NoHints"])
    assert h.counts() == {"unschedulable": 1}
    h.queue.reject(one, ["NoHints"])
    assert h.counts() == {"unschedulable": 1, "backoff": 1}


def test_events_that_concern_only_a_pod_without_recording_are_dropped(h):
    stopped, _ = popped(h, 2)
    h.queue.stop_recording(stopped.uid)
    h.queue.update(h.pod("p0", labels={"changed": "yes"}))
    assert h.queue.in_flight_events() == {"PodPopped": 1}
