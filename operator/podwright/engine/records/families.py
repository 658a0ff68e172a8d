"""How a metric is declared, and what holds its numbers.

A declaration (`Counter`, `Histogram`, `Gauge`) is a constant of the catalogue in `metrics`. A family holds the series
of one declaration, one series for each combination of label values. Families are not thread-safe, unlike those of
prometheus_client, and several times as fast. They keep their numbers in arrays, because a new number object for each
change would spread over the heap and keep the memory pages of a burst in use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import Any, Final, Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from podwright.core.objects.compaction import shrink
from podwright.core.objects.dataclass import dataclass
from podwright.engine.process.steps import Steps, at_once

D = TypeVar("D", bound="Declaration")
S = TypeVar("S")

PROFILE: Final = "profile"
"""The label with the scheduler name."""
MOST_PROFILES: Final = 32
"""How many scheduler names have series of their own. Each may have 70 and more."""
OTHER_PROFILES: Final = "other"
Read = Callable[[], Mapping[Any, float] | Steps[Mapping[Any, float]]]
"""Computes a gauge: its numbers by tuples of label values. In steps if that takes long."""
Snapshot = Callable[[], Iterable[Metric]]
"""Makes the samples from a copy of the numbers. That takes longer than the copy, and may run in another thread."""


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """`count` upper bounds, each `factor` times the one before.

    Multiplied step by step, as Go's client library does: then the label `le` has the same text as kube-scheduler's, and
    histograms of both can be added up.
    """
    return tuple(accumulate([start] + [factor] * (count - 1), mul))


def bound_text(bound: float) -> str:
    """The label `le` of an upper bound, as Go's client library writes it: `1`, where Python's writes `1.0`."""
    return repr(float(bound)).removesuffix(".0")


@dataclass(frozen=True, slots=True, eq=False)
class Declaration:
    """The base of the declarations below."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Counter(Declaration):
    """A number that only grows. `name` lacks the suffix `_total`, which the exposition adds."""


@dataclass(frozen=True, slots=True, eq=False)
class Histogram(Declaration):
    """A distribution of values. `buckets`: ascending upper bounds, without infinity."""

    buckets: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Gauge(Declaration):
    """A number that rises and falls. It is computed when the metrics are scraped."""


class Profiles:
    """The values of the label `profile`, which whoever writes policies can invent: the first `most` have series of
    their own, all others share those of `other`. All families of a process share one.
    """

    def __init__(self, most: int = MOST_PROFILES) -> None:
        self._most = most
        self._known: dict[str, None] = {}

    def bounded(self, names: Sequence[str], labels: tuple[str, ...]) -> tuple[str, ...]:
        """The label values, with the profile's replaced if it has no series of its own. `names`: the names of the
        labels.
        """
        if PROFILE not in names or len(names) != len(labels):
            return labels
        position = names.index(PROFILE)
        if labels[position] not in self._known:
            if len(self._known) >= self._most:
                return (*labels[:position], OTHER_PROFILES, *labels[position + 1 :])
            self._known[labels[position]] = None
        return labels

    def keep_only(self, served: Collection[str]) -> None:
        self._known = {name: None for name in self._known if name in served}


class Family(ABC, Generic[D, S]):
    """The series of one counter or histogram."""

    def __init__(self, declaration: D, profiles: Profiles | None = None) -> None:
        self._declaration = declaration
        self._profiles = Profiles() if profiles is None else profiles
        self.series: dict[tuple[str, ...], S] = {}
        if not declaration.labels:
            self.of()

    def of(self, *labels: str) -> S:
        """The series with these label values."""
        series = self.series.get(labels)
        if series is None:
            _check(self._declaration, labels)
            labels = self._profiles.bounded(self._declaration.labels, labels)
            series = self.series.get(labels)
            if series is None:
                series = self.series[labels] = self._new()
        return series

    def keep_only(self, label: str, values: Collection[str]) -> None:
        """Drops the series with other values of this label."""
        if label not in self._declaration.labels:
            return
        position = self._declaration.labels.index(label)
        for labels in [labels for labels in self.series if labels[position] not in values]:
            del self.series[labels]
        shrink(self.series)

    @abstractmethod
    def _new(self) -> S:
        """A series that has counted nothing yet."""

    @abstractmethod
    def numbers(self) -> Iterator[tuple[tuple[str, ...], Sequence[float]]]:
        """The numbers of each series, by the values of its labels."""

    @abstractmethod
    def add(self, labels: tuple[str, ...], more: Sequence[float]) -> None:
        """Adds to a series what `numbers` has grown by in another process."""

    @abstractmethod
    def snapshot(self) -> Snapshot: ...


class CounterFamily(Family[Counter, "array[int]"]):
    """The series of one counter. A series is an array of one number: `of(...)[0] += 1` counts."""

    def _new(self) -> array[int]:
        return array("q", (0,))

    def numbers(self) -> Iterator[tuple[tuple[str, ...], Sequence[float]]]:
        return ((labels, (*series,)) for labels, series in self.series.items())

    def add(self, labels: tuple[str, ...], more: Sequence[float]) -> None:
        self.of(*labels)[0] += int(more[0])

    def snapshot(self) -> Snapshot:
        numbers = {labels: series[0] for labels, series in self.series.items()}

        def collect() -> Iterable[Metric]:
            declared = self._declaration
            family = CounterMetricFamily(declared.name, declared.help, labels=declared.labels)
            for labels, number in numbers.items():
                family.add_metric(labels, number)
            return (family,)

        return collect


class HistogramSeries:
    """One series of a histogram: the number of values in each bucket, and their sum."""

    __slots__ = ("_bounds", "_sum", "counts")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = array("q", bytes(8 * (len(bounds) + 1)))
        self._sum = array("d", (0.0,))

    @property
    def sum(self) -> float:
        return self._sum[0]

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self._sum[0] += value

    def add(self, counts: Sequence[float], total: float) -> None:
        """Adds so many values to each bucket, and to the sum."""
        for bucket, count in enumerate(counts):
            self.counts[bucket] += int(count)
        self._sum[0] += total


class HistogramFamily(Family[Histogram, HistogramSeries]):
    """The series of one histogram."""

    def _new(self) -> HistogramSeries:
        return HistogramSeries(self._declaration.buckets)

    def numbers(self) -> Iterator[tuple[tuple[str, ...], Sequence[float]]]:
        return ((labels, (*series.counts, series.sum)) for labels, series in self.series.items())

    def add(self, labels: tuple[str, ...], more: Sequence[float]) -> None:
        self.of(*labels).add(more[:-1], more[-1])

    def snapshot(self) -> Snapshot:
        numbers = {labels: (series.counts[:], series.sum) for labels, series in self.series.items()}

        def collect() -> Iterable[Metric]:
            declared = self._declaration
            family = HistogramMetricFamily(declared.name, declared.help, labels=declared.labels)
            bounds = [*map(bound_text, declared.buckets), "+Inf"]
            for labels, (counts, total) in numbers.items():
                buckets = list(zip(bounds, accumulate(map(float, counts)), strict=True))
                family.add_metric(labels, buckets, total)
            return (family,)

        return collect


class GaugeFamily:
    """The series of one gauge, empty until `computed_by` says how to compute them."""

    def __init__(self, declaration: Gauge, profiles: Profiles | None = None) -> None:
        self._declaration = declaration
        self._profiles = Profiles() if profiles is None else profiles
        self._read: Read = dict

    def computed_by(self, read: Read) -> None:
        self._read = read

    def snapshot(self) -> Snapshot:
        return at_once(self.snapshot_in_steps())

    def snapshot_in_steps(self) -> Steps[Snapshot]:
        read = self._read()
        found: Mapping[Any, float] = (yield from read) if isinstance(read, Generator) else read
        numbers: dict[tuple[str, ...], float] = {}
        for given, number in found.items():
            labels = self._profiles.bounded(self._declaration.labels, given)
            numbers[labels] = numbers.get(labels, 0) + number

        def collect() -> Iterable[Metric]:
            declared = self._declaration
            family = GaugeMetricFamily(declared.name, declared.help, labels=declared.labels)
            for labels, number in numbers.items():
                _check(declared, labels)
                family.add_metric(labels, number)
            return (family,)

        return collect


def _check(declaration: Declaration, labels: Sequence[str]) -> None:
    if len(labels) != len(declaration.labels):
        raise ValueError(f"{declaration.name} has the labels {declaration.labels}, got the values {labels}")
