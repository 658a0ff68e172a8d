"""Regular expressions, on RE2, whose time is linear in the text. Compiled ones are kept, a bounded number of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.frame import Frame
from podwright.core.cel.library.signatures import expect
from podwright.core.cel.values import Function, Value, no_such_overload
from podwright.core.objects.compaction import cleared_regularly

if TYPE_CHECKING:
    import re2

MAX_PATTERN: Final = 10_000
"""Code points of a pattern."""
_ESCAPE: Final = re.compile(r"\\Q.*?(?:\\E|$)|\\(.)", re.DOTALL)
r"""`\C` is a byte in RE2, and an error in Go."""
_MEMORY: Final = 2 << 20
"""Bytes that RE2 may use for one pattern."""


def _compile(pattern: str, memory: int = _MEMORY) -> re2._Regexp[bytes]:
    import re2  # noqa: PLC0415 -- not at the start of a process, which may have no expressions

    if len(pattern) > MAX_PATTERN:
        raise EvaluationError(f"regular expression of {len(pattern)} code points exceeds the limit of {MAX_PATTERN}")
    if any(found[1] == "C" for found in _ESCAPE.finditer(pattern)):
        raise EvaluationError("error parsing regexp: invalid escape sequence: `\\C`")
    options = _options(memory)
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        text = error.args[0] if error.args else ""
        raise EvaluationError(f"error parsing regexp: {_text(text)}: `{pattern[:200]}`") from None


def _options(memory: int) -> re2.Options:
    import re2  # noqa: PLC0415 -- as above

    options = re2.Options()
    options.max_mem = memory
    options.log_errors = False
    return options


_PART_OF_A_SET: Final = 64 << 10
_SET: Final = 64 << 20


def check_pattern(pattern: str) -> None:
    """Raises EvaluationError if the pattern cannot be one of a PatternSet."""
    _compile(pattern, _PART_OF_A_SET)


class PatternSet:
    """Up to 64 patterns that `check_pattern` has passed, matched at once, in time linear in the text."""

    def __init__(self, patterns: Sequence[str]) -> None:
        import re2  # noqa: PLC0415 -- as above

        self._set = re2.Set.SearchSet(_options(_SET))
        for pattern in patterns:
            self._set.Add(pattern)
        self._set.Compile()

    def found_in(self, text: str) -> Sequence[int]:
        """The positions of the patterns that the text contains, in their order."""
        return sorted(self._set.Match(text) or ())


_compiled: Final = cleared_regularly(lru_cache(maxsize=64)(_compile))


def _text(found: Value) -> str:
    return found.decode(errors="replace") if isinstance(found, bytes) else str(found)


def _matches(text: Value, pattern: Value) -> bool:
    if text.__class__ is not str or pattern.__class__ is not str:
        raise no_such_overload()
    return _compiled(pattern).search(text.encode()) is not None


def _find(text: Value, pattern: Value) -> str:
    expect("find", (str, str), text, pattern)
    found = _illegal(pattern).search(text.encode())
    return found.group(0).decode() if found else ""


def _find_all(frame: Frame, text: Value, pattern: Value, count: Value = -1) -> list[Value]:
    expect("findAll", (str, str, int), text, pattern, count)
    found: list[Value] = []
    regexp = _illegal(pattern)
    if not count:
        return found
    data = text.encode()
    last = -1
    for match in regexp.finditer(data):
        start, end = match.span()
        if start == end and (start == last or data[start : start + 1] in _INSIDE):
            continue
        last = end
        frame.allocate(_MATCH + end - start)
        found.append(data[start:end].decode())
        if len(found) == count:
            break
    return found


_MATCH: Final = 128
"""The memory that a match takes besides its text, in the unit of ROOM."""
_INSIDE: Final = frozenset(bytes((code,)) for code in range(0x80, 0xC0))
"""The bytes inside a code point. No match begins there."""


def _illegal(pattern: str) -> re2._Regexp[bytes]:
    try:
        return _compiled(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _prepared(constants: Mapping[int, Value], _count: int) -> None:
    """Refuses a constant pattern that is wrong."""
    pattern = constants.get(1)
    if pattern.__class__ is str:
        _compiled(pattern)


PLAIN: Final[dict[str, Function]] = {"matches": _matches, "find": _find}
ALLOCATING: Final[dict[str, Function]] = {"findAll": _find_all}
PREPARED: Final[dict[str, Function]] = dict.fromkeys(("matches", "find", "findAll"), _prepared)
