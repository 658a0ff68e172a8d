"""Operations that read the node: its labels, amounts and other fields, and the pods on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.library.conversions import text_in_error
from podwright.core.cel.values import no_such_overload
from podwright.core.cel_columns.counts import counted, in_domain, on_node
from podwright.core.cel_columns.limits import COST_LIMIT, TOO_COSTLY
from podwright.core.cel_columns.reads import FIELDS, Reads
from podwright.core.cel_columns.run import Fixed, Operation, Run
from podwright.core.cel_columns.vectors import ColumnFailure, Operand, Scalar, Vec, VecKind, failing
from podwright.core.state.columns.table import ABSENT

TEXT_MAPS = frozenset(("labels", "annotations", "conditions"))
"""The fields of `node` that are maps of strings."""
AMOUNT_MAPS = frozenset(("images", "allocatable", "requested", "free"))
"""The fields that are maps of whole numbers."""


class Name(Operation):
    """`node.name`."""

    reads = Reads.NAME

    def run(self, run: Run) -> Vec:
        ids = np.arange(run.nodes.size, dtype=np.int32) if run.rows is None else run.rows.astype(np.int32)
        return Vec(VecKind.TABLE, ids, table=run.nodes.names)


class Unschedulable(Operation):
    """`node.unschedulable`."""

    reads = Reads.UNSCHEDULABLE

    def run(self, run: Run) -> Vec:
        column = run.nodes.unschedulable
        return Vec(VecKind.BOOL, column.copy() if run.rows is None else column[run.rows])


class PodCount(Operation):
    """`node.podCount`."""

    reads = Reads.USAGE

    def run(self, run: Run) -> Vec:
        column = run.nodes.pods
        return Vec(VecKind.INT, column if run.rows is None else column[run.rows])


class Taints(Operation):
    """`node.taints`."""

    reads = Reads.TAINTS

    def run(self, run: Run) -> Vec:
        column = run.nodes.taints
        return Vec(VecKind.TABLE, column if run.rows is None else column[run.rows], table=run.nodes.taint_lists)


class Signal(Operation):
    """`signals.name`. `test`: whether it is there, which it always is."""

    reads = Reads.SIGNALS

    def __init__(self, name: str, *, test: bool = False) -> None:
        self._name = name
        self._test = test

    def run(self, run: Run) -> Operand:
        if self._test:
            return Scalar(True)
        column = run.nodes.signal(self._name)
        return Vec(VecKind.DOUBLE, column.copy() if run.rows is None else column[run.rows])


class MapEntryColumn(Operation):
    """`node.labels.key`, or another map: the entry under a key that does not depend on the node.

    `test`: the result is whether the map has the key, for `has()` and `in`; `default`: the value for a missing key,
    instead of an error.
    """

    def __init__(self, field: str, key: Fixed, *, test: bool = False, default: str | None = None) -> None:
        self.field = field
        self._key = key
        self._test = test
        self._default = default
        self.reads = FIELDS[field]

    def run(self, run: Run) -> Operand:
        key = self._key.run(run)
        if isinstance(key, ColumnFailure):
            return key
        if not isinstance(key.value, str):
            if self._default is not None:
                return run.failure(str(no_such_overload()))
            return Scalar(False) if self._test else run.failure(f"no such key: {text_in_error(key.value)}")
        return self._texts(run, key.value) if self.field in TEXT_MAPS else self._amounts(run, key.value)

    def _texts(self, run: Run, key: str) -> Vec:
        ids, table = run.nodes.texts(self.field, key)
        if run.rows is not None:
            ids = ids[run.rows]
        absent = ids == ABSENT
        if self._test:
            return Vec(VecKind.BOOL, ~absent)
        if self._default is not None:
            return Vec(VecKind.TABLE, np.where(absent, len(table), ids), table=(*table, self._default))
        code = run.errors.code(f"no such key: {text_in_error(key)}")
        return Vec(VecKind.TABLE, ids, failing(code, absent), table)

    def _amounts(self, run: Run, key: str) -> Vec:
        amounts, present = run.nodes.amounts(self.field, key, run.rows)
        if self._test:
            return Vec(VecKind.BOOL, present)
        return Vec(VecKind.INT, amounts, failing(run.errors.code(f"no such key: {text_in_error(key)}"), ~present))


class Whole(Operation):
    """A map of the node, or all of it, as a value of its own: different on each row."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads

    def run(self, run: Run) -> Vec:
        return Vec(VecKind.TABLE, np.arange(run.count, dtype=np.int32), table=range(run.count))


class Counted(Operation):
    """`podsOnNode(selector)`, or `podsInDomain(key, selector)` with a `key`, of a selector that does not depend on the
    node.
    """

    def __init__(self, selector: Fixed, key: Fixed | None = None) -> None:
        self._selector = selector
        self._key = key
        self.reads = Reads.USAGE if key is None else Reads.PLACED | Reads.LABELS

    def run(self, run: Run) -> Operand:
        selector = self._selector.run(run)
        key = Scalar(None) if self._key is None else self._key.run(run)
        for given in (key, selector):
            if isinstance(given, ColumnFailure):
                return given
        assert isinstance(key, Scalar)
        assert isinstance(selector, Scalar)
        given_key, text = key.value, selector.value
        if not isinstance(text, str) or not (self._key is None or isinstance(given_key, str)):
            return run.failure(str(no_such_overload()))
        if run.repeated > 1 and run.repeated * len(text) > COST_LIMIT:
            return run.failure(TOO_COSTLY)
        run.nodes.deadline.point()
        try:
            counts = _counts(run, text, None if self._key is None else str(given_key))
        except EvaluationError as error:
            return run.failure(str(error))
        return Vec(VecKind.INT, counts if run.rows is None else counts[run.rows])


def _counts(run: Run, selector: str, key: str | None) -> NDArray[np.int64]:
    nodes, view = run.nodes, run.nodes.view
    if view is None:
        return counted(nodes.cache, selector, key, run.variables)
    found = (
        on_node(view, selector, run.variables)
        if key is None
        else in_domain(nodes.cache, view, key, selector, run.variables)
    )
    return np.array([found], np.int64)
