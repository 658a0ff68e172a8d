"""Conversions between values, and Go's notations."""

import pytest

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.library.conversions import (
    double_text,
    duration_text,
    parse_timestamp,
    text_in_error,
    timestamp_text,
    to_double,
    to_int,
    to_uint,
)
from podwright.core.cel.values import Duration, Optional, Timestamp, Uint
from podwright.core.objects.durations import nanoseconds

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        pytest.param("1h30m", 5400 * SECOND, id="two units"),
        pytest.param("-1.5s", -3 * SECOND // 2, id="a negative fraction"),
        pytest.param(".5ms", 500_000, id="only a fraction"),
        pytest.param("0", 0, id="zero without a unit"),
        pytest.param("1µs", 1000, id="micro"),
        pytest.param("9223372036854775807ns", 2**63 - 1, id="the longest"),
        pytest.param("9223372036854775808ns", None, id="beyond 64 bits"),
        pytest.param("-9223372036854775808ns", -(2**63), id="the longest negative one"),
        pytest.param("1", None, id="no unit"),
        pytest.param("1d", None, id="a unit that does not exist"),
        pytest.param("s", None, id="no number"),
        pytest.param("1" * 10_000 + "s", None, id="a long text"),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text, nanos):
    assert nanoseconds(text) == nanos


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("2024-02-29T12:00:00.120Z", "2024-02-29T12:00:00.12Z", id="a leap day"),
        pytest.param("2024-02-29T12:00:00+05:30", "2024-02-29T12:00:00+05:30", id="a zone"),
        pytest.param("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", id="the first year"),
        pytest.param("2023-02-29T12:00:00Z", None, id="no leap day"),
        pytest.param("2024-01-01 12:00:00Z", None, id="a space"),
        pytest.param("2024-01-01T12:00:00", None, id="no zone"),
    ],
)
def test_a_time_is_read_as_go_reads_it(text, shown):
    found = parse_timestamp(text)
    assert (found and timestamp_text(found)) == shown


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1e5, "100000"),
        (1e6, "1e+06"),
        (1.5e-7, "1.5e-07"),
        (0.0001, "0.0001"),
        (-0.0, "-0"),
        (float("inf"), "+Inf"),
        (2.50, "2.5"),
    ],
)
def test_a_double_is_written_as_go_writes_it(number, text):
    assert double_text(number) == text


@pytest.mark.parametrize(
    ("convert", "value", "error"),
    [
        pytest.param(to_int, float("nan"), "integer overflow", id="no number"),
        pytest.param(to_int, 2.0**63, "integer overflow", id="a great double"),
        pytest.param(to_int, "1.5", "type conversion error from 'string' to 'int'", id="a fraction as an integer"),
        pytest.param(to_int, "9" * 5000, "type conversion error from 'string' to 'int'", id="a long number"),
        pytest.param(to_int, None, "no such overload: int(null_type)", id="null"),
        pytest.param(to_uint, -1, "unsigned integer overflow", id="a negative number"),
        pytest.param(to_uint, "+1", "type conversion error from 'string' to 'uint'", id="a sign"),
        pytest.param(to_double, "1__0", "type conversion error from 'string' to 'double'", id="two separators"),
        pytest.param(to_double, "1_.5", "type conversion error from 'string' to 'double'", id="a separator at a point"),
        pytest.param(to_double, "1e400", "type conversion error from 'string' to 'double'", id="beyond doubles"),
        pytest.param(
            to_double, "1" * 100_000 + "x", "type conversion error from 'string' to 'double'", id="many digits and an x"
        ),
        pytest.param(
            to_double, "0x" + "1" * 100_000, "type conversion error from 'string' to 'double'", id="many hex digits"
        ),
    ],
)
def test_a_conversion_fails_as_in_cel_go(convert, value, error):
    with pytest.raises(EvaluationError) as raised:
        convert(value)
    assert str(raised.value) == error


@pytest.mark.parametrize(
    ("text", "number"),
    [("1_000.2_5", 1000.25), ("1e1_0", 1e10), ("0x_1p3", 8.0), ("0xa_b.8p-1", 85.75), (".5", 0.5), ("5.", 5.0)],
)
def test_a_double_is_read_as_go_reads_it(text, number):
    assert to_double(text) == number


def test_values_in_errors_are_written_as_in_go():
    assert text_in_error([1, Uint(2), "a", True, None]) == "[1, 2, a, true, NULL_VALUE]"
    assert text_in_error({"a": Optional(1.5)}) == "{a: optional(1.5)}"
    assert text_in_error(Duration(1500 * 10**6)) == duration_text(Duration(1500 * 10**6)) == "1.5s"
    assert text_in_error(Timestamp(0)) == "1970-01-01T00:00:00Z"
    assert len(text_in_error(["a" * 50] * 1000)) == 201
