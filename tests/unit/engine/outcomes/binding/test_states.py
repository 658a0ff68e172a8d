"""The tables of the binding cycle: complete, consistent, and drawn correctly in the module's docstring."""

from __future__ import annotations

import pytest

from podwright.core.framework.status import Code, Status, unschedulable
from podwright.engine.outcomes.binding import states
from podwright.engine.outcomes.binding.states import (
    EFFECTS,
    NOT_STARTED,
    PERMIT_OVER,
    STOPPABLE,
    TRANSITIONS,
    BindingOutcome,
    BindingReport,
    BindingState,
    Effects,
    Queueing,
    outcome_of_failure,
    outcome_of_read_back,
)

FINAL = {BindingState.BOUND, BindingState.REQUEUED, BindingState.DROPPED, BindingState.STOPPED}
ERROR = Status(Code.ERROR, ("timeout",))
REJECTION = unschedulable("full")


def test_each_state_is_either_final_or_has_transitions():
    assert TRANSITIONS.keys() == set(BindingState) - FINAL


def test_each_outcome_has_a_row():
    assert EFFECTS.keys() == set(BindingOutcome)


def test_each_state_can_be_reached():
    reached = {BindingState.ASSUMED}
    for _ in BindingState:
        reached |= {to for state in reached for to in TRANSITIONS.get(state, ())}
        reached |= {row.state for row in EFFECTS.values() if row.after & reached}
    assert reached == set(BindingState)


@pytest.mark.parametrize("state", sorted(set(BindingState) - FINAL, key=lambda state: state.value))
def test_each_cycle_can_end(state):
    assert any(state in row.after for row in EFFECTS.values())


def test_no_outcome_comes_after_the_end():
    assert not any(row.after & FINAL for row in EFFECTS.values())


def test_only_unknown_does_not_end_the_cycle():
    assert [outcome for outcome, row in EFFECTS.items() if row.state not in FINAL] == [BindingOutcome.UNKNOWN]


def test_a_posted_binding_is_never_undone_without_reading_the_pod_back():
    posted = {BindingState.BINDING, BindingState.POST_BINDING}
    assert not any(row.after & posted for row in EFFECTS.values() if row.unreserve or row.forget)


def test_the_groups_of_states_agree():
    assert NOT_STARTED < STOPPABLE
    assert not STOPPABLE & FINAL
    assert not PERMIT_OVER & FINAL
    assert {BindingState.PRE_BINDING, BindingState.PRE_BOUND} == STOPPABLE & PERMIT_OVER


@pytest.mark.parametrize("outcome", BindingOutcome)
def test_each_row_puts_the_pod_into_the_place_that_its_final_state_names(outcome):
    row = EFFECTS[outcome]
    requeues = row.queue in (Queueing.REJECT, Queueing.FAIL, Queueing.RETRY)
    assert requeues == (row.state is BindingState.REQUEUED)
    assert (row.queue is Queueing.DONE) == (row.state in (BindingState.BOUND, BindingState.DROPPED))
    assert (row.report is BindingReport.BOUND) == (row.state is BindingState.BOUND)
    assert not (row.forget and row.confirm)
    assert row.unreserve or not row.forget


def drawn() -> dict[str, list[str]]:
    """The table in the docstring: cells by outcome."""
    lines = (states.__doc__ or "").splitlines()
    first = next(number for number, line in enumerate(lines) if line.split()[:2] == ["outcome", "unreserve"])
    rows = [line.split() for line in lines[first + 1 :]]
    return {row[0]: row[1:] for row in rows[: rows.index([])]}


def cells(row: Effects) -> list[str]:
    return [
        "yes" if row.unreserve else "-",
        "yes" if row.forget else "-",
        row.queue.name.lower(),
        "-" if row.report is BindingReport.NOTHING else row.report.name.lower(),
        "yes" if row.free_room else "-",
        "yes" if row.confirm else "-",
        row.state.name,
    ]


def test_the_docstring_draws_the_table():
    assert drawn() == {outcome.name: cells(row) for outcome, row in EFFECTS.items()}


@pytest.mark.parametrize(
    ("state", "status", "outcome"),
    [
        pytest.param(BindingState.ASSUMED, REJECTION, BindingOutcome.REJECTED, id="Reserve rejects the pod"),
        pytest.param(BindingState.WAITING, REJECTION, BindingOutcome.REJECTED, id="Permit rejects the waiting pod"),
        pytest.param(BindingState.PERMITTED, ERROR, BindingOutcome.FAILED, id="the node is gone"),
        pytest.param(BindingState.PRE_BINDING, ERROR, BindingOutcome.FAILED, id="PreBind fails"),
        pytest.param(BindingState.BINDING, ERROR, BindingOutcome.UNKNOWN, id="Bind fails"),
        pytest.param(BindingState.BINDING, REJECTION, BindingOutcome.UNKNOWN, id="Bind rejects the pod"),
        pytest.param(BindingState.POST_BINDING, ERROR, BindingOutcome.UNKNOWN, id="an exception after Bind"),
    ],
)
def test_a_failure_has_an_outcome_that_depends_on_whether_the_binding_was_posted(state, status, outcome):
    assert outcome_of_failure(state, status) is outcome
    assert state in EFFECTS[outcome].after


@pytest.mark.parametrize("conflict", [False, True], ids=["no conflict", "conflict"])
@pytest.mark.parametrize(
    ("node_name", "failure", "outcomes"),
    [
        pytest.param(None, ERROR, (BindingOutcome.GONE,) * 2, id="gone"),
        pytest.param("", ERROR, (BindingOutcome.FAILED,) * 2, id="pending after an error"),
        pytest.param("", REJECTION, (BindingOutcome.REJECTED,) * 2, id="pending after a rejection"),
        pytest.param("a", ERROR, (BindingOutcome.BOUND, BindingOutcome.BOUND_BY_ANOTHER), id="on our node"),
        pytest.param("b", ERROR, (BindingOutcome.BOUND_ELSEWHERE,) * 2, id="on another node"),
    ],
)
def test_what_was_read_back_decides_the_outcome(node_name, failure, outcomes, conflict):
    outcome = outcome_of_read_back(node_name, "a", failure, conflict=conflict)
    assert outcome is outcomes[conflict]
    assert BindingState.READING_BACK in EFFECTS[outcome].after
