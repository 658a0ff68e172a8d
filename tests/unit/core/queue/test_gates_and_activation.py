"""Gates, PreEnqueue, and pods that are activated."""

import pytest

from podwright.core.framework.cluster_events import POD, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.status import unresolvable
from support.queue.kit import NODE_ADDED, POD_GONE, Harness, rejected_by


@pytest.fixture
def h():
    return Harness()


def test_a_gated_pod_is_not_popped_until_its_gates_are_removed(h):
    h.add("p", gates=["hold"])
    assert h.counts() == {"gated": 1}
    assert h.pop() is None
    h.queue.activate_all()
    assert h.counts() == {"gated": 1}
    h.queue.update(h.pod("p"))
    assert h.pop() == "p"


def test_an_update_that_does_not_open_the_gate_changes_nothing(h):
    h.add("p", gates=["g", "h"])
    h.queue.update(h.pod("p", gates=["g"]))
    h.queue.update(h.pod("p", gates=["g"], labels={"a": "b"}))
    assert h.counts() == {"gated": 1}
    assert h.incoming == [("unschedulable", "UnscheduledPodAdd")]
    h.queue.update(h.pod("p"))
    assert h.pop() == "p"


def test_pre_enqueue_is_called_again_every_five_minutes(h):
    calls = []
    h.pre_enqueue = lambda pod: calls.append(h.clock.now) or unresolvable("no").by("Gate")
    h.add("p")
    for _ in range(70):
        h.clock.now += 10
        h.queue.pop()
    assert [round(when - 1000) // 30 for when in calls] == [0, 11, 22]


@pytest.mark.parametrize("place", ["unschedulable", "backoff", "error"])
def test_a_waiting_pod_can_be_activated(h, place):
    h.add("p")
    queued = h.queue.pop()
    if place == "error":
        h.queue.fault(queued)
    else:
        h.queue.reject(queued, ["Fit"])
    if place == "backoff":
        h.queue.move(NODE_ADDED)
    h.queue.activate(queued.uid)
    assert h.counts() == {"active": 1}
    assert h.incoming[-1] == ("active", "ForceActivate")


def test_a_pod_that_is_activated_in_flight_is_retried_after_its_backoff(h):
    h.add("p")
    queued = h.queue.pop()
    h.queue.activate(queued.uid)
    h.queue.reject(queued, ["Fit"])
    assert h.counts() == {"backoff": 1}


def test_activating_a_gated_or_unknown_pod_does_nothing(h):
    h.add("p", gates=["g"])
    h.queue.activate("default/p")
    h.queue.activate("default/unknown")
    assert h.counts() == {"gated": 1}


def test_a_pods_time_in_the_queue_starts_when_its_gate_opens(h):
    h.add("p", gates=["g"])
    h.clock.now += 50
    h.queue.update(h.pod("p"))
    queued = h.queue.pop()
    h.clock.now += 50
    h.queue.fault(queued)
    h.clock.now += 50
    assert h.queue.pop() is queued
    assert (queued.queued_at, queued.ready_at) == (1000.0, 1050.0)


@pytest.mark.parametrize("place", ["unschedulable", "backoff"])
def test_taking_a_pod_calls_pre_enqueue_again(h, place):
    queued = h.rejected("p", "Fit")
    if place == "backoff":
        h.queue.move(NODE_ADDED)
    h.pre_enqueue = lambda _pod: unresolvable("shut").by("Gate")
    assert h.queue.take(queued.uid) is None
    assert h.counts() == {"gated": 1}
    assert rejected_by(h.queue)["Gate", "default-scheduler"] == 1


def test_only_pods_to_which_other_hints_apply_are_reconsidered(h):
    own = {pod: dict(h.hints) for pod in ("moved", "stays", "gated", "in flight")}
    h.hints_of = lambda pod: own[pod.name]
    h.add("moved")
    h.add("stays")
    h.add("gated", gates=["hold"])
    for _ in range(2):
        h.queue.reject(h.queue.pop(), ["Fit"])
    h.add("in flight")
    flying = h.queue.pop()
    h.clock.now += 20
    own["moved"], own["gated"] = dict(h.hints), dict(h.hints)
    h.pre_enqueue = lambda _pod: None
    assert len(list(h.queue.reconsider_moved())) == 3
    assert {queued.pod.name for queued in h.queue.active()} == {"moved", "gated"}
    h.queue.reject(flying, ["Fit"])
    assert h.counts() == {"active": 2, "backoff": 1, "unschedulable": 1}


def test_an_event_that_cannot_open_the_gate_leaves_gated_pods_alone(h):
    asked = []
    h.hints["Gate"] = (*h.hints["Gate"], EventHint(NODE_ADDED, opens_gate=False))
    h.pre_enqueue = lambda pod: asked.append(pod.name) or (unresolvable("gated").by("Gate") if pod.gates else None)
    h.add("gated", gates=["hold"])
    h.rejected("rejected", "Gate")
    asked.clear()
    h.clock.now += 100
    h.queue.move(NODE_ADDED)
    assert "gated" not in asked
    assert h.counts()["gated"] == 1
    assert "rejected" in asked, "a pod that the plugin has rejected in an attempt may be helped"
    h.queue.move(ClusterEvent(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED))
    assert "gated" in asked


def test_events_that_would_help_a_rejected_pod_do_not_ask_it_while_it_is_gated(h):
    asked, shut = [], True
    h.pre_enqueue = lambda pod: asked.append(pod.name) or (unresolvable("held").by("Hold") if shut else None)
    h.hints["Hold"] = (EventHint(POD_GONE, lambda *_: asked.append("hint") or Hint.SKIP, opens_gate=False),)
    shut = False
    queued = h.rejected("p", "Spread")
    shut = True
    h.queue.recheck_gate(queued.uid)
    assert h.counts() == {"gated": 1}
    asked.clear()
    for _ in range(10):
        h.queue.move(POD_GONE)
    assert asked == []
    shut = False
    h.queue.recheck_gate(queued.uid)
    assert h.counts() == {"unschedulable": 1}
    h.clock.now += 20
    h.queue.move(POD_GONE)
    assert h.pop() == "p"


def test_the_gate_of_each_pod_that_is_not_in_flight_is_rechecked(h):
    h.add("in-flight")
    assert h.pop() == "in-flight"
    h.add("active")
    h.queue.recheck_gate("default/active")
    assert h.counts() == {"active": 1}
    h.pre_enqueue = lambda _pod: unresolvable("shut").by("Gate")
    for name in ("active", "in-flight", "unknown"):
        h.queue.recheck_gate(f"default/{name}")
    assert h.counts() == {"gated": 1}
    assert h.pop() is None
