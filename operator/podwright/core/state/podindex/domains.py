"""Topology domains: which nodes share a value of a label, and how much is counted in each domain.

Domains are numbered from 0 to `count` - 1; the number `count` stands for no domain, so arrays over domains have one entry
more, which is 0. A `Domains` never changes: when a node comes, goes or changes, a new one takes its place, and sums are
made anew over it. Between that, each pod that comes or goes changes one entry of each sum it takes part in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.affinity import NodeAffinity
from podwright.core.objects.taints import Tolerations
from podwright.core.state.columns import DerivedColumns, NodeTable
from podwright.core.state.columns.matching import affinity_column, tolerated_column
from podwright.core.state.columns.table import ABSENT

Bools = NDArray[np.bool_]
Int32s = NDArray[np.int32]
Rows = NDArray[np.intp]


class Eligibility(NamedTuple):
    """Which nodes count in their domains: those with all `keys` that fit the affinity and whose taints are tolerated.

    None: does not matter. `missing_is_empty`: a node without the label counts as if its value were the empty string.
    `compare` is the feature gate TaintTolerationComparisonOperators.
    """

    keys: tuple[str, ...] = ()
    affinity: NodeAffinity | None = None
    tolerations: Tolerations | None = None
    compare: bool = False
    missing_is_empty: bool = False


ALL_WITH_KEY = Eligibility()
"""Every node that has the label counts."""


class Domains:
    """The domains of one label key. See the module.

    `of_node`: intp[nodes], each node's domain, or `count` for nodes without the label and holes. `counted`: the same, but
    `count` for nodes that are not eligible. `ids`: the domains with at least one eligible node.
    """

    __slots__ = ("_distinct", "_ids", "count", "counted", "empty", "epoch", "full", "of_node")

    def __init__(self, epoch: int, count: int, of_node: Rows, counted: Rows, empty: int) -> None:
        self.epoch = epoch
        self.count = count
        self.of_node = of_node
        self.counted = counted
        self.empty = empty
        """The domain of the empty value, or `count`."""
        self.full = bool(counted is of_node and not (of_node == count).any())
        """Every row has the label and is eligible."""
        self._ids: Rows | None = None
        self._distinct = -1

    @property
    def ids(self) -> Rows:
        if self._ids is None:
            present = np.zeros(self.count + 1, np.bool_)
            present[self.counted] = True
            self._ids = np.flatnonzero(present[: self.count])
        return self._ids

    def distinct(self) -> int:
        """How many domains the nodes are in, whether eligible or not."""
        if self._distinct < 0:
            self._distinct = self.distinct_among(None)
        return self._distinct

    def distinct_among(self, slots: Rows | None) -> int:
        """How many domains these nodes (None: all) are in; nodes without the label do not add to it."""
        seen = np.zeros(self.count + 1, np.bool_)
        seen[self.of_node if slots is None else self.of_node[slots]] = True
        return int(np.count_nonzero(seen[: self.count]))


class Countable(Protocol):
    """Something that is counted per row, and tells its sums of each change."""

    sums: dict[Hashable, Sums]

    def per_row(self, rows: int) -> tuple[Rows | None, Int32s]:
        """(None, int32[rows]), or the rows that are not 0 and their counts."""


class Sums:
    """Counts summed over domains: `values` is int32[domains + 1], `total` their sum. Kept by what is counted."""

    __slots__ = ("domains", "total", "values")

    def __init__(self, counted: Countable, domains: Domains) -> None:
        self.domains = domains
        where, counts = counted.per_row(len(domains.counted))
        into = domains.counted if where is None else domains.counted[where]
        summed = np.bincount(into, counts, domains.count + 1)
        summed[domains.count] = 0
        self.values: Int32s = summed.astype(np.int32)
        self.total = int(self.values.sum())

    def add(self, slot: int, delta: int) -> None:
        """A row's count changed. Rows that came after the domains were made are left to the next ones."""
        domains = self.domains
        if slot < len(domains.counted):
            domain = domains.counted[slot]
            if domain != domains.count:
                self.values[domain] += delta
                self.total += delta

    def least(self, changed: dict[int, int] | None = None) -> int:
        """The least sum of a domain with eligible nodes, 0 if there is none. `changed`: what to add in which domain."""
        ids = self.domains.ids
        if not len(ids):
            return 0
        values = self.values
        if changed:
            values = values.copy()
            for domain, delta in changed.items():
                values[domain] += delta
        return int(np.min(values[: self.domains.count] if len(ids) == self.domains.count else values[ids]))


class DomainCache:
    """Domains by label key and eligibility, made anew when the nodes have changed."""

    def __init__(self, table: NodeTable, derived: DerivedColumns, limit: int = 256) -> None:
        self._table = table
        self._derived = derived
        self._limit = limit
        self._known: OrderedDict[tuple[str, Eligibility], Domains] = OrderedDict()

    def get(self, key: str, eligibility: Eligibility = ALL_WITH_KEY) -> Domains:
        """The domains of a label key. The same object as long as no node changes."""
        known = self._known.get((key, eligibility))
        if known is not None and known.epoch == self._table.epoch:
            self._known.move_to_end((key, eligibility))
            return known
        made = self._base(key) if eligibility == ALL_WITH_KEY else self._restricted(key, eligibility)
        self._known[key, eligibility] = made
        self._known.move_to_end((key, eligibility))
        if len(self._known) > self._limit:
            self._known.popitem(last=False)
        return made

    def sums(self, counted: Countable, key: str, eligibility: Eligibility = ALL_WITH_KEY) -> Sums:
        """What is counted, summed over the domains of a label key."""
        domains = self.get(key, eligibility)
        sums = counted.sums.get((key, eligibility))
        if sums is None or sums.domains is not domains:
            counted.sums.pop((key, eligibility), None)
            if len(counted.sums) >= _SUMS_KEPT:
                del counted.sums[next(iter(counted.sums))]
            sums = counted.sums[key, eligibility] = Sums(counted, domains)
        return sums

    def _base(self, key: str) -> Domains:
        table = self._table
        labels = table.labels(key)
        values = table.label_values(key)
        count = len(values)
        empty = values.get("", count)
        if count > 2 * table.size + 64:
            # Most values belong to nodes long gone: number those that are left, behind one for no label.
            left = np.unique(np.append(labels, ABSENT))
            of_node = np.searchsorted(left, labels) - 1
            found = int(np.searchsorted(left, empty)) - 1
            count = len(left) - 1
            empty = found if found < count and left[found + 1] == empty else count
        else:
            of_node = labels.astype(np.intp)
        of_node[of_node < 0] = count
        return Domains(table.epoch, count, of_node, of_node, empty)

    def _restricted(self, key: str, eligibility: Eligibility) -> Domains:
        table = self._table
        base = self.get(key)
        eligible = table.valid
        for other in eligibility.keys:
            if other != key:
                column = self.get(other)
                if not column.full:
                    eligible = eligible & (column.of_node != column.count)
        if eligibility.affinity is not None:
            eligible = eligible & affinity_column(self._derived, eligibility.affinity)
        if eligibility.tolerations is not None:
            eligible = eligible & tolerated_column(self._derived, eligibility.tolerations, compare=eligibility.compare)
        counted = base.of_node
        if eligibility.missing_is_empty and base.empty != base.count:
            counted = np.where(counted == base.count, base.empty, counted)
        if not eligible.all():
            counted = np.where(eligible, counted, base.count)
        return Domains(table.epoch, base.count, base.of_node, counted, base.empty)


_SUMS_KEPT = 8
