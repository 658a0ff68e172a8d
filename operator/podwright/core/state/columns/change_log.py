"""Which rows changed since a caller last looked, so that what it keeps can be repaired instead of recomputed."""

from __future__ import annotations

from collections.abc import Sequence


class ChangeLog:
    """An append-only log of slots, of which the last few thousand are kept. `seq` counts all entries ever made."""

    __slots__ = ("_base", "_entries", "_limit")

    def __init__(self, limit: int = 4096) -> None:
        self._entries: list[int] = []
        self._base = 0
        self._limit = limit

    @property
    def seq(self) -> int:
        return self._base + len(self._entries)

    def append(self, slot: int) -> None:
        self._entries.append(slot)
        if len(self._entries) > 2 * self._limit:
            del self._entries[: self._limit]
            self._base += self._limit

    def since(self, seq: int) -> Sequence[int] | None:
        """The slots changed after `seq`, possibly repeated; None if that is too long ago to tell."""
        if seq < self._base:
            return None
        return self._entries[seq - self._base :]
