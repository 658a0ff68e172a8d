"""Scorecard: how one policy did in a replay. Shares are from 0 to 1, times in seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podwright.core.objects.dataclass import dataclass
from podwright.simulator.replay.meter import Meter, MeterSample
from podwright.simulator.replay.queue_meter import QueueFigures, QueueSample
from podwright.simulator.replay.rebalancing import RebalanceFigures
from podwright.simulator.replay.waiting import WaitingTimes
from podwright.simulator.results import as_json


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
    waiting: WaitingTimes
    allocation: Mapping[str, float]
    """By resource: the share of all nodes that pods requested."""
    peak_allocation: Mapping[str, float]
    utilisation: Mapping[str, float]
    """By resource: the same share of the nodes on which pods ran."""
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
    samples: Sequence[MeterSample]
    unplaced: Mapping[str, int]
    """The last reasons of pods that never got a node, with the number of pods."""
    notes: Sequence[str] = ()
    """The limitations of the answer."""
    queues: Sequence[QueueFigures] = ()
    """The queues of teams that pods of the stream are in."""
    queue_samples: Sequence[QueueSample] = ()
    rebalancing: Sequence[RebalanceFigures] = ()
    """The work of each RebalancePolicy."""
    gangs: Sequence[str] = ()
    """The gangs that still wait at the end, by their workloads, and how far each is."""

    def as_dict(self) -> dict[str, Any]:
        """The scorecard as JSON has it. Keys are in camel case."""
        found = dict(as_json(self))
        parts = (("queue", self.queues), ("rebalancing", self.rebalancing), ("gangs", self.gangs))
        without = [key for key, given in parts if not given]
        return {key: value for key, value in found.items() if not key.startswith(tuple(without))}


def mean_sample(meter: Meter, name: str) -> float:
    """The mean of one figure over the samples."""
    values = [getattr(sample, name) for sample in meter.samples]
    return sum(values) / len(values) if values else 0.0
