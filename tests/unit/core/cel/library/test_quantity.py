"""Quantities of expressions: their grammar, and which of them Kubernetes takes for integers."""

import pytest

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.library.quantity import WRONG_FORMAT, WRONG_NUMBER, WRONG_SUFFIX, read_quantity


@pytest.mark.parametrize(
    ("text", "integer"),
    [
        pytest.param("5", 5, id="a plain number"),
        pytest.param("2k", 2000, id="thousands"),
        pytest.param("1Ki", 1024, id="binary thousands"),
        pytest.param("1e3", 1000, id="an exponent"),
        pytest.param("1e00000000000000000000003", 1000, id="an exponent with leading zeros"),
        pytest.param("-3M", -3_000_000, id="a negative number"),
        pytest.param("1000m", None, id="milli-units, though they make an integer"),
        pytest.param("1.5Gi", None, id="a fraction of binary units, kept as a big decimal"),
        pytest.param("9223372036854775807", None, id="more than 18 digits, kept as a big decimal"),
        pytest.param("10E", None, id="beyond 64 bits"),
        pytest.param(".", 0, id="a point alone"),
        pytest.param("+", 0, id="a sign alone"),
    ],
)
def test_a_quantity_is_an_integer_where_kubernetes_says_so(text, integer):
    assert read_quantity(text).as_integer() == integer


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("", WRONG_FORMAT, id="nothing"),
        pytest.param("1x", WRONG_FORMAT, id="a letter that no suffix has"),
        pytest.param("1K", WRONG_SUFFIX, id="a suffix that does not exist"),
        pytest.param("1e", WRONG_SUFFIX, id="an exponent without digits"),
        pytest.param(".Ei", WRONG_NUMBER, id="a suffix without a number"),
    ],
)
def test_a_text_that_is_no_quantity_gets_the_error_of_kubernetes(text, error):
    with pytest.raises(EvaluationError) as raised:
        read_quantity(text)
    assert str(raised.value) == error


@pytest.mark.parametrize("text", ["0" * 100_000 + "x", "1" * 100_000 + "x", "1." + "1" * 100_000 + "x"])
def test_a_long_text_that_is_no_quantity_is_read_once(text):
    with pytest.raises(EvaluationError):
        read_quantity(text)


def test_arithmetic_is_exact():
    total = read_quantity("0.1").add(read_quantity("200m"))
    assert total.compare(read_quantity("300m")) == 0
    assert read_quantity("1Gi").add(read_quantity("1Gi").negated()).sign() == 0
    assert read_quantity("1k").add(read_quantity("1m")).as_float() == 1000.001


@pytest.mark.parametrize(
    "text", ["1e999999999999999999", "1" * 100_000, "0." + "0" * 100_000 + "1", "-1e-999999999999"]
)
def test_a_huge_quantity_costs_little(text):
    number = read_quantity(text)
    assert number.value.bit_length() < 5000
    assert number.add(read_quantity("1n")).compare(read_quantity("1")) in (-1, 0, 1)
