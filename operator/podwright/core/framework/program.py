"""Program: an integer program as arrays, and the port that solves it.

All variables are integers from 0 on. Whoever solves a program needs no more than this: see `engine.process.solving`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.dataclass import dataclass

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
MAX_ENTRIES: Final = 1_000_000
"""The most entries of a program: larger ones take the solver's time to read, and memory to make."""
LARGEST: Final = 1_000_000
"""No amount of a program is larger: a solver computes with tolerances, and with bytes it would miss solutions."""


class TooLargeError(Exception):
    """A program has more than MAX_ENTRIES variables or entries, or aims of more than ten times as many."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Values up to `most`, [variables], with the sum of each row between `low` and `high`, [rows], that give the most
    of the first of `aims`, [aims, variables], of these the most of the second, and so on.

    Row i has the entries from `starts[i]` to `starts[i + 1]`: `columns` are variables, `values` what each is multiplied
    by. `start`: values that may be a solution; NaN where none is known.
    """

    aims: Floats
    most: Floats
    low: Floats
    high: Floats
    starts: Positions
    columns: Positions
    values: Floats
    start: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """`found`: int64[variables], a solution, or None; `proved`: no better solution exists, or no solution at all.
    `problem`: why there is no answer. `seconds`: how long the solver took. `bounds`: for each aim that got enough time,
    an upper bound, given the values found for the aims before it. `starved`: others had the CPU meanwhile, so another
    attempt may well succeed.
    """

    found: Positions | None = None
    proved: bool = False
    problem: str = ""
    seconds: float = 0.0
    bounds: Sequence[int] = ()
    starved: bool = False


Solver = Callable[[Program, float], Answer]
"""Searches for so many seconds at most, and answers at most `grace` later. Raises nothing."""


def grace(seconds: float) -> float:
    """How much longer than it should search a solver may take before it is ended."""
    return min(1.0, seconds / 4)


def with_grace(seconds: float) -> float:
    """How long a solver may search that is to be ended after so many seconds."""
    return max(seconds * 4 / 5, seconds - 1.0)


def common_unit(amounts: Sequence[int]) -> int:
    """Returns the unit for these amounts: their greatest common divisor, or the smallest multiple of it of which no
    amount has more than LARGEST. 0 if all amounts are 0.

    In whole units, all rounded down, a row that is at most so much has every solution that it has in amounts.
    """
    common = gcd(*amounts)
    return common and common * -(-max(map(abs, amounts)) // (common * LARGEST))


class Rows:
    """Builds a program row by row. Raises TooLargeError."""

    def __init__(self) -> None:
        self._most: list[float] = []
        self._aims: list[tuple[Positions, Floats]] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._starts = [0]
        self._columns: list[Positions] = []
        self._values: list[Floats] = []

    def variables(self, most: Sequence[int] | NDArray[Any]) -> Positions:
        """New variables, each up to so much."""
        first = len(self._most)
        if first + len(most) > MAX_ENTRIES:
            raise TooLargeError
        self._most += [float(each) for each in most]
        return np.arange(first, len(self._most))

    def most(self, columns: Positions) -> Floats:
        return np.array([self._most[each] for each in columns])

    def at_most(self, columns: Positions, high: float, values: NDArray[Any] | None = None) -> None:
        """The sum of these variables, each times its value, is at most `high`."""
        self._row(columns, -np.inf, high, values)

    def holds(self, columns: Positions, high: int, amounts: Sequence[int]) -> None:
        """The sum of these amounts, which may be bytes, is at most `high`: see `common_unit`."""
        unit = common_unit(amounts) or 1
        self.at_most(columns, high // unit, np.array([amount // unit for amount in amounts], np.int64))

    def at_least(self, columns: Positions, low: float, values: NDArray[Any] | None = None) -> None:
        self._row(columns, low, np.inf, values)

    def prefer(self, columns: Positions, values: NDArray[Any] | None = None) -> int:
        """The more of these the better, each times its value, after what was preferred before. Returns the number of
        the aim.
        """
        self._aims.append((columns, np.ones(len(columns)) if values is None else np.asarray(values, np.float64)))
        if len(self._aims) * len(self._most) > 10 * MAX_ENTRIES:
            raise TooLargeError
        return len(self._aims) - 1

    def program(self, start: Sequence[int] = (), known: Sequence[Positions] = ()) -> Program:
        """`start`: of the `known` variables, those that are 1 to begin with, or as many as they are given times."""
        begun = np.full(len(self._most), np.nan)
        if start:
            for columns in known:
                begun[columns] = 0
            np.add.at(begun, np.asarray(start, np.int64), 1)
        aims = np.zeros((len(self._aims), len(self._most)))
        for aim, (columns, values) in zip(aims, self._aims, strict=True):
            aim[columns] = values
        return Program(
            aims=aims,
            most=np.array(self._most),
            low=np.array(self._low),
            high=np.array(self._high),
            starts=np.array(self._starts, np.int64),
            columns=np.concatenate(self._columns) if self._columns else np.zeros(0, np.int64),
            values=np.concatenate(self._values) if self._values else np.zeros(0),
            start=begun,
        )

    def _row(self, columns: Positions, low: float, high: float, values: NDArray[Any] | None) -> None:
        self._low.append(low)
        self._high.append(high)
        self._columns.append(np.asarray(columns, np.int64))
        self._values.append(np.ones(len(columns)) if values is None else np.asarray(values, np.float64))
        self._starts.append(self._starts[-1] + len(columns))
        if self._starts[-1] > MAX_ENTRIES:
            raise TooLargeError
