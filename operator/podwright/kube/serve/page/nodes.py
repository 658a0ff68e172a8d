"""The nodes as the page gets them: a message with all of them in columns, then messages with what has changed.

Zones, racks and what nodes can allocate are the same for many nodes. So a message lists each once, and a node has its
number. 5,000 nodes take some 150 KB.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, Generic, TypeVar

from podwright.engine.view.nodes import NodeChanges, NodeRow, ReadPosition

T = TypeVar("T", bound=Hashable)
Json = dict[str, Any]

SPARE_NUMBERS: Final = 1000
"""Renumber when this many numbers are unused."""
_HOLE: Final = NodeRow(0)


class Numbers(Generic[T]):
    """Numbers for values, from 0 on, in the order in which they come."""

    def __init__(self) -> None:
        self._of: dict[T, int] = {}

    def of(self, value: T) -> int:
        return self._of.setdefault(value, len(self._of))

    def __len__(self) -> int:
        return len(self._of)

    def after(self, count: int) -> list[T]:
        """All values but the first `count`."""
        return [*self._of][count:]


class PageNodes:
    """See the module. Holds what the page knows. Runs in the server's thread."""

    def __init__(self) -> None:
        self.position: ReadPosition | None = None
        """Where to read on; None: from the beginning."""
        self.further_resources = False
        """There are resources that only a complete reading shows."""
        self._rows: list[NodeRow] = []
        self._usage: list[tuple[int, ...]] = []
        self._begin()

    def _begin(self) -> None:
        self._zones = Numbers[str]()
        self._racks = Numbers[str]()
        self._shapes = Numbers[tuple[int, ...]]()

    def take(self, changes: NodeChanges) -> Json | None:
        """Returns the message about these changes; None without changes, or if everybody needs `everything` now."""
        if changes.complete:
            self._rows, self._usage = [], []
            self._begin()
            self.further_resources = False
        self.position = changes.position
        self.further_resources |= changes.further_resources
        known = len(self._zones), len(self._racks), len(self._shapes)
        changed = []
        for row in changes.rows:
            if row.name or row.slot < len(self._rows):
                self._make_room(row.slot)
                if not _same(self._rows[row.slot], row):
                    self._rows[row.slot] = row
                    if not row.name:  # the page forgets what was requested there
                        self._usage[row.slot] = (0,) * len(changes.position.resources)
                    changed.append(row)
        usage = []
        for slot, requested in changes.usage:
            self._make_room(slot)
            if self._usage[slot] != requested:
                self._usage[slot] = requested
                usage.append((slot, requested))
        if changes.complete or not (changed or usage):
            return None
        rows = [self._row(row) for row in changed]
        if max(len(self._zones), len(self._racks), len(self._shapes)) > len(self._rows) + SPARE_NUMBERS:
            self.position = None
        zones, racks, shapes = known
        return {
            "zones": self._zones.after(zones),
            "racks": self._racks.after(racks),
            "shapes": self._shapes.after(shapes),
            "rows": rows,
            "slot": [slot for slot, _ in usage],
            "requested": _columns([requested for _, requested in usage], len(changes.position.resources)),
        }

    def everything(self) -> Json:
        """The message with all nodes."""
        rows = [self._row(row) for row in self._rows]
        resources = () if self.position is None else self.position.resources
        return {
            "resources": resources,
            "zones": self._zones.after(0),
            "racks": self._racks.after(0),
            "shapes": self._shapes.after(0),
            **dict(
                zip(("name", "zone", "rack", "shape", "flags"), _columns([row[1:] for row in rows], 5), strict=True)
            ),
            "requested": _columns([each or (0,) * len(resources) for each in self._usage], len(resources)),
        }

    def _make_room(self, slot: int) -> None:
        more = slot + 1 - len(self._rows)
        if more > 0:
            self._rows += [_HOLE] * more
            self._usage += [()] * more

    def _row(self, row: NodeRow) -> tuple[int, str, int, int, int, int]:
        return (
            row.slot,
            row.name,
            self._zones.of(row.zone),
            self._racks.of(row.rack),
            self._shapes.of(row.allocatable),
            row.flags,
        )


def _same(one: NodeRow, other: NodeRow) -> bool:
    return one == other or not (one.name or other.name)


def _columns(rows: Sequence[Sequence[Any]], count: int) -> list[list[Any]]:
    """The columns of rows that have `count` of them."""
    return [[*column] for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]
