"""The results of simulations: plain values, and the same as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from podwright.core.framework.args import key_of
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.quantity import MAX_INT64


@dataclass(frozen=True, slots=True)
class Landing:
    """A pod that gets a node. `cause`: pending, added, scaled, drained, removed or preempted; `came_from`: the node it
    had before.
    """

    pod: str
    node: str
    cause: str
    came_from: str
    policy: str


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A pod that gets no node. `message`: why, in the words of the event FailedScheduling; `plugins`: those that
    rejected it.
    """

    pod: str
    cause: str
    came_from: str
    message: str
    plugins: Sequence[str]
    policy: str


@dataclass(frozen=True, slots=True)
class Eviction:
    """A victim of preemption."""

    pod: str
    node: str
    by: str


@dataclass(frozen=True, slots=True)
class BlockedEviction:
    """A pod that `kubectl drain`, or the drain of a queue, would not evict, and why."""

    pod: str
    node: str
    why: str


@dataclass(frozen=True, slots=True)
class Usage:
    """The pods' requests of a resource, and the nodes' offer: milli-CPU, bytes, or units. `in_use`: the offer of the
    nodes that are not empty.
    """

    allocatable: int
    requested: int
    in_use: int

    @property
    def allocation(self) -> float:
        """The share of all nodes that is requested."""
        return self.requested / self.allocatable if self.allocatable else 0.0

    @property
    def utilisation(self) -> float:
        """The share that is requested of the nodes that are not empty."""
        return self.requested / self.in_use if self.in_use else 0.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Numbers about a cluster. `empty_nodes`: with no pod but those of DaemonSets; `usage` by resource."""

    nodes: int
    empty_nodes: int
    pods: int
    usage: Mapping[str, Usage]


@dataclass(frozen=True, slots=True)
class NodeDifference:
    """A node before and after: its number of pods, and what they request, by resource. None: there is no such node
    then.
    """

    node: str
    allocatable: Mapping[str, int]
    pods_before: int | None
    pods_after: int | None
    requested_before: Mapping[str, int]
    requested_after: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Emptied:
    """Nodes whose pods all fit on other nodes. `together`: nodes that can all be emptied, in this order. `tried`: how
    many nodes were tried, beginning with the least used.
    """

    together: Sequence[str]
    tried: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """The result of a simulation. `gangs`: those that still wait, by their workloads, and how far each is; `complete`:
    False if there was no time for all pods; `notes`: limitations of the answer.
    """

    name: str
    landed: Sequence[Landing]
    pending: Sequence[Unplaced]
    preempted: Sequence[Eviction]
    blockers: Sequence[BlockedEviction]
    gone: Sequence[str]
    before: Totals
    after: Totals
    changes: Sequence[NodeDifference]
    emptied: Emptied | None
    gangs: Sequence[str]
    attempts: int
    complete: bool
    notes: Sequence[str]

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON has it. Keys are in camel case."""
        return dict(as_json(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """The effects of draining or removing one node. `moved`: how many of its pods get another node."""

    node: str
    moved: int
    pending: Sequence[Unplaced]
    preempted: Sequence[Eviction]
    blockers: Sequence[BlockedEviction]
    complete: bool

    @property
    def fits(self) -> bool:
        """True if all its pods get another node without preemption."""
        return self.complete and not self.pending and not self.preempted

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON has it. Keys are in camel case."""
        return {**as_json(self), "fits": self.fits}


def as_json(value: Any) -> Any:
    """Dataclasses as objects with keys in camel case, and everything else as it is. Larger sums are cut to 64 bits, the
    largest integers of orjson.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = {key_of(each): as_json(getattr(value, each.name)) for each in dataclasses.fields(value)}
        if isinstance(value, Usage):
            own |= {"allocation": round(value.allocation, 4), "utilisation": round(value.utilisation, 4)}
        return own
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return min(value, MAX_INT64) if isinstance(value, int) else value
