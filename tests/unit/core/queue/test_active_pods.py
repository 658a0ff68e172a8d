"""The lane of costly pods: its share of the time, and the order of the pods in it and beside it."""

from __future__ import annotations

import pytest

from podwright.core.objects.compaction import compact_all
from podwright.core.objects.pod import parse_pod
from podwright.core.queue.active_pods import (
    ADVANCE_SECONDS,
    CLOSED,
    IDLE_SECONDS,
    SHARE,
    START_SECONDS,
)
from support.hostile import objects
from support.objects.builders import make_pod
from support.queue.kit import NODE_ADDED, POD_GONE, Harness

COSTLY = objects.required_anti_affinity(1_000)


def parsed(name, **more):
    """A costly pod."""
    return parse_pod(make_pod(name, spec=COSTLY, **more), keep_raw=True)


class Lane(Harness):
    """A queue after its start. `take` makes an attempt at the next pod, which takes that many seconds if the pod is
    costly.
    """

    def __init__(self):
        super().__init__()
        self.add("first")
        assert (self.pop(), self.pop()) == ("first", None)

    def costly(self, name, **more):
        self.queue.add(parsed(name, **more))

    def take(self, seconds=1.0):
        queued = self.queue.pop()
        if queued is None:
            return None
        if queued.costly:
            self.clock.now += seconds
            self.queue.charge_lane(seconds)
        return queued.pod.name

    def pass_time(self, seconds):
        """Time passes, and an ordinary pod comes and goes at its end."""
        self.clock.now += seconds
        self.add("other")
        assert self.queue.take("default/other").pod.name == "other"
        self.queue.done("default/other")

    def all(self, seconds=1.0):
        taken = []
        while name := self.take(seconds):
            taken.append(name)
        return taken


@pytest.fixture
def h():
    return Lane()


def test_a_costly_pod_takes_its_turn_while_the_lane_is_open(h):
    h.add("a")
    h.costly("big")
    h.clock.now += 1
    h.add("b")
    h.take()
    assert [h.take(), h.take()] == ["big", "b"]


def test_after_an_attempt_the_other_pods_go_first_until_the_share_is_met(h):
    h.costly("big-1")
    h.costly("big-2")
    h.clock.now += 1
    h.add("a")
    h.add("b")
    assert h.all() == ["big-1", "a", "b"]
    h.pass_time(CLOSED - 0.1)
    assert h.take() is None
    h.clock.now += 0.1
    assert h.take() == "big-2"


def test_the_lane_gets_at_most_a_tenth_of_the_time(h):
    for number in range(50):
        h.costly(f"big-{number}")
    started, spent = h.clock.now, 0.0
    for step in range(400):
        h.add(f"ordinary-{step}")
        if h.take(seconds=0.5).startswith("big"):
            spent += 0.5
        else:
            h.clock.now += 0.2
    assert spent == pytest.approx(SHARE * (h.clock.now - started), abs=0.5)


def test_a_costly_pod_of_higher_priority_waits_for_the_lane_and_then_goes_first(h):
    h.costly("big")
    assert h.take() == "big"
    h.costly("important", priority=10)
    h.costly("later", priority=10)
    h.add("a")
    h.add("b")
    assert h.take() == "a"
    h.clock.now += CLOSED
    assert [h.take(), h.take(), h.take()] == ["important", "b", None]


def test_a_costly_pod_does_not_go_before_ordinary_pods_that_sort_before_it(h):
    h.costly("big")
    h.add("important", priority=10)
    assert h.all() == ["important", "big"]


def test_the_order_of_ordinary_pods_does_not_change(h):
    h.add("a")
    h.clock.now += 1
    h.costly("big")
    h.clock.now += 1
    h.add("b", priority=5)
    h.clock.now += 1
    h.add("c")
    assert h.all() == ["b", "a", "big", "c"]


def test_after_the_start_costly_pods_wait_for_the_ordinary_ones():
    h = Harness()
    h.queue.add(parsed("big", priority=100))
    h.add("a")
    h.add("b")
    assert [h.pop(), h.pop(), h.pop()] == ["a", "b", "big"]


def test_after_the_start_costly_pods_do_not_wait_for_ever():
    h = Harness()
    h.queue.add(parsed("big"))
    h.clock.now += 1
    for number in range(3):
        h.add(f"a-{number}")
    assert h.pop() == "a-0"
    h.clock.now += START_SECONDS
    assert h.pop() == "big"


def test_the_next_wakeup_is_when_the_lane_opens(h):
    h.costly("big-1")
    h.costly("big-2")
    h.take(ADVANCE_SECONDS + 1)
    assert h.queue.next_wakeup() == pytest.approx(h.clock.now + CLOSED)
    h.clock.now += CLOSED
    assert h.queue.next_wakeup() == h.clock.now
    h.clock.now -= CLOSED
    h.add("a")
    assert h.queue.next_wakeup() == h.clock.now


def test_where_no_ordinary_pod_is_active_a_few_costly_ones_do_not_wait_for_each_other(h):
    h.clock.now += IDLE_SECONDS
    for number in range(5):
        h.costly(f"big-{number}")
    assert h.all(seconds=0.5) == ["big-0", "big-1", "big-2"], (
        "of which the first comes before anything is taken in advance"
    )


def test_the_lane_takes_nothing_in_advance_until_ordinary_pods_have_been_gone_for_a_while(h):
    h.pass_time(5)
    h.costly("big-1")
    h.costly("big-2")
    assert h.take(0.0) == "big-1"
    h.queue.charge_lane(0.5)
    assert h.queue.next_wakeup() == pytest.approx(h.clock.now + IDLE_SECONDS)
    h.pass_time(IDLE_SECONDS / 2)
    h.clock.now += IDLE_SECONDS / 2
    assert h.take() is None
    h.clock.now += IDLE_SECONDS / 2
    assert h.take() == "big-2"


def test_what_the_lane_took_in_advance_is_made_good_when_ordinary_pods_come(h):
    h.clock.now += IDLE_SECONDS
    for number in range(3):
        h.costly(f"big-{number}")
    assert [h.take(0.5), h.take(0.5)] == ["big-0", "big-1"]
    h.pass_time(0)
    h.pass_time(CLOSED - 0.1)
    assert h.take() is None
    h.clock.now += 0.2
    assert h.take() == "big-2"


@pytest.mark.parametrize("seconds", [0.05, 0.2])
def test_of_a_minute_without_ordinary_pods_the_lane_gets_a_tenth_at_most(h, seconds):
    for number in range(200):
        h.costly(f"big-{number}")
    h.clock.now += 1000
    started, spent = h.clock.now, 0.0
    while h.clock.now < started + 60:
        if h.take(seconds):
            spent += seconds
        else:
            h.clock.now = h.queue.next_wakeup()
    assert 4.8 < spent <= 6.0 + seconds


def test_a_costly_pod_does_not_leave_backoff_early(h):
    h.costly("big")
    queued = h.queue.pop()
    h.queue.reject(queued, ["Fit"])
    h.queue.activate_all()
    assert h.counts() == {"backoff": 1}
    assert h.pop() is None
    h.clock.now += 2
    assert h.pop() == "big"


def test_an_update_may_make_a_pod_costly_or_ordinary(h):
    h.costly("big")
    h.take()
    h.costly("a")
    h.costly("b")
    h.queue.update(h.pod("a"))
    assert [h.take(), h.take()] == ["a", None]
    h.queue.update(h.pod("b", labels={"new": "label"}))
    assert h.take() == "b"


def test_a_pod_whose_last_attempt_was_slow_waits_in_the_lane(h):
    h.add("a")
    queued = h.queue.pop()
    queued.slow = True
    h.queue.fault(queued)
    h.queue.activate("default/a")
    h.costly("big")
    assert h.take() == "a"
    h.pass_time(0)
    assert h.take() is None


def test_the_lane_is_counted_as_active(h):
    h.costly("big")
    h.add("a")
    assert h.counts() == {"active": 2}
    assert h.queue.costly == 1
    assert {queued.pod.name for queued in h.queue.active()} == {"big", "a"}


def test_a_deleted_costly_pod_leaves_the_lane(h):
    h.costly("big")
    h.queue.delete("default/big")
    assert (h.take(), h.queue.costly) == (None, 0)


def test_the_hints_of_a_costly_pod_are_not_called(h):
    h.costly("big")
    h.queue.reject(h.queue.pop(), ["Spread"])
    h.queue.move(NODE_ADDED)
    assert h.counts() == {"unschedulable": 1}
    h.queue.move(POD_GONE, "no")
    assert h.counts() == {"backoff": 1}
    assert h.hinted == []


def rejected_again_and_again(h, attempts, *, seconds=1.2):
    """The names of the costly pods in the order of their attempts. All are rejected; each waits for an event and for
    its backoff.
    """
    names = []
    while len(names) < attempts:
        queued = h.queue.pop()
        if queued is None:
            h.clock.now += 0.25
            h.queue.activate_all()
            continue
        h.clock.now += seconds
        h.queue.charge_lane(seconds)
        h.queue.reject(queued, ["Fit"])
        names.append(queued.pod.name)
    return names


@pytest.mark.parametrize("others", [1, 5, 20])
def test_pods_of_higher_priority_that_are_retried_for_ever_do_not_keep_a_costly_pod_out(h, others):
    for number in range(others):
        h.costly(f"big-{number}", priority=1000)
    h.clock.now += 1
    h.costly("modest")
    h.costly("modest-too")
    names = rejected_again_and_again(h, 10 * (others + 2))
    longest = 2 * (others + 2)
    for start in range(len(names) - longest + 1):
        assert {"modest", "modest-too"} <= set(names[start : start + longest])


def test_new_costly_pods_of_higher_priority_do_not_keep_one_out(h):
    h.costly("modest")
    taken = []
    for number in range(4):
        h.costly(f"new-{number}", priority=1000)
        h.clock.now += CLOSED
        taken.append(h.take())
    assert taken == ["new-0", "modest", "new-1", "new-2"]


def test_an_update_does_not_cost_a_costly_pod_its_place(h):
    h.costly("modest")
    h.costly("important-1", priority=10)
    h.costly("important-2", priority=10)
    h.costly("modest", labels={"new": "label"})
    assert h.take() == "important-1"
    h.clock.now += CLOSED
    assert h.take() == "modest"


def test_a_costly_pod_that_ordinary_pods_precede_does_not_hold_up_those_behind_it(h):
    h.costly("low")
    h.clock.now += 1
    h.costly("middle", priority=50)
    for number in range(4):
        h.costly(f"high-{number}", priority=100)
    taken = []
    for _ in range(4):
        h.clock.now += CLOSED
        h.add("ordinary", priority=10)
        taken.append(h.take())
    assert taken == ["high-0", "high-1", "high-2", "middle"]
    assert h.all() == ["ordinary"]
    h.clock.now += CLOSED
    assert h.take() == "high-3"
    h.clock.now += CLOSED
    assert h.take() == "low"


def test_an_event_does_not_end_the_backoff_of_a_costly_pod_that_was_rejected_as_pending(h):
    h.costly("big")
    h.queue.reject(h.queue.pop(), (), pending=["Wait"])
    h.queue.move(NODE_ADDED)
    assert h.counts() == {"backoff": 1}


def test_compaction_keeps_the_order_of_the_lane(h):
    h.costly("modest")
    h.costly("important-1", priority=10)
    h.costly("important-2", priority=10)
    assert h.take() == "important-1"
    compact_all()
    h.clock.now += CLOSED
    assert h.take() == "modest"


def test_while_pods_of_the_lane_are_decided_others_go_first(h):
    for number in range(3):
        h.costly(f"big-{number}", priority=10)
    assert h.queue.pop().pod.name == "big-0"
    assert h.queue.pop_costly().pod.name == "big-1"
    h.queue.lane_is_busy = True
    h.add("a")
    assert [h.take(), h.take(), h.queue.next_wakeup()] == ["a", None, None]
    h.queue.lane_is_busy = False
    assert [h.take(), h.queue.pop_costly()] == ["big-2", None]
