"""Columns that tell which nodes match a selector, an affinity or a list of tolerations, cached by `DerivedColumns`.

Invariant: each row equals the result of the per-node rule (`NodeAffinity.matches`, `Tolerations.tolerate`); rows
without a node are False or 0. `requirements` computes the masks of which an affinity consists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.affinity import NodeAffinity
from podwright.core.objects.node import Node
from podwright.core.objects.selectors import NodeSelectorTerm, Requirement
from podwright.core.objects.taints import PREFER_NO_SCHEDULE, Taint, Tolerations
from podwright.core.state.columns.derived import DerivedColumns
from podwright.core.state.columns.requirements import Mask, RequirementMasks, all_of, any_of, as_column
from podwright.core.state.columns.table import NodeTable

Bools = NDArray[np.bool_]
Int64s = NDArray[np.int64]

TAINT_SETS_AT_ONCE: Final = 256
"""How many taint lists are compared with tolerations between two points."""


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
        functools.partial(_tolerated, tolerations=tolerations, compare=compare, pause=derived.pause),
    )


def intolerable_column(derived: DerivedColumns, tolerations: Tolerations, *, compare: bool) -> Int64s:
    """int64[nodes]: the number of PreferNoSchedule taints that are not tolerated."""
    return derived.get(
        ("intolerable", tolerations, compare),
        lambda node: count_intolerable(node.taints, tolerations, compare=compare),
        np.int64,
        functools.partial(_intolerable, tolerations=tolerations, compare=compare, pause=derived.pause),
    )


def tolerates_all(taints: tuple[Taint, ...], tolerations: Tolerations, *, compare: bool) -> bool:
    """True if every NoSchedule and NoExecute taint is tolerated."""
    return all(tolerations.tolerate(taint, compare=compare) for taint in taints if taint.prevents)


def count_intolerable(taints: tuple[Taint, ...], tolerations: Tolerations, *, compare: bool) -> int:
    """The number of PreferNoSchedule taints that are not tolerated."""
    return sum(
        not tolerations.tolerate(taint, compare=compare) for taint in taints if taint.effect == PREFER_NO_SCHEDULE
    )


def _affinity(table: NodeTable, affinity: NodeAffinity) -> Bools:
    if not affinity.node_selector.keys() <= table.label_keys:
        return np.zeros(table.size, np.bool_)
    terms = () if affinity.required is None else affinity.required.terms
    masks = RequirementMasks(table, (*affinity.node_selector, *_keys(terms)))
    selected = all_of(
        masks.of_label(Requirement(key, "In", frozenset((value,)))) for key, value in affinity.node_selector.items()
    )
    if affinity.required is not None and selected is not False:
        selected = all_of((selected, any_of(_term(masks, term) for term in terms)))
    return as_column(selected, table) & table.valid


def _term(masks: RequirementMasks, term: NodeSelectorTerm) -> Mask:
    if not term.expressions and not term.fields:
        return False
    return all_of((*map(masks.of_label, term.expressions), *map(masks.of_name, term.fields)))


def _preference(table: NodeTable, affinity: NodeAffinity) -> Int64s:
    masks = RequirementMasks(table, _keys([term for _, term in affinity.preferred]))
    column = np.zeros(table.size, np.int64)
    everywhere = 0
    for weight, term in affinity.preferred:
        mask = _term(masks, term)
        if isinstance(mask, bool):
            everywhere += weight * mask
        else:
            column += weight * mask
    column += everywhere
    column *= table.valid
    return column


def _keys(terms: Iterable[NodeSelectorTerm]) -> Iterator[str]:
    return (requirement.key for term in terms for requirement in term.expressions)


def _tolerated(table: NodeTable, tolerations: Tolerations, *, compare: bool, pause: Callable[[], None]) -> Bools:
    taint_sets = _with_points(table, pause)
    verdicts = np.array([tolerates_all(t, tolerations, compare=compare) for t in taint_sets], np.bool_)
    column = verdicts[table.taints] if table.size else np.zeros(0, np.bool_)
    return column & table.valid


def _with_points(table: NodeTable, pause: Callable[[], None]) -> Iterator[tuple[Taint, ...]]:
    """The distinct taint lists of the nodes."""
    for number, taints in enumerate(tuple(table.taint_sets)):
        if not number % TAINT_SETS_AT_ONCE:
            pause()
        yield taints


def _intolerable(table: NodeTable, tolerations: Tolerations, *, compare: bool, pause: Callable[[], None]) -> Int64s:
    taint_sets = _with_points(table, pause)
    counts = np.array([count_intolerable(t, tolerations, compare=compare) for t in taint_sets], np.int64)
    column = counts[table.taints] if table.size else np.zeros(0, np.int64)
    return column * table.valid
