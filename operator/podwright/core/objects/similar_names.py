"""Finds the existing name that somebody probably meant by a misspelt one, for errors that suggest it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile
from typing import Final

_MOST_NAMES: Final = 1000
"""How many names are compared: a comparison takes up to a millisecond."""
_MOST_EDITS: Final = 3
_CHARACTERS_PER_EDIT: Final = 3
_LONGEST_PART: Final = 64
"""The longest part in which two compared names may differ, because the time grows with its length."""


def similar_name(name: str, known: Iterable[str]) -> str:
    """The first of the known names that need the fewest edits; empty if all need too many.

    An edit adds, drops or replaces a character, or swaps two neighbours. There may be one edit for every three
    characters of the longer name, at least one and at most three. Only the first 1,000 known names are compared. A name
    of one character is like no other.
    """
    if len(name) < 2:
        return ""
    closest, fewest = "", _MOST_EDITS + 1
    for other in islice(known, _MOST_NAMES):
        bound = min(fewest - 1, max(1, max(len(name), len(other)) // _CHARACTERS_PER_EDIT))
        edits = _edits(name, other, bound)
        if edits <= bound:
            closest, fewest = other, edits
    return closest


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error's text, `; did you mean 'x'?`, or nothing."""
    close = similar_name(name, known)
    return f"; did you mean {close!r}?" if close else ""


def _edits(one: str, other: str, bound: int) -> int:
    """The number of edits between two names (the optimal string alignment distance); `bound` + 1 if it is greater than
    `bound`.
    """
    if abs(len(one) - len(other)) > bound:
        return bound + 1
    one, other = _without_common_ends(one, other)
    if max(len(one), len(other)) > _LONGEST_PART:
        return bound + 1
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            edits = min(last[j] + 1, row[-1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                edits = min(edits, before[j - 2] + 1)
            row.append(edits)
        if min(row) > bound:
            return bound + 1
        before, last = last, row
    return last[-1]


def _without_common_ends(one: str, other: str) -> tuple[str, str]:
    start = _common_length(one, other)
    one, other = one[start:], other[start:]
    end = _common_length(one[::-1], other[::-1])
    return one[: len(one) - end], other[: len(other) - end]


def _common_length(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
