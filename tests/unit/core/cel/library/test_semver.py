"""Versions of expressions."""

from itertools import pairwise

import pytest

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.library.semver import normalized, read_semver


def test_versions_have_the_order_of_semver():
    texts = [
        "1.0.0-1",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0",
        "1.10.0",
    ]
    versions = [read_semver(text) for text in texts]
    assert all(a.compare(b) == -1 and b.compare(a) == 1 for a, b in pairwise(versions))
    assert read_semver("1.0.0+a").compare(read_semver("1.0.0+b")) == 0
    assert [str(version) for version in versions] == texts


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("", "Version string empty", id="nothing"),
        pytest.param("1.2", "No Major.Minor.Patch elements found", id="two numbers"),
        pytest.param("01.2.3", 'Major number must not contain leading zeroes "01"', id="leading zeros"),
        pytest.param("1.x.3", 'Invalid character(s) found in minor number "x"', id="a letter"),
        pytest.param("1.2.3-", "Prerelease is empty", id="an empty pre-release"),
        pytest.param(
            "1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"', id="zeros in a pre-release"
        ),
        pytest.param("1.2.3+", "Build meta data is empty", id="an empty build"),
        pytest.param(
            "1.2.99999999999999999999",
            'strconv.ParseUint: parsing "99999999999999999999": value out of range',
            id="a number beyond 64 bits",
        ),
    ],
)
def test_a_text_that_is_no_version_gets_the_error_of_kubernetes(text, error):
    with pytest.raises(EvaluationError) as raised:
        read_semver(text)
    assert str(raised.value) == error


@pytest.mark.parametrize(
    ("text", "expected"), [("v1", "1.0.0"), ("01.02", "1.2.0"), ("1.2.3-rc.1", "1.2.3-rc.1"), ("0", "0.0.0")]
)
def test_a_short_version_is_filled_up(text, expected):
    assert normalized(text) == expected
