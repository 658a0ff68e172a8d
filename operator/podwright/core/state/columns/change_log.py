"""Logs changed rows, so that values computed from the table can be updated instead of recomputed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


class RowChanges(Protocol):
    """Says which rows have changed since an earlier moment, which `seq` stands for."""

    @property
    def seq(self) -> Any: ...

    def since(self, seq: Any) -> Sequence[int] | None:
        """The slots that changed after `seq`, possibly repeated; None if that is not known any more."""


class ChangeLog:
    """An append-only log of slots that keeps the last few thousand entries. `seq` counts all entries ever made."""

    __slots__ = ("_entries", "_limit", "_rows", "seq")

    def __init__(self, limit: int = 4096) -> None:
        self._entries: list[int] = []
        self._limit = limit
        self.seq = 0
        self._rows: tuple[int, int, Rows | None] = (0, 0, None)

    def append(self, slot: int) -> None:
        self._entries.append(slot)
        self.seq += 1
        if len(self._entries) > 2 * self._limit:
            del self._entries[: self._limit]

    def extend(self, slots: Sequence[int]) -> None:
        self._entries += slots
        self.seq += len(slots)
        if len(self._entries) > 2 * self._limit:
            del self._entries[: -self._limit]

    def since(self, seq: int) -> Sequence[int] | None:
        """The slots that changed after `seq`, possibly repeated; None if the log no longer has all of them."""
        first = len(self._entries) - (self.seq - seq)
        return None if first < 0 else self._entries[first:]

    def rows_since(self, seq: int) -> Rows | None:
        """The same, each once. All that a decision brings up to date for its pod asks for the same changes, so the last
        answer is kept.
        """
        before, now, rows = self._rows
        if before != seq or now != self.seq:
            changed = self.since(seq)
            rows = None if changed is None else np.array(list(set(changed)), np.intp)
            self._rows = seq, self.seq, rows
        return rows


class ChangesOfBoth:
    """The changes of two logs."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: RowChanges, second: RowChanges) -> None:
        self._first, self._second = first, second

    @property
    def seq(self) -> tuple[Any, Any]:
        return self._first.seq, self._second.seq

    def since(self, seq: tuple[Any, Any]) -> Sequence[int] | None:
        """The slots that changed after `seq` in either log; None if one no longer has all of them."""
        first, second = self._first.since(seq[0]), self._second.since(seq[1])
        return None if first is None or second is None else [*first, *second]
