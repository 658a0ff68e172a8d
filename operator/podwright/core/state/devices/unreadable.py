"""Unreadable: the parts of slices, classes and taint rules that are left out because they cannot be understood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.errors import InvalidObjectError

SHOWN: Final = 3
"""How many objects a summary names."""


class Unreadable:
    """The first problem of each object that has some, by kind and name. `on_problem` is called with kind, name and each
    problem when an object is read.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], InvalidObjectError] = {}
        self.on_problem: Callable[[str, str, InvalidObjectError], object] = lambda _kind, _name, _problem: None
        compact_regularly(self)

    def __len__(self) -> int:
        """How many objects have problems."""
        return len(self._first)

    def note(self, key: tuple[str, str], problems: Sequence[InvalidObjectError]) -> None:
        """Notes the problems of an object that was read. Without problems, the object is forgotten."""
        if not problems:
            self._first.pop(key, None)
            return
        self._first[key] = problems[0]
        for problem in problems:
            self.on_problem(problem.kind, problem.name, problem)

    def summary(self) -> str:
        """Returns the first problems as a text of bounded length; empty without problems."""
        if not self._first:
            return ""
        texts = [f"{problem!s:.300}" for problem, _ in zip(self._first.values(), range(SHOWN), strict=False)]
        more = len(self._first) - len(texts)
        return "devices are left out that cannot be understood: " + "; ".join(
            [*texts, *([f"and in {more} more objects"] if more else ())]
        )
