"""Meter: the measurements of a replay. Sums over time are exact; fragmentation and spread are sampled.

Invariant: the sums of requests here are those of the node table. Resources are in milli-CPU, bytes and units; times in
seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo, belongs_to_node
from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.state.cache import Cache

SHAPES: Final = 32
"""How many of the most frequent requests fragmentation is measured with."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prices:
    """The price of an hour of a node: by the value of a label, otherwise `default`."""

    default: float = 1.0
    by_label: Mapping[tuple[str, str], float] | None = None

    def of(self, node: Node) -> float:
        """The price of an hour of this node."""
        for (label, value), price in (self.by_label or {}).items():
            if node.labels.get(label) == value:
                return price
        return self.default


@dataclass(frozen=True, slots=True)
class MeterSample:
    """The cluster at one time. Shares are from 0 to 1, by resource where they are mappings."""

    time: float
    allocation: Mapping[str, float]
    utilisation: Mapping[str, float]
    fragmentation: float
    spread: float
    nodes_in_use: int
    waiting: int


class Meter:
    """See the module. `resource`: the one whose fragmentation is measured; `every`: seconds between samples."""

    def __init__(
        self, cache: Cache, pods: Iterable[PodInfo], prices: Prices, *, resource: str, start: float, every: float
    ) -> None:
        self.samples: list[MeterSample] = []
        self.on_sample: Callable[[float], object] = lambda _time: None
        """Called with the time of each sample."""
        self.resources: Final = tuple(dict.fromkeys((CPU, MEMORY, resource)))
        self.resource: Final = resource
        self._cache = cache
        self._prices = prices
        self._shapes, self._weights = _shapes(pods, self.resource)
        self._now = start
        self._next_sample = start
        self._every = max(every, 1e-9)
        self._requested = dict.fromkeys(self.resources, 0)
        self._in_use = dict.fromkeys(self.resources, 0)
        """The offer of the nodes on which pods run."""
        self._offered = dict.fromkeys(self.resources, 0)
        self._pods_on: Counter[str] = Counter()
        """Without those of DaemonSets."""
        self._price_in_use = 0.0
        self._price_of_all = 0.0
        self.waiting = 0
        """How many pods wait. The replay changes it."""
        # Integrals over time.
        self.seconds = 0.0
        self.allocated = dict.fromkeys(self.resources, 0.0)
        self.offered = dict.fromkeys(self.resources, 0.0)
        self.offered_in_use = dict.fromkeys(self.resources, 0.0)
        self.node_seconds = 0.0
        self.node_seconds_in_use = 0.0
        self.cost = 0.0
        self.cost_of_all = 0.0
        self.most_nodes_in_use = 0
        self.peak_allocation = dict.fromkeys(self.resources, 0.0)
        for info in cache.nodes.values():
            if info.node is not None:
                self.node_added(info.node)
                for pod in info.pods.values():
                    self.landed(pod, info.node)

    # What happens

    def node_added(self, node: Node) -> None:
        """A node came, without pods."""
        for resource in self.resources:
            self._offered[resource] += node.allocatable.get(resource, 0)
        self._price_of_all += self._prices.of(node)

    def node_removed(self, node: Node) -> None:
        """A node went, after all its pods had left."""
        for resource in self.resources:
            self._offered[resource] -= node.allocatable.get(resource, 0)
        self._price_of_all -= self._prices.of(node)

    def landed(self, pod: PodInfo, node: Node) -> None:
        """A pod got a node."""
        self._add(pod, 1)
        if belongs_to_node(pod):
            return
        self._pods_on[node.name] += 1
        if self._pods_on[node.name] == 1:
            self._use(node, 1)
            self.most_nodes_in_use = max(self.most_nodes_in_use, len(self._pods_on))

    def left(self, pod: PodInfo, node: Node) -> None:
        """A pod left its node."""
        self._add(pod, -1)
        if belongs_to_node(pod):
            return
        self._pods_on[node.name] -= 1
        if not self._pods_on[node.name]:
            del self._pods_on[node.name]
            self._use(node, -1)

    def _add(self, pod: PodInfo, sign: int) -> None:
        for resource, amount in pod.requests.amounts.items():
            if resource in self._requested:
                self._requested[resource] += sign * amount

    def _use(self, node: Node, sign: int) -> None:
        for resource in self.resources:
            self._in_use[resource] += sign * node.allocatable.get(resource, 0)
        self._price_in_use += sign * self._prices.of(node)

    # Time

    def advance(self, to: float) -> None:
        """Advances the time to `to`, without changes in between."""
        while self._next_sample <= to:
            self._integrate(self._next_sample)
            self.samples.append(self._sample(self._next_sample))
            self.on_sample(self._next_sample)
            self._next_sample += self._every
        self._integrate(to)

    def _integrate(self, to: float) -> None:
        seconds = to - self._now
        if seconds <= 0:
            return
        self._now = to
        self.seconds += seconds
        for resource in self.resources:
            requested, offered = self._requested[resource], self._offered[resource]
            self.allocated[resource] += requested * seconds
            self.offered[resource] += offered * seconds
            self.offered_in_use[resource] += self._in_use[resource] * seconds
            if offered:
                self.peak_allocation[resource] = max(self.peak_allocation[resource], requested / offered)
        self.node_seconds += self._cache.table.count * seconds
        self.node_seconds_in_use += len(self._pods_on) * seconds
        self.cost += self._price_in_use * seconds / 3600
        self.cost_of_all += self._price_of_all * seconds / 3600

    def _sample(self, time: float) -> MeterSample:
        return MeterSample(
            time=time,
            allocation={r: _ratio(self._requested[r], self._offered[r]) for r in self.resources},
            utilisation={r: _ratio(self._requested[r], self._in_use[r]) for r in self.resources},
            fragmentation=self._fragmentation(),
            spread=self._spread(),
            nodes_in_use=len(self._pods_on),
            waiting=self.waiting,
        )

    def _fragmentation(self) -> float:
        """The share of what is free that a typical pod cannot use, because its node lacks room for the rest of the pod,
        or for all of it.

        The mean over the most frequent requests of the resource, by their frequency. Source: the measure of Weng et
        al., "Beware of Fragmentation", USENIX ATC '23, for whole units.
        """
        table = self._cache.table
        valid = table.valid
        wanted = np.maximum(table.allocatable(self.resource) - table.requested(self.resource), 0)[valid]
        total = float(wanted.sum())
        if not total or not self._shapes:
            return 0.0
        free = {r: (table.allocatable(r) - table.requested(r))[valid] for shape in self._shapes for r, _ in shape}
        unusable = 0.0
        for shape, weight in zip(self._shapes, self._weights, strict=True):
            fits = np.ones(len(wanted), np.bool_)
            for resource, amount in shape:
                fits &= free[resource] >= amount
            unusable += weight * float(wanted[~fits].sum())
        return unusable / total

    def _spread(self) -> float:
        """The standard deviation of the nodes' greatest shares that are requested."""
        table = self._cache.table
        valid = table.valid
        if not table.count:
            return 0.0
        shares: Floats = np.zeros(int(np.count_nonzero(valid)))
        for resource in self.resources:
            offered = table.allocatable(resource)[valid]
            shares = np.maximum(shares, table.requested(resource)[valid] / np.maximum(offered, 1) * (offered > 0))
        return float(shares.std())


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


_Shape = Sequence[tuple[str, int]]


def _shapes(pods: Iterable[PodInfo], resource: str) -> tuple[Sequence[_Shape], Sequence[float]]:
    """The most frequent requests that include the resource, and their shares."""
    counts: Counter[tuple[tuple[str, int], ...]] = Counter()
    for pod in pods:
        amounts = tuple((name, amount) for name, amount in pod.requests.amounts.items() if amount)
        if any(name == resource for name, _ in amounts):
            counts[amounts] += 1
    found = counts.most_common(SHAPES)
    total = sum(count for _, count in found)
    return [shape for shape, _ in found], [count / total for _, count in found]
