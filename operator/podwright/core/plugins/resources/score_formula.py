"""A pod's score as a formula for `row_cache`: in float64 for many rows, in whole numbers for one node and oversized
ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from podwright.core.framework.interface import Int16s, Slots
from podwright.core.plugins.resources.rows import FEW_ROWS, Floats, ResourceRows, Rows
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo


class ScoreFormula(ABC):
    """See the module."""

    __slots__ = ("_cache", "_columns")

    def __init__(self, cache: Cache, columns: ResourceRows) -> None:
        self._cache = cache
        self._columns = columns

    @abstractmethod
    def one(self, node: NodeInfo) -> int:
        """The score of one node, which defines the others."""

    @abstractmethod
    def many(self, rows: Rows, slots: Slots | None) -> Floats:
        """float64[rows]: their scores, to be truncated. The caller may write to it, and uses it at once. `slots` None:
        of all rows.
        """

    def all(self, out: Int16s) -> None:
        out[:] = self.many(self._columns.all_rows(), None)
        for slot in self._columns.oversized:
            out[slot] = self.one(self._cache.node_at(slot))

    def some(self, slots: Slots) -> Floats:
        out = self.many(self._columns.some(slots), slots)
        if self._columns.oversized:
            for position, slot in enumerate(slots.tolist()):
                if slot in self._columns.oversized:
                    out[position] = self.one(self._cache.node_at(slot))
        return out


class Scratch:
    """Two reusable arrays, float64[resources, rows]: one to write to, and one that is filled with a bound.

    NumPy takes the minimum or maximum of two arrays three times as fast as that of an array and a number.
    """

    __slots__ = ("_bound", "_bounds", "_few", "_terms")

    def __init__(self, bound: float) -> None:
        self._bound = bound
        self._few: dict[tuple[int, int], tuple[Floats, Floats]] = {}
        """For few rows, by shape: NumPy takes longer for a part of a larger array."""
        self._terms = self._bounds = np.empty((0, 0))

    def get(self, resources: int, rows: int) -> tuple[Floats, Floats]:
        """(the array to write to, which may contain anything, the bounds)."""
        if rows <= FEW_ROWS:
            known = self._few.get((resources, rows))
            if known is None:
                shape = resources, rows
                known = self._few[shape] = np.empty(shape), np.full(shape, self._bound)
            return known
        terms = self._terms
        if terms.shape == (resources, rows):
            return terms, self._bounds
        if terms.shape[0] < resources or terms.shape[1] < rows:
            terms = self._terms = np.empty((resources, rows))
            self._bounds = np.full((resources, rows), self._bound)
        return terms[:resources, :rows], self._bounds[:resources, :rows]
