"""Durations of configuration files."""

from __future__ import annotations

import pytest

from podwright.core.objects.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("1.5h", 5400.0), ("-1m30s", -90.0), (".5ms", 0.0005), ("1.s", 1.0), ("1µs", 0.000001)],
)
def test_a_duration_is_read_as_go_reads_it(text, seconds):
    assert parse_duration(text) == seconds


def test_a_duration_beyond_gos_longest_counts_as_that():
    assert parse_duration("99999999999999999h") == 2**63 / 10**9
    assert parse_duration("-" + "9" * 400 + "h") == -(2**63) / 10**9


@pytest.mark.parametrize("text", ["", "1", "s", "1d", "1h-1m", "1" * 100_000 + "x", "1h" * 50_000 + "x"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="invalid duration"):
        parse_duration(text)
