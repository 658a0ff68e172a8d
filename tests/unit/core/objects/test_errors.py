"""The words of errors in objects."""

from __future__ import annotations

import pytest

from podwright.core.objects.errors import kind_of


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "a boolean"),
        (1, "a number"),
        (1.5, "a number"),
        ("a", "a string"),
        ([], "a list"),
        ({}, "an object"),
    ],
)
def test_values_are_called_what_json_calls_them(value, words):
    assert kind_of(value) == words
