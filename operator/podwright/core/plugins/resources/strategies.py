"""NodeResourcesFit's scoring strategies: each in int64 arithmetic for one node, and in float64 for many.

`of_node` defines the score. `of_rows` gives the same result for rows that are not oversized (see `rows`). Divisions
truncate and products wrap, as in Go. Source: the Kubernetes documentation, "Resource Bin Packing".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from podwright.core.framework.interface import MAX_SCORE
from podwright.core.plugins.resources.args import ResourceSpec
from podwright.core.plugins.resources.demand import Demand, ScoredResources
from podwright.core.plugins.resources.rows import Floats, Rows
from podwright.core.plugins.resources.score_formula import Scratch
from podwright.core.state.nodeinfo import NodeInfo

_INT64: Final = 1 << 63


def int64(number: int) -> int:
    """The number after overflow of int64."""
    return number if -_INT64 <= number < _INT64 else (number + _INT64) % (2 * _INT64) - _INT64


def quotient(dividend: int, divisor: int) -> int:
    """The quotient, truncated towards zero. The divisor must be positive."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


class AllocationStrategy(ABC):
    """See the module."""

    bound: float
    """The bound of a resource's score: the minimum for LeastAllocated, the maximum for MostAllocated."""

    def __init__(self, resources: Sequence[ResourceSpec]) -> None:
        self.resources = ScoredResources([resource.name for resource in resources], defaults=True)
        self.weights = tuple(resource.weight for resource in resources)
        self._weight_column = np.array(self.weights, np.float64).reshape(-1, 1)
        self._equal = len(set(self.weights)) == 1
        self._scratch = Scratch(self.bound)

    @staticmethod
    @abstractmethod
    def base(allocatable: Any, used: Any) -> Any:
        """The part of the formula that does not depend on the pod."""

    @abstractmethod
    def of_resource(self, requested: int, capacity: int) -> int:
        """The score of one resource. `requested` includes the pod; `capacity` is positive."""

    @abstractmethod
    def _percent(self, demand: Demand, rows: Rows) -> Floats:
        """float64[resources, rows]: `of_resource` of each, or its utilisation, as whole numbers. The caller may write
        to it.
        """

    def of_node(self, demand: Demand, node: NodeInfo) -> int:
        """The score of one node. Resources that the node lacks do not count."""
        total = weights = 0
        offered = node.present.allocatable
        for place, resource, used, amount in zip(
            demand.places, demand.resources, demand.used, demand.amounts, strict=True
        ):
            capacity = offered.get(resource, 0)
            if capacity:
                requested = used(node) + amount
                total += self.of_resource(requested, capacity) * self.weights[place]
                weights += self.weights[place]
        return min(max(quotient(total, weights), 0), MAX_SCORE) if weights else 0

    def of_rows(self, demand: Demand, rows: Rows) -> Floats:
        """float64[rows]: the scores, to be truncated."""
        if not demand.places:
            return np.zeros(rows.length)
        rows = rows.of(demand.places)
        terms = self._percent(demand, rows)
        divisor: Any = float(len(terms))
        if rows.present is not None:
            weights = self._weights_of(demand) * rows.present
            terms *= weights
            divisor = np.maximum(_sum(weights), 1.0)
        elif not self._equal:
            weights = self._weights_of(demand)
            terms *= weights
            divisor = float(weights.sum())
        total = _sum(terms)
        total /= divisor
        return total

    def _weights_of(self, demand: Demand) -> Floats:
        return self._weight_column[list(demand.places)]


def _sum(rows: Floats) -> Floats:
    """The sum over resources. Overwrites the first row."""
    total: Floats = rows[0]
    for row in rows[1:]:
        total += row
    return total


class LeastAllocated(AllocationStrategy):
    """Prefers nodes with more free resources."""

    bound = 0.0

    @staticmethod
    def base(allocatable: Any, used: Any) -> Any:
        return (allocatable - used) * 100.0

    def of_resource(self, requested: int, capacity: int) -> int:
        if requested > capacity:
            return 0
        return quotient(int64((capacity - requested) * MAX_SCORE), capacity)

    def _percent(self, demand: Demand, rows: Rows) -> Floats:
        terms, bounds = self._scratch.get(*rows.base.shape)
        np.subtract(rows.base, demand.column(100.0, rows.length), out=terms)
        np.divide(terms, rows.allocatable, out=terms)
        np.maximum(terms, bounds, out=terms)
        np.floor(terms, out=terms)
        return terms


class MostAllocated(AllocationStrategy):
    """Prefers nodes with more used resources."""

    bound = 100.0

    @staticmethod
    def base(_allocatable: Any, used: Any) -> Any:
        return used * 100.0

    def of_resource(self, requested: int, capacity: int) -> int:
        return quotient(int64(min(requested, capacity) * MAX_SCORE), capacity)

    def _percent(self, demand: Demand, rows: Rows) -> Floats:
        terms, bounds = self._scratch.get(*rows.base.shape)
        np.add(rows.base, demand.column(100.0, rows.length), out=terms)
        np.divide(terms, rows.allocatable, out=terms)
        np.minimum(terms, bounds, out=terms)
        np.floor(terms, out=terms)
        return terms


class RequestedToCapacityRatio(MostAllocated):
    """A curve maps utilisation to the score. Resources that score 0 do not count."""

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
        offered = node.present.allocatable
        for place, resource, used, amount in zip(
            demand.places, demand.resources, demand.used, demand.amounts, strict=True
        ):
            capacity = offered.get(resource, 0)
            if capacity:
                requested = used(node) + amount
                score = self.of_resource(requested, capacity)
                if score > 0:
                    total += score * self.weights[place]
                    weights += self.weights[place]
        return (2 * total + weights) // (2 * weights) if weights else 0

    def of_rows(self, demand: Demand, rows: Rows) -> Floats:
        if not demand.places:
            return np.zeros(rows.length)
        rows = rows.of(demand.places)
        scores = self._curve_column[self._percent(demand, rows).astype(np.intp)]
        if rows.present is not None:
            scores *= rows.present
        weights = self._weights_of(demand) * (scores > 0)
        scores *= weights
        total = _sum(scores)
        total /= np.maximum(_sum(weights), 1.0)
        total += 0.5
        return total


SIMPLE: Final[dict[str, Callable[[Sequence[ResourceSpec]], AllocationStrategy]]] = {
    "LeastAllocated": LeastAllocated,
    "MostAllocated": MostAllocated,
}
