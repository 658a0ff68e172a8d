"""Prints the table of hostile objects at the end of the run. Its figures are printed only: no test asserts a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

import pytest

from support import summary
from support.hostile.table import Table

_TABLE = "hostile objects"


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    """The test's rows of the table that is printed at the end."""
    rows = Table()
    yield rows
    summary.add(request.node, _TABLE, astuple(rows))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    table = Table()
    for now, others in summary.collected(terminalreporter, _TABLE):
        table.now.update(now)
        table.others.extend(others)
    if lines := table.lines():
        terminalreporter.section("hostile objects (CPU time at 5,000 nodes and 10,000 placed pods)")
        for line in lines:
            terminalreporter.write_line(line)
