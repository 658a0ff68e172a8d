"""SelectorRows: many selectors as rows, so that all of them are evaluated for one set of labels at once.

A row counts the requirements that a pod without labels does not meet. Each label of a pod then changes the counts of
the rows that name it: by -1 where it meets a requirement, by 1 where it breaks one. The rows with a count of 0 match.
Invariant: `matching` equals `LabelSelector.matches` of each row. The opposite, one selector and many sets of labels, is
`LabelRows`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.selectors import Labels, LabelSelector, value_count

Rows = NDArray[np.intp]
Int32s = NDArray[np.int32]

_NEVER: Final = 1 << 30
MANY_SELECTORS: Final = 16
MANY_REQUIREMENTS: Final = 48
MANY_VALUES: Final = 1024


class _Changes:
    """The rows that one label changes, and by how much."""

    __slots__ = ("_arrays", "_by", "_rows")

    def __init__(self) -> None:
        self._rows = array("i")
        self._by = array("b")
        self._arrays: tuple[Int32s, Int32s] | None = None

    def append(self, row: int, by: int) -> None:
        self._rows.append(row)
        self._by.append(by)
        self._arrays = None

    def apply(self, unmet: Int32s) -> None:
        if self._arrays is None:
            self._arrays = np.array(self._rows, np.int32), np.array(self._by, np.int32)
        rows, by = self._arrays
        np.add.at(unmet, rows, by)


_Change = _Changes | int
"""A single change is the row for 1, and ~row for -1. Most labels have only one, and a `_Changes` takes several times
the memory.
"""


def _note(known: _Change | None, row: int, by: int) -> _Change:
    """Returns the known changes of a label with a further one."""
    if known is None:
        return row if by > 0 else ~row
    if isinstance(known, int):
        changes = _Changes()
        changes.append(*_row_and_change(known))
        known = changes
    known.append(row, by)
    return known


def _row_and_change(change: int) -> tuple[int, int]:
    return (change, 1) if change >= 0 else (~change, -1)


class SelectorRows:
    """See the module. Rows are only appended; a removed row never matches."""

    __slots__ = ("_by_key", "_by_pair", "_unmet")

    def __init__(self) -> None:
        self._unmet = array("i")
        self._by_key: dict[str, _Change] = {}
        self._by_pair: dict[tuple[str, str], _Change] = {}

    def __len__(self) -> int:
        """The number of rows, including removed ones."""
        return len(self._unmet)

    def append(self, selector: LabelSelector) -> int:
        """Adds a row and returns its number."""
        row, unmet = len(self._unmet), _NEVER if selector.nothing else 0
        for requirement in selector.requirements:
            key, operator = requirement.key, requirement.operator
            by = 1 if operator in ("NotIn", "DoesNotExist") else -1
            unmet += by < 0
            if operator in ("In", "NotIn"):
                by_pair = self._by_pair
                for value in requirement.values:
                    by_pair[key, value] = _note(by_pair.get((key, value)), row, by)
            else:
                self._by_key[key] = _note(self._by_key.get(key), row, by)
        self._unmet.append(unmet)
        return row

    def remove(self, row: int) -> None:
        self._unmet[row] = _NEVER

    def matching(self, labels: Labels) -> Rows:
        """The rows whose selectors match these labels, in ascending order."""
        unmet = np.array(self._unmet, np.int32)
        for pair in labels.items():
            for changes in (self._by_key.get(pair[0]), self._by_pair.get(pair)):
                if isinstance(changes, _Changes):
                    changes.apply(unmet)
                elif changes is not None:
                    row, by = _row_and_change(changes)
                    unmet[row] += by
        return np.flatnonzero(unmet == 0)


class SelectorList:
    """A fixed list of selectors, such as those of one pod's terms. Many are evaluated as rows, which are built on first
    use.

    `many`: there are so many, or they have so many requirements or values, that they should be counted together, and
    their counts not be kept.
    """

    __slots__ = ("_as_rows", "_rows", "_selectors", "many")

    def __init__(self, selectors: Sequence[LabelSelector]) -> None:
        self._selectors = selectors
        self._rows: SelectorRows | None = None
        requirements = sum(len(selector.requirements) for selector in selectors)
        self._as_rows = len(selectors) > MANY_SELECTORS or requirements > MANY_REQUIREMENTS
        self.many = self._as_rows or sum(map(value_count, selectors)) > MANY_VALUES

    def matching(self, labels: Labels) -> Sequence[int]:
        """The positions of the selectors that match these labels, in ascending order."""
        if not self._as_rows:
            return [i for i, selector in enumerate(self._selectors) if selector.matches(labels)]
        if self._rows is None:
            self._rows = SelectorRows()
            for selector in self._selectors:
                self._rows.append(selector)
        found: list[int] = self._rows.matching(labels).tolist()
        return found
