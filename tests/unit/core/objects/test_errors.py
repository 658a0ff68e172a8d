"""The words of errors in objects."""

from __future__ import annotations

import pytest

from podwright.core.objects.control_flow import ControlFlowError
from podwright.core.objects.errors import described
from podwright.core.objects.raw import json_type


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
    assert json_type(value) == words


def _raising(error):
    class WordlessError(Exception):
        def __str__(self):
            raise error

    return WordlessError()


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), GeneratorExit()], ids=repr)
def test_an_exception_whose_text_raises_is_described_by_its_type(error):
    assert described(_raising(error)) == f"WordlessError (its text raises {type(error).__name__})"


def test_an_exception_is_described_by_type_and_text():
    assert described(KeyError("a")) == "KeyError: 'a'"


def test_what_podwright_raises_through_other_code_goes_on_while_a_text_is_made():
    with pytest.raises(ControlFlowError):
        described(_raising(ControlFlowError()))
