"""The expressions that are compiled, by their text: policies with the same text share one.

CEL is imported with the first expression that is compiled. A scheduler without rules starts without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from podwright.core.cel.errors import CelError, Issue, fault
from podwright.core.objects.compaction import RecentCache

if TYPE_CHECKING:
    from podwright.core.plugins.rules.expression import Expression

Signals = tuple[str, ...]
_Known = tuple[str, bool, Signals]
_KEPT: Final[RecentCache[_Known, Expression | tuple[Issue, ...]]] = RecentCache(1024)
"""Expressions, and errors of invalid texts."""


def expression_of(text: str, *, score: bool, signals: Signals = ()) -> Expression:
    """The expression, known or new. `signals`: all that exist. Raises CelError."""
    found = _KEPT.get((text, score, signals))
    if found is None:
        found = compiled(text, score=score, signals=signals)
        remember(text, found, score=score, signals=signals)
    if isinstance(found, tuple):
        raise CelError(*found)
    return found


def compiled(text: str, *, score: bool, signals: Signals = ()) -> Expression | tuple[Issue, ...]:
    """A new expression, or the errors of an invalid text. Any thread may call it."""
    from podwright.core.plugins.rules.expression import Expression  # noqa: PLC0415 -- see the module

    try:
        return Expression(text, score=score, signals=signals)
    except CelError as error:
        return error.issues
    except Exception as error:  # noqa: BLE001 -- whatever is raised is this expression's error
        return (Issue(0, 0, fault(error)),)


def is_known(text: str, *, score: bool, signals: Signals = ()) -> bool:
    """True if `expression_of` has nothing to compile."""
    return _KEPT.get((text, score, signals)) is not None


def remember(text: str, outcome: Expression | tuple[Issue, ...], *, score: bool, signals: Signals = ()) -> None:
    """Makes `expression_of` return this outcome of `compiled`."""
    _KEPT.put((text, score, signals), outcome)
