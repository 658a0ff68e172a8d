"""The pods that wait, by state and age, and the oldest of those who may be seen."""

from podwright.engine.process.steps import at_once
from podwright.engine.view import waiting
from podwright.engine.view.waiting import ALL, PendingPod, queued_pods, waiting_pods
from support.engine.kit import Rig
from support.steps import run_steps


def pods(*ages, namespace="default", place="active", now=10_000.0):
    return [PendingPod(namespace, f"p{age}", place, now - age) for age in ages]


def test_counts_are_by_state_and_age():
    given = [*pods(1, 9, 11, 599, 601, 7000), None, *pods(5, place="gated")]
    found = at_once(waiting_pods(given, 10_000.0, ()))
    assert found.counts["active"] == [2, 1, 1, 1, 1]
    assert found.counts["gated"] == [1, 0, 0, 0, 0]
    assert found.oldest == {}


def test_the_oldest_are_listed_for_each_sight(monkeypatch):
    monkeypatch.setattr(waiting, "MOST_LISTED", 2)
    given = [*pods(1, 3, 2), *pods(9, 8, 7, namespace="team")]
    found = at_once(waiting_pods(given, 10_000.0, {ALL, "team", "empty"}))
    assert [pod.name for pod in found.oldest[ALL]] == ["p9", "p8"]
    assert [pod.name for pod in found.oldest["team"]] == ["p9", "p8"]
    assert found.oldest["empty"] == []
    found = at_once(waiting_pods(given, 10_000.0, {"default"}))
    assert [pod.name for pod in found.oldest["default"]] == ["p3", "p2"]


def test_each_step_reads_few_pods():
    _, steps = run_steps(waiting_pods(pods(*range(waiting.PODS_A_STEP * 3)), 10_000.0, ()))
    assert steps == 3


def test_a_queue_with_pods_in_several_states():
    rig = Rig()
    rig.pod("first")
    rig.pod("held", spec={"schedulingGates": [{"name": "example.com/hold"}]})
    rig.pod("failed")
    queue = rig.engine.queue
    queue.fault(queue.pop())
    found = {pod.name: pod for pod in queued_pods(queue)}
    assert (found["first"].place, found["failed"].place) == ("backoff", "active")
    assert (found["held"].place, found["held"].why) == ("gated", "SchedulingGates")


def test_a_pod_that_goes_in_between_is_left_out():
    rig = Rig()
    rig.pod("a")
    rig.pod("b")
    found = queued_pods(rig.engine.queue)
    first = next(found)
    for uid in rig.engine.queue.uids():
        rig.engine.queue.delete(uid)
    assert (first.name, [*found]) == ("a", [None])
