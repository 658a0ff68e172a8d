"""Messages of tests for the end of the run. They travel with the tests' reports, because with pytest-xdist another
process prints them.
"""

from __future__ import annotations

from typing import Any

import pytest


def add(item: pytest.Item, subject: str, value: Any) -> None:
    """Stores a value, of built-in types only, with the report of the test that is running."""
    item.user_properties.append((subject, value))


def collected(reporter: pytest.TerminalReporter, subject: str) -> list[Any]:
    """The values of all tests that have ended, in the order in which they ended."""
    reports = [report for group in reporter.stats.values() for report in group if isinstance(report, pytest.TestReport)]
    ended = sorted((report for report in reports if report.when == "teardown"), key=lambda report: report.stop)
    return [value for report in ended for name, value in report.user_properties if name == subject]
