"""What the queue does for pod groups: a pod that waits as a fellow, and pods that go before their equals."""

from __future__ import annotations

import pytest

from support.queue.kit import NODE_ADDED, Harness


@pytest.fixture
def h():
    return Harness()


def joined(h: Harness) -> None:
    """`old` was rejected twice, `new` has joined it."""
    old = h.rejected("old", "Fit")
    h.clock.now += 20
    h.queue.move(NODE_ADDED)
    h.queue.reject(h.queue.pop(), ("Fit",))
    h.add("new")
    h.queue.back_off_with(h.queue.pop(), old)


def test_it_waits_as_long_as_its_fellow_and_is_not_popped_early(h):
    joined(h)
    assert h.counts() == {"backoff": 1, "unschedulable": 1}
    assert h.pop() is None
    h.clock.now += 2
    assert h.pop() is None
    h.clock.now += 1
    assert h.queue.next_wakeup() <= h.clock.now
    assert h.pop() == "new"


def test_it_was_not_tried_but_its_next_backoff_is_its_fellows(h):
    joined(h)
    h.clock.now += 3
    queued = h.queue.pop()
    assert (queued.pod.name, queued.attempts) == ("new", 1)
    h.queue.reject(queued, ("Fit",))
    assert queued.backoff_until == h.clock.now + 4


def test_its_fellow_is_taken_out_early_and_may_take_it_along(h):
    joined(h)
    h.queue.move(NODE_ADDED)
    assert h.pop() == "old"
    assert h.queue.take("default/new") is not None


@pytest.mark.parametrize("what", ["deleted", "deleted and back"])
def test_one_that_went_while_it_was_in_flight_does_not_join(h, what):
    old = h.rejected("old", "Fit")
    h.add("new")
    queued = h.queue.pop()
    h.queue.delete(queued.uid)
    if what == "deleted and back":
        h.add("new")
    h.queue.back_off_with(queued, old)
    assert h.counts() == ({"unschedulable": 1} | ({"active": 1} if what == "deleted and back" else {}))
    assert h.queue.in_flight_events() == {}


def test_what_happens_is_not_kept_for_one_that_has_joined(h):
    joined(h)
    assert h.queue.in_flight_events() == {}


def test_one_that_is_hastened_goes_before_its_equals_only(h):
    for name, priority in (("important", 5), ("first", 1), ("second", 1)):
        h.add(name, priority=priority)
        h.clock.now += 1
    h.queue.move_to_front(h.queue.get("default/second"))
    assert [h.pop(), h.pop(), h.pop(), h.pop()] == ["important", "second", "first", None]


def test_one_that_waits_is_not_hastened(h):
    h.queue.move_to_front(h.rejected("p", "Fit"))
    assert h.counts() == {"unschedulable": 1}
    assert h.pop() is None
