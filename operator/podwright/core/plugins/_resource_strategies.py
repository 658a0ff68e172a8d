"""NodeResourcesFit's scoring strategies: each in int64 arithmetic for one node, and in float64 for many.

`of_node` is the rule; `of_rows` gives the same for rows whose amounts are not oversized (see `_resource_rows`).
Divisions truncate, and sums of products wrap, as Go's do. Source: the Kubernetes documentation, "Resource Bin Packing".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from podwright.core.framework.interface import MAX_SCORE, Int64s
from podwright.core.objects.resources import is_counted_resource, is_scalar_resource
from podwright.core.plugins._resource_args import ResourceSpec
from podwright.core.plugins._resource_rows import Floats, Rows, used_of
from podwright.core.state.nodeinfo import NodeInfo

_INT64: Final = 1 << 63


def int64(number: int) -> int:
    """The number as it is left after an overflow of int64."""
    return number if -_INT64 <= number < _INT64 else (number + _INT64) % (2 * _INT64) - _INT64


def quotient(dividend: int, divisor: int) -> int:
    """Truncated towards zero; the divisor is above 0."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


class Wanted(NamedTuple):
    """A resource that counts for one pod: its place in the plugin's list, its name, what the pod adds."""

    place: int
    resource: str
    amount: int


Demand = tuple[Wanted, ...]


def demand_of(resources: Sequence[str], amount_of: Callable[[str], int]) -> Demand:
    """The resources that count for a pod: of scalar ones only those that it requests."""
    pairs = [(i, name, amount_of(name)) for i, name in enumerate(resources)]
    return tuple(
        Wanted(i, name, amount)
        for i, name, amount in pairs
        if is_counted_resource(name) and (amount or not is_scalar_resource(name))
    )


class Strategy(ABC):
    """See the module."""

    def __init__(self, resources: Sequence[ResourceSpec]) -> None:
        self.resources = tuple(resource.name for resource in resources)
        self.weights = tuple(resource.weight for resource in resources)
        self._scratch = np.empty((2, 0))

    @staticmethod
    @abstractmethod
    def base(allocatable: Any, used: Any) -> Any:
        """The part of the formula that does not depend on the pod."""

    @abstractmethod
    def of_resource(self, requested: int, capacity: int) -> int:
        """The score of one resource; `requested` has the pod, `capacity` is above 0."""

    def of_node(self, demand: Demand, node: NodeInfo) -> int:
        """The score of one node. Resources that the node lacks do not count."""
        total = weights = 0
        for place, resource, amount in demand:
            capacity = node.allocatable(resource)
            if capacity:
                requested = int64(used_of(node, resource, defaults=True) + amount)
                total += self.of_resource(requested, capacity) * self.weights[place]
                weights += self.weights[place]
        return min(max(quotient(total, weights), 0), MAX_SCORE) if weights else 0

    def of_rows(self, demand: Demand, rows: Rows, out: Int64s) -> None:
        """Writes the scores of some rows into `out`, int64[rows]."""
        if not demand:
            out[:] = 0
            return
        total, term = self._buffers(rows.length)
        weights: Any = 0
        for position, (place, _, amount) in enumerate(demand):
            part = term if position else total
            self._score(amount, rows.base[place], rows.allocatable[place], part)
            weight: Any = self.weights[place]
            if rows.present is not None:
                weight = rows.present[place] * weight
                part *= weight
            elif weight != 1:
                part *= weight
            weights = weights + weight
            if position:
                total += part
        total /= weights if rows.present is None else np.maximum(weights, 1)
        np.copyto(out, total, casting="unsafe")

    @abstractmethod
    def _score(self, amount: int, base: Floats, allocatable: Floats, out: Floats) -> None:
        """Writes one resource's whole-numbered scores into `out`."""

    def _buffers(self, count: int) -> Floats:
        if self._scratch.shape[1] < count:
            self._scratch = np.empty((2, count))
        return self._scratch[:, :count]


class LeastAllocated(Strategy):
    """The more is left, the better."""

    @staticmethod
    def base(allocatable: Any, used: Any) -> Any:
        return (allocatable - used) * 100.0

    def of_resource(self, requested: int, capacity: int) -> int:
        return 0 if requested > capacity else quotient(int64(int64(capacity - requested) * MAX_SCORE), capacity)

    def _score(self, amount: int, base: Floats, allocatable: Floats, out: Floats) -> None:
        np.subtract(base, amount * 100.0, out=out)
        np.divide(out, allocatable, out=out)
        np.maximum(out, 0.0, out=out)
        np.floor(out, out=out)


class MostAllocated(Strategy):
    """The more is used, the better."""

    @staticmethod
    def base(_allocatable: Any, used: Any) -> Any:
        return used * 100.0

    def of_resource(self, requested: int, capacity: int) -> int:
        return quotient(int64(min(requested, capacity) * MAX_SCORE), capacity)

    def _score(self, amount: int, base: Floats, allocatable: Floats, out: Floats) -> None:
        np.add(base, amount * 100.0, out=out)
        np.divide(out, allocatable, out=out)
        np.minimum(out, 100.0, out=out)
        np.floor(out, out=out)


class RequestedToCapacityRatio(MostAllocated):
    """The score is read off a curve over the utilisation. A resource that scores 0 does not count."""

    def __init__(self, resources: Sequence[ResourceSpec], curve: Sequence[int]) -> None:
        super().__init__(resources)
        self._curve = tuple(curve)
        self._curve_column = np.array(curve, np.float64)

    def of_resource(self, requested: int, capacity: int) -> int:
        if requested > capacity:
            return self._curve[100]
        return self._curve[min(max(quotient(int64(requested * 100), capacity), 0), 100)]

    def of_node(self, demand: Demand, node: NodeInfo) -> int:
        total = weights = 0
        for place, resource, amount in demand:
            capacity = node.allocatable(resource)
            if capacity:
                requested = int64(used_of(node, resource, defaults=True) + amount)
                score = self.of_resource(requested, capacity)
                if score > 0:
                    total += score * self.weights[place]
                    weights += self.weights[place]
        return (2 * total + weights) // (2 * weights) if weights else 0

    def of_rows(self, demand: Demand, rows: Rows, out: Int64s) -> None:
        total, score = self._buffers(rows.length)
        total[:] = 0
        weights = np.zeros(rows.length)
        for place, _, amount in demand:
            self._score(amount, rows.base[place], rows.allocatable[place], score)
            np.copyto(out, score, casting="unsafe")
            np.take(self._curve_column, out, out=score, mode="clip")
            if rows.present is not None:
                score *= rows.present[place]
            weights += (score > 0) * float(self.weights[place])
            score *= self.weights[place]
            total += score
        total /= np.maximum(weights, 1)
        total += 0.5
        np.copyto(out, total, casting="unsafe")


SIMPLE: Final[dict[str, Callable[[Sequence[ResourceSpec]], Strategy]]] = {
    "LeastAllocated": LeastAllocated,
    "MostAllocated": MostAllocated,
}
