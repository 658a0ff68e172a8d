"""Topology domains, which are the nodes that share a value of a label, and counts summed over each domain.

Domains are numbered from 0 to `count` - 1. The number `count` stands for no domain, so arrays over domains have one
more entry, which is 0. Each added or removed pod changes one entry of each sum that includes it. When nodes come or go,
or their labels or taints change, only their rows are looked at, and sums change by the pods of the nodes that are in
another domain now. Some numbers are spare, for new values of the label; without one left, all is computed again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
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
MAX_ELIGIBLE: Final = 256
_SPARE: Final = 64
MOST_MOVES: Final = 256
"""If more nodes than this change their domain, the sums are computed again."""


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


class Move(NamedTuple):
    """A node that is in another domain now. `gone`: it was the last of the one before; `come`: it is the first of the
    new one.
    """

    row: int
    before: int
    after: int
    gone: bool
    come: bool


class Domains:
    """The domains of one label key, as of `seq` of the table's `label_changes`. See the module.

    `of_node`: intp[nodes], each node's domain, or `count` for nodes without the label and holes. `counted`: the same,
    but `count` for nodes that are not eligible, too. `present`: the number of domains with at least one eligible node.
    `everywhere`: all nodes have the label. `numbers`: the domains by value of the label, if all nodes with the label
    are eligible.
    """

    __slots__ = (
        "_ids", "_moves", "_nodes", "count", "counted", "empty", "everywhere", "full", "moved", "numbers",
        "of_node", "present", "rows_alone", "seq",
    )  # fmt: skip

    def __init__(self, count: int, of_node: Rows, counted: Rows, empty: int, *, everywhere: bool = False) -> None:
        self.count = count
        self.everywhere = everywhere
        self.of_node = of_node
        self.counted = counted
        self.empty = empty
        """The domain of the empty label value; `count` if no node has it."""
        self.numbers: Mapping[str, int] = {}
        self.seq = 0
        self.moved = 0
        """How many moves there were."""
        self._moves: list[Move] = []
        """The last of them."""
        self._nodes = np.bincount(counted, minlength=count + 1)
        self.present = int(np.count_nonzero(self._nodes[:count]))
        self._ids: Rows | None = None
        self.full = counted is of_node and not self.lacking
        """Every row has the label and is eligible."""
        rows = len(of_node)
        self.rows_alone = rows <= count and bool(np.array_equal(of_node, np.arange(rows)))
        """Row i is domain i, as hostnames mostly are."""

    @property
    def lacking(self) -> int:
        """How many rows are in no domain."""
        return int(self._nodes[self.count])

    def move(self, rows: Rows, into: Rows) -> bool:
        """Eligible nodes of these rows are in these domains from now on. False if too many moved."""
        moved = (self.counted[rows] != into).nonzero()[0]
        if len(moved) > MOST_MOVES:
            return False
        for row, after in zip(rows[moved].tolist(), into[moved].tolist(), strict=True):
            before = int(self.counted[row])
            self.counted[row] = after
            self._nodes[before] -= 1
            self._nodes[after] += 1
            gone = before != self.count and not self._nodes[before]
            come = after != self.count and self._nodes[after] == 1
            self.present += int(come) - int(gone)
            self._moves.append(Move(row, before, after, bool(gone), bool(come)))
        if len(moved):
            self.moved += len(moved)
            self._ids = None
            del self._moves[:-MOST_MOVES]
            self.full = self.counted is self.of_node and not self.lacking
            self.rows_alone = False
        return True

    def moves_since(self, moved: int) -> Sequence[Move] | None:
        """The moves after so many; None if they are not known any more."""
        first = len(self._moves) - (self.moved - moved)
        return None if first < 0 else self._moves[first:]

    @property
    def ids(self) -> Rows:
        """The domains with at least one eligible node."""
        if self._ids is None:
            self._ids = np.flatnonzero(self._nodes[: self.count])
        return self._ids

    def per_node(self, values: NDArray[A], take: Callable[[NDArray[Any]], NDArray[Any]] | None = None) -> NDArray[A]:
        """[nodes]: of values by domain, [domains + 1], that of each node's domain. Read-only. `take` picks the rows
        that are wanted; None: all.
        """
        if self.rows_alone:
            rows = values[: len(self.of_node)]
            return rows if take is None else take(rows)
        return values[self.of_node if take is None else take(self.of_node)]

    def distinct_among(self, slots: Rows) -> int:
        """The number of domains of these nodes. Nodes without the label are in no domain."""
        seen = np.zeros(self.count + 1, np.bool_)
        seen[self.of_node[slots]] = True
        return int(np.count_nonzero(seen[: self.count]))


class Countable(Protocol):
    """Counts per row, which are also summed over domains."""

    def per_row(self, rows: int) -> tuple[Rows | None, Counts]:
        """(None, the counts of all rows), or the rows with a count other than 0, and their counts."""


class Summed(Countable, Protocol):
    """The same, and keeps its sums. It passes each change on to them before it counts it itself."""

    sums: dict[Hashable, Sums]

    def at_row(self, row: int) -> int:
        """The count of one row."""


class Sums:
    """Counts summed over domains: `values` is int32 or int64[domains + 1] like the counts, `total` is their sum."""

    __slots__ = ("_domains_with", "domains", "moved", "total", "values")

    def __init__(self, counted: Countable | None, domains: Domains) -> None:
        """`counted` None: nothing is counted."""
        self.domains = domains
        self.moved = domains.moved
        """Up to which of the domains' moves the sums are right."""
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

    def follow(self, counted: Summed) -> bool:
        """Moves the counts of nodes that are in other domains now. False if it is not known any more which."""
        domains = self.domains
        moves = domains.moves_since(self.moved)
        if moves is None:
            self.domains, self.values = _NOWHERE, np.zeros(1, self.values.dtype)
            return False
        self.moved = domains.moved
        for row, before, after, gone, come in moves:
            count = counted.at_row(row)
            if before != domains.count:
                self._add(before, -count)
            if (by_sum := self._domains_with) is not None and gone != come:
                by_sum[0] = by_sum.get(0, 0) + (1 if come else -1)
                if not by_sum[0]:
                    del by_sum[0]
            if after != domains.count:
                self._add(after, count)
        return True

    def add(self, slot: int, delta: int, counted: Summed) -> None:
        """Adds to the domain of a row. Ignores rows that are newer than the domains, because the next sums will include
        them.
        """
        if self.moved != self.domains.moved:
            self.follow(counted)
        domains = self.domains
        if slot < len(domains.counted):
            domain = domains.counted[slot]
            if domain != domains.count:
                self._add(domain, delta)

    def _add(self, domain: int, delta: int) -> None:
        if (by_sum := self._domains_with) is not None:
            before = int(self.values[domain])
            by_sum[before + delta] = by_sum.get(before + delta, 0) + 1
            by_sum[before] -= 1
            if not by_sum[before]:
                del by_sum[before]
        self.values[domain] += delta
        self.total += delta

    def add_many(self, slots: Rows, deltas: Int32s, counted: Summed) -> None:
        """`add` for each of these rows."""
        if self.moved != self.domains.moved:
            self.follow(counted)
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
            sums = self.values[ids]
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


_NO_NODES: Final = np.zeros(0, np.bool_)
_NOWHERE: Final = Domains(0, of_node=np.empty(0, np.intp), counted=np.empty(0, np.intp), empty=0)


class DomainCache:
    """A cache of domains by label key and eligibility, which follows the nodes."""

    def __init__(self, table: NodeTable, derived: DerivedColumns) -> None:
        self._table = table
        self._derived = derived
        self._cache: OrderedDict[tuple[str, Eligibility], Domains] = OrderedDict()
        self._eligible: dict[Eligibility, tuple[int, Bools]] = {}
        """Which nodes are, as of this entry of the table's `label_changes`. It is the same for all keys."""
        self._nowhere = _NOWHERE
        compact_regularly(self)

    def compact(self) -> None:
        """Drops all domains. Those in use are computed again, which takes some milliseconds each."""
        self._cache.clear()
        self._eligible.clear()

    def get(self, key: str, eligibility: Eligibility = ALL_WITH_KEY) -> Domains:
        """The domains of a label key; the same object as long as few nodes change. Keys that no node has share their
        domains.
        """
        seq = self._table.label_changes.seq
        domains = self._cache.get((key, eligibility))
        if domains is not None and (domains.seq == seq or self._update(domains, key, eligibility)):
            self._cache.move_to_end((key, eligibility))
            return domains
        if key not in self._table.label_keys:
            return self._without_label()
        domains = self._base(key) if eligibility == ALL_WITH_KEY else self._restricted(key, eligibility)
        domains.seq = seq
        self._cache[key, eligibility] = domains
        self._cache.move_to_end((key, eligibility))
        if len(self._cache) > max(_LEAST_DOMAINS, _MAX_BYTES // (16 * self._table.size)):
            self._cache.popitem(last=False)
        return domains

    def _update(self, domains: Domains, key: str, eligibility: Eligibility) -> bool:
        """Looks at the nodes that have changed. False if the domains must be computed again."""
        log = self._table.label_changes
        rows = log.rows_since(domains.seq)
        if rows is None or len(domains.of_node) != self._table.size:
            return False
        if eligibility == ALL_WITH_KEY:
            numbers, count = self._table.label_values(key), domains.count
            if numbers is not domains.numbers or len(numbers) > count or numbers.get("", count) != domains.empty:
                return False
            done = domains.move(rows, self._domain_of(key, rows, count))
            domains.everywhere = self._everywhere(domains)
        else:
            base = self.get(key)
            if base.of_node is not domains.of_node:
                return False
            done = domains.move(rows, self._counted(base, eligibility, rows))
            domains.everywhere, domains.rows_alone = base.everywhere, base.rows_alone
        domains.seq = log.seq
        return done

    def _without_label(self) -> Domains:
        """The domains of a label that no node has."""
        if len(self._nowhere.of_node) != self._table.size:
            rows = np.zeros(self._table.size, np.intp)
            self._nowhere = Domains(0, of_node=rows, counted=rows, empty=0)
        return self._nowhere

    def sums(
        self, counted: Summed, key: str, eligibility: Eligibility = ALL_WITH_KEY, domains: Domains | None = None
    ) -> Sums:
        """The counts summed over the domains of a label key. `domains`: these domains, if the caller has them
        already.
        """
        if domains is None:
            domains = self.get(key, eligibility)
        sums = counted.sums.get((key, eligibility))
        if sums is None or sums.domains is not domains or (sums.moved != domains.moved and not sums.follow(counted)):
            counted.sums.pop((key, eligibility), None)
            if len(counted.sums) >= _MAX_SUMS:
                del counted.sums[next(iter(counted.sums))]
            sums = counted.sums[key, eligibility] = Sums(counted, domains)
        return sums

    def _base(self, key: str) -> Domains:
        numbers = self._table.label_values(key)
        count = len(numbers) + len(numbers) // 16 + _SPARE
        of_node = self._domain_of(key, slice(None), count)
        domains = Domains(count, of_node=of_node, counted=of_node, empty=numbers.get("", count))
        domains.numbers = numbers
        domains.everywhere = self._everywhere(domains)
        return domains

    def _domain_of(self, key: str, rows: Rows | slice, count: int) -> Rows:
        """intp[rows]"""
        of_node = self._table.labels(key)[rows].astype(np.intp)
        of_node[of_node == ABSENT] = count
        return of_node

    def _everywhere(self, domains: Domains) -> bool:
        return domains.lacking == self._table.size - self._table.count

    def _restricted(self, key: str, eligibility: Eligibility) -> Domains:
        base = self.get(key)
        counted = self._counted(base, eligibility, slice(None))
        empty, everywhere = base.empty, base.everywhere
        return Domains(base.count, of_node=base.of_node, counted=counted, empty=empty, everywhere=everywhere)

    def _counted(self, base: Domains, eligibility: Eligibility, rows: Rows | slice) -> Rows:
        """intp[rows]: see `Domains`."""
        counted = base.of_node[rows]
        if eligibility.missing_is_empty and base.empty != base.count:
            counted = np.where(counted == base.count, base.empty, counted)
        return np.where(self._eligible_nodes(eligibility)[rows], counted, base.count)

    def _eligible_nodes(self, eligibility: Eligibility) -> Bools:
        """bool[nodes]"""
        log = self._table.label_changes
        seq, eligible = self._eligible.get(eligibility, (-1, _NO_NODES))
        if seq == log.seq:
            return eligible
        rows = log.rows_since(seq) if len(eligible) == self._table.size else None
        if rows is None:
            eligible = self._eligible_among(eligibility, slice(None))
            if len(self._eligible) >= MAX_ELIGIBLE:
                self._eligible.clear()
        else:
            eligible[rows] = self._eligible_among(eligibility, rows)
        self._eligible[eligibility] = log.seq, eligible
        return eligible

    def _eligible_among(self, eligibility: Eligibility, rows: Rows | slice) -> Bools:
        """bool[rows]"""
        table = self._table
        eligible = np.array(table.valid[rows])
        if not eligibility.keys <= table.label_keys:
            return np.zeros_like(eligible)
        for key in eligibility.keys:
            column = self.get(key)
            eligible &= column.of_node[rows] != column.count
        if eligibility.affinity is not None:
            eligible &= affinity_column(self._derived, eligibility.affinity)[rows]
        if eligibility.tolerations is not None:
            tolerated = tolerated_column(self._derived, eligibility.tolerations, compare=eligibility.compare)
            eligible &= tolerated[rows]
        return eligible
