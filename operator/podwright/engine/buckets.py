"""Buckets of histograms, and gauges that are computed when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

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
