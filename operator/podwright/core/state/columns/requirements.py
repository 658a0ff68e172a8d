"""Which nodes meet requirements on labels and names: masks over the node table.

A requirement on a label that no node has holds for all nodes or for none. Its mask is a bool, so it costs no pass over
the nodes, and no column is made for it. Invariant: each row with a node equals `Requirement.matches_value`; rows
without a node count as nodes without labels and with an empty name. `matching` combines the masks of an affinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.integers import int64_of
from podwright.core.objects.selectors import Requirement
from podwright.core.state.columns.table import ABSENT, NodeTable

Bools = NDArray[np.bool_]
Int32s = NDArray[np.int32]
Mask = Bools | bool
"""bool[nodes], which the caller may write to, or one bool for all rows."""

MAX_NEW_COLUMNS: Final = 8
"""More label columns than these are not added to the table for one evaluation. One pass over all nodes reads the labels
instead.
"""


class _Sparse(NamedTuple):
    """A label of some nodes: the rows, the id of each row's value, and the ids by value."""

    rows: NDArray[np.intp]
    ids: Int32s
    values: Mapping[str, int]


class _Numbers(NamedTuple):
    """Values as int64, and which of them are whole numbers. The last entry is for rows without a value."""

    numbers: NDArray[np.int64]
    valid: Bools

    def beyond(self, requirement: Requirement) -> Bools:
        """Which values meet a requirement with the operator Gt or Lt."""
        if requirement.bound is None:
            return np.zeros_like(self.valid)
        compare = np.greater if requirement.operator == "Gt" else np.less
        verdicts: Bools = compare(self.numbers, requirement.bound)
        verdicts &= self.valid
        return verdicts


class RequirementMasks:
    """The masks of many requirements on a table, which must not change meanwhile. `keys`: all labels in the
    requirements.
    """

    def __init__(self, table: NodeTable, keys: Iterable[str]) -> None:
        self._table = table
        new = {key for key in keys if key in table.label_keys and not table.has_label_column(key)}
        self._sparse = _read(table, new) if len(new) > MAX_NEW_COLUMNS else {}
        self._numbers: dict[str, _Numbers] = {}
        self._name_numbers: _Numbers | None = None

    def of_label(self, requirement: Requirement) -> Mask:
        """The rows whose label meets the requirement."""
        key, operator = requirement.key, requirement.operator
        if key not in self._table.label_keys:
            return requirement.matches_value(None)
        ids, values = self._ids(key)
        match operator:
            case "Exists":
                return np.not_equal(ids, np.int32(ABSENT))
            case "DoesNotExist":
                return np.equal(ids, np.int32(ABSENT))
            case "In":
                return _one_of(ids, values, requirement.values)
            case "NotIn":
                return _not(_one_of(ids, values, requirement.values))
        numbers = self._numbers.get(key)
        if numbers is None:
            numbers = self._numbers[key] = _numbers_of(values)
        return numbers.beyond(requirement)[ids]

    def of_name(self, requirement: Requirement) -> Mask:
        """The rows whose node name meets the requirement."""
        table = self._table
        match requirement.operator:
            case "Exists":
                return True
            case "DoesNotExist":
                return False
            case "In" | "NotIn":
                rows = [row for row in map(table.slot_of, requirement.values) if row is not None]
                mask: Mask = False
                if rows:
                    mask = np.zeros(table.size, np.bool_)
                    mask[rows] = True
                return mask if requirement.operator == "In" else _not(mask)
        if self._name_numbers is None:
            self._name_numbers = _numbers_of(table.names)
        return self._name_numbers.beyond(requirement)[:-1]

    def _ids(self, key: str) -> tuple[Int32s, Mapping[str, int]]:
        """int32[nodes] ids of values, or ABSENT; and the ids by value."""
        sparse = self._sparse.get(key)
        if sparse is None:
            return self._table.labels(key), self._table.label_values(key)
        ids = np.full(self._table.size, ABSENT, np.int32)
        ids[sparse.rows] = sparse.ids
        return ids, sparse.values


def requirement_column(table: NodeTable, requirement: Requirement) -> Bools:
    """bool[nodes]: the label requirement holds. Not cached."""
    return as_column(RequirementMasks(table, (requirement.key,)).of_label(requirement), table)


def as_column(mask: Mask, table: NodeTable) -> Bools:
    """bool[nodes] for a mask."""
    return np.full(table.size, mask) if isinstance(mask, bool) else mask


def all_of(masks: Iterable[Mask]) -> Mask:
    """The rows in all masks. Takes no further mask once no row is left for certain."""
    whole: Mask = True
    for mask in masks:
        if mask is False:
            return False
        if isinstance(whole, bool):
            whole = mask
        elif mask is not True:
            whole &= mask
    return whole


def any_of(masks: Iterable[Mask]) -> Mask:
    """The rows in at least one mask. Takes no further mask once one has all rows for certain.

    Whether all together have all rows is checked after 2, 4, 8, … masks, so that it costs little where they do not.
    """
    whole: Mask = False
    joined, check_at = 0, 2
    for mask in masks:
        if mask is True:
            return True
        if isinstance(whole, bool):
            whole = mask
        elif mask is not False:
            whole |= mask
            joined += 1
            if joined == check_at:
                if whole.all():
                    return whole
                check_at *= 2
    return whole


def _not(mask: Mask) -> Mask:
    return not mask if isinstance(mask, bool) else np.logical_not(mask, out=mask)


def _one_of(ids: Int32s, values: Mapping[str, int], wanted: frozenset[str]) -> Mask:
    positions = [values[value] for value in wanted if value in values]
    if not positions:
        return False
    if len(positions) == 1:
        return np.equal(ids, np.int32(positions[0]))
    verdicts = np.zeros(len(values) + 1, np.bool_)  # the last entry is for ABSENT, which is -1
    verdicts[positions] = True
    return verdicts[ids]


def _numbers_of(values: Iterable[str]) -> _Numbers:
    """`values` in the order of their ids."""
    parsed = [int64_of(value) for value in values]
    numbers = np.array([0 if number is None else number for number in (*parsed, None)], np.int64)
    return _Numbers(numbers, np.array([number is not None for number in (*parsed, None)], np.bool_))


class _Label:
    """A label while it is read: for each group of rows with one value, the rows and the value's id."""

    __slots__ = ("ids", "rows", "values")

    def __init__(self) -> None:
        self.rows: list[NDArray[np.intp]] = []
        self.ids: list[int] = []
        self.values: dict[str, int] = {}

    def sparse(self) -> _Sparse:
        if not self.rows:
            return _Sparse(np.empty(0, np.intp), np.empty(0, np.int32), self.values)
        if len(self.rows) == 1:
            return _Sparse(self.rows[0], np.zeros(len(self.rows[0]), np.int32), self.values)
        ids = np.repeat(np.array(self.ids, np.int32), [len(rows) for rows in self.rows])
        return _Sparse(np.concatenate(self.rows), ids, self.values)


def _read(table: NodeTable, keys: set[str]) -> Mapping[str, _Sparse]:
    """The labels of all nodes for these keys, in one pass over the nodes. Those of nodes that do not differ in them are
    taken once.
    """
    found = {key: _Label() for key in keys}
    for (some, values), rows in _alike(table, keys).items():
        at = np.array(rows, np.intp)
        for key, value in zip(some, values, strict=True):
            label = found[key]
            label.rows.append(at)
            label.ids.append(label.values.setdefault(value, len(label.values)))
    return {key: label.sparse() for key, label in found.items()}


def _alike(table: NodeTable, keys: set[str]) -> Mapping[tuple[tuple[str, ...], tuple[str, ...]], list[int]]:
    """The rows by the keys that a node has, and their values."""
    every = tuple(sorted(keys))
    read_all = itemgetter(*every)
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for row, node in enumerate(table.nodes):
        if node is None:
            continue
        labels = node.labels
        some, values = every, None
        if len(labels) >= len(every):
            with suppress(KeyError):
                values = read_all(labels)
        if values is None:
            some = tuple(sorted(labels.keys() & keys))
            values = tuple(map(labels.__getitem__, some))
        found.setdefault((some, values), []).append(row)
    return found
