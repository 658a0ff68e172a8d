"""Ranges of sizes and costs, as cel-go estimates them. The greatest number of 64 bits stands for what has no bound."""

from __future__ import annotations

from math import ceil
from typing import Final, NamedTuple

from podwright.core.cel.values import MAX_UINT


class Range(NamedTuple):
    """The least and the greatest size or cost."""

    low: int
    high: int

    def plus(self, other: Range) -> Range:
        """The sum."""
        return Range(min(self.low + other.low, MAX_UINT), min(self.high + other.high, MAX_UINT))

    def times(self, other: Range) -> Range:
        """The product."""
        return Range(min(self.low * other.low, MAX_UINT), min(self.high * other.high, MAX_UINT))

    def by(self, factor: float) -> Range:
        """The product with a cost factor, rounded up."""
        return Range(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: Range) -> Range:
        """The range that contains both."""
        return Range(min(self.low, other.low), max(self.high, other.high))


def fixed(number: int) -> Range:
    """A range of one number."""
    return Range(number, number)


NOTHING: Final = Range(0, 0)
ONE: Final = Range(1, 1)
UNKNOWN: Final = Range(0, MAX_UINT)
EMPTY: Final = Range(MAX_UINT, 0)
"""The start of a union."""


def _scaled(number: int, factor: float) -> int:
    value = float(number)
    if value > 0 and factor > 0 and value > float(MAX_UINT) / factor:
        return MAX_UINT
    return min(ceil(value * factor), MAX_UINT)
