"""Operations that ask the evaluator, but only once for all nodes that have the same inputs; and macros over fixed
lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from podwright.core.cel.errors import CostLimitError, EvaluationError
from podwright.core.cel.values import keys_of, to_key
from podwright.core.cel_columns.nodes import NodeView, NodeViewer
from podwright.core.cel_columns.reads import Reads
from podwright.core.cel_columns.run import Evaluate, Fixed, Operation, Run
from podwright.core.cel_columns.vectors import Codes, ColumnFailure, Operand, Rows, Vec, VecKind, held_bytes
from podwright.core.objects.dataclass import dataclass

MAX_UNROLLED: Final = 64
"""A macro over a longer list is left to the evaluator."""
_PAUSE_EVERY: Final = 8
MAX_VALUES: Final = 16_000_000
"""The memory of the texts, lists and maps that one part has on all nodes together."""
OUT_OF_MEMORY: Final = "operation cancelled: memory limit exceeded"
_FEW_CODES: Final = 8
"""Up to this many codes for each row, a table of all codes is faster than sorting the rows."""


class Lift(Operation):
    """A part of an expression that depends on nothing of the node but `inputs`.

    The evaluator is asked for one node of each different combination of inputs. An input that cannot be evaluated is an
    input, too: the evaluator says what its error means.
    """

    def __init__(self, evaluate: Evaluate, inputs: Sequence[Operation], kind: VecKind, reads: Reads) -> None:
        self._evaluate = evaluate
        self.inputs = tuple(inputs)
        self._kind = kind
        self._view = NodeViewer(reads)
        self.reads = reads
        self.parts = 1
        """How many Lifts the expression has. Each gets an equal share of what may be spent on a node."""

    def run(self, run: Run) -> Operand:
        codes, representatives = distinct([each.run(run) for each in self.inputs], run)
        values, errors = self._ask(run, representatives)
        return Vec(self._kind, *_gathered(self._kind, values, errors, codes))

    def _ask(self, run: Run, representatives: Sequence[int]) -> tuple[list[object], list[int]]:
        values: list[object] = []
        errors: list[int] = []
        room = MAX_VALUES
        deadline, nodes = run.nodes.deadline, run.nodes
        limit = max(nodes.limit // (self.parts * run.repeated), 1)
        for number, position in enumerate(representatives):
            if number % _PAUSE_EVERY == _PAUSE_EVERY - 1:
                deadline.point()
            view = self._view.of(nodes.node_at(run.slot(position)))
            try:
                value = self._evaluate({**run.variables, **self._of_node(view, run)}, limit, run.interrupted)
                if self._kind is VecKind.TABLE:
                    room -= held_bytes(value)
                    if room < 0:
                        raise CostLimitError(OUT_OF_MEMORY)
                values.append(value)
                errors.append(0)
            except EvaluationError as error:
                values.append(None)
                errors.append(run.errors.code(str(error)))
        return values, errors

    def _of_node(self, view: NodeView, run: Run) -> Mapping[str, object]:
        """The variables that differ from node to node."""
        if not self.reads & Reads.SIGNALS:
            return {"node": view}
        return {"node": view, "signals": run.nodes.cache.signals.of_node(view.info.name)}


def distinct(inputs: Sequence[Operand], run: Run) -> tuple[Rows, list[int]]:
    """Numbers the different combinations of inputs: intp[rows] numbers, and one entry for each. Rows without a node
    have any number.
    """
    combined = np.zeros(run.count, np.int64)
    count = 1
    for operand in inputs:
        if isinstance(operand, Vec):
            codes, size = _numbered(operand)
            if count > 2**62 // size:
                _, combined = np.unique(combined, return_inverse=True)
                count = run.count
            combined = combined * size + codes
            count *= size
    valid = run.valid
    where = np.flatnonzero(valid)
    chosen_codes = combined[where]
    if count <= _FEW_CODES * run.count + 64:
        first = np.full(count, -1, np.intp)
        first[chosen_codes[::-1]] = where[::-1]
        used = np.flatnonzero(first >= 0)
        numbers = np.zeros(count, np.intp)
        numbers[used] = np.arange(len(used))
        return numbers[np.where(valid, combined, chosen_codes[0] if len(where) else 0)], first[used].tolist()
    _, index, inverse = np.unique(chosen_codes, return_index=True, return_inverse=True)
    found = np.zeros(run.count, np.intp)
    found[where] = inverse
    return found, where[index].tolist()


def _numbered(vec: Vec) -> tuple[np.ndarray, int]:
    """A number from 0 to size - 1 for each entry: the same for equal ones. Errors are numbers, too."""
    if vec.kind is VecKind.TABLE:
        codes, size = vec.data.astype(np.int64), len(vec.table)
    elif vec.kind is VecKind.BOOL:
        codes, size = vec.data.astype(np.int64), 2
    else:
        values, inverse = np.unique(vec.data, return_inverse=True)
        codes, size = inverse.astype(np.int64), len(values)
    if vec.errors is None:
        return codes, max(size, 1)
    return np.where(vec.errors != 0, size, codes), size + 1


def _gathered(
    kind: VecKind, values: list[object], errors: list[int], codes: Rows
) -> tuple[np.ndarray, Codes | None, Sequence[object]]:
    """The data, errors and table of a Vec. `values`, `errors`: of each combination; `codes`: the combination of each
    row.
    """
    if not values:
        return np.zeros(len(codes), kind.value), None, ()
    failing = np.array(errors, np.int32)[codes] if any(errors) else None
    if kind is VecKind.TABLE:
        return codes.astype(np.int32), failing, tuple(values)
    data = np.array([0 if value is None else value for value in values], kind.value)
    return data[codes], failing, ()


@dataclass(frozen=True, slots=True)
class Loop:
    """A macro's loop over a fixed list or map. `second`: the name of its second variable, or ""."""

    variable: str
    second: str
    range: Fixed
    accumulator: str


class Unrolled(Operation):
    """A macro over a list that does not depend on the node: its steps, one after the other, each over all nodes."""

    def __init__(self, loop: Loop, init: Operation, step: Operation, result: Operation, whole: Operation) -> None:
        """`whole`: the macro as a Lift, for long lists."""
        self._loop = loop
        self._init, self._step, self._result = init, step, result
        self._whole = whole
        self.reads = whole.reads

    def run(self, run: Run) -> Operand:
        loop = self._loop
        found = loop.range.run(run)
        if isinstance(found, ColumnFailure):
            return found
        elements = _elements(found.value, two=bool(loop.second))
        if len(elements) > MAX_UNROLLED:
            return self._whole.run(run)
        value = self._init.run(run)
        repeated = run.in_loop(len(elements))
        for first, second in elements:
            run.nodes.deadline.point()
            inner = repeated.with_variable(loop.variable, first)
            if loop.second:
                inner = inner.with_variable(loop.second, second)
            value = self._step.run(inner.with_variable(loop.accumulator, value))
        return self._result.run(run.with_variable(loop.accumulator, value))


def _elements(value: object, *, two: bool) -> list[tuple[object, object]]:
    if isinstance(value, dict):
        return [(key, value[to_key(key)]) for key in keys_of(value)]
    assert isinstance(value, Iterable)
    items = list(value)
    return [(index, item) for index, item in enumerate(items)] if two else [(item, None) for item in items]
