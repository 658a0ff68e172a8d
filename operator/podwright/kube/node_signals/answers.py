"""Reads the answers of sources: an entry of Prometheus, an entry of metrics.k8s.io, and all entries together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import parse_time
from podwright.core.objects.quantity import NANO, parse_quantity
from podwright.core.state.signals.signals import Sample

NO_CONTENT: Final[Mapping[str, Any]] = {}


class Said(NamedTuple):
    """An entry of an answer: the node, and its number."""

    node: str
    sample: Sample


Read = Callable[[Any, float], Said | None]
"""(an entry, the time in seconds since the epoch) → what it says; None if it makes no sense."""


@dataclass(slots=True)
class SourceAnswer:
    """`samples`: by node name. `twice`: nodes with several entries, none of which counts; `malformed`: entries that
    make no sense.
    """

    samples: dict[str, Sample] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)
    entries: int = 0
    malformed: int = 0

    def add(self, said: Said | None) -> None:
        self.entries += 1
        if said is None:
            self.malformed += 1
        elif said.node in self.samples:
            self.samples.pop(said.node)
            self.twice.add(said.node)
        elif said.node not in self.twice:
            self.samples[said.node] = said.sample


def prometheus_reader(label: str) -> Read:
    """Reads a series of an instant vector, whose label has the node's name."""

    def read(entry: Any, now: float) -> Said | None:
        labels, value = _mapping(entry, "metric"), entry.get("value")
        node = labels.get(label)
        if not isinstance(node, str) or not isinstance(value, list) or len(value) != 2:
            return None
        time, text = value
        if isinstance(time, bool) or not isinstance(time, int | float) or not isinstance(text, str):
            return None
        try:
            return Said(node, Sample(float(text), now - time))
        except ValueError:
            return None

    return read


def metrics_reader(resource: str) -> Read:
    """Reads a NodeMetrics object: cores, or bytes."""

    def read(entry: Any, now: float) -> Said | None:
        node, amount = _mapping(entry, "metadata").get("name"), _mapping(entry, "usage").get(resource)
        if not isinstance(node, str) or amount is None:
            return None
        try:
            time = parse_time(entry.get("timestamp"), "timestamp")
            nanos = parse_quantity(amount, resource)
        except InvalidObjectError:
            return None
        return None if time is None else Said(node, Sample(nanos / NANO, now - time))

    return read


def _mapping(entry: Any, key: str) -> Mapping[str, Any]:
    found = entry.get(key)
    return found if isinstance(found, Mapping) else NO_CONTENT
