"""Each invalid object is reported once, and reports are forgotten in the order in which they were last seen."""

from __future__ import annotations

import pytest

from podwright.core.objects.errors import InvalidObjectError
from podwright.engine.invalid_objects import InvalidObjects
from podwright.engine.records.metrics import Metrics


@pytest.fixture
def reports():
    return InvalidObjects(Metrics(lambda: 0.0), limit=2)


def report(reports, name, problem="is missing"):
    return reports.report("Pod", name, InvalidObjectError("spec", problem))


def test_an_error_of_an_object_is_reported_once(reports):
    assert report(reports, "a")
    assert report(reports, "a") is None
    assert report(reports, "a", "is too long")
    assert reports.report("Node", "a", InvalidObjectError("spec", "is missing"))


def test_the_report_seen_longest_ago_is_forgotten_first(reports):
    for name in "abac":
        report(reports, name)
    assert report(reports, "a") is None
    assert report(reports, "b")
