"""Failures: what a failed attempt writes to status and events, and when it stays silent."""

from __future__ import annotations

import pytest

from podwright.core.framework.features import Features
from podwright.core.framework.status import Code, Status, unschedulable
from podwright.engine.arrivals import Arrivals
from podwright.engine.outcomes.failures import REPEAT_SECONDS, Failures
from podwright.engine.ports import SCHEDULER_ERROR, UNSCHEDULABLE, Verdict
from podwright.engine.process.instance import UNNAMED
from podwright.engine.raw_objects import RawObjects
from podwright.engine.state import EngineState, Sources
from support.engine.kit import Rig

UID = "default/web"


def failures_of(rig):
    engine = rig.engine
    sources = Sources(clock=lambda: rig.now, wall=lambda: rig.now, cpu=lambda: rig.now, below=lambda _n: 0)
    state = EngineState(
        raw_objects=RawObjects(),
        arrivals=Arrivals(),
        cache=engine.cache,
        queue=engine.queue,
        binding_cycles=engine.binding_cycles,
        invalid_objects=engine.invalid_objects,
        slow_plugins=engine.slow_plugins,
        quiet=engine.planning.quiet,
        decisions=engine.decisions,
        features=Features({}),
        instance=UNNAMED,
        sources=sources,
        wake=engine.wake,
    )
    return Failures(state, rig.ports, preemptions=None)


def popped():
    """A rig whose pod `web` is in flight and nominated to node a, and its failures."""
    rig = Rig()
    rig.node("a")
    rig.pod("web", status={"nominatedNodeName": "a"})
    return rig, failures_of(rig), rig.engine.queue.pop()


WAYS = [
    pytest.param(
        lambda failures, queued: failures.fail(queued, "broken", 0.1),
        Verdict(SCHEDULER_ERROR, "broken"),
        "backoff",
        id="an error",
    ),
    pytest.param(
        lambda failures, queued: failures.reject_node(queued, unschedulable("full").by("P"), 0.1, permit_over=False),
        Verdict(UNSCHEDULABLE, "0/1 nodes are available: 1 full."),
        "unschedulable",
        id="a rejection in Reserve or Permit",
    ),
    pytest.param(
        lambda failures, queued: failures.reject_node(queued, unschedulable("full").by("P"), 0.1, permit_over=True),
        Verdict(UNSCHEDULABLE, "full"),
        "backoff",
        id="a rejection in PreBind or Bind",
    ),
    pytest.param(
        lambda failures, queued: failures.reject_node(
            queued, Status(Code.PENDING, ("wait",), "P"), 0.1, permit_over=False
        ),
        Verdict(UNSCHEDULABLE, "0/1 nodes are available: 1 wait."),
        "unschedulable",
        id="Pending",
    ),
    pytest.param(
        lambda failures, queued: failures.reject_by(queued, "too few", {"P"}, 0.1),
        Verdict(UNSCHEDULABLE, "too few"),
        "unschedulable",
        id="a rejection before a node was chosen",
    ),
]


@pytest.mark.parametrize(("fail", "verdict", "place"), WAYS)
def test_a_failed_attempt_requeues_the_pod_and_ends_its_nomination(fail, verdict, place):
    rig, failures, queued = popped()
    fail(failures, queued)
    assert rig.counts == {place: 1}
    assert rig.status.written == [("web", verdict, "")]
    assert rig.recorder.events == [("web", "FailedScheduling", verdict.message)]
    assert not rig.engine.cache.nominator.node_of(UID)


@pytest.mark.parametrize(("fail", "verdict", "place"), WAYS)
def test_nothing_is_written_about_a_pod_that_left_the_queue_during_its_attempt(fail, verdict, place):
    rig, failures, queued = popped()
    rig.engine.queue.delete(UID)
    fail(failures, queued)
    assert (rig.counts, rig.status.written, rig.recorder.events) == ({}, [], [])


@pytest.mark.parametrize(
    ("causes", "pause", "notes"),
    [
        pytest.param(("full", "full"), 1, ["first"], id="the same cause"),
        pytest.param(("full", "taints"), 1, ["first", "second"], id="another cause"),
        pytest.param(("full", "taints", "full"), 1, ["first", "second"], id="an earlier cause"),
        pytest.param(("full", "full"), REPEAT_SECONDS, ["first", "first"], id="the same cause after five minutes"),
        pytest.param((None, None), 1, ["first", "second"], id="no cause"),
    ],
)
def test_an_event_of_a_recent_cause_is_skipped_and_later_repeats_the_first_text(causes, pause, notes):
    rig, failures, queued = popped()
    for cause, message in zip(causes, ("first", "second", "third"), strict=False):
        failures.reject_by(queued, message, {"P"}, 0.1, cause=cause)
        assert rig.status.written[-1][1].message == message
        rig.now += pause
        rig.engine.queue.activate(UID)
        assert rig.engine.queue.pop() is queued
    assert rig.recorder.notes("FailedScheduling") == notes


def test_a_dropped_pod_leaves_the_queue_and_its_nomination_ends():
    rig, failures, queued = popped()
    failures.drop(queued)
    assert rig.engine.queue.get(UID) is None
    assert not rig.engine.cache.nominator.node_of(UID)
    assert (rig.status.written, rig.recorder.events) == ([], [])
