"""The errors of CEL.

CelError                an expression is refused when it is compiled: syntax, types, cost
EvaluationError         an evaluation fails, with the text of cel-go
└── CancelledError      it was stopped
    └── CostLimitError  because it costs too much, or needs too much memory
StopError               carries a CancelledError out of an expression, so that no operator absorbs it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from podwright.core.objects.dataclass import dataclass

MAX_FAULT: Final = 300
MAX_ISSUES: Final = 100
"""Issues in the text of an error. The others are counted, as by cel-go: one expression can have thousands."""


@dataclass(frozen=True)
class Issue:
    """One reason why an expression is refused. `line` and `column` start at 1; both are 0 if no place is known."""

    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.message}" if self.line else self.message


class CelError(ValueError):
    """An expression that is refused. `issues` has at least one entry, in the order of the text."""

    def __init__(self, *issues: Issue) -> None:
        super().__init__("; ".join(_first(issues, str)))
        self.issues = issues

    @property
    def line(self) -> int:
        """The line of the first issue, from 1. 0 if no place is known."""
        return self.issues[0].line

    @property
    def column(self) -> int:
        """The column of the first issue, in code points from 1. 0 if no place is known."""
        return self.issues[0].column

    def report(self, text: str) -> str:
        """The issues with their lines of the expression `text`, as cel-go writes them."""
        lines = text.split("\n")
        return "\n".join(_first(self.issues, lambda issue: _reported(issue, lines)))

    @property
    def message(self) -> str:
        """The first issue's text without its place."""
        return self.issues[0].message


def _first(issues: Sequence[Issue], shown: Callable[[Issue], str]) -> Iterator[str]:
    yield from map(shown, issues[:MAX_ISSUES])
    if len(issues) > MAX_ISSUES:
        yield f"{len(issues) - MAX_ISSUES} more errors were truncated"


def _reported(issue: Issue, lines: list[str]) -> str:
    found = f"ERROR: <input>:{issue.line or -1}:{issue.column or 0}: {issue.message}"
    if not 0 < issue.line <= len(lines):
        return found
    line = lines[issue.line - 1].replace("\t", " ")
    before, at = line[: issue.column - 1], line[issue.column - 1 : issue.column]
    marks = "".join("." if character.isascii() else "\uff0e" for character in before)
    return f"{found}\n | {line}\n | {marks}{'^' if at.isascii() else chr(0xFF3E)}"


class EvaluationError(Exception):
    """An evaluation that has no value. `&&`, `||` and the macros absorb it where CEL says so."""


def fault(error: Exception) -> str:
    """The text of an error that is no expected one: a mistake in an implementation. It becomes the error of the
    expression alone.
    """
    return f"internal error: {type(error).__name__}: {error}"[:MAX_FAULT]


class CancelledError(EvaluationError):
    """An evaluation that was stopped."""


class CostLimitError(CancelledError):
    """The evaluation costs more than its limit, or needs more memory than an evaluation may."""


class StopError(Exception):
    """Ends an evaluation with this error, which nothing inside the expression absorbs."""

    def __init__(self, error: CancelledError) -> None:
        super().__init__(error)
        self.error = error
