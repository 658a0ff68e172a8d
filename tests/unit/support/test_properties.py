"""Tests of how properties are tested."""

from hypothesis import HealthCheck, settings


def test_examples_may_take_as_long_as_a_busy_machine_needs():
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
