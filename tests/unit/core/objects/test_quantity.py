from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.quantity import MAX_INT64, NANO, parse_quantity, round_up, round_up_milli

SUFFIXES = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": 1, "k": 10**3, "M": 10**6}
SUFFIXES |= {"G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "e3": 1000, "E-2": Fraction(1, 100)}


@pytest.mark.parametrize(
    "text, nanos",
    [
        pytest.param("1", NANO, id="a whole number"),
        pytest.param("1500m", 1_500_000_000, id="milli"),
        pytest.param("0.5", 500_000_000, id="a fraction"),
        pytest.param(".5", 500_000_000, id="a fraction without a leading zero"),
        pytest.param("5.", 5 * NANO, id="a trailing point"),
        pytest.param("1.5Gi", 3 * 2**29 * NANO, id="a fraction of a binary unit"),
        pytest.param("1e3", 1000 * NANO, id="an exponent"),
        pytest.param("1E3", 1000 * NANO, id="a capital exponent"),
        pytest.param("1E", 10**18 * NANO, id="exa, not an exponent"),
        pytest.param("100u", 100_000, id="micro"),
        pytest.param("-2", -2 * NANO, id="negative"),
        pytest.param("+2", 2 * NANO, id="an explicit plus"),
        pytest.param("0.0000000001", 1, id="finer than nano is rounded up"),
        pytest.param("99E", MAX_INT64 * NANO, id="too large is capped"),
        pytest.param("1" * 5000, MAX_INT64 * NANO, id="more digits than Python converts"),
        pytest.param("0" * 5000 + "2", 2 * NANO, id="thousands of leading zeros"),
        pytest.param("0.5" + "0" * 5000, 500_000_000, id="thousands of trailing zeros"),
        pytest.param("1." + "0" * 5000 + "1", NANO + 1, id="a digit in the 5000th place rounds up"),
        pytest.param("1" * 5000 + "e-4999", -(-10 * NANO // 9), id="thousands of digits times a small power"),
        pytest.param("1e308", MAX_INT64 * NANO, id="a huge power"),
        pytest.param("1e-308", 1, id="a tiny power is rounded up"),
        pytest.param("1e9223372036854775807", MAX_INT64 * NANO, id="the greatest power"),
        pytest.param("-1e999", -MAX_INT64 * NANO, id="a huge negative amount is capped"),
        pytest.param("0e999", 0, id="zero times a huge power"),
        pytest.param(10**5000, MAX_INT64 * NANO, id="a JSON number of thousands of digits"),
        pytest.param(1e308, MAX_INT64 * NANO, id="a huge JSON fraction"),
        pytest.param(3, 3 * NANO, id="a JSON number"),
        pytest.param(0.25, 250_000_000, id="a JSON fraction"),
    ],
)
def test_quantities_are_parsed_exactly(text, nanos):
    assert parse_quantity(text, "cpu") == nanos


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1x",
        "1 Gi",
        "--1",
        ".",
        "1e",
        "1.2.3",
        "1Mi2",
        "e3",
        None,
        True,
        [],
        "1e9223372036854775808",
        "٣",
        float("inf"),
        float("nan"),
    ],
)
def test_an_invalid_quantity_raises_an_error_with_the_field(text):
    with pytest.raises(InvalidObjectError, match=r"limits\[cpu\]: .* is not a quantity"):
        parse_quantity(text, "limits[cpu]")


@given(st.integers(0, 10**6), st.integers(0, 999), st.sampled_from(sorted(SUFFIXES)))
def test_every_notation_agrees_with_exact_arithmetic(whole, thousandths, suffix):
    exact = (whole + Fraction(thousandths, 1000)) * SUFFIXES[suffix] * NANO
    assert parse_quantity(f"{whole}.{thousandths:03}{suffix}", "x") == -(-exact.numerator // exact.denominator)


@pytest.mark.parametrize(
    "nanos, units, millis", [(1, 1, 1), (10**6, 1, 1), (10**6 + 1, 1, 2), (NANO, 1, 1000), (0, 0, 0)]
)
def test_units_and_thousandths_are_rounded_up(nanos, units, millis):
    assert (round_up(nanos), round_up_milli(nanos)) == (units, millis)
