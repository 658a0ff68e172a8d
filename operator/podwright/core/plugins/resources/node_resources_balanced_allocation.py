"""NodeResourcesBalancedAllocation: prefers nodes where the pod balances the use of resources.

A node's balance is (1 - d) · 100, truncated, where d is the standard deviation of the used fractions of its resources.
The score is 50 + (50 + balance with the pod - balance without it) / 2. It uses real requests, without scoring's
defaults. The plugin skips pods that request none of its resources. Source: the Kubernetes documentation, "Scheduler
Configuration".

The fractions are float64. They are computed in the same order for one node and for many, so that truncation agrees.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from podwright.core.framework.interface import (
    CycleState,
    Feasible,
    Handle,
    Int16s,
    Plugin,
    PreScorePlugin,
    Scope,
    ScorePlugin,
    Slots,
)
from podwright.core.framework.status import SKIP, Status
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import Requests
from podwright.core.plugins.resources.args import DEFAULT_RESOURCES, ResourceSpec
from podwright.core.plugins.resources.demand import Demand, ScoredResources
from podwright.core.plugins.resources.row_cache import RowCache
from podwright.core.plugins.resources.rows import Floats, ResourceRows, Rows
from podwright.core.plugins.resources.score_formula import ScoreFormula, Scratch
from podwright.core.plugins.resources.shared import Shared, shared
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo


@dataclass(frozen=True, slots=True)
class NodeResourcesBalancedAllocationArgs:
    """The resources to balance; by default CPU and memory. All weights must be 1."""

    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES

    def __post_init__(self) -> None:
        if not self.resources:
            object.__setattr__(self, "resources", DEFAULT_RESOURCES)

    def validate(self, where: str) -> Iterable[tuple[str, str]]:
        """The problems that kube-scheduler would report, as (field path, problem)."""
        seen = set()
        for i, resource in enumerate(self.resources):
            if resource.name in seen:
                yield f"{where}.resources[{i}].name", f'Duplicate value: "{resource.name}"'
            seen.add(resource.name)
            if resource.weight != 1:
                yield f"{where}.resources[{i}].weight", f"Invalid value: {resource.weight}: must be 1"


class _Kept(Shared):
    """The rows of all nodes, and the arrays made of them: the scores for a pod, and the balance without it."""

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, cache: Cache) -> None:
        super().__init__()
        self.resources = ScoredResources([resource.name for resource in args.resources], defaults=False)
        self.columns = ResourceRows(cache, self.resources.names, _used, defaults=False)
        self.scores = RowCache(cache, np.int16, self.users)
        self.before = RowCache(cache, np.float64, self.users)
        self.scratch = Scratch(1.0)


class NodeResourcesBalancedAllocation(Plugin, PreScorePlugin, ScorePlugin):
    """See the module."""

    name = "NodeResourcesBalancedAllocation"
    scoring_args = ("resources",)
    scope = Scope.NODE_PODS
    keeps_scores = True
    args_type = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        args = args or NodeResourcesBalancedAllocationArgs()
        super().__init__(args, handle)
        self._kept = kept = shared(handle.cache, self, args, lambda: _Kept(args, handle.cache))
        self._resources = kept.resources

    def pre_score(self, _state: CycleState, pod: PodInfo, _feasible: Feasible) -> Status | None:
        amounts = pod.requests.amounts
        for name in self._resources.names:
            if amounts.get(name):
                return None
        return SKIP

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        demand = self._resources.demand(pod.requests.amounts)
        return _score(demand, demand.of_nothing(), node)

    def score_all(self, _state: CycleState, pod: PodInfo, feasible: Feasible) -> Int16s:
        requests = pod.requests
        return feasible.take(self._kept.scores.get(requests, lambda: self._formula(requests)))

    def _formula(self, requests: Requests) -> ScoreFormula:
        demand = self._resources.demand(requests.amounts)
        kept = self._kept
        return _BalanceScore(self.handle.cache, kept.columns, demand=demand, before=kept.before, scratch=kept.scratch)


class _BalanceScore(ScoreFormula):
    __slots__ = ("_before", "_demand", "_scratch", "_without")

    def __init__(
        self, cache: Cache, columns: ResourceRows, demand: Demand, before: RowCache[np.float64], scratch: Scratch
    ) -> None:
        super().__init__(cache, columns)
        self._demand = demand
        self._without = demand.of_nothing()
        self._before = before
        self._scratch = scratch

    def one(self, node: NodeInfo) -> int:
        return _score(self._demand, self._without, node)

    def many(self, rows: Rows, slots: Slots | None) -> Floats:
        before = self._before.get(
            self._demand.places, lambda: _BalanceFormula(self._without, self._columns, self._scratch)
        )
        balance = _balances(self._demand, rows, self._scratch)
        balance -= before if slots is None else before[slots]
        balance *= 0.5
        return balance


class _BalanceFormula:
    """The balance of nodes without the pod, minus 150, as a formula for `RowCache`."""

    __slots__ = ("_columns", "_demand", "_scratch")

    def __init__(self, demand: Demand, columns: ResourceRows, scratch: Scratch) -> None:
        self._demand = demand
        self._columns = columns
        self._scratch = scratch

    def all(self, out: Floats) -> None:
        np.subtract(_balances(self._demand, self._columns.all_rows(), self._scratch), 150.0, out=out)

    def some(self, slots: Slots) -> Floats:
        return _balances(self._demand, self._columns.some(slots), self._scratch) - 150.0

    def one(self, node: NodeInfo) -> float:
        return _balance(_fractions(self._demand, node)) - 150.0


def _used(_allocatable: Any, used: Any) -> Any:
    return used


# One node


def _score(demand: Demand, without: Demand, node: NodeInfo) -> int:
    difference = _balance(_fractions(demand, node)) - _balance(_fractions(without, node))
    return 50 + (50 + difference) // 2


def _fractions(demand: Demand, node: NodeInfo) -> list[float]:
    """The used fraction of each resource of the node, capped at 1."""
    fractions = []
    offered = node.present.allocatable
    for resource, used, amount in zip(demand.resources, demand.used, demand.amounts, strict=True):
        capacity = offered.get(resource, 0)
        if capacity:
            requested = used(node) + amount
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


def _balances(demand: Demand, rows: Rows, scratch: Scratch) -> Floats:
    """float64[rows], whole numbers. The result is in `scratch`, so it is only valid until the next use of `scratch`."""
    if len(demand.places) < 2:
        return np.full(rows.length, 100.0)
    rows = rows.of(demand.places)
    fractions, ones = scratch.get(*rows.base.shape)
    np.add(rows.base, demand.column(1.0, rows.length), out=fractions)
    np.divide(fractions, rows.allocatable, out=fractions)
    np.minimum(fractions, ones, out=fractions)
    if len(fractions) == 2:
        balance = _difference_of_two(fractions, rows.present)
        np.subtract(2.0, balance, out=balance)
        balance *= 50.0  # as with half of the difference: a number and its double are rounded alike
    else:
        balance = _deviation_of_many(fractions, rows.present)
        np.subtract(1.0, balance, out=balance)
        balance *= 100.0
    np.floor(balance, out=balance)
    return balance


def _difference_of_two(fractions: Floats, present: Floats | None) -> Floats:
    """Twice the deviation."""
    difference: Floats = fractions[0]
    difference -= fractions[1]
    np.abs(difference, out=difference)
    if present is not None:
        difference *= present[0]
        difference *= present[1]
    return difference


def _deviation_of_many(fractions: Floats, present: Floats | None) -> Floats:
    """The same as `_balance` for all rows. A missing resource adds 0 to each sum and is not counted."""
    there = np.ones_like(fractions) if present is None else present
    count = there.sum(axis=0)
    divisor = np.maximum(count, 1.0)
    mean = _sum(fractions * there) / divisor
    away = (fractions - mean) * there
    deviation = np.sqrt(_sum(away * away) / divisor)
    greatest = np.where(there > 0, fractions, 0.0).max(axis=0)
    least = np.where(there > 0, fractions, 1.0).min(axis=0)
    return np.where(count == 2, (greatest - least) / 2, deviation)


def _sum(rows: Floats) -> Floats:
    """The sum over the first axis, added in order."""
    total = np.zeros(rows.shape[1])
    for row in rows:
        total += row
    return total
