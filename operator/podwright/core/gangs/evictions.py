"""Evictions: which units leave, as variables of a program that places members in their room.

Units that differ in nothing that counts are one variable: how many of them leave. Rows say what budgets and queues let
leave together. Next: `least_victims`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from itertools import pairwise
from math import gcd
from typing import Any

import numpy as np

from podwright.core.framework.program import Positions, Rows
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.budgets import BudgetRules
from podwright.core.preemption.queue_claims import QueueClaim
from podwright.core.preemption.units import Unit
from podwright.core.state.cache import Cache

Ranks = tuple[int, ...]
"""How little a unit should be a victim; each number outweighs all that follow. See `least_victims`."""


@dataclass(slots=True)
class Alike:
    """Units that differ in nothing that counts, the least important first. `column`: how many of them leave."""

    units: list[Unit]
    column: int = -1
    uses: dict[int, dict[str, int]] = field(default_factory=dict)
    """By slot: what each unit holds there. "" counts pods."""

    @property
    def priority(self) -> int:
        return self.units[0].priority

    @property
    def staying(self) -> int:
        """How many pods of a unit do not terminate already."""
        return sum(not pod.terminating for pod in self.units[0].pods)


class Evictions:
    """See the module. `units`: placed units that may leave, the most important first; `claim`: that of a queue, for
    which they leave; `for_whom`: each leaves for a pod of which this is true, without violating a budget.
    """

    def __init__(
        self,
        cache: Cache,
        units: Sequence[Unit],
        budgets: BudgetRules,
        claim: QueueClaim | None,
        for_whom: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        self.for_whom = for_whom
        self._cache = cache
        self._budgets = budgets
        self._claim = claim
        self._ranks = ranks_of(claim)
        alike: dict[Any, Alike] = {}
        for unit in reversed(units):
            cache.deadline.point()
            alike.setdefault(self._key(unit), Alike([])).units.append(unit)
        self.kinds = [*alike.values()]
        self._on: dict[int, list[Alike]] = {}
        self._of = {pod.uid: kind for kind in self.kinds for unit in kind.units for pod in unit.pods}
        for kind in self.kinds:
            for pod in kind.units[0].pods:
                info = cache.placement(pod.uid)
                assert info is not None, "units are placed"
                if info.slot not in kind.uses:
                    kind.uses[info.slot] = {}
                    self._on.setdefault(info.slot, []).append(kind)
                uses = kind.uses[info.slot]
                for resource, amount in (("", 1), *pod.requests.amounts.items()):
                    uses[resource] = uses.get(resource, 0) + amount

    def _key(self, unit: Unit) -> Any:
        pod = unit.pods[0]
        if len(unit.pods) > 1 or pod.group:
            return unit
        info = self._cache.placement(pod.uid)
        guarded = (pod.namespace, pod.labels) if self._budgets.of(pod.namespace) is not None else None
        kind = None if self._claim is None else self._claim.kind_of(unit)
        slot = None if info is None else info.slot
        return slot, self._ranks(unit), pod.requests, pod.terminating, guarded, kind

    def enter(self, rows: Rows, slots: AbstractSet[int]) -> None:
        """Makes the variables of units that hold something on nodes with these slots. The others stay."""
        self.kinds = [kind for kind in self.kinds if not slots.isdisjoint(kind.uses)]
        for kind, column in zip(self.kinds, rows.variables([len(kind.units) for kind in self.kinds]), strict=True):
            kind.column = int(column)
        for kind in self.kinds:
            for spare in kind.units[0].spares:
                other = self._of.get(spare.uid)
                if other is not None and other.column >= 0:
                    rows.at_most(np.array([kind.column, other.column]), 0, np.array([1, -1]))

    @property
    def columns(self) -> Positions:
        return np.array([kind.column for kind in self.kinds], np.int64)

    def on(self, slot: int, resource: str) -> tuple[Positions, Sequence[int], int]:
        """Returns what units hold of a resource on a node: the variables, the amount that each frees, and the total."""
        held = [kind for kind in self._on.get(slot, ()) if kind.uses[slot].get(resource, 0)]
        amounts = [kind.uses[slot][resource] for kind in held]
        total = sum(amount * len(kind.units) for kind, amount in zip(held, amounts, strict=True))
        return np.array([kind.column for kind in held], np.int64), amounts, total

    def columns_of(self, victims: Iterable[PodInfo]) -> Iterator[int]:
        """The variable of each unit of these pods."""
        uids = {pod.uid for pod in victims}
        for kind in self.kinds:
            for unit in kind.units:
                if unit.pods[0].uid in uids:
                    yield kind.column

    def leaving(self, found: Positions) -> Iterator[Unit]:
        """The units that leave by this solution."""
        for kind in self.kinds:
            yield from kind.units[: max(0, int(found[kind.column]))]

    def limit(self, rows: Rows) -> None:
        """Queues keep what is theirs, and no budget is violated for them; else as little as possible."""
        if self._claim is not None:
            self._claim.limit(rows, [kind.units[0] for kind in self.kinds], self.columns)
        if self._budgets:
            self._keep_budgets(rows, strictly=self._claim is not None or self.for_whom is not None)

    def _keep_budgets(self, rows: Rows, *, strictly: bool) -> None:
        by_budget: dict[tuple[str, int], dict[int, int]] = {}
        for kind in self.kinds:
            self._cache.deadline.point()
            unit = kind.units[0]
            alone = (self._of.get(pod.uid) for pod in unit.spares)
            besides = [pod for pod, other in zip(unit.spares, alone, strict=True) if other is None or other.column < 0]
            for pod in (*unit.pods, *besides):
                budgets = self._budgets.of(pod.namespace) if pod.labels and not pod.terminating else None
                applying = None
                if budgets is not None:
                    applying = budgets.selected.by(pod.labels) if strictly else budgets.applying(pod)
                for number in () if applying is None else np.flatnonzero(applying[1]).tolist():
                    counts = by_budget.setdefault((pod.namespace, number), {})
                    counts[kind.column] = counts.get(kind.column, 0) + 1
        beyond = []
        for (namespace, number), counts in by_budget.items():
            found = self._budgets.of(namespace)
            assert found is not None, "its budgets apply"
            allowed = max(0, int(found.allowed[number]))
            columns, values = np.array([*counts]), np.array([*counts.values()])
            if not strictly:
                most = int(values @ rows.most(columns))
                beyond.append(rows.variables([most]))
                columns, values = np.append(columns, beyond[-1]), np.append(values, -1)
            rows.at_most(columns, allowed, values)
        if beyond:
            rows.prefer(np.concatenate(beyond), -np.ones(len(beyond)))

    def prefer_spared(self, rows: Rows, priority: int) -> None:
        """The fewer pods leave of this priority and above the better."""
        kinds = [kind for kind in self.kinds if kind.priority >= priority]
        if kinds:
            rows.prefer(np.array([kind.column for kind in kinds]), -np.array([kind.staying for kind in kinds]))

    def prefer_least(self, rows: Rows) -> None:
        """The lower the highest rank of all that leave the better, then the fewer pods, then the lower the sum of
        priorities.
        """
        counted = [kind for kind in self.kinds if kind.staying]
        if not counted:
            return
        ranks = [self._ranks(kind.units[0]) for kind in counted]
        for position in range(len(ranks[0])):
            self._prefer_low(rows, [(kind, rank[position]) for kind, rank in zip(counted, ranks, strict=True)])
        columns = np.array([kind.column for kind in counted])
        pods = np.array([kind.staying for kind in counted])
        rows.prefer(columns, -pods)
        lowest = min(kind.priority for kind in counted)
        sums = [kind.staying * (kind.priority - lowest) for kind in counted]
        if unit := gcd(*sums):
            rows.prefer(columns, -np.array([each // unit for each in sums]))

    @staticmethod
    def _prefer_low(rows: Rows, kinds: Sequence[tuple[Alike, int]]) -> None:
        levels = sorted({rank for _, rank in kinds})
        if len(levels) == 1:
            return
        reached = rows.variables([1] * len(levels))
        for lower, higher in pairwise(reached):
            rows.at_most(np.array([higher, lower]), 0, np.array([1, -1]))
        number = {rank: int(column) for rank, column in zip(levels, reached, strict=True)}
        for kind, rank in kinds:
            rows.at_most(np.array([kind.column, number[rank]]), 0, np.array([1, -len(kind.units)]))
        rows.prefer(reached, -np.ones(len(reached)))


def ranks_of(claim: QueueClaim | None) -> Callable[[Unit], Ranks]:
    return (lambda unit: (unit.priority,)) if claim is None else claim.ranks


def cost_of(units: Sequence[Unit], ranks: Callable[[Unit], Ranks], violations: int) -> tuple[int, ...]:
    """Compares sets of victims: the least is best. In the order of the aims of a program."""
    staying = [(unit, sum(not pod.terminating for pod in unit.pods)) for unit in units]
    staying = [each for each in staying if each[1]]
    worst = map(max, zip(*(ranks(unit) for unit, _ in staying), strict=True))
    pods = sum(count for _, count in staying)
    return (violations, *worst, pods, sum(unit.priority * count for unit, count in staying))
