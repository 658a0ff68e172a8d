"""Feasible holds the rows that pass, and picks their part of a column."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from podwright.core.framework.interface import FILLED_SIZE, ROWS_PER_GAP, Feasible

SIZE = FILLED_SIZE


@pytest.mark.parametrize(
    "infeasible",
    [
        pytest.param([], id="no row"),
        pytest.param([0], id="the first"),
        pytest.param([SIZE - 1], id="the last"),
        pytest.param([7, 8, SIZE - 1], id="neighbours"),
        pytest.param(range(0, SIZE, ROWS_PER_GAP), id="as many as are filled"),
        pytest.param(range(SIZE - SIZE // ROWS_PER_GAP, SIZE), id="the last ones"),
        pytest.param(range(0, SIZE, 3), id="many"),
        pytest.param(range(SIZE), id="all"),
    ],
)
def test_the_rows_that_pass_and_their_part_of_a_column(infeasible):
    alive = np.ones(SIZE, np.bool_)
    alive[[*infeasible]] = False
    table = SimpleNamespace(size=SIZE, valid=np.ones(SIZE, np.bool_), full=True)
    column = np.arange(SIZE) * 10
    feasible = Feasible.passing(table, alive)
    passing = feasible.slots.tolist()
    assert len(feasible) == len(passing)
    assert sorted(passing) == np.flatnonzero(alive).tolist()
    assert feasible.take(column).tolist() == column[passing].tolist()
    for fresh in (feasible, Feasible.passing(table, alive)):
        assert [fresh.slot(index) for index in range(len(passing))] == passing


def test_a_small_table_keeps_the_order_of_its_rows():
    alive = np.ones(FILLED_SIZE - 1, np.bool_)
    alive[7] = False
    table = SimpleNamespace(size=len(alive), valid=np.ones(len(alive), np.bool_), full=True)
    assert Feasible.passing(table, alive).slots.tolist() == np.flatnonzero(alive).tolist()


@pytest.mark.parametrize("size", [8, FILLED_SIZE])
def test_a_plugin_cannot_change_the_rows_of_later_decisions(size):
    table = SimpleNamespace(size=size, valid=np.ones(size, np.bool_), full=True)
    slots = Feasible.passing(table, table.valid).slots
    with pytest.raises(ValueError, match="read-only"):
        slots += 1
    assert Feasible.passing(table, table.valid).slots.tolist() == [*range(size)]
