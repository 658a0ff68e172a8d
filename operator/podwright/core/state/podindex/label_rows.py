"""LabelRows: many sets of labels as rows, so that a selector is evaluated for all of them at once.

For each label key that selectors have asked for, the rows that have it are listed with the numbers of their values. A
requirement is thus evaluated in a few passes over the rows that have its key, not over all rows. Invariant: `matching`
equals `LabelSelector.matches` of each row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.selectors import Labels, LabelSelector, Requirement

Bools = NDArray[np.bool_]
Int32s = NDArray[np.int32]

_NO_ROWS: Final = np.empty(0, np.int32)


class _Key:
    """The rows that have one label key, and their values as numbers."""

    __slots__ = ("_arrays", "_numbers", "_rows", "_values")

    def __init__(self) -> None:
        self._rows = array("i")
        self._numbers = array("i")
        self._values: dict[str, int] = {}
        self._arrays: tuple[Int32s, Int32s] | None = None

    def append(self, row: int, value: str) -> None:
        self._rows.append(row)
        self._numbers.append(self._values.setdefault(value, len(self._values)))
        self._arrays = None

    @property
    def rows(self) -> Int32s:
        return self._columns()[0]

    def rows_with(self, values: frozenset[str]) -> Int32s:
        known = self._values
        if len(known) < len(values):
            wanted = [number for value, number in known.items() if value in values]
        else:
            wanted = [known[value] for value in values if value in known]
        if not wanted:
            return _NO_ROWS
        rows, numbers = self._columns()
        if len(wanted) == 1:
            return rows.compress(numbers == wanted[0])
        chosen = np.zeros(len(known), np.bool_)
        chosen[wanted] = True
        return rows.compress(chosen[numbers])

    def _columns(self) -> tuple[Int32s, Int32s]:
        if self._arrays is None:
            self._arrays = np.array(self._rows, np.int32), np.array(self._numbers, np.int32)
        return self._arrays


class LabelRows:
    """See the module. Rows are only appended."""

    __slots__ = ("_keys", "_labels")

    def __init__(self) -> None:
        self._labels: list[Labels] = []
        self._keys: dict[str, _Key] = {}

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self._labels)

    def append(self, labels: Labels) -> int:
        """Adds a row and returns its number."""
        row = len(self._labels)
        self._labels.append(labels)
        keys = self._keys
        if keys:
            for key, value in labels.items():
                if key in keys:
                    keys[key].append(row, value)
        return row

    def index(self, selectors: Iterable[LabelSelector]) -> None:
        """Lists the rows for all keys of these selectors, in one pass over the rows. `matching` does so for one
        selector.
        """
        keys = self._keys
        asked = {
            requirement.key
            for selector in selectors
            for requirement in selector.requirements
            if requirement.key not in keys
        }
        if not asked:
            return
        for key in asked:
            keys[key] = _Key()
        for row, labels in enumerate(self._labels):
            for key in asked.intersection(labels):
                keys[key].append(row, labels[key])

    def matching(self, selector: LabelSelector) -> Bools:
        """bool[rows]: the rows that the selector matches."""
        if selector.nothing:
            return np.zeros(self.count, np.bool_)
        self.index((selector,))
        found = np.ones(self.count, np.bool_)
        for requirement in selector.requirements:
            self._narrow(found, requirement)
        return found

    def _narrow(self, found: Bools, requirement: Requirement) -> None:
        """Clears the rows that do not meet a requirement of a label selector."""
        key = self._keys[requirement.key]
        operator = requirement.operator
        if operator in ("NotIn", "DoesNotExist"):
            found[key.rows if operator == "DoesNotExist" else key.rows_with(requirement.values)] = False
            return
        having = np.zeros(self.count, np.bool_)
        having[key.rows if operator == "Exists" else key.rows_with(requirement.values)] = True
        found &= having
