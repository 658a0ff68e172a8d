"""Prints the table of hostile objects at the end of the run. Its figures are printed only: no test asserts a time."""

from __future__ import annotations

from typing import Any

import pytest

from support.hostile.table import Table

_TABLE = pytest.StashKey[Table]()


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Table:
    """The table that is printed at the end."""
    return request.config.stash.setdefault(_TABLE, Table())


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if lines := config.stash.get(_TABLE, Table()).lines():
        terminalreporter.section("hostile objects (CPU time at 5,000 nodes and 10,000 placed pods)")
        for line in lines:
            terminalreporter.write_line(line)
