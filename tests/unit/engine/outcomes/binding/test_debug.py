"""Debug mode: illegal transitions and effects that do not match the table are caught and logged."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from podwright.core.framework.interface import ClusterError
from podwright.engine.outcomes.binding import debug, effects
from podwright.engine.outcomes.binding.debug import (
    BindingCycleError,
    check_closed,
    check_effects,
    check_outcome,
    check_transition,
)
from podwright.engine.outcomes.binding.read_back import UnconfirmedBindings
from podwright.engine.outcomes.binding.states import EFFECTS, TRANSITIONS, BindingOutcome, BindingState, Queueing
from support.engine.kit import Rig, deciding, settle

UID = "default/web"


@pytest.mark.parametrize(
    ("value", "on"), [("1", True), ("yes", True), ("0", False), ("", False), (None, False)]
)  # fmt: skip
def test_the_environment_switches_debug_mode_on(value, on):
    assert debug.enabled({} if value is None else {debug.VARIABLE: value}) == on


@pytest.mark.parametrize("state", BindingState, ids=lambda state: state.name)
def test_only_the_transitions_of_the_table_are_legal(violations, state):
    for to in BindingState:
        if to in TRANSITIONS.get(state, ()):
            check_transition("default/web", state, to)
        else:
            with pytest.raises(BindingCycleError, match=f"illegal transition from {state.name} to {to.name}"):
                check_transition("default/web", state, to)
    assert len(violations) == len(BindingState) - len(TRANSITIONS.get(state, ()))
    violations.clear()


@pytest.mark.parametrize("outcome", BindingOutcome, ids=lambda outcome: outcome.name)
def test_an_outcome_is_legal_only_in_the_states_of_its_row(violations, outcome):
    for state in BindingState:
        if state in EFFECTS[outcome].after:
            check_outcome("default/web", state, outcome)
        else:
            with pytest.raises(BindingCycleError, match=f"outcome {outcome.name} in state {state.name}"):
                check_outcome("default/web", state, outcome)
    violations.clear()


@pytest.mark.parametrize("state", sorted(set(BindingState) - TRANSITIONS.keys(), key=str), ids=lambda state: state.name)
async def test_a_running_cycle_that_makes_an_illegal_transition_is_caught(violations, state):
    rig = Rig()
    rig.node("a")
    answer = asyncio.get_running_loop().create_future()
    rig.cluster.outcomes = [answer]
    rig.pod("web")
    async with deciding(rig):
        cycle = rig.engine.binding_cycles.get(UID)
        with pytest.raises(BindingCycleError):
            cycle.enter(state)
        assert cycle.state is BindingState.BINDING
        answer.set_result(None)
        await settle()
    assert violations == [f"binding cycle of pod default/web: illegal transition from BINDING to {state.name}"]
    violations.clear()


@pytest.mark.parametrize(
    ("outcome", "change", "violation"),
    [
        pytest.param(BindingOutcome.FAILED, {"forget": False}, "still assumed after FAILED", id="the cache keeps the pod"),
        pytest.param(
            BindingOutcome.FAILED, {"queue": Queueing.KEEP}, "still in flight after FAILED", id="the pod is not requeued"
        ),
        pytest.param(BindingOutcome.GONE, {"queue": Queueing.KEEP}, "still in the queue after GONE", id="the pod stays queued"),
        pytest.param(
            BindingOutcome.FAILED, {"after": frozenset()}, "outcome FAILED in state READING_BACK", id="the outcome may not come"
        ),
    ],
)  # fmt: skip
async def test_effects_that_do_not_match_the_table_are_caught(monkeypatch, violations, outcome, change, violation):
    """The part that carries out the effects works by a changed table, or debug mode asserts a stricter one."""
    changed = {**EFFECTS, outcome: dataclasses.replace(EFFECTS[outcome], **change)}
    monkeypatch.setattr(debug if "after" in change else effects, "EFFECTS", changed)
    rig = Rig()
    rig.node("a")
    rig.cluster.outcomes = [ClusterError("timeout")]
    raw = rig.pod("web")
    rig.cluster.objects["Pod", "web"] = raw if outcome is BindingOutcome.FAILED else None
    async with deciding(rig):
        assert violations == [f"binding cycle of pod default/web: {violation}"]
    violations.clear()


async def test_a_bound_pod_that_is_not_among_the_unconfirmed_ones_is_caught(monkeypatch, violations):
    monkeypatch.setattr(UnconfirmedBindings, "add", lambda *_: None)
    rig = Rig()
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        assert violations == [
            "binding cycle of pod default/web: assumed and bound, but not among the unconfirmed Bindings"
        ]
    violations.clear()


def test_a_pod_in_two_places_is_caught(violations):
    rig = Rig()
    rig.node("a")
    rig.pod("web")
    queued, cache, queue = rig.engine.queue.get(UID), rig.engine.cache, rig.engine.queue
    check_effects(queued, BindingOutcome.ENDED, cache, queue, "")
    cache.assume(queued.pod, "a")
    with pytest.raises(BindingCycleError, match="assumed and in the queue after ENDED"):
        check_effects(queued, BindingOutcome.ENDED, cache, queue, "")
    violations.clear()


@pytest.mark.parametrize(
    ("left", "violation"),
    [
        pytest.param("registered", "still registered at its end", id="the registry still has the cycle"),
        pytest.param("holds_capacity", "still holds capacity of the limiter at its end", id="the limiter has it"),
    ],
)
def test_a_cycle_that_leaves_something_behind_is_caught(violations, left, violation):
    flags = {"registered": False, "holds_capacity": False}
    check_closed("default/web", **flags)
    with pytest.raises(BindingCycleError, match=violation):
        check_closed("default/web", **{**flags, left: True})
    violations.clear()


async def test_without_debug_mode_nothing_is_checked(monkeypatch, violations):
    monkeypatch.delenv(debug.VARIABLE)
    rig = Rig()
    rig.node("a")
    answer = asyncio.get_running_loop().create_future()
    rig.cluster.outcomes = [answer]
    rig.pod("web")
    async with deciding(rig):
        cycle = rig.engine.binding_cycles.get(UID)
        cycle.enter(BindingState.STOPPED)
        answer.set_result(None)
        await settle()
    assert violations == []
