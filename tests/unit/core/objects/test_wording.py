"""Amounts and lists in words."""

import pytest

from podwright.core.objects.wording import first_of


@pytest.mark.parametrize(
    ("most", "one", "lines"),
    [
        (None, "", ["a", "b", "c"]),
        (3, "", ["a", "b", "c"]),
        (2, "", ["a", "b", "and 1 more"]),
        (1, "node", ["a", "and 2 more nodes"]),
    ],
)
def test_lines_beyond_the_most_are_counted(most, one, lines):
    assert first_of(iter("abc"), most, one) == lines
