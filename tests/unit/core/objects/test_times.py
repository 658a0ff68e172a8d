"""Times of objects."""

from __future__ import annotations

import pytest

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import parse_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T01:00:10.5+01:00", 10.5),
    ],
)
def test_a_time_is_in_seconds_since_the_epoch(text, seconds):
    assert parse_time(text, "status.startTime") == seconds


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("1970-01-01T00:00:10", id="no zone: the zone of this process would count"),
        pytest.param("1970-01-01", id="only a day"),
        pytest.param("now", id="no time"),
        pytest.param(10, id="a number"),
    ],
)
def test_what_is_no_time_in_rfc_3339_is_refused(value):
    with pytest.raises(InvalidObjectError, match=r"status\.startTime"):
        parse_time(value, "status.startTime")
