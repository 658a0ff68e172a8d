"""Pods that are held in the queue because what their attempts need is in use."""

import pytest

from podwright.core.objects.pod import parse_pod
from support.objects.builders import make_pod
from support.queue.kit import Harness

LANE = ("gpus",)
OTHER = ("licences",)


def pod(name, priority=0):
    return parse_pod(make_pod(name, priority=priority), keep_raw=True)


@pytest.fixture
def queue():
    """A queue with the pods low, middle and high, all popped and held."""
    harness = Harness()
    for priority, name in enumerate(("low", "middle", "high")):
        harness.queue.add(pod(name, priority))
    for _ in range(3):
        harness.queue.hold(harness.queue.pop(), LANE)
    return harness.queue


def released(queue, lane=LANE):
    """The names of all pods that are released one by one."""
    found = []
    while queue.release(lane):
        found.append(queue.pop().pod.name)
    return found


def test_a_held_pod_is_active_but_not_popped(queue):
    assert queue.pop() is None
    assert queue.next_wakeup() is None
    assert queue.counts()["active"] == 3
    assert queue.held_lanes == [LANE]


def test_pods_are_released_in_the_queues_order(queue):
    assert released(queue) == ["high", "middle", "low"]
    assert queue.held_lanes == []


def test_each_lane_releases_its_own_pods(queue):
    queue.add(pod("other"))
    queue.hold(queue.pop(), OTHER)
    assert not queue.release(("unknown",))
    assert released(queue, OTHER) == ["other"]
    assert released(queue) == ["high", "middle", "low"]


def test_a_released_pod_waits_for_its_turn_among_the_others(queue):
    queue.add(pod("higher", 9))
    queue.release(LANE)
    assert [queue.pop().pod.name for _ in range(2)] == ["higher", "high"]


def test_a_held_pod_has_not_been_attempted(queue):
    queue.release(LANE)
    assert queue.pop().attempts == 1


def test_a_changed_pod_stays_held_with_its_new_priority(queue):
    queue.update(pod("low", 10))
    assert queue.pop() is None
    assert released(queue) == ["low", "high", "middle"]


def test_a_deleted_pod_is_released_no_more(queue):
    queue.delete("default/high")
    assert queue.counts()["active"] == 2
    assert released(queue) == ["middle", "low"]


def test_a_pod_that_is_gone_is_not_held(queue):
    queue.release(LANE)
    popped = queue.pop()
    queue.delete(popped.uid)
    queue.hold(popped, LANE)
    assert released(queue) == ["middle", "low"]


def test_a_held_pod_can_be_taken_out_of_turn(queue):
    assert queue.take("default/middle").pod.name == "middle"
    assert released(queue) == ["high", "low"]
