"""Compaction: frees what structures keep of objects that are gone. The engine calls `compact_all` every minute, also while it is busy.

Most structures drop what they know of an object together with the object. Two kinds of memory stay, and are freed here: results that
were cached for objects (`RecentCache`), and the capacity of containers that once were larger (`shrink`). docs/memory.md lists all
structures with their bounds.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import WeakSet

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_SPARE_BYTES: Final = 4096
_SPARE_BYTES_PER_ITEM: Final = 256
"""A container may be larger than its items need by so much. A dict that has just grown has about 100 bytes for each item."""


class Compactable(Protocol):
    """A structure that can free memory. The caller holds no views or iterators of it."""

    def compact(self) -> None: ...


class CachedFunction(Protocol):
    """A function with an `lru_cache`."""

    def cache_clear(self) -> None: ...


F = TypeVar("F", bound=CachedFunction)

_structures: Final[WeakSet[Any]] = WeakSet()
_functions: Final[list[CachedFunction]] = []


def compact_regularly(structure: Compactable) -> None:
    """Has `compact_all` compact this structure as long as it lives."""
    _structures.add(structure)


def cleared_regularly(function: F) -> F:
    """Decorates a function with an lru_cache: `compact_all` clears the cache."""
    _functions.append(function)
    return function


def compact_all() -> None:
    """Compacts every registered structure. Takes time in proportion to what stays."""
    for function in _functions:
        function.cache_clear()
    for structure in list(_structures):
        structure.compact()


def shrink(container: dict[Any, Any] | set[Any]) -> None:
    """Rebuilds a dict or set in place if most of its memory is unused: neither frees memory when items are deleted."""
    if sys.getsizeof(container) > _SPARE_BYTES + _SPARE_BYTES_PER_ITEM * len(container):
        items = container.copy()
        container.clear()
        container.update(items)


class RecentCache(Generic[K, V]):
    """A cache that forgets what has not been used for a while, and what was used longest ago if it is full.

    It consists of two generations. What is used moves to the young one. When that is full, and at each compaction, it becomes the old
    one, and the former old one is dropped. So at least the last `limit` keys are kept, at most twice as many, and none longer than two
    compactions after its last use. `max_weight` bounds the sum of weights in the same way.
    """

    __slots__ = ("__weakref__", "_limit", "_max_weight", "_old", "_weight", "_young")

    def __init__(self, limit: int, max_weight: float = float("inf")) -> None:
        self._limit = limit
        self._max_weight = max_weight
        self._young: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}
        self._weight = 0
        compact_regularly(self)

    def get(self, key: K) -> V | None:
        """The value of a key, which counts as used; None if it is unknown."""
        entry = self._young.get(key)
        if entry is None:
            entry = self._old.pop(key, None)
            if entry is None:
                return None
            self._add(key, entry)
        return entry[0]

    def put(self, key: K, value: V, weight: int = 0) -> None:
        """Adds or replaces a value. One that is heavier than `max_weight` is not kept."""
        self._old.pop(key, None)
        before = self._young.pop(key, None)
        if before is not None:
            self._weight -= before[1]
        if weight <= self._max_weight:
            self._add(key, (value, weight))

    def clear(self) -> None:
        self._young.clear()
        self._old.clear()
        self._weight = 0

    def compact(self) -> None:
        """Drops the old generation."""
        self._old, self._young, self._weight = self._young, {}, 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def _add(self, key: K, entry: tuple[V, int]) -> None:
        if len(self._young) >= self._limit or self._weight + entry[1] > self._max_weight:
            self.compact()
        self._young[key] = entry
        self._weight += entry[1]
