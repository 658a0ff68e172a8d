"""Topologies: ordered lists of node labels, and the domains of all their levels.

Topology objects declare the lists, ours and those of Kueue and KAI. A domain is a set of nodes with the same values of
the labels of its level and of all levels above: racks of two zones may have the same name. Nodes that lack one of these
labels are in no domain. Domains are numbered in the order in which their nodes stand, and found again only when one of
these labels changes on a node. The HyperNodes of Volcano are domains without labels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.closeness import HYPER_NODES, KUEUE_API, Closeness
from podwright.core.objects.compaction import RecentCache
from podwright.core.objects.dataclass import dataclass
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.deadline import never
from podwright.core.state.hyper_nodes import HyperNodes

OWN_API: Final = "podwright.dev"
TREES: Final = 32
"""For how many lists of labels the domains are remembered."""
MAX_BYTES: Final = 128 << 20
"""The most bytes of remembered domains: a tree of five levels takes up to 14 MB on 100,000 nodes."""

Bools = NDArray[np.bool_]
Int64s = NDArray[np.int64]
Number = TypeVar("Number", np.int64, np.float64)


class UnknownLevelError(ValueError):
    """A Topology, or a level of it, that does not exist. The text names both."""


class DomainLevel:
    """The domains of one level by position. `codes`: int64[nodes], a node's domain or -1; `above`: int64[domains],
    the domain of the level above to which each belongs. `own`: int64[nodes], what tells its domains apart, less than
    `count`, or -1; `value_at`: the name of it at a row.
    """

    def __init__(
        self, label: str, own: Int64s, *, count: int, above: DomainLevel | None, value_at: Callable[[int], str]
    ) -> None:
        self.label = label
        self._value_at = value_at
        codes = own if above is None else np.where((own < 0) | (above.codes < 0), -1, above.codes * count + own)
        present = codes >= 0
        _, self._first, positions = np.unique(codes[present], return_index=True, return_inverse=True)
        self._first = np.flatnonzero(present)[self._first]
        codes[present] = positions
        self.codes: Int64s = codes
        self.above: Int64s = np.full(len(self), -1, np.int64) if above is None else above.codes[self._first]

    def __len__(self) -> int:
        return len(self._first)

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.above.nbytes + self._first.nbytes

    def nodes(self, position: int) -> Bools:
        """bool[nodes]: the nodes of one domain."""
        nodes: Bools = self.codes == position
        return nodes

    def value(self, position: int) -> str:
        """The value of the label."""
        return self._value_at(int(self._first[position]))

    def name(self, position: int) -> str:
        """Returns the name of a domain in messages: `rack r1`."""
        return f"{self.label.rpartition('/')[2]} {self.value(position)}"

    def sums(self, amounts: NDArray[Number]) -> NDArray[Number]:
        """number[domains]: the sums of `amounts`, number[nodes]."""
        return np.bincount(self.codes + 1, amounts, len(self) + 1)[1:].astype(amounts.dtype)


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


@dataclass(slots=True)
class _Known:
    """Levels as of this entry of the table's `label_changes`. `columns`: for each label the ids of its values, and
    int32[nodes].
    """

    seq: int
    levels: Sequence[DomainLevel]
    columns: Sequence[tuple[Mapping[str, int], NDArray[np.int32]]]


class Topologies:
    """See the module."""

    def __init__(self, table: NodeTable, pause: Callable[[], None] = never) -> None:
        self.hyper_nodes = HyperNodes(table, pause)
        self._changes = 0
        self._table = table
        self._declared: dict[str, tuple[str, ...]] = {}
        self._levels: RecentCache[tuple[str, ...], _Known] = RecentCache(TREES, MAX_BYTES // 2)

    @property
    def changes(self) -> int:
        """Rises with each Topology or HyperNode that comes, changes or goes."""
        return self._changes + self.hyper_nodes.changes

    @property
    def declared(self) -> Mapping[str, tuple[str, ...]]:
        """The levels of each Topology, by `group of its API/name`."""
        return self._declared

    @property
    def of_kueue(self) -> bool:
        """True if there are Topologies of Kueue, so that its annotations of pods count."""
        return any(key.startswith(f"{KUEUE_API}/") for key in self._declared)

    def set(self, key: str, levels: tuple[str, ...] | None) -> None:
        """A Topology has these levels from now on; None: it is gone."""
        self._changes += 1
        if levels is None:
            self._declared.pop(key, None)
        else:
            self._declared[key] = levels

    def levels(self, labels: tuple[str, ...]) -> Sequence[DomainLevel]:
        """The domains of these labels, each within those of the label before."""
        return self._remembered(labels, partial(self._labelled, labels), labels)

    def _remembered(
        self, key: tuple[str, ...], make: Callable[[], Sequence[DomainLevel]], labels: tuple[str, ...] = ()
    ) -> Sequence[DomainLevel]:
        """`labels`: all that the levels depend on; without any, they depend on all labels."""
        table = self._table
        seq, known = table.label_changes.seq, self._levels.get(key)
        if known is None or (known.seq != seq and not self._unchanged(known, labels)):
            columns = [(table.label_values(label), table.labels(label).copy()) for label in labels]
            known = _Known(seq, make(), columns=columns)
            weight = sum(level.nbytes for level in known.levels) + sum(ids.nbytes for _, ids in columns)
            self._levels.put(key, known, weight)
        known.seq = seq
        return known.levels

    def _unchanged(self, known: _Known, labels: tuple[str, ...]) -> bool:
        table, rows = self._table, self._table.label_changes.rows_since(known.seq)
        return bool(labels and rows is not None) and all(
            numbers is table.label_values(label)
            and len(ids) == table.size
            and np.array_equal(ids[rows], table.labels(label)[rows])
            for label, (numbers, ids) in zip(labels, known.columns, strict=True)
        )

    def _labelled(self, labels: tuple[str, ...]) -> Sequence[DomainLevel]:
        table, made = self._table, list[DomainLevel]()

        def value(label: str, row: int) -> str:
            node = table.nodes[row]
            return "" if node is None else node.labels.get(label, "")

        for label in labels:
            own = np.where(table.valid, table.labels(label), -1).astype(np.int64)
            above, count = made[-1] if made else None, len(table.label_values(label))
            made.append(DomainLevel(label, own, count=count, above=above, value_at=partial(value, label)))
        return made

    def _tiers(self) -> Sequence[DomainLevel]:
        names, made = self.hyper_nodes.names, list[DomainLevel]()

        def value(own: Int64s, row: int) -> str:
            return names[int(own[row])]

        for own in self.hyper_nodes.levels():
            above = made[-1] if made else None
            made.append(DomainLevel("HyperNode", own, count=len(names), above=above, value_at=partial(value, own)))
        return made

    def _tree_of_tiers(self, near: Closeness) -> DomainTree:
        levels = self._remembered((HYPER_NODES, str(self.hyper_nodes.changes)), self._tiers)
        required = self.hyper_nodes.level_of(near.required[0]) if near.required else -1
        if near.required and not (required >= 0 and len(levels[required])):
            raise UnknownLevelError(f"no node is in a HyperNode of {near.required[0]} or lower")
        return DomainTree(levels, required, len(levels) - 1, -1)

    def tree(self, near: Closeness) -> DomainTree:
        """The levels from the coarsest to the finest that is known, and those that are asked for. Raises
        UnknownLevelError.
        """
        if near.topology == HYPER_NODES:
            return self._tree_of_tiers(near)
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
        for each in (key, f"{OWN_API}/{name}", f"{KUEUE_API}/{name}"):
            if each in self._declared:
                return self._declared[each]
        raise UnknownLevelError(f"there is no Topology {name} of {api}")

    def _with(self, labels: Collection[str]) -> tuple[str, ...]:
        """The levels of the first Topology that has the first of these labels; () if none has."""
        first = next(iter(labels), "")
        return next((levels for _, levels in sorted(self._declared.items()) if first in levels), ())
