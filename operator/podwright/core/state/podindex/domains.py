"""Topology domains, which are the nodes that share a value of a label, and counts summed over each domain.

Domains are numbered from 0 to `count` - 1. The number `count` stands for no domain, so arrays over domains have one more
entry, which is 0. A `Domains` is immutable: when a node is added, updated or removed, a new one replaces it, and sums are
recomputed. Until then, each added or removed pod changes one entry of each sum that includes it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, NamedTuple, Protocol

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


_MAX_SUMS: Final = 8
"""The number of sums, by label key and eligibility, that are cached for one set of counts."""


class Eligibility(NamedTuple):
    """Which nodes count in their domains: those with all `keys` that match the affinity and whose taints are tolerated.

    None excludes no node. `missing_is_empty`: a node without the label counts as if its value were the empty string.
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
    `count` for nodes that are not eligible, too. `ids`: the domains with at least one eligible node.
    """

    __slots__ = ("_distinct", "_ids", "count", "counted", "empty", "epoch", "full", "of_node")

    def __init__(self, epoch: int, count: int, of_node: Rows, counted: Rows, empty: int) -> None:
        self.epoch = epoch
        self.count = count
        self.of_node = of_node
        self.counted = counted
        self.empty = empty
        """The domain of the empty label value; `count` if there is none."""
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
        """The number of domains of all nodes, including nodes that are not eligible."""
        if self._distinct < 0:
            self._distinct = self.distinct_among(None)
        return self._distinct

    def distinct_among(self, slots: Rows | None) -> int:
        """The number of domains of these nodes (None: all). Nodes without the label are in no domain."""
        seen = np.zeros(self.count + 1, np.bool_)
        seen[self.of_node if slots is None else self.of_node[slots]] = True
        return int(np.count_nonzero(seen[: self.count]))


class Countable(Protocol):
    """Counts per row, which are also summed over domains. Its owner passes each change on to `sums`."""

    sums: dict[Hashable, Sums]

    def per_row(self, rows: int) -> tuple[Rows | None, Int32s]:
        """(None, int32[rows] of counts), or the rows with a count other than 0, and their counts."""


class Sums:
    """Counts summed over domains: `values` is int32[domains + 1], `total` is their sum."""

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
        """Adds to the domain of a row. Ignores rows that are newer than the domains, because the next sums will include them."""
        domains = self.domains
        if slot < len(domains.counted):
            domain = domains.counted[slot]
            if domain != domains.count:
                self.values[domain] += delta
                self.total += delta

    def least(self, changed: dict[int, int] | None = None) -> int:
        """The least sum of a domain with eligible nodes; 0 if there is none. `changed`: amounts to add, by domain."""
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
    """A cache of domains by label key and eligibility, for the current nodes."""

    def __init__(self, table: NodeTable, derived: DerivedColumns, limit: int = 256) -> None:
        self._table = table
        self._derived = derived
        self._limit = limit
        self._cache: OrderedDict[tuple[str, Eligibility], Domains] = OrderedDict()

    def get(self, key: str, eligibility: Eligibility = ALL_WITH_KEY) -> Domains:
        """The domains of a label key; the same object as long as no node changes."""
        cached = self._cache.get((key, eligibility))
        if cached is not None and cached.epoch == self._table.epoch:
            self._cache.move_to_end((key, eligibility))
            return cached
        domains = self._base(key) if eligibility == ALL_WITH_KEY else self._restricted(key, eligibility)
        self._cache[key, eligibility] = domains
        self._cache.move_to_end((key, eligibility))
        if len(self._cache) > self._limit:
            self._cache.popitem(last=False)
        return domains

    def sums(self, counted: Countable, key: str, eligibility: Eligibility = ALL_WITH_KEY) -> Sums:
        """The counts summed over the domains of a label key."""
        domains = self.get(key, eligibility)
        sums = counted.sums.get((key, eligibility))
        if sums is None or sums.domains is not domains:
            counted.sums.pop((key, eligibility), None)
            if len(counted.sums) >= _MAX_SUMS:
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
            # Most values belong to removed nodes, so only values in use get a number. ABSENT sorts first and becomes -1.
            in_use = np.unique(np.append(labels, ABSENT))
            of_node = np.searchsorted(in_use, labels) - 1
            found = int(np.searchsorted(in_use, empty)) - 1
            count = len(in_use) - 1
            empty = found if found < count and in_use[found + 1] == empty else count
        else:
            of_node = labels.astype(np.intp)
        of_node[of_node < 0] = count
        return Domains(table.epoch, count, of_node=of_node, counted=of_node, empty=empty)

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
        return Domains(table.epoch, base.count, of_node=base.of_node, counted=counted, empty=base.empty)
