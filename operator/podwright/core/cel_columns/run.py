"""One evaluation of an expression over rows of the node table, and the base of the operations that it consists of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from podwright.core.cel.errors import EvaluationError, fault
from podwright.core.cel_columns.limits import COST_LIMIT
from podwright.core.cel_columns.lone_node import LoneNode
from podwright.core.cel_columns.nodes import NodeColumns
from podwright.core.cel_columns.reads import Reads
from podwright.core.cel_columns.vectors import (
    Bools,
    ColumnFailure,
    ErrorTexts,
    Operand,
    Rows,
    Scalar,
    Vec,
    as_vec,
    value_at,
)
from podwright.core.objects.dataclass import dataclass

Evaluate = Callable[[Mapping[str, object], int, Callable[[], bool] | None], object]
"""(values of the variables, the greatest cost, what loops call) → the value of a tree, by the evaluator. Raises
EvaluationError, and what the call raises.
"""


class Keeper(Protocol):
    """Keeps results and refreshes them for rows that have changed."""

    def of_nodes(self, operation: Operation) -> Vec:
        """The result on all rows of an operation that depends on nothing but the nodes themselves."""


@dataclass(slots=True)
class Run:
    """`rows`: the rows of the table to evaluate, None for all of them. `variables`: everything but the node, the same
    for all rows.
    """

    nodes: NodeColumns | LoneNode
    rows: Rows | None
    variables: Mapping[str, object]
    errors: ErrorTexts
    keeper: Keeper
    """Keeps results that depend on the nodes alone."""
    repeated: int = 1
    """How often the loops around run the operation."""

    @property
    def count(self) -> int:
        """The number of entries of a Vec."""
        return self.nodes.size if self.rows is None else len(self.rows)

    @property
    def valid(self) -> Bools:
        """bool[rows]: which rows have a node."""
        return self.nodes.valid(self.rows)

    def slot(self, position: int) -> int:
        """The row of an entry."""
        return position if self.rows is None else int(self.rows[position])

    def failure(self, text: str) -> ColumnFailure:
        return ColumnFailure(self.errors.code(text))

    def with_variable(self, name: str, value: object) -> Run:
        """The same with one more variable, that of a macro's loop."""
        return Run(self.nodes, self.rows, {**self.variables, name: value}, self.errors, self.keeper, self.repeated)

    def interrupted(self) -> bool:
        """For an evaluation that may take long: raises TookLongError at the deadline instead of returning True."""
        self.nodes.deadline.point()
        return False

    def in_loop(self, times: int) -> Run:
        """The same within a loop that runs this many times."""
        return Run(self.nodes, self.rows, self.variables, self.errors, self.keeper, self.repeated * max(times, 1))


class Operation(ABC):
    """A part of an expression. `reads`: what it depends on, of the nodes and of pods on them."""

    reads: Reads = Reads(0)

    @abstractmethod
    def run(self, run: Run) -> Operand:
        """Its value on each row."""


class Fixed(Operation):
    """A part that does not depend on the node."""

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate

    def run(self, run: Run) -> Scalar | ColumnFailure:
        try:
            return Scalar(self._evaluate(run.variables, COST_LIMIT, run.interrupted))
        except EvaluationError as error:
            return run.failure(str(error))


class Variable(Operation):
    """An accumulator of a macro, which holds an operand."""

    def __init__(self, name: str, reads: Reads) -> None:
        self._name = name
        self.reads = reads

    def run(self, run: Run) -> Operand:
        found = run.variables[self._name]
        assert isinstance(found, Scalar | ColumnFailure) or hasattr(found, "kind"), f"{self._name} is no accumulator"
        return found  # type: ignore[return-value]  # by the line above


class Kept(Operation):
    """An operation that depends on nothing but the nodes themselves, so that one result is kept for all pods."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.reads = operation.reads

    def run(self, run: Run) -> Vec:
        vec = run.keeper.of_nodes(self.operation)
        return vec if run.rows is None else vec.at(run.rows)


class _Anew:
    """A Keeper that keeps nothing."""

    def __init__(self, nodes: LoneNode, errors: ErrorTexts) -> None:
        self._nodes = nodes
        self._errors = errors

    def of_nodes(self, operation: Operation) -> Vec:
        return as_vec(operation.run(Run(self._nodes, None, {}, self._errors, self)), 1)


def result_of(operation: Operation, run: Run) -> Vec:
    """The result on all entries. Whatever else than a result an operation raises is an error on each of them."""
    with np.errstate(all="ignore"):  # what overflows or divides by zero is found and becomes an error
        try:
            found = operation.run(run)
        except Exception as error:  # noqa: BLE001 -- a mistake in an operation is this expression's error
            found = run.failure(fault(error))
        return as_vec(found, run.count)


def run_alone(operation: Operation, node: LoneNode, variables: Mapping[str, object]) -> object:
    """The value of an operation on one node. Raises EvaluationError."""
    errors = ErrorTexts()
    vec = result_of(operation, Run(node, None, variables, errors, _Anew(node, errors)))
    if vec.errors is not None and vec.errors[0]:
        raise EvaluationError(errors.text(int(vec.errors[0])))
    return value_at(vec, 0)
