"""A long run fails if a figure of the last third exceeds that of the second third by more than its bound."""

from dataclasses import replace

import pytest
from benchmarks.soak import Sample, grown

FLAT = [Sample(at=float(i), bound=i, resident_mb=100.0, in_use_mb=80.0, p50_ms=10.0, p99_ms=50.0) for i in range(30)]


def test_the_first_third_does_not_count():
    assert grown([*(replace(each, resident_mb=50.0) for each in FLAT[:10]), *FLAT[10:]]) == {}


@pytest.mark.parametrize(
    ("name", "before", "after"), [("in_use_mb", 80.0, 85.0), ("resident_mb", 100.0, 111.0), ("p99_ms", 50.0, 76.0)]
)
def test_a_figure_that_grows_is_named(name, before, after):
    assert grown([*FLAT[:20], *(replace(each, **{name: after}) for each in FLAT[20:])]) == {name: (before, after)}
