"""ResourceVersions as numbers."""

from __future__ import annotations

import pytest

from podwright.core.objects.versions import version_number


@pytest.mark.parametrize(
    ("text", "number"),
    [("100", 100), ("99", 99), ("", 0), ("-1", 0), ("abc", 0), ("1.5", 0), ("٣", 0), ("9" * 5000, 0)],
)
def test_what_is_not_a_number_is_0(text, number):
    assert version_number(text) == number
