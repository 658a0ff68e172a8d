"""The answers of /livez, /readyz and /healthz: one line for each named check, as Kubernetes' components give them.

Unlike theirs, an answer says why a check failed, because its readers run the scheduler. Source: k8s.io/apiserver,
server/healthz.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from podwright.core.objects.dataclass import dataclass

PING: Final = "ping"
"""The check that never fails. It only shows that the server answers."""

Problems = Mapping[str, str]
"""Why each check fails, by its name; empty text if it does not fail. With a Note it does not fail either."""


class Note(str):
    """A note for the reader about a check that passes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CheckReport:
    """`healthy`: whether all checks passed that were not excluded. `text`: the body of the answer."""

    healthy: bool
    text: str


def report(endpoint: str, problems: Problems, *, verbose: bool = False, excluded: Collection[str] = ()) -> CheckReport:
    """The answer about all checks. It names them if one fails or if `verbose`. `endpoint` is its path without the
    slash.
    """
    lines, notes, healthy = [], [], True
    for name, problem in problems.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok\n")
        elif isinstance(problem, Note) and problem:
            lines.append(f"[+]{name} ok: {problem}\n")
            notes.append(f"\nnote: {name}: {problem}")
        elif problem:
            healthy = False
            lines.append(f"[-]{name} failed: {problem}\n")
        else:
            lines.append(f"[+]{name} ok\n")
    unknown = sorted(name for name in set(excluded) if name not in problems)
    if unknown:
        names = ", ".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
    if healthy and not verbose:
        return CheckReport(healthy, f"ok{''.join(notes)}")
    return CheckReport(healthy, f"{''.join(lines)}{endpoint} check {'passed' if healthy else 'failed'}\n")


def report_one(name: str, problem: str) -> CheckReport:
    """The answer about one check."""
    if isinstance(problem, Note) and problem:
        return CheckReport(True, f"ok\nnote: {problem}")
    return CheckReport(False, f"internal server error: {name}: {problem}\n") if problem else CheckReport(True, "ok")
