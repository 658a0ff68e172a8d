"""Columns that tell which nodes match a selector, an affinity or a list of tolerations, cached by `DerivedColumns`.

Invariant: each row equals the result of the per-node rule (`NodeAffinity.matches`, `Tolerations.tolerate`); rows without a node
are False or 0. Label requirements are computed from the table's label columns in a few µs each.
"""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.affinity import NodeAffinity
from podwright.core.objects.node import Node
from podwright.core.objects.selectors import NodeSelector, NodeSelectorTerm, Requirement
from podwright.core.objects.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Tolerations
from podwright.core.state.columns.derived import DerivedColumns
from podwright.core.state.columns.table import ABSENT, NodeTable

Bools = NDArray[np.bool_]
Int64s = NDArray[np.int64]

_FILTERED_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)


def affinity_column(derived: DerivedColumns, affinity: NodeAffinity) -> Bools:
    """bool[nodes]: nodeSelector and required node affinity match."""
    return derived.get(
        ("affinity", affinity),
        lambda node: affinity.matches(node.labels, node.name),
        np.bool_,
        lambda table: _affinity(table, affinity),
    )


def preference_column(derived: DerivedColumns, affinity: NodeAffinity) -> Int64s:
    """int64[nodes]: the sum of the weights of the preferred terms that match."""
    return derived.get(
        ("preference", affinity),
        lambda node: preference_score_of(node, affinity),
        np.int64,
        lambda table: _preference(table, affinity),
    )


def preference_score_of(node: Node, affinity: NodeAffinity) -> int:
    """The sum of the weights of the preferred terms that match one node."""
    return sum(weight for weight, term in affinity.preferred if term.matches(node.labels, node.name))


def tolerated_column(derived: DerivedColumns, tolerations: Tolerations, *, compare: bool) -> Bools:
    """bool[nodes]: every NoSchedule and NoExecute taint is tolerated. `compare`: see `Toleration.tolerates`."""
    return derived.get(
        ("tolerated", tolerations, compare),
        lambda node: tolerates_all(node.taints, tolerations, compare=compare),
        np.bool_,
        functools.partial(_tolerated, tolerations=tolerations, compare=compare),
    )


def intolerable_column(derived: DerivedColumns, tolerations: Tolerations, *, compare: bool) -> Int64s:
    """int64[nodes]: the number of PreferNoSchedule taints that are not tolerated."""
    return derived.get(
        ("intolerable", tolerations, compare),
        lambda node: count_intolerable(node.taints, tolerations, compare=compare),
        np.int64,
        functools.partial(_intolerable, tolerations=tolerations, compare=compare),
    )


def tolerates_all(taints: tuple[Taint, ...], tolerations: Tolerations, *, compare: bool) -> bool:
    """Whether every NoSchedule and NoExecute taint is tolerated."""
    return all(tolerations.tolerate(taint, compare=compare) for taint in taints if taint.effect in _FILTERED_EFFECTS)


def count_intolerable(taints: tuple[Taint, ...], tolerations: Tolerations, *, compare: bool) -> int:
    """The number of PreferNoSchedule taints that are not tolerated."""
    return sum(
        not tolerations.tolerate(taint, compare=compare) for taint in taints if taint.effect == PREFER_NO_SCHEDULE
    )


def requirement_column(table: NodeTable, requirement: Requirement) -> Bools:
    """bool[nodes]: the label requirement holds. Not cached. Rows without a node count as nodes without labels."""
    labels = table.labels(requirement.key)
    match requirement.operator:
        case "Exists":
            return np.not_equal(labels, np.int32(ABSENT))
        case "DoesNotExist":
            return np.equal(labels, np.int32(ABSENT))
        case "In":
            return _one_of(table, requirement)
        case "NotIn":
            return ~_one_of(table, requirement)
    values = table.label_values(requirement.key)
    verdicts = np.zeros(len(values) + 1, np.bool_)  # the last entry is for ABSENT, which is -1
    for value, position in values.items():
        verdicts[position] = requirement.matches_value(value)
    return verdicts[labels]


def _one_of(table: NodeTable, requirement: Requirement) -> Bools:
    labels = table.labels(requirement.key)
    values = table.label_values(requirement.key)
    positions = [values[value] for value in requirement.values if value in values]
    if not positions:
        return np.zeros(len(labels), np.bool_)
    if len(positions) == 1:
        return np.equal(labels, np.int32(positions[0]))
    verdicts = np.zeros(len(values) + 1, np.bool_)
    verdicts[positions] = True
    return verdicts[labels]


def _affinity(table: NodeTable, affinity: NodeAffinity) -> Bools:
    column = table.valid.copy()
    for key, value in affinity.node_selector.items():
        column &= requirement_column(table, Requirement(key, "In", frozenset((value,))))
    if affinity.required is not None:
        column &= _selector(table, affinity.required)
    return column


def _selector(table: NodeTable, selector: NodeSelector) -> Bools:
    column = np.zeros(table.size, np.bool_)
    for term in selector.terms:
        column |= _term(table, term)
    return column


def _term(table: NodeTable, term: NodeSelectorTerm) -> Bools:
    if not term.expressions and not term.fields:
        return np.zeros(table.size, np.bool_)
    column = table.valid.copy()
    for requirement in term.expressions:
        column &= requirement_column(table, requirement)
    for requirement in term.fields:
        column &= np.fromiter((requirement.matches_value(name) for name in table.names), np.bool_, table.size)
    return column


def _preference(table: NodeTable, affinity: NodeAffinity) -> Int64s:
    column = np.zeros(table.size, np.int64)
    for weight, term in affinity.preferred:
        column += weight * _term(table, term)
    return column


def _tolerated(table: NodeTable, tolerations: Tolerations, *, compare: bool) -> Bools:
    verdicts = np.array([tolerates_all(t, tolerations, compare=compare) for t in table.taint_sets], np.bool_)
    column = verdicts[table.taints] if table.size else np.zeros(0, np.bool_)
    return column & table.valid


def _intolerable(table: NodeTable, tolerations: Tolerations, *, compare: bool) -> Int64s:
    counts = np.array([count_intolerable(t, tolerations, compare=compare) for t in table.taint_sets], np.int64)
    column = counts[table.taints] if table.size else np.zeros(0, np.int64)
    return column * table.valid
