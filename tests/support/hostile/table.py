"""The table of hostile objects: what each cost, costs, and costs kube-scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from support.hostile.harness import Attempt
from support.hostile.rows import ROWS

_HEADINGS = ("object", "before", "kube-scheduler", "now: first / again")


@dataclass
class Table:
    """Rows in the order of ROWS, then those that tests add with `add`."""

    now: dict[str, str] = field(default_factory=dict)
    others: list[tuple[str, str, str, str]] = field(default_factory=list)

    def measured(self, name: str, attempts: Sequence[Attempt]) -> None:
        """The figures of a row of ROWS."""
        self.now[name] = " / ".join(f"{attempt.milliseconds:.1f}" for attempt in attempts) + " ms"

    def add(self, name: str, before: str, kube_scheduler: str, now: str) -> None:
        """A row that is no attempt: memory, or the delay of other pods."""
        self.others.append((name, before, kube_scheduler, now))

    def lines(self) -> list[str]:
        """The table as text; empty without figures."""
        rows = [(row.name, row.before, row.kube_scheduler, self.now[row.name]) for row in ROWS if row.name in self.now]
        return render(_HEADINGS, [*rows, *self.others])


def render(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as aligned lines; empty without rows."""
    if not rows:
        return []
    widths = [max(len(line[column]) for line in (headings, *rows)) for column in range(len(headings))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (headings, *rows)
    ]
