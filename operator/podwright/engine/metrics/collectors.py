"""Histograms and counters that cost next to nothing to fill, and gauges that are computed when somebody looks."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

Read = Callable[[], Mapping[Any, float]]
"""The values by tuples of the labels' values."""


def exponential(start: float, factor: float, count: int) -> list[float]:
    """`count` upper bounds, each `factor` times the one before."""
    return [start * factor**n for n in range(count)]


class OnDemand:
    """A collector of gauges that are computed when they are read."""

    def __init__(self) -> None:
        self._families: list[tuple[str, str, tuple[str, ...], Read]] = []

    def offer(self, name: str, text: str, labels: tuple[str, ...], read: Read) -> None:
        """`read` gives the value by the values of the labels."""
        self._families.append((name, text, labels, read))

    def collect(self) -> Iterable[Metric]:
        for name, text, labels, read in self._families:
            family = GaugeMetricFamily(name, text, labels=labels)
            for values, number in read().items():
                family.add_metric(values, number)
            yield family


class Tally:
    """One histogram of a family. Not for several threads, unlike prometheus_client's, and so ten times as fast.

    In arrays: numbers that are objects lie wherever there was room when they last changed, and keep pages of a burst there.
    """

    __slots__ = ("_bounds", "_total", "counts")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = array("q", bytes(8 * (len(bounds) + 1)))
        self._total = array("d", (0.0,))

    @property
    def total(self) -> float:
        """The sum of what was observed."""
        return self._total[0]

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self._total[0] += value


class Tallies:
    """A histogram with labels: a collector of its tallies."""

    def __init__(
        self, name: str, text: str, label_names: Sequence[str], bounds: Sequence[float], registry: CollectorRegistry
    ) -> None:
        """`bounds`: upper bounds, rising, without infinity."""
        self.name = name
        self.label_names = tuple(label_names)
        self._text = text
        self._bounds = tuple(bounds)
        self._tallies: dict[tuple[str, ...], Tally] = {}
        registry.register(self)

    def of(self, *labels: str) -> Tally:
        """The tally with these values of the labels."""
        known = self._tallies.get(labels)
        if known is None:
            known = self._tallies[labels] = Tally(self._bounds)
        return known

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(self.name, self._text, labels=self.label_names)
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, tally in self._tallies.items():
            buckets = list(zip(names, accumulate(map(float, tally.counts)), strict=True))
            family.add_metric(labels, buckets, tally.total)
        yield family


class Counts:
    """A counter with labels. Not for several threads. A number of it is an array of one, `of(...)[0] += 1` counts."""

    def __init__(self, name: str, text: str, label_names: Sequence[str], registry: CollectorRegistry) -> None:
        """`name` without `_total`, which is added."""
        self.name = name
        self.label_names = tuple(label_names)
        self._text = text
        self._counts: dict[tuple[str, ...], array[int]] = {}
        self.before: Callable[[], None] | None = None
        """Called before the numbers are shown, to add what was counted elsewhere."""
        registry.register(self)

    def of(self, *labels: str) -> array[int]:
        """The number with these values of the labels."""
        known = self._counts.get(labels)
        if known is None:
            known = self._counts[labels] = array("q", (0,))
        return known

    def collect(self) -> Iterable[Metric]:
        if self.before is not None:
            self.before()
        family = CounterMetricFamily(self.name, self._text, labels=self.label_names)
        for labels, count in self._counts.items():
            family.add_metric(labels, count[0])
        yield family
