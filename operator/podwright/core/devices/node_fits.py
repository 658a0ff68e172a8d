"""NodeFits: how well the devices that nodes would give to the claims of a problem suit a policy, as scores from 0 to
100.

BestFit prefers, in this order: smaller devices; no partition or share that is the first one of its board or device;
less free space.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.devices.choice import Scoring
from podwright.core.devices.measures import Dimension, Fit

Bools = NDArray[np.bool_]
Int64s = NDArray[np.int64]
Slots = NDArray[np.intp]

GREATEST: Final = 100
"""The best score."""
STEPS_PER_DOUBLING: Final = 8
"""Sizes that differ by less than about a tenth count as one size."""
SPARE_COMBINATIONS: Final = 64
_ALMOST_FULL: Final = 0.999
_ROUNDING: Final = 1e-4


class NodeFits:
    """See the module. One row for each node. Only rows for which `note` was called are valid."""

    def __init__(self, scoring: Scoring) -> None:
        self._scoring = scoring
        self._combinations: dict[tuple[tuple[Dimension, int], ...], int] = {}
        """Numbers of the amounts that nodes would give."""
        self._number = np.zeros(0, np.int32)
        self._opens = np.zeros(0, np.bool_)
        self._fullness = np.zeros(0, np.float32)
        self._utilization = np.zeros(0, np.float32)

    def __len__(self) -> int:
        """How many different amounts are kept: a little more than twice the number of nodes at most."""
        return len(self._combinations)

    def grow(self, missing: int) -> None:
        """Adds rows, up to this number."""
        self._number = np.pad(self._number, (0, missing))
        self._opens = np.pad(self._opens, (0, missing))
        self._fullness = np.pad(self._fullness, (0, missing))
        self._utilization = np.pad(self._utilization, (0, missing))

    def note(self, slot: int, fit: Fit) -> None:
        """Notes the devices that the node in this row would give."""
        number = self._combinations.get(fit.amounts)
        if number is None:
            if len(self._combinations) > 2 * len(self._number) + SPARE_COMBINATIONS:
                self._drop_unused()
            number = self._combinations.setdefault(fit.amounts, len(self._combinations))
        self._number[slot] = number
        self._opens[slot] = fit.opens
        self._fullness[slot] = (1 - fit.left + fit.utilization) / 2
        self._utilization[slot] = fit.utilization

    def scores(self, slots: Slots, fitting: Bools) -> Int64s:
        """int64[slots]: from 0 to 100. `fitting`: bool[nodes], the rows that can serve the claims, with which BestFit
        compares.
        """
        if self._scoring == "BestFit":
            return self._best_fit(slots, fitting)
        share = self._utilization[slots]
        if self._scoring == "LeastAllocated":
            share = 1 - share
        return np.rint(share * GREATEST).astype(np.int64)

    # Internals

    def _best_fit(self, slots: Slots, fitting: Bools) -> Int64s:
        used = np.bincount(self._number[fitting], minlength=len(self._combinations)) > 0
        level = self._levels(used)
        bands = 2 * level[self._number] + self._opens
        present = np.bincount(bands[fitting], minlength=1) > 0
        rank = np.cumsum(present) - 1
        count = max(int(rank[-1]) + 1, 1)
        own = rank[np.minimum(bands[slots], len(rank) - 1)]
        fullness = np.minimum(self._fullness[slots], _ALMOST_FULL)
        return np.floor((count - 1 - own + fullness) * GREATEST / count + _ROUNDING).astype(np.int64)

    def _levels(self, used: Bools) -> Int64s:
        """int64[combinations]: 0 for the smallest amounts among the `used` ones, more for larger ones."""
        levels = np.zeros(max(len(used), 1), np.int64)
        numbers = np.flatnonzero(used)
        if len(numbers) < 2:
            return levels
        listed = list(self._combinations)
        sizes = _sizes([dict(listed[number]) for number in numbers.tolist()])
        least = sizes[sizes > 0].min(initial=np.inf)
        steps = np.full(len(sizes), -1, np.int64)
        positive = sizes > 0
        steps[positive] = np.rint(np.log2(sizes[positive] / least) * STEPS_PER_DOUBLING).astype(np.int64)
        levels[numbers] = np.unique(steps, return_inverse=True)[1]
        return levels

    def _drop_unused(self) -> None:
        """Forgets amounts that no row has any more."""
        kept, numbers = np.unique(self._number, return_inverse=True)
        listed = list(self._combinations)
        self._combinations = {listed[number]: i for i, number in enumerate(kept.tolist())}
        self._number = numbers.astype(np.int32)


def _sizes(combinations: list[dict[Dimension, int]]) -> NDArray[np.float64]:
    """float64[combinations]: for each driver the largest share of the greatest amount of a capacity, and the mean of
    that over all drivers.
    """
    columns = {dimension: i for i, dimension in enumerate(sorted({d for each in combinations for d in each}))}
    if not columns:
        return np.zeros(len(combinations))
    table = np.zeros((len(combinations), len(columns)))
    for row, amounts in enumerate(combinations):
        for dimension, amount in amounts.items():
            table[row, columns[dimension]] = amount
    greatest = table.max(axis=0)
    table /= np.where(greatest > 0, greatest, 1)
    starts = [i for (driver, _), i in columns.items() if i == 0 or driver != list(columns)[i - 1][0]]
    by_driver: NDArray[np.float64] = np.maximum.reduceat(table, starts, axis=1)
    sizes: NDArray[np.float64] = by_driver.mean(axis=1)
    return sizes
