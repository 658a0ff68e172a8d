"""Feasible holds the rows that pass, and picks their part of a column."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from podwright.core.framework.interface import ROWS_PER_GAP, Feasible

SIZE = 4 * ROWS_PER_GAP


@pytest.mark.parametrize(
    "infeasible",
    [
        pytest.param([], id="no row"),
        pytest.param([0], id="the first"),
        pytest.param([SIZE - 1], id="the last"),
        pytest.param([7, 8, SIZE - 1], id="neighbours"),
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
    passing = np.flatnonzero(alive).tolist()
    assert len(feasible) == len(passing)
    assert [feasible.slot(index) for index in range(0, len(passing), 97)] == passing[::97]
    assert feasible.slots.tolist() == passing
    assert [feasible.slot(index) for index in range(0, len(passing), 97)] == passing[::97]
    assert feasible.take(column).tolist() == column[alive].tolist()
