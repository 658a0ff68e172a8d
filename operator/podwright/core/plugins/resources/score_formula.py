"""A pod's score as a formula for `row_cache`: in float64 for many rows, in whole numbers for one node and oversized
ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from podwright.core.framework.interface import Int16s, Slots
from podwright.core.plugins.resources.rows import Floats, ResourceRows, Rows
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
    def write(self, rows: Rows, slots: Slots | None, out: Int16s) -> None:
        """Writes the scores of these rows. `slots` None: of all rows."""

    def all(self, out: Int16s) -> None:
        self.write(self._columns.all_rows(), None, out)
        for slot in self._columns.oversized:
            out[slot] = self.one(self._cache.node_at(slot))

    def some(self, slots: Slots) -> Int16s:
        out = np.empty(len(slots), np.int16)
        self.write(self._columns.some(slots), slots, out)
        if self._columns.oversized:
            for position, slot in enumerate(slots.tolist()):
                if slot in self._columns.oversized:
                    out[position] = self.one(self._cache.node_at(slot))
        return out


class Scratch:
    """Two reusable arrays, float64[resources, rows]: one to write to, and one that is filled with a bound.

    NumPy takes the minimum or maximum of two arrays three times as fast as that of an array and a number.
    """

    __slots__ = ("_bound", "_bounds", "_terms")

    def __init__(self, bound: float) -> None:
        self._bound = bound
        self._terms = self._bounds = np.empty((0, 0))

    def get(self, resources: int, rows: int) -> tuple[Floats, Floats]:
        """(the array to write to, which may contain anything, the bounds)."""
        terms = self._terms
        if terms.shape == (resources, rows):
            return terms, self._bounds
        if terms.shape[0] < resources or terms.shape[1] < rows:
            terms = self._terms = np.empty((resources, rows))
            self._bounds = np.full((resources, rows), self._bound)
        return terms[:resources, :rows], self._bounds[:resources, :rows]
