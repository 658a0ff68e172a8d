"""What a misspelt name was probably meant to be."""

from __future__ import annotations

import difflib

import pytest

from podwright.core.objects.similar_names import did_you_mean, similar_name


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        pytest.param("nod-1", ["node-1", "other"], "node-1", id="a letter is missing"),
        pytest.param("gpu", ["node-1", "other"], "", id="nothing is like it"),
        pytest.param("a" * 250 + "b", ["a" * 251], "a" * 251, id="names that are as long as they may be"),
        pytest.param("x", [], "", id="nothing is known"),
    ],
)
def test_the_most_similar_name(name, known, expected):
    assert similar_name(name, known) == expected
    assert did_you_mean(name, iter(known)) == (f"; did you mean {expected!r}?" if expected else "")


def test_what_is_compared_is_bounded(monkeypatch):
    compared = []

    def close(name, known, n):
        compared.extend((name, *known))
        return []

    monkeypatch.setattr(difflib, "get_close_matches", close)
    similar_name("n" * 253, (f"{number}-{'n' * 240}" for number in range(100_000)))
    assert len(compared) == 1001
    assert {len(each) for each in compared} == {64}
