"""Finds the existing name of which a wrong name is a misspelt form, for errors that suggest it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice
from typing import Final

_MOST: Final = 1000
"""How many names are compared: a comparison costs tens of microseconds."""
_LONGEST: Final = 64
"""Only this many characters of a name are compared, because the cost of a comparison grows with the square of the length."""


def similar_name(name: str, known: Iterable[str]) -> str:
    """The known name of which this one is a misspelt form; empty if there is none."""
    beginnings = {each[:_LONGEST]: each for each in islice(known, _MOST)}
    close = difflib.get_close_matches(name[:_LONGEST], beginnings, n=1)
    return beginnings[close[0]] if close else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error's text, `; did you mean 'x'?`, or nothing."""
    close = similar_name(name, known)
    return f"; did you mean {close!r}?" if close else ""
