"""Scorecard: how one policy did in a replay. Shares are from 0 to 1, times in seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podwright.simulator.replay.meter import Meter, Sample
from podwright.simulator.results import as_json

WAITED_LONG: Final = 60.0
"""Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How long pods waited for a node. Pods that never got one waited until they left or the replay ended."""

    mean: float
    median: float
    p95: float
    p99: float
    longest: float
    long: int
    """How many waited longer than a minute."""
    curve: Sequence[tuple[float, float]]
    """(seconds, the share of pods that waited at most so long)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """See the module. Means are over time. `resource`: the resource whose fragmentation is measured."""

    policy: str
    resource: str
    arrived: int
    placed: int
    """Pods that got a node, each counted once."""
    never_placed: int
    preemptions: int
    waiting: Waiting
    allocation: Mapping[str, float]
    """By resource: the share of all nodes that pods requested."""
    peak_allocation: Mapping[str, float]
    utilisation: Mapping[str, float]
    """By resource: the share of those nodes on which pods ran."""
    fragmentation: float
    spread: float
    """The standard deviation of the nodes' greatest requested shares."""
    nodes: float
    nodes_in_use: float
    most_nodes_in_use: int
    nodes_off: float
    """Nodes without pods, which could be switched off."""
    cost: float
    """The cost of the hours in which nodes were in use."""
    cost_of_all: float
    attempts: int
    cpu_seconds: float
    """Process CPU time that the replay took."""
    samples: Sequence[Sample]
    unplaced: Mapping[str, int]
    """The last reasons of pods that never got a node, with the number of pods."""
    notes: Sequence[str] = ()
    """The limitations of the answer."""

    def as_dict(self) -> dict[str, Any]:
        """The scorecard as JSON has it. Keys are in camel case."""
        return dict(as_json(self))


def waiting_times(waits: Sequence[float]) -> Waiting:
    """The figures about these times."""
    ordered = sorted(waits)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    steps = sorted({int(len(ordered) * step / 200) for step in range(200)} | {len(ordered) - 1}) if ordered else []
    return Waiting(
        mean=sum(ordered) / len(ordered) if ordered else 0.0,
        median=at(0.5),
        p95=at(0.95),
        p99=at(0.99),
        longest=ordered[-1] if ordered else 0.0,
        long=sum(wait > WAITED_LONG for wait in ordered),
        curve=[(ordered[step], (step + 1) / len(ordered)) for step in steps],
    )


def mean_sample(meter: Meter, name: str) -> float:
    """The mean of one figure over the samples."""
    values = [getattr(sample, name) for sample in meter.samples]
    return sum(values) / len(values) if values else 0.0
