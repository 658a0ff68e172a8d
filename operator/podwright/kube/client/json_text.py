"""JSON as the API server sends it, however deeply it is nested.

The API server accepts objects of ten thousand levels where a field may have any content, such as the args of a
SchedulerPolicy. orjson reads a thousand. One such object must not make a list, and all other objects in it, unreadable.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import orjson

MAX_DEPTH: Final = 1_000
"""Values that are nested more deeply are read as null."""
_QUOTE, _BACKSLASH = ord('"'), ord("\\")
_STEPS = np.zeros(256, np.int8)
"""By byte: how many levels deeper it leads."""
_STEPS[list(b"{[")], _STEPS[list(b"}]")] = 1, -1

_Positions = np.ndarray[Any, np.dtype[np.intp]]


def loads(text: bytes) -> Any:
    """The parsed text. Raises orjson.JSONDecodeError."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        flat = _without_depth(text) if "depth limit" in str(error) or "recursion" in str(error) else text
        if flat == text:
            raise
        return orjson.loads(flat)


def _without_depth(text: bytes) -> bytes:
    """The text, with null in the place of each object and list below MAX_DEPTH. Linear in the text, without a loop over
    its bytes.
    """
    data = np.frombuffer(text, np.uint8)
    brackets, steps = _brackets(data)
    depth = np.cumsum(steps, dtype=np.int64)
    starts = brackets[(steps == 1) & (depth == MAX_DEPTH + 1)]
    ends = brackets[(steps == -1) & (depth == MAX_DEPTH)] + 1
    if len(starts) != len(ends):
        return text  # not JSON
    pieces: list[bytes] = []
    kept_from = 0
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        pieces.append(text[kept_from:start])
        kept_from = end
    return b"null".join([*pieces, text[kept_from:]])


def innermost_open(text: bytes) -> bytes:
    """The bracket of the innermost object or list that is open at the end of the text; empty without one. Linear, as
    above.
    """
    brackets, steps = _brackets(np.frombuffer(text, np.uint8))
    opened = np.flatnonzero(np.cumsum(steps[::-1], dtype=np.int64) > 0)  # from the end: more are opened than closed
    if not len(opened):
        return b""
    at = int(brackets[::-1][opened[0]])
    return text[at : at + 1]


def _brackets(data: np.ndarray[Any, np.dtype[np.uint8]]) -> tuple[_Positions, np.ndarray[Any, np.dtype[np.int8]]]:
    """The positions of the brackets outside strings, and how many levels deeper each leads."""
    steps = _STEPS[data]
    brackets = np.flatnonzero(steps)
    brackets = brackets[np.searchsorted(_quotes(data), brackets) % 2 == 0]
    return brackets, steps[brackets]


def _quotes(data: np.ndarray[Any, np.dtype[np.uint8]]) -> _Positions:
    """The positions of the quotes at which strings begin and end: those after an even number of backslashes."""
    quotes = np.flatnonzero(data == _QUOTE)
    backslashes = np.flatnonzero(data == _BACKSLASH)
    if not len(backslashes):
        return quotes
    first_of_run = np.concatenate(([True], np.diff(backslashes) != 1))
    run_starts = np.maximum.accumulate(np.where(first_of_run, backslashes, 0))
    escaping = backslashes[(backslashes - run_starts) % 2 == 0]
    return quotes[~np.isin(quotes - 1, escaping, assume_unique=True)]
