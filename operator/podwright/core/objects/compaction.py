"""Compaction: frees what structures keep of objects that are gone. The engine calls `compact_all` every minute, also
while it is busy.

Most structures drop what they know of an object together with the object. Two kinds of memory stay, and are freed here:
results that were cached for objects (`RecentCache`), and the capacity of containers that once were larger. A structure
calls `compact_regularly` in its constructor; then its attributes that are dicts and sets are shrunk. It has a method
`compact` only if there is more to free. docs/memory.md lists all structures with their bounds.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import WeakSet, WeakValueDictionary

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_SPARE_BYTES: Final = 4096
_SPARE_BYTES_PER_ITEM: Final = 256
"""`shrink` leaves a container alone up to this size. A dict that has just grown has about 100 bytes for each item."""


class CachedFunction(Protocol):
    """A function with an `lru_cache`."""

    def cache_clear(self) -> None: ...


F = TypeVar("F", bound=CachedFunction)

_SHRUNK: Final = frozenset((dict, set, OrderedDict, defaultdict))
_structures: Final[WeakSet[Any]] = WeakSet()
_functions: Final[list[CachedFunction]] = []


def compact_regularly(structure: object) -> None:
    """Has `compact_all` call the structure's `compact`, if it has one, and shrink its attributes, as long as it
    lives.
    """
    _structures.add(structure)


def cleared_regularly(function: F) -> F:
    """Decorates a function with an lru_cache: `compact_all` clears the cache."""
    _functions.append(function)
    return function


def compact_all() -> None:
    """Compacts every registered structure. Takes time in proportion to what stays. The caller holds no views or
    iterators of them.
    """
    for function in _functions:
        function.cache_clear()
    for structure in list(_structures):
        if (compact := getattr(structure, "compact", None)) is not None:
            compact()
        for value in getattr(structure, "__dict__", {}).values():
            if type(value) in _SHRUNK:
                shrink(value)
            elif type(value) is WeakValueDictionary:
                shrink(value.data)  # type: ignore[attr-defined]  # the dict of weak references


def shrink(container: dict[Any, Any] | set[Any]) -> None:
    """Rebuilds a dict or set in place if most of its memory is unused: neither frees memory when items are deleted."""
    if sys.getsizeof(container) > _SPARE_BYTES + _SPARE_BYTES_PER_ITEM * len(container):
        items = container.copy()
        container.clear()
        container.update(items)


class _Generations(dict[K, V]):
    """The young generation of a `RecentCache` as a dict, which looks a missing key up in the old one.

    So finding a key of the young one is the dict's own lookup, which calls no Python function.
    """

    __slots__ = ("limit", "max_weight", "old", "old_weights", "weight", "weights")

    def __init__(self, limit: int, max_weight: float) -> None:
        super().__init__()
        self.limit = limit
        self.max_weight = max_weight
        self.old: dict[K, V] = {}
        self.weight = 0
        self.weights: dict[K, int] = {}
        """The weights of keys, if they are not 0."""
        self.old_weights: dict[K, int] = {}

    def __missing__(self, key: K) -> V | None:
        value = self.old.pop(key, None)
        if value is not None:
            self.add(key, value, self.old_weights.pop(key, 0))
        return value

    def add(self, key: K, value: V, weight: int) -> None:
        if len(self) >= self.limit or self.weight + weight > self.max_weight:
            self.turn_over()
        self[key] = value
        if weight:
            self.weights[key] = weight
            self.weight += weight

    def drop(self, key: K) -> None:
        self.old.pop(key, None)
        self.old_weights.pop(key, None)
        self.pop(key, None)
        self.weight -= self.weights.pop(key, 0)

    def turn_over(self) -> None:
        """The young generation becomes the old one."""
        self.old, self.old_weights = dict(self), self.weights
        self.clear()
        self.weight, self.weights = 0, {}


class RecentCache(Generic[K, V]):
    """A cache that drops what has not been used for a while and, when it is full, what was used longest ago.

    It consists of two generations. A key that is used moves to the young one. When that is full, and at each
    compaction, it becomes the old one, and the former old one is dropped. So the cache keeps at least the `limit` keys
    that were used last, at most twice as many, and none longer than two compactions after its last use. `max_weight`
    bounds the sum of weights in the same way. Values are not None.
    """

    __slots__ = ("__weakref__", "_generations", "get")

    def __init__(self, limit: int, max_weight: float = float("inf")) -> None:
        self._generations: _Generations[K, V] = _Generations(limit, max_weight)
        self.get: Callable[[K], V | None] = self._generations.__getitem__
        """The value of a key, which counts as used; None if it is unknown."""
        compact_regularly(self)

    def put(self, key: K, value: V, weight: int = 0) -> None:
        """Adds or replaces a value. Does not keep one that is heavier than `max_weight`."""
        self._generations.drop(key)
        if weight <= self._generations.max_weight:
            self._generations.add(key, value, weight)

    def clear(self) -> None:
        for _ in range(2):
            self._generations.turn_over()

    def compact(self) -> None:
        """Drops the old generation."""
        self._generations.turn_over()

    def __len__(self) -> int:
        return len(self._generations) + len(self._generations.old)
