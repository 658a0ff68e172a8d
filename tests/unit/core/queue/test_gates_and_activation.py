"""Gates, PreEnqueue, and pods that are activated."""

import pytest

from podwright.core.framework.cluster_events import POD, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.status import unresolvable
from podwright.core.queue import scheduling_queue
from podwright.core.queue.queued_pod import Place
from podwright.core.queue.scheduling_queue import EVENTS_PER_GATE, GATES_PER_TURN
from podwright.engine.process.steps import at_once
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


class TestManyGates:
    """Gates of five pods. The last pod was rejected before. A step looks at two gates. An event opens a gate if it is
    about the node `right`, or about no node and the pod is `old`.
    """

    LAST = "default/p4"

    @pytest.fixture
    def h(self, h, monkeypatch):
        def helps(pod, _before, node):
            return Hint.QUEUE if node == "right" or (node is None and pod.labels.get("is") == "old") else Hint.SKIP

        monkeypatch.setattr(scheduling_queue, "GATES_PER_TURN", 2)
        h.hints["Hold"] = (EventHint(NODE_ADDED, helps),)
        h.hints["Spread"] = (EventHint(POD_GONE),)
        self.closed = True
        h.pre_enqueue = lambda _pod: unresolvable("no").by("Hold") if self.closed else None
        for number in range(4):
            h.add(f"p{number}", labels={"is": "old"})
        self.closed = False
        h.add("p4", labels={"is": "old"})
        h.queue.reject(h.queue.take(self.LAST), ["Spread"], count=False)
        self.closed = True
        h.queue.recheck_gate(self.LAST)
        assert h.counts() == {"gated": 5}
        self.closed = False
        return h

    def test_no_pod_is_popped_before_the_event_was_looked_at_for_all_of_them(self, h):
        h.queue.move(NODE_ADDED)
        for active in (2, 4):
            assert h.counts() == {"active": active, "gated": 5 - active}
            assert h.queue.is_unsorted
            assert h.queue.pop(if_sorted=True) is h.queue.pop_costly() is None
            assert h.queue.next_wakeup() == h.clock.now
            next(h.queue.sort())
        assert h.counts() == {"active": 5}
        assert not h.queue.is_unsorted
        assert [h.queue.pop(if_sorted=True).pod.name for _ in range(5)] == ["p0", "p1", "p2", "p3", "p4"]

    def test_who_pops_without_sorting_finds_them_all(self, h):
        h.queue.move(NODE_ADDED)
        assert [h.pop() for _ in range(6)] == ["p0", "p1", "p2", "p3", "p4", None]

    def test_one_whose_gate_closes_again_meanwhile_stays(self, h):
        h.queue.move(NODE_ADDED)
        self.closed = True
        at_once(h.queue.sort())
        assert h.counts() == {"active": 2, "gated": 3}

    def test_one_that_is_deleted_meanwhile_is_forgotten(self, h):
        h.queue.move(NODE_ADDED)
        h.queue.delete("default/p3")
        h.queue.delete(self.LAST)
        self.closed = True
        h.add("p4", labels={"is": "old"})
        self.closed = False
        at_once(h.queue.sort())
        assert h.counts() == {"active": 3, "gated": 1}

    @pytest.mark.parametrize("what", ["update", "recheck", "take", "fail", "activate"])
    def test_what_happens_to_one_meanwhile_comes_after_the_event(self, h, what):
        h.queue.move(NODE_ADDED)
        queued = h.queue.get(self.LAST)
        queued.ready_at = None
        h.clock.now += 1
        if what == "update":
            h.queue.update(h.pod("p4", labels={"is": "new"}))
        elif what == "recheck":
            h.queue.recheck_gate(self.LAST)
        elif what == "take":
            assert h.queue.take(self.LAST) is queued
        elif what == "fail":
            h.queue.fail_waiting(self.LAST)
        else:
            h.queue.activate(self.LAST)
        at_once(h.queue.sort())
        assert queued.place is (Place.IN_FLIGHT if what == "take" else Place.ACTIVE)
        assert (queued.errors, queued.ready_at) == (0, h.clock.now)

    def test_one_that_was_not_tried_yet_is_taken_once_the_event_has_opened_its_gate(self, h):
        assert h.queue.take("default/p3") is None
        h.queue.move(NODE_ADDED)
        assert h.queue.take("default/p3").ready_at == h.clock.now

    @pytest.mark.parametrize("nodes", [("right", "wrong"), ("wrong", "right")])
    def test_each_event_is_looked_at_that_comes_meanwhile(self, h, nodes):
        for node in nodes:
            h.queue.move(NODE_ADDED, None, node)
        at_once(h.queue.sort())
        assert h.counts() == {"active": 5}

    @pytest.mark.parametrize(("events", "opened"), [(EVENTS_PER_GATE, False), (EVENTS_PER_GATE + 1, True)])
    def test_more_events_than_are_kept_may_have_opened_any_gate(self, h, events, opened, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(scheduling_queue, "GATES_PER_TURN", 0)
            for _ in range(events):
                h.queue.move(NODE_ADDED, None, "wrong")
        at_once(h.queue.sort())
        assert h.counts() == {"active" if opened else "gated": 5}

    @pytest.mark.parametrize("for_room", [True, False])
    def test_they_are_retried_for_the_room_that_an_event_may_make(self, h, for_room):
        if for_room:
            h.queue.move(NODE_ADDED)
        else:
            h.queue.activate_all()
        at_once(h.queue.sort())
        assert {queued.for_room for queued in h.queue.active()} == {for_room}


def test_one_event_looks_at_a_bounded_number_of_gates(h):
    calls = []
    h.pre_enqueue = lambda pod: calls.append(pod) or unresolvable("no").by("Fit")
    for number in range(3 * GATES_PER_TURN):
        h.add(f"p{number}")
    calls.clear()
    h.queue.move(NODE_ADDED)
    for turn in (1, 2, 3):
        assert len(calls) == turn * GATES_PER_TURN
        next(h.queue.sort(), None)
