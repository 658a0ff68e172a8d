"""The cost of an attempt at a hostile pod: its decision is right, and its operations grow as the object does."""

from __future__ import annotations

import pytest

from support.hostile.harness import measure, work
from support.hostile.rows import ROWS
from support.hostile.subjects import Row

SIZES = (50, 200, 800)
SLACK = 1_000
"""Operations that may come on top, because the lengths of dicts and arrays grow in steps."""
NODES, PLACED = 60, 120


def each(rows: tuple[Row, ...], attribute: str = "name") -> list[object]:
    return [pytest.param(row, id=getattr(row, attribute)) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("row", each(ROWS))
async def test_an_attempt_at_full_size_decides_as_expected(row, table):
    attempts = await measure(row)
    assert [attempt.outcome[: len(row.subject.expected)] for attempt in attempts] == [row.subject.expected] * 2
    table.measured(row.name, attempts)


@pytest.mark.slow
@pytest.mark.parametrize("row", each(tuple({row.kind: row for row in reversed(ROWS)}.values()), "kind"))
@pytest.mark.parametrize("warm", [False, True], ids=["the first attempt", "again"])
async def test_the_cost_grows_no_faster_than_the_object(row, warm):
    await work(row.make(1), NODES, PLACED, warm=warm)  # so that code which runs once has run
    small, middle, large = [await work(row.make(size), NODES, PLACED, warm=warm) for size in SIZES]
    assert large - middle <= 6 * max(middle - small, SLACK), (small, middle, large)
