"""Topology domains, which are the nodes that share a value of a label, and counts summed over each domain.

Domains are numbered from 0 to `count` - 1. The number `count` stands for no domain, so arrays over domains have one
more entry, which is 0. A `Domains` is immutable: when a node is added or removed, or its labels or taints change, a new
one replaces it, and sums are recomputed. Until then, each added or removed pod changes one entry of each sum that
includes it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.affinity import NodeAffinity
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.taints import Tolerations
from podwright.core.state.columns import DerivedColumns, NodeTable
from podwright.core.state.columns.matching import affinity_column, tolerated_column
from podwright.core.state.columns.table import ABSENT

Bools = NDArray[np.bool_]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Rows = NDArray[np.intp]
Counts = Int32s | Int64s
A = TypeVar("A", bound=np.generic)

_MAX_SUMS: Final = 8
"""The number of sums, by label key and eligibility, that are cached for one set of counts."""
_MAX_BYTES: Final = 32 << 20
"""The memory for domains that are cached, approximately."""
_LEAST_DOMAINS: Final = 64
_MAX_ELIGIBLE: Final = 256


class Eligibility(NamedTuple):
    """Which nodes count in their domains: those with all `keys` that match the affinity and whose taints are tolerated.

    None excludes no node. `missing_is_empty`: a node without the label counts as if its value were the empty string.
    `compare` is the feature gate TaintTolerationComparisonOperators.
    """

    keys: frozenset[str] = frozenset()
    affinity: NodeAffinity | None = None
    tolerations: Tolerations | None = None
    compare: bool = False
    missing_is_empty: bool = False


ALL_WITH_KEY = Eligibility()
"""Every node that has the label counts."""


class Domains:
    """The domains of one label key. See the module.

    `of_node`: intp[nodes], each node's domain, or `count` for nodes without the label and holes. `counted`: the same,
    but `count` for nodes that are not eligible, too. `ids`: the domains with at least one eligible node. `everywhere`:
    all nodes have the label.
    """

    __slots__ = ("_distinct", "_ids", "_rows_alone", "count", "counted", "empty", "everywhere", "full", "of_node")

    def __init__(self, count: int, of_node: Rows, counted: Rows, empty: int, *, everywhere: bool = False) -> None:
        self.count = count
        self.everywhere = everywhere
        self.of_node = of_node
        self.counted = counted
        self.empty = empty
        """The domain of the empty label value; `count` if no node has it."""
        self.full = bool(counted is of_node and not (of_node == count).any())
        """Every row has the label and is eligible."""
        self._ids: Rows | None = None
        self._distinct = -1
        rows = len(of_node)
        self._rows_alone = rows <= count and bool(np.array_equal(of_node, np.arange(rows)))
        """Row i is domain i, as hostnames mostly are."""

    @property
    def ids(self) -> Rows:
        if self._ids is None:
            present = np.zeros(self.count + 1, np.bool_)
            present[self.counted] = True
            self._ids = np.flatnonzero(present[: self.count])
        return self._ids

    def per_node(self, values: NDArray[A], take: Callable[[NDArray[Any]], NDArray[Any]] | None = None) -> NDArray[A]:
        """[nodes]: of values by domain, [domains + 1], that of each node's domain. Read-only. `take` picks the rows
        that are wanted; None: all.
        """
        if self._rows_alone:
            rows = values[: len(self.of_node)]
            return rows if take is None else take(rows)
        return values[self.of_node if take is None else take(self.of_node)]

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

    def per_row(self, rows: int) -> tuple[Rows | None, Counts]:
        """(None, the counts of all rows), or the rows with a count other than 0, and their counts."""


class Sums:
    """Counts summed over domains: `values` is int32 or int64[domains + 1] like the counts, `total` is their sum."""

    __slots__ = ("_domains_with", "domains", "total", "values")

    def __init__(self, counted: Countable | None, domains: Domains) -> None:
        """`counted` None: nothing is counted."""
        self.domains = domains
        self._domains_with: dict[int, int] | None = None
        if counted is None:
            self.values: Counts = np.zeros(domains.count + 1, np.int32)
            self.total = 0
            return
        where, counts = counted.per_row(len(domains.counted))
        into = domains.counted if where is None else domains.counted[where]
        summed = np.bincount(into, counts, domains.count + 1)
        summed[domains.count] = 0
        self.values = summed.astype(np.int64) if counts.dtype == np.int64 else summed.astype(np.int32)
        self.total = int(self.values.sum())

    def add(self, slot: int, delta: int) -> None:
        """Adds to the domain of a row. Ignores rows that are newer than the domains, because the next sums will include
        them.
        """
        domains = self.domains
        if slot < len(domains.counted):
            domain = domains.counted[slot]
            if domain != domains.count:
                if (by_sum := self._domains_with) is not None:
                    before = int(self.values[domain])
                    by_sum[before + delta] = by_sum.get(before + delta, 0) + 1
                    by_sum[before] -= 1
                    if not by_sum[before]:
                        del by_sum[before]
                self.values[domain] += delta
                self.total += delta

    def add_many(self, slots: Rows, deltas: Int32s) -> None:
        """`add` for each of these rows."""
        domains = self.domains
        known = slots < len(domains.counted)
        changes = np.bincount(domains.counted[slots[known]], deltas[known], domains.count + 1)
        changes[domains.count] = 0
        self.values += changes.astype(self.values.dtype)
        self.total += int(changes.sum())
        self._domains_with = None

    @property
    def least(self) -> int:
        """The least sum of a domain with eligible nodes, or 0."""
        return min(self._by_sum(), default=0)

    @property
    def greatest(self) -> int:
        """The greatest sum of such a domain, or 0."""
        return max(self._by_sum(), default=0)

    def _by_sum(self) -> Mapping[int, int]:
        """How many domains with eligible nodes have each sum. Kept, because with as many domains as nodes a pass over
        all sums takes longer than the rest of a decision.
        """
        if self._domains_with is None:
            ids = self.domains.ids
            sums = self.values[: self.domains.count] if len(ids) == self.domains.count else self.values[ids]
            least = int(sums.min()) if len(ids) else 0
            domains = np.bincount(sums - least)
            self._domains_with = {least + more: int(domains[more]) for more in domains.nonzero()[0].tolist()}
        return self._domains_with

    def least_with(self, changed: Mapping[int, int], least: int) -> int:
        """`least` after amounts were added to domains with eligible nodes. `least`: the value without them."""
        if not changed:
            return least
        if max(changed.values()) <= 0:
            return min(least, *(int(self.values[domain]) + delta for domain, delta in changed.items()))
        values = self.values.copy()
        for domain, delta in changed.items():
            values[domain] += delta
        return int(np.min(values[self.domains.ids]))


class DomainCache:
    """A cache of domains by label key and eligibility, for the current nodes."""

    def __init__(self, table: NodeTable, derived: DerivedColumns) -> None:
        self._table = table
        self._derived = derived
        self._epoch = -1
        self._cache: OrderedDict[tuple[str, Eligibility], Domains] = OrderedDict()
        self._eligible: dict[Eligibility, Bools | None] = {}
        self._nowhere = self._without_label()
        compact_regularly(self)

    def compact(self) -> None:
        """Drops all domains. Those in use are computed again, which takes less than a millisecond each."""
        self._start_over()

    def get(self, key: str, eligibility: Eligibility = ALL_WITH_KEY) -> Domains:
        """The domains of a label key; the same object as long as no labels or taints change. Keys that no node has
        share their domains.
        """
        if self._epoch != self._table.label_epoch:
            self._start_over()
        cached = self._cache.get((key, eligibility))
        if cached is not None:
            self._cache.move_to_end((key, eligibility))
            return cached
        if key not in self._table.label_keys:
            return self._nowhere
        domains = self._base(key) if eligibility == ALL_WITH_KEY else self._restricted(key, eligibility)
        self._cache[key, eligibility] = domains
        if len(self._cache) > max(_LEAST_DOMAINS, _MAX_BYTES // (16 * self._table.size)):
            self._cache.popitem(last=False)
        return domains

    def _start_over(self) -> None:
        self._epoch = self._table.label_epoch
        self._cache.clear()
        self._eligible.clear()
        self._nowhere = self._without_label()

    def _without_label(self) -> Domains:
        """The domains of a label that no node has."""
        rows = np.zeros(self._table.size, np.intp)
        return Domains(0, of_node=rows, counted=rows, empty=0)

    def sums(
        self, counted: Countable, key: str, eligibility: Eligibility = ALL_WITH_KEY, domains: Domains | None = None
    ) -> Sums:
        """The counts summed over the domains of a label key. `domains`: these domains, if the caller has them
        already.
        """
        if domains is None:
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
            # Most values belong to removed nodes, so only values in use get a number. ABSENT sorts first and becomes
            # -1.
            in_use = np.unique(np.append(labels, ABSENT))
            of_node = np.searchsorted(in_use, labels) - 1
            found = int(np.searchsorted(in_use, empty)) - 1
            count = len(in_use) - 1
            empty = found if found < count and in_use[found + 1] == empty else count
        else:
            of_node = labels.astype(np.intp)
        of_node[of_node < 0] = count
        everywhere = np.count_nonzero(of_node == count) == table.size - table.count
        return Domains(count, of_node=of_node, counted=of_node, empty=empty, everywhere=everywhere)

    def _restricted(self, key: str, eligibility: Eligibility) -> Domains:
        base = self.get(key)
        eligible = self._eligible_nodes(eligibility)
        counted = base.of_node
        if eligibility.missing_is_empty and base.empty != base.count:
            counted = np.where(counted == base.count, base.empty, counted)
        if eligible is not None:
            counted = np.where(eligible, counted, base.count)
        return Domains(base.count, of_node=base.of_node, counted=counted, empty=base.empty, everywhere=base.everywhere)

    def _eligible_nodes(self, eligibility: Eligibility) -> Bools | None:
        """bool[nodes]; None: all. It is the same for all keys."""
        if eligibility in self._eligible:
            return self._eligible[eligibility]
        eligible = self._compute_eligible(eligibility)
        if len(self._eligible) >= _MAX_ELIGIBLE:
            self._eligible.clear()
        self._eligible[eligibility] = None if eligible.all() else eligible
        return self._eligible[eligibility]

    def _compute_eligible(self, eligibility: Eligibility) -> Bools:
        table = self._table
        if not eligibility.keys <= table.label_keys:
            return np.zeros(table.size, np.bool_)
        eligible = table.valid
        for key in eligibility.keys:
            column = self.get(key)
            if not column.full:
                eligible = eligible & (column.of_node != column.count)
        if eligibility.affinity is not None:
            eligible = eligible & affinity_column(self._derived, eligibility.affinity)
        if eligibility.tolerations is not None:
            eligible = eligible & tolerated_column(self._derived, eligibility.tolerations, compare=eligibility.compare)
        return eligible
