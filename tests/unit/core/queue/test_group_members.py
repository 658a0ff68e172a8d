"""Operations of the queue for pod groups: members that join a backoff, and members that move to the front."""

from __future__ import annotations

import pytest

from support.queue.kit import NODE_ADDED, POD_GONE, Harness


@pytest.fixture
def h():
    return Harness()


def joined(h: Harness) -> None:
    """Rejects `old` twice, then lets `new` join its backoff."""
    old = h.rejected("old", "Fit")
    h.clock.now += 20
    h.queue.move(NODE_ADDED)
    h.queue.reject(h.queue.pop(), ("Fit",))
    h.add("new")
    h.queue.back_off_with(h.queue.pop(), old)


def test_a_joined_member_waits_for_the_same_backoff_and_is_not_popped_early(h):
    joined(h)
    assert h.counts() == {"backoff": 1, "unschedulable": 1}
    assert h.pop() is None
    h.clock.now += 2
    assert h.pop() is None
    h.clock.now += 1
    assert h.queue.next_wakeup() <= h.clock.now
    assert h.pop() == "new"


def test_joining_is_no_attempt_but_sets_the_next_backoff(h):
    joined(h)
    h.clock.now += 3
    queued = h.queue.pop()
    assert (queued.pod.name, queued.attempts) == ("new", 1)
    h.queue.reject(queued, ("Fit",))
    assert queued.backoff_until == h.clock.now + 4


def test_a_joined_member_can_be_taken_with_one_that_is_popped_early(h):
    joined(h)
    h.queue.move(NODE_ADDED)
    assert h.pop() == "old"
    assert h.queue.take("default/new") is not None


@pytest.mark.parametrize("what", ["deleted", "deleted and recreated"])
def test_a_member_that_was_deleted_in_flight_does_not_join(h, what):
    old = h.rejected("old", "Fit")
    h.add("new")
    queued = h.queue.pop()
    h.queue.delete(queued.uid)
    if what == "deleted and recreated":
        h.add("new")
    h.queue.back_off_with(queued, old)
    assert h.counts() == ({"unschedulable": 1} | ({"active": 1} if what == "deleted and recreated" else {}))
    assert h.queue.in_flight_events() == {}


def test_no_events_are_recorded_for_a_joined_member(h):
    joined(h)
    assert h.queue.in_flight_events() == {}


def test_a_pod_moved_to_the_front_precedes_only_pods_of_its_priority(h):
    for name, priority in (("important", 5), ("first", 1), ("second", 1)):
        h.add(name, priority=priority)
        h.clock.now += 1
    h.queue.move_to_front(h.queue.get("default/second"))
    assert [h.pop(), h.pop(), h.pop(), h.pop()] == ["important", "second", "first", None]


def test_a_waiting_pod_is_not_moved_to_the_front(h):
    h.queue.move_to_front(h.rejected("p", "Fit"))
    assert h.counts() == {"unschedulable": 1}
    assert h.pop() is None


@pytest.mark.parametrize("why", ["by an event", "after its longest wait"])
def test_a_group_goes_back_for_want_of_room_only_if_an_event_has_retried_it_for_that(h, why):
    h.add("member", group="g")
    h.queue.reject(h.queue.pop(), {"Spread"})
    h.clock.now += 20
    h.queue.move(POD_GONE, before="another" if why == "by an event" else "no")
    h.lacking = frozenset({"Spread"})
    h.clock.now += 0 if why == "by an event" else 400
    assert h.queue.wait_for_room([h.queue.pop()]) is (why == "by an event")
