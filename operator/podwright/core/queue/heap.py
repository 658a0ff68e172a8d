"""A heap whose entries can be removed or replaced by key."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from podwright.core.objects.compaction import compact_regularly

T = TypeVar("T")


class KeyedHeap(Generic[T]):
    """Pops the lowest rank first, and equal ranks in the order of insertion. Removal leaves a tombstone in the heap."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, str]] = []
        self._entries: dict[str, tuple[int, T]] = {}
        self._order = itertools.count()
        compact_regularly(self)

    def push(self, key: str, rank: Any, item: T) -> None:
        """Adds an item, or replaces the item with this key."""
        order = next(self._order)
        self._entries[key] = (order, item)
        if self._heap and self._heap[0][2] == key:
            heapq.heapreplace(self._heap, (rank, order, key))  # without a tombstone
        else:
            heapq.heappush(self._heap, (rank, order, key))
        if len(self._heap) > 2 * len(self._entries) + 64:
            self._heap = [entry for entry in self._heap if self._alive(entry)]
            heapq.heapify(self._heap)

    def remove(self, key: str) -> T | None:
        """Removes the item with this key, and returns it, or None."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._tidy()
        return entry[1]

    def peek(self) -> tuple[Any, T] | None:
        """The lowest rank and its item; None if the heap is empty."""
        heap, entries = self._heap, self._entries
        while heap:
            rank, order, key = heap[0]
            known = entries.get(key)
            if known is not None and known[0] == order:
                return rank, known[1]
            heapq.heappop(heap)
        return None

    def pop(self) -> T | None:
        """Removes the item of the lowest rank, and returns it; None if the heap is empty."""
        head = self.peek()
        if head is None:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._entries[key]
        self._tidy()
        return head[1]

    def compact(self) -> None:
        """Drops tombstones."""
        if len(self._heap) > len(self._entries):
            self._heap = [entry for entry in self._heap if self._alive(entry)]
            heapq.heapify(self._heap)

    def _tidy(self) -> None:
        """Clears empty containers, which otherwise keep the capacity that a burst needed."""
        if not self._entries:
            self._entries.clear()
            self._heap.clear()

    def entries(self) -> Iterator[tuple[str, Any, T]]:
        """The keys, ranks and items."""
        return ((entry[2], entry[0], self._entries[entry[2]][1]) for entry in self._heap if self._alive(entry))

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[T]:
        return (item for _, item in self._entries.values())

    def _alive(self, entry: tuple[Any, int, str]) -> bool:
        known = self._entries.get(entry[2])
        return known is not None and known[0] == entry[1]
