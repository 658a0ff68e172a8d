"""Arrays over all nodes, one for each kind of request, kept between decisions and updated where rows changed.

A decision changes one row. So the array for pods of a known template is current after a few rows are computed again. A
formula has three ways to compute equal values: all rows at once, some rows at once, or one node. The arrays are bounded
in bytes. New arrays reuse the memory of the oldest one, so pods that all differ allocate nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import field
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.interface import Slots
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.plugins.resources.shared import Users
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo

T = TypeVar("T", bound=np.generic)

MAX_BYTES: Final = 64 << 20
"""Enough for MAX_ARRAYS templates on 100,000 nodes: with fewer, pods that take turns would compute all rows each time.
"""
MAX_ARRAYS: Final = 64
MAX_TIMES: Final = 4
"""If several plugins share the arrays, the bounds grow with their number, at most by this factor."""
ONE_BY_ONE: Final = 8
"""Up to this many changed rows are computed node by node."""


class RowFormula(Protocol):
    """How to compute the values. Values of empty rows are ignored."""

    def all(self, out: NDArray[Any]) -> None:
        """Writes all rows."""

    def some(self, slots: Slots) -> NDArray[Any]:
        """The values of these rows. The cache converts them to its own type."""

    def one(self, node: NodeInfo) -> Any:
        """The value of one node."""


@dataclass(slots=True)
class _Array(Generic[T]):
    formula: RowFormula
    values: NDArray[T]
    view: NDArray[T] = field(init=False)
    seq: int = -1
    used: bool = True
    """Since the last compaction."""


class RowCache(Generic[T]):
    """See the module. The arrays that it returns are read-only, and valid until the cache changes."""

    def __init__(self, cache: Cache, dtype: type[T], users: Users | None = None) -> None:
        """`users`: the plugins that use it, each of which may have pods of its own."""
        self._cache = cache
        self._table = cache.table
        self._users = Users() if users is None else users
        self._bounds = (-1, -1)
        self._limit = MAX_ARRAYS
        self._dtype = dtype
        self._item_size = np.dtype(dtype).itemsize
        self._arrays: OrderedDict[Hashable, _Array[T]] = OrderedDict()
        compact_regularly(self)

    def get(self, key: Hashable, make: Callable[[], RowFormula]) -> NDArray[T]:
        """dtype[nodes]: the current array for the key. `make` creates the formula of a new key."""
        table = self._table
        log = table.usage_changes
        seq = log.seq
        array = self._arrays.get(key)
        if array is None:
            array = self._new(key, make(), table.size)
        else:
            self._arrays.move_to_end(key)
            array.used = True
            if array.seq == seq:
                return array.view
            if len(array.values) != table.size:
                array = self._new(key, array.formula, table.size)
            elif self._update(array, log.rows_since(array.seq)):
                array.seq = seq
                return array.view
        array.formula.all(array.values)
        array.seq = seq
        return array.view

    def compact(self) -> None:
        """Drops the arrays that no decision has used since the last compaction: they keep the parsed parts of their
        pods.
        """
        for key in [key for key, array in self._arrays.items() if not array.used]:
            del self._arrays[key]
        for array in self._arrays.values():
            array.used = False

    def _update(self, array: _Array[T], rows: Slots | None) -> bool:
        if rows is None:
            return False
        values, count = array.values, len(rows)
        if count <= ONE_BY_ONE:
            nodes = self._table.nodes
            for slot in rows.tolist():
                if nodes[slot] is not None:
                    values[slot] = array.formula.one(self._cache.node_at(slot))
            return True
        if count > len(values) // 8:
            return False
        values[rows] = array.formula.some(rows)
        return True

    def _new(self, key: Hashable, formula: RowFormula, size: int) -> _Array[T]:
        """An array for the key. At the limit it takes over the array of the least recently used key."""
        self._arrays.pop(key, None)
        bounds = size, self._users.count
        if bounds != self._bounds:
            self._bounds = bounds
            times = min(max(self._users.count, 1), MAX_TIMES)
            self._limit = max(2, min(MAX_ARRAYS * times, MAX_BYTES * times // (self._item_size * max(size, 1))))
        oldest = None
        while len(self._arrays) >= self._limit:
            oldest = self._arrays.popitem(last=False)[1]
        if oldest is not None and len(oldest.values) == size:
            array, oldest.formula, oldest.used = oldest, formula, True
        else:
            array = _Array(formula, np.empty(size, self._dtype))
        array.view = array.values.view()  # of each key its own, by which others may know it
        array.view.setflags(write=False)
        self._arrays[key] = array
        return array
