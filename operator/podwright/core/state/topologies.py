"""Topologies: ordered lists of node labels, and the domains of all their levels.

Topology objects declare the lists, ours and those of Kueue and KAI. A domain is a set of nodes with the same values of
the labels of its level and of all levels above: racks of two zones may have the same name. Nodes that lack one of these
labels are in no domain. Domains are numbered in the order in which their nodes stand, and found again only when nodes
change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.closeness import Closeness
from podwright.core.objects.compaction import RecentCache
from podwright.core.state.columns.table import NodeTable

OWN_API: Final = "podwright.dev"
TREES: Final = 32
"""For how many lists of labels the domains are remembered."""

Bools = NDArray[np.bool_]
Int64s = NDArray[np.int64]


class UnknownLevelError(ValueError):
    """A Topology, or a level of it, that does not exist. The text names both."""


class DomainLevel:
    """The domains of one level by position. `codes`: int64[nodes], a node's domain or -1; `above`: int64[domains],
    the domain of the level above to which each belongs.
    """

    def __init__(self, table: NodeTable, *, label: str, above: DomainLevel | None) -> None:
        self.label = label
        self._nodes = table.nodes
        codes = np.where(table.valid, table.labels(label), -1).astype(np.int64)
        if above is not None:
            codes = np.where((codes < 0) | (above.codes < 0), -1, above.codes * len(table.label_values(label)) + codes)
        present = codes >= 0
        _, self._first, positions = np.unique(codes[present], return_index=True, return_inverse=True)
        self._first = np.flatnonzero(present)[self._first]
        codes[present] = positions
        self.codes: Int64s = codes
        self.above: Int64s = np.full(len(self), -1, np.int64) if above is None else above.codes[self._first]

    def __len__(self) -> int:
        return len(self._first)

    def nodes(self, position: int) -> Bools:
        """bool[nodes]: the nodes of one domain."""
        nodes: Bools = self.codes == position
        return nodes

    def value(self, position: int) -> str:
        """The value of the label."""
        node = self._nodes[self._first[position]]
        return "" if node is None else node.labels.get(self.label, "")

    def name(self, position: int) -> str:
        """What a domain is called in messages: `rack r1`."""
        return f"{self.label.rpartition('/')[2]} {self.value(position)}"

    def sums(self, amounts: Int64s) -> Int64s:
        """int64[domains]: the sums of `amounts`, int64[nodes]."""
        return np.bincount(self.codes + 1, amounts, len(self) + 1)[1:].astype(np.int64)


@dataclass(frozen=True, slots=True)
class DomainTree:
    """The levels of a topology, the coarsest first, and which of them are asked for: positions, -1 for none."""

    levels: Sequence[DomainLevel]
    required: int
    preferred: int
    sliced: int

    @property
    def bound(self) -> DomainLevel:
        """The required level."""
        return self.levels[self.required]


class Topologies:
    """See the module."""

    def __init__(self, table: NodeTable) -> None:
        self.changes = 0
        """Rises with each Topology that comes, changes or goes."""
        self._table = table
        self._epoch = -1
        self._declared: dict[str, tuple[str, ...]] = {}
        self._levels: RecentCache[tuple[str, ...], Sequence[DomainLevel]] = RecentCache(TREES)

    @property
    def declared(self) -> Mapping[str, tuple[str, ...]]:
        """The levels of each Topology, by `group of its API/name`."""
        return self._declared

    def set(self, key: str, levels: tuple[str, ...] | None) -> None:
        """A Topology has these levels from now on; None: it is gone."""
        self.changes += 1
        if levels is None:
            self._declared.pop(key, None)
        else:
            self._declared[key] = levels

    def levels(self, labels: tuple[str, ...]) -> Sequence[DomainLevel]:
        """The domains of these labels, each within those of the label before."""
        if self._epoch != self._table.epoch:
            self._epoch = self._table.epoch
            self._levels.clear()
        found = self._levels.get(labels)
        if found is None:
            made: list[DomainLevel] = []
            for label in labels:
                made.append(DomainLevel(self._table, label=label, above=made[-1] if made else None))
            found = made
            self._levels.put(labels, found)
        return found

    def tree(self, near: Closeness) -> DomainTree:
        """The levels from the coarsest to the finest that is known, and those that are asked for. Raises
        UnknownLevelError.
        """
        labels = self._labels(near)
        required = max((labels.index(label) for label in near.required), default=-1)
        preferred = max(required, labels.index(near.preferred) if near.preferred in labels else -1)
        sliced = labels.index(near.slice_level) if near.slice_level else -1
        return DomainTree(self.levels(labels), required, preferred, sliced)

    def _labels(self, near: Closeness) -> tuple[str, ...]:
        asked = [*near.required, *filter(None, (near.preferred, near.slice_level))]
        if near.topology:
            named = self._named(near.topology)
            for label in asked:
                if label not in named:
                    raise UnknownLevelError(f"the Topology {near.topology.partition('/')[2]} has no level {label}")
            return named
        if not near.required:
            known = self._with(asked)
            return (*known, *(label for label in dict.fromkeys(asked) if label not in known))
        # As in kube-scheduler, a label alone says which nodes belong together.
        labels = tuple(dict.fromkeys(near.required))
        known = self._with(labels[-1:])
        labels += known[known.index(labels[-1]) + 1 :] if known else ()
        finer = (label for label in dict.fromkeys(asked) if label not in labels and label not in known)
        return (*labels, *finer)

    def _named(self, key: str) -> tuple[str, ...]:
        api, _, name = key.partition("/")
        for each in (key, f"{OWN_API}/{name}", f"kueue.x-k8s.io/{name}"):
            if each in self._declared:
                return self._declared[each]
        raise UnknownLevelError(f"there is no Topology {name} of {api}")

    def _with(self, labels: Collection[str]) -> tuple[str, ...]:
        """The levels of the first Topology that has the first of these labels; () if none has."""
        first = next(iter(labels), "")
        return next((levels for _, levels in sorted(self._declared.items()) if first in levels), ())
