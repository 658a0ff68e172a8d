"""Arrays over all nodes, one for each kind of request, kept from one decision to the next and repaired where rows changed.

A decision changes one row, so the array of a template seen before is current after the repair of a few rows. Three ways
lead to the same values: all rows at once, some rows at once, one node by itself. The arrays are bounded in bytes and the
oldest one's memory is used again, so that pods which all differ allocate nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.interface import Slots
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo

T = TypeVar("T", bound=np.generic)

MAX_BYTES: Final = 4 << 20
MAX_KEPT: Final = 64
ONE_BY_ONE: Final = 8
"""Up to so many changed rows are computed node by node."""


class Recipe(Protocol):
    """How the values come about."""

    def all(self, out: NDArray[Any]) -> None:
        """Writes every row; holes may get anything."""

    def some(self, slots: Slots) -> NDArray[Any]:
        """The values of these rows; holes may get anything."""

    def one(self, node: NodeInfo) -> Any:
        """The value of one node."""


@dataclass(slots=True)
class _Kept(Generic[T]):
    recipe: Recipe
    values: NDArray[T]
    view: NDArray[T]
    seq: int


class KeptRows(Generic[T]):
    """See the module. What it hands out is read-only, and true until the cache changes."""

    def __init__(self, cache: Cache, dtype: type[T]) -> None:
        self._cache = cache
        self._dtype = dtype
        self._item_size = np.dtype(dtype).itemsize
        self._size = -1
        self._limit = MAX_KEPT
        self._kept: OrderedDict[Hashable, _Kept[T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, make: Callable[[], Recipe]) -> NDArray[T]:
        """dtype[nodes] for the key, current. `make` gives the recipe when the key is new."""
        table = self._cache.table
        log = table.usage_changes
        seq = log.seq
        kept = self._kept.get(key)
        if kept is None:
            kept = self._new(key, make(), table.size)
        else:
            self._kept.move_to_end(key)
            if kept.seq == seq:
                return kept.view
            if len(kept.values) != table.size:
                kept = self._new(key, kept.recipe, table.size)
            elif self._repaired(kept, log.since(kept.seq)):
                kept.seq = seq
                return kept.view
        kept.recipe.all(kept.values)
        kept.seq = seq
        return kept.view

    def _repaired(self, kept: _Kept[T], changed: Sequence[int] | None) -> bool:
        if changed is None:
            return False
        slots = set(changed)
        if len(slots) <= ONE_BY_ONE:
            table, values = self._cache.table, kept.values
            for slot in slots:
                if table.nodes[slot] is not None:
                    values[slot] = kept.recipe.one(self._cache.node_at(slot))
            return True
        if len(slots) > len(kept.values) // 8:
            return False
        rows = np.fromiter(slots, np.intp, len(slots))
        kept.values[rows] = kept.recipe.some(rows)
        return True

    def _new(self, key: Hashable, recipe: Recipe, size: int) -> _Kept[T]:
        """A place for the key. Beyond the limit it is that of the key that was not asked for the longest."""
        self._kept.pop(key, None)
        if size != self._size:
            self._size = size
            self._limit = max(2, min(MAX_KEPT, MAX_BYTES // (self._item_size * max(size, 1))))
        oldest = None
        while len(self._kept) >= self._limit:
            oldest = self._kept.popitem(last=False)[1]
        if oldest is not None and len(oldest.values) == size:
            oldest.recipe = recipe
            self._kept[key] = oldest
            return oldest
        values = np.empty(size, self._dtype)
        view = values.view()
        view.flags.writeable = False
        kept = self._kept[key] = _Kept(recipe, values, view, -1)
        return kept
