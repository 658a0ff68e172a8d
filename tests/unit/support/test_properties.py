"""Tests of how properties are tested."""

import pytest
from hypothesis import HealthCheck, settings

from support import properties


def test_examples_may_take_as_long_as_a_busy_machine_needs():
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check


@pytest.mark.parametrize(("factor", "number"), [(1.0, 60), (0.2, 12), (0.01, 5), (10.0, 600)])
def test_the_examples_are_as_many_times_the_usual_ones_as_wanted(monkeypatch, factor, number):
    monkeypatch.setattr(properties, "FACTOR", factor)
    assert properties.examples(60) == number


@pytest.mark.parametrize(("factor", "number"), [(1.0, 40), (0.2, 8), (0.01, 1), (10.0, 400)])
def test_so_are_the_cases_that_tests_generate(monkeypatch, factor, number):
    monkeypatch.delenv("PODWRIGHT_TREES", raising=False)
    monkeypatch.setattr(properties, "FACTOR", factor)
    assert properties.case_count("PODWRIGHT_TREES", 40) == number
    monkeypatch.setenv("PODWRIGHT_TREES", "7")
    assert properties.case_count("PODWRIGHT_TREES", 40) == 7
