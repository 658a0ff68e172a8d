"""NodeResourcesBalancedAllocation: prefers nodes on which the pod makes resources more evenly used than they were.

A node's balance is (1 - d) · 100, truncated, d being the standard deviation of the used fractions of its resources.
The score is 50 + (50 + balance with the pod - balance without it) / 2. It takes real requests, without scoring's
defaults, and is skipped for pods that request none of its resources. Source: the Kubernetes documentation, "Scheduler
Configuration".

The fractions are float64 and are worked out in the same order for one node and for many, so that truncation agrees.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from podwright.core.framework.interface import (
    CycleState,
    Feasible,
    Handle,
    Int64s,
    Plugin,
    PreScorePlugin,
    ScorePlugin,
    Slots,
)
from podwright.core.framework.status import SKIP, Status
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import Requests
from podwright.core.plugins._kept_rows import KeptRows
from podwright.core.plugins._resource_args import DEFAULT_RESOURCES, ResourceSpec
from podwright.core.plugins._resource_recipe import ScoreRecipe
from podwright.core.plugins._resource_rows import Floats, ResourceRows, Rows, used_of
from podwright.core.plugins._resource_strategies import Demand, Wanted, demand_of, int64
from podwright.core.state.nodeinfo import NodeInfo


@dataclass(frozen=True, slots=True)
class NodeResourcesBalancedAllocationArgs:
    """The resources to balance; none: CPU and memory. Weights can only be 1."""

    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES

    def __post_init__(self) -> None:
        if not self.resources:
            object.__setattr__(self, "resources", DEFAULT_RESOURCES)

    def validate(self, where: str) -> Iterable[tuple[str, str]]:
        """What kube-scheduler would refuse, as (field path, problem)."""
        seen = set()
        for i, resource in enumerate(self.resources):
            if resource.name in seen:
                yield f"{where}.resources[{i}].name", f'Duplicate value: "{resource.name}"'
            seen.add(resource.name)
            if resource.weight != 1:
                yield f"{where}.resources[{i}].weight", f"Invalid value: {resource.weight}: must be 1"


class NodeResourcesBalancedAllocation(Plugin, PreScorePlugin, ScorePlugin):
    """See the module."""

    name = "NodeResourcesBalancedAllocation"
    args_type = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        args = args or NodeResourcesBalancedAllocationArgs()
        super().__init__(args, handle)
        self._resources = tuple(resource.name for resource in args.resources)
        self._columns = ResourceRows(handle.cache, self._resources, _used, defaults=False)
        self._scores = KeptRows(handle.cache, np.int64)
        self._before = KeptRows(handle.cache, np.float64)
        self._scratch = np.empty((2, 0))

    def pre_score(self, _state: CycleState, pod: PodInfo, _feasible: Feasible) -> Status | None:
        amounts = pod.requests.amounts
        return None if any(amounts.get(name) for name in self._resources) else SKIP

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        demand = self._demand(pod.requests)
        return _score(demand, _without_pod(demand), node)

    def score_all(self, _state: CycleState, pod: PodInfo, feasible: Feasible) -> Int64s:
        requests = pod.requests
        return feasible.take(self._scores.get(requests, lambda: self._recipe(requests)))

    def _demand(self, requests: Requests) -> Demand:
        return demand_of(self._resources, lambda name: requests.amounts.get(name, 0))

    def _recipe(self, requests: Requests) -> ScoreRecipe:
        demand = self._demand(requests)
        without = _without_pod(demand)

        def of_rows(rows: Rows, slots: Slots | None, out: Int64s) -> None:
            before = self._before.get(without, lambda: _BalanceRecipe(without, self._columns))
            balance = _balances(demand, rows, self._buffers(rows.length))
            balance -= before if slots is None else before[slots]
            balance += 150.0
            balance *= 0.5
            np.copyto(out, balance, casting="unsafe")

        return ScoreRecipe(self.handle.cache, self._columns, lambda node: _score(demand, without, node), of_rows)

    def _buffers(self, length: int) -> Floats:
        if self._scratch.shape[1] < length:
            self._scratch = np.empty((2, length))
        return self._scratch[:, :length]


class _BalanceRecipe:
    """The balance of nodes as they are, for `KeptRows`."""

    def __init__(self, demand: Demand, columns: ResourceRows) -> None:
        self._demand = demand
        self._columns = columns

    def all(self, out: Floats) -> None:
        rows = self._columns.everything()
        out[:] = _balances(self._demand, rows, np.empty((2, rows.length)))

    def some(self, slots: Slots) -> Floats:
        return _balances(self._demand, self._columns.some(slots), np.empty((2, len(slots))))

    def one(self, node: NodeInfo) -> float:
        return float(_balance(_fractions(self._demand, node)))


def _used(_allocatable: Any, used: Any) -> Any:
    return used


# One node


def _without_pod(demand: Demand) -> Demand:
    return tuple(wanted._replace(amount=0) for wanted in demand)


def _score(demand: Demand, without: Demand, node: NodeInfo) -> int:
    difference = _balance(_fractions(demand, node)) - _balance(_fractions(without, node))
    return 50 + (50 + difference) // 2


def _fractions(demand: Demand, node: NodeInfo) -> list[float]:
    """The used fraction of each resource that the node has, at most 1."""
    fractions = []
    for _, resource, amount in demand:
        capacity = node.allocatable(resource)
        if capacity:
            requested = int64(used_of(node, resource, defaults=False) + amount)
            fractions.append(min(float(requested) / float(capacity), 1.0))
    return fractions


def _balance(fractions: list[float]) -> int:
    count = len(fractions)
    deviation = 0.0
    if count == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif count > 2:
        total = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / count
        squares = 0.0
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / count)
    return int((1 - deviation) * 100.0)


# Many nodes


def _balances(demand: Demand, rows: Rows, scratch: Floats) -> Floats:
    """float64[rows], whole numbers. The result may lie in `scratch`, float64[2, rows]."""
    if len(demand) < 2:
        return np.full(rows.length, 100.0)
    deviation = _deviation_of_two(demand, rows, scratch) if len(demand) == 2 else _deviation_of_many(demand, rows)
    np.subtract(1.0, deviation, out=deviation)
    deviation *= 100.0
    np.floor(deviation, out=deviation)
    return deviation


def _fraction_rows(wanted: Wanted, rows: Rows, out: Floats) -> None:
    np.add(rows.base[wanted.place], float(wanted.amount), out=out)
    np.divide(out, rows.allocatable[wanted.place], out=out)
    np.minimum(out, 1.0, out=out)


def _deviation_of_two(demand: Demand, rows: Rows, scratch: Floats) -> Floats:
    first: Floats = scratch[0]
    second: Floats = scratch[1]
    _fraction_rows(demand[0], rows, first)
    _fraction_rows(demand[1], rows, second)
    first -= second
    first *= 0.5
    np.abs(first, out=first)
    if rows.present is not None:
        first *= rows.present[demand[0].place]
        first *= rows.present[demand[1].place]
    return first


def _deviation_of_many(demand: Demand, rows: Rows) -> Floats:
    """Row by row what `_balance` does; a resource that is missing adds 0 to each sum and is not counted."""
    indices = [wanted.place for wanted in demand]
    fractions = np.empty((len(demand), rows.length))
    for fraction, wanted in zip(fractions, demand, strict=True):
        _fraction_rows(wanted, rows, fraction)
    present = np.ones_like(fractions) if rows.present is None else rows.present[indices]
    count = present.sum(axis=0)
    divisor = np.maximum(count, 1.0)
    mean = _sum(fractions * present) / divisor
    away = (fractions - mean) * present
    deviation = np.sqrt(_sum(away * away) / divisor)
    if rows.present is None:
        return deviation
    greatest = np.where(present > 0, fractions, 0.0).max(axis=0)
    least = np.where(present > 0, fractions, 1.0).min(axis=0)
    deviation = np.where(count == 2, (greatest - least) / 2, deviation)
    return np.where(count < 2, 0.0, deviation)


def _sum(rows: Floats) -> Floats:
    """The sum over the first axis, strictly one after the other."""
    total = np.zeros(rows.shape[1])
    for row in rows:
        total += row
    return total
