import pytest

from podwright.core.objects.integers import decimal_of, int64_of


@pytest.mark.parametrize(
    "text, number",
    [
        pytest.param("7", 7, id="digits"),
        pytest.param("+7", 7, id="a plus"),
        pytest.param("-007", -7, id="leading zeros"),
        pytest.param("0" * 5000 + "7", 7, id="thousands of leading zeros"),
        pytest.param("-0", 0, id="minus zero"),
        pytest.param(str(2**63 - 1), 2**63 - 1, id="the greatest number"),
        pytest.param(str(-(2**63)), -(2**63), id="the least number"),
        pytest.param(str(2**63), None, id="one more than the greatest number"),
        pytest.param(str(-(2**63) - 1), None, id="one less than the least number"),
        pytest.param("9" * 5000, None, id="more digits than Python converts"),
        pytest.param("", None, id="nothing"),
        pytest.param("-", None, id="a sign alone"),
        pytest.param("1_000", None, id="an underscore"),
        pytest.param(" 7", None, id="a space"),
        pytest.param("\u0663", None, id="a digit that is not ASCII"),
    ],
)
def test_numbers_are_read_as_strconv_parse_int_reads_them(text, number):
    assert int64_of(text) == number


@pytest.mark.parametrize(
    "text, number",
    [
        ("0", 0),
        ("-1", -1),
        ("12", 12),
        (str(2**63 - 1), 2**63 - 1),
        (str(-(2**63)), -(2**63)),
        (str(2**63), None),
        ("-0", None),
        ("+1", None),
        ("01", None),
        ("", None),
        ("-", None),
        ("1\n", None),
        ("٣", None),
        ("9" * 5000, None),
    ],
)
def test_comparisons_take_canonical_numbers_of_64_bits_only(text, number):
    assert decimal_of(text) == number
