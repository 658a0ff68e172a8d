"""TermRows: the groups of affinity terms as rows, for clusters in which hundreds of terms may match one pod.

One placed pod may have thousands of terms that match the pods of all others. Here they cost each decision a few passes
over arrays instead of a step for each term. Invariant: the rows are the groups of the `TermIndex`, with their weights.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.selectors import Labels, LabelSelector
from podwright.core.state.columns import NodeTable
from podwright.core.state.podindex.domains import Counts
from podwright.core.state.podindex.selector_rows import Rows, SelectorRows

Bools = NDArray[np.bool_]
Int64s = NDArray[np.int64]

UNUSED_CHANGES: Final = 1024
"""The rows are dropped if this many weights, and this many for each row, have changed since they were last used."""
WASTE: Final = 4
"""A compaction drops the rows if terms that are gone take more than a quarter of what the others take. So building them
takes time in proportion to what has changed.
"""
_MAX_NAMESPACES: Final = 64


class Group(Protocol):
    """A `TermGroup`."""

    at: dict[int, int]
    row: int

    @property
    def kind(self) -> int: ...
    @property
    def topology_key(self) -> str: ...
    @property
    def selector(self) -> LabelSelector: ...
    @property
    def scope(self) -> tuple[frozenset[str], LabelSelector]: ...


class GroupRows:
    """The rows of the groups of one kind that match a pod."""

    __slots__ = ("_rows", "_terms")

    def __init__(self, terms: TermRows, rows: Rows) -> None:
        self._terms = terms
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def weights(self, table: NodeTable) -> Iterator[tuple[str, RowWeights]]:
        """Pairs of a topology key and the weights of these groups with the key, without keys that no node has."""
        return self._terms.weights(self._rows, table) if len(self._rows) else iter(())


class RowWeights:
    """Weights by row of the node table, which may be repeated. A `Countable` for one decision."""

    __slots__ = ("_slots", "_weights")

    def __init__(self, slots: NDArray[np.int32], weights: Int64s) -> None:
        self._slots = slots.astype(np.intp)
        self._weights = weights

    def per_row(self, rows: int) -> tuple[Rows | None, Counts]:
        del rows
        return self._slots, self._weights


class TermRows:
    """See the module. Built from all groups, and updated with each change from then on."""

    def __init__(self, groups: Iterable[Group], kinds: int) -> None:
        self._selectors = SelectorRows()
        self._kinds = kinds
        self._kind_of = array("b")
        self._keys: dict[str, int] = {}
        self._key_of = array("i")
        self._scopes: dict[tuple[frozenset[str], LabelSelector], int] = {}
        self._scope_of = array("i")
        self._in_scope: dict[str, Bools] = {}
        self._entries = (array("i"), array("i"), array("q"))
        """Row, slot and weight of each change of a group's weights, the current ones at first."""
        self._entry_columns: tuple[NDArray[np.int32], NDArray[np.int32], Int64s] | None = None
        self._present: tuple[int, Bools] = -1, np.zeros(0, np.bool_)
        self._groups = 0
        self._live = 0
        """The number of pairs of a group and a slot in which it has a weight: so many entries would be enough."""
        self._changes = 0
        for group in groups:
            self.append(group)

    # Reading

    def matching(self, namespace: str, namespace_labels: Labels, labels: Labels) -> list[GroupRows]:
        """For each kind the groups that match a pod with these labels, in this namespace with these labels."""
        self._changes = 0
        rows = self._selectors.matching(labels)
        scope_of = np.array(self._scope_of, np.int32)
        rows = rows[self._scopes_with(namespace, namespace_labels)[scope_of[rows]]]
        kinds = np.array(self._kind_of, np.int8)[rows]
        return [GroupRows(self, rows[kinds == kind]) for kind in range(self._kinds)]

    def _scopes_with(self, namespace: str, namespace_labels: Labels) -> Bools:
        known = self._in_scope.get(namespace)
        if known is None or len(known) != len(self._scopes):
            if len(self._in_scope) >= _MAX_NAMESPACES:
                self._in_scope.clear()
            known = self._in_scope[namespace] = np.array(
                [namespace in names or selector.matches(namespace_labels) for names, selector in self._scopes], np.bool_
            )
        return known

    def weights(self, rows: Rows, table: NodeTable) -> Iterator[tuple[str, RowWeights]]:
        """See `GroupRows.weights`."""
        chosen = np.zeros(len(self._selectors), np.bool_)
        chosen[rows] = True
        key_of = np.array(self._key_of, np.int32)
        chosen &= self._on_any_node(table)[key_of]
        entry_rows, slots, weights = self._columns_of_entries()
        kept = np.flatnonzero(chosen[entry_rows])
        slots, weights, keys = slots[kept], weights[kept], key_of[entry_rows[kept]]
        names = list(self._keys)
        for key in np.flatnonzero(np.bincount(keys)):
            same = keys == key
            yield names[key], RowWeights(slots[same], weights[same])

    def _on_any_node(self, table: NodeTable) -> Bools:
        """bool[topology keys]: whether any node has the label."""
        epoch, present = self._present
        if epoch != table.epoch or len(present) != len(self._keys):
            present = np.array([key in table.label_keys for key in self._keys], np.bool_)
            self._present = table.epoch, present
        return present

    def _columns_of_entries(self) -> tuple[NDArray[np.int32], NDArray[np.int32], Int64s]:
        if self._entry_columns is None:
            rows, slots, weights = self._entries
            self._entry_columns = np.array(rows, np.int32), np.array(slots, np.int32), np.array(weights, np.int64)
        return self._entry_columns

    # Writing

    def append(self, group: Group) -> None:
        """A group was added, with its weights so far."""
        self._groups += 1
        self._changes += 1
        group.row = self._selectors.append(group.selector)
        self._kind_of.append(group.kind)
        self._key_of.append(self._keys.setdefault(group.topology_key, len(self._keys)))
        self._scope_of.append(self._scopes.setdefault(group.scope, len(self._scopes)))
        for slot, weight in group.at.items():
            self.add(group, slot, weight)

    def remove(self, group: Group) -> None:
        """A group was removed."""
        self._groups -= 1
        self._changes += 1
        self._selectors.remove(group.row)

    def add(self, group: Group, slot: int, delta: int) -> None:
        """The weight of a group in a row of the node table has changed, to what `group.at` says."""
        self._changes += 1
        weight = group.at.get(slot, 0)
        self._live += (weight != 0) - (weight != delta)
        rows, slots, weights = self._entries
        rows.append(group.row)
        slots.append(slot)
        weights.append(delta)
        self._entry_columns = None

    def namespaces_changed(self) -> None:
        """The labels of a namespace have changed."""
        self._in_scope.clear()

    @property
    def wasteful(self) -> bool:
        """True if so much of it is of terms that are gone that its memory is worth the time to rebuild it."""
        return (
            len(self._selectors) > self._groups + self._groups // WASTE
            or len(self._entries[0]) > self._live + self._live // WASTE
        )

    @property
    def stale(self) -> bool:
        """True if the rows should be dropped, because they are not used, or because most are of removed terms."""
        return (
            self._changes > UNUSED_CHANGES + 16 * len(self._selectors)
            or len(self._selectors) > UNUSED_CHANGES + 2 * self._groups
            or len(self._entries[0]) > UNUSED_CHANGES + 2 * self._live
        )
