"""Expression: a type-checked expression of a rule, for one node by the evaluator and for all nodes as columns.

Policies with the same text share it (see `known_expressions`), and so the columns that are kept for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from math import isfinite, prod
from typing import Final

import numpy as np

from podwright.core.cel import types
from podwright.core.cel.checking.tree import Call, Comprehension, Ident, Select, TreeNode, children
from podwright.core.cel.cost.bound import greatest_cost
from podwright.core.cel.environment import UNIT_SECONDS
from podwright.core.cel.errors import CelError, CostLimitError, EvaluationError, Issue
from podwright.core.cel.types import Type
from podwright.core.cel_columns.compiler import (
    NODE,
    PODS_IN_DOMAIN,
    PODS_ON_NODE,
    SIGNALS,
    ColumnCompiler,
    free_variables,
    kind_of_type,
)
from podwright.core.cel_columns.counts import SCOPE
from podwright.core.cel_columns.kept import Column, KeptColumns
from podwright.core.cel_columns.limits import node_limit
from podwright.core.cel_columns.lone_node import LoneNode
from podwright.core.cel_columns.nodes import NodeView, NodeViewer
from podwright.core.cel_columns.reads import Reads
from podwright.core.cel_columns.run import Evaluate, Operation, Run, run_alone
from podwright.core.cel_columns.vectors import Operand, Vec, VecKind, as_vec, failing
from podwright.core.cel_columns.views import View
from podwright.core.framework.interface import MAX_SCORE
from podwright.core.plugins.rules.environment import environment, usual_variables, variables_with
from podwright.core.plugins.rules.subject import CACHE, NAMESPACE, RuleSubject, TimeInput, inputs_of
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

NUMBERS: Final = (types.INT, types.UINT, types.DOUBLE)
NOT_FINITE: Final = "the score is not a finite number"
UNBOUNDED: Final = 2**53
"""A greater bound contains the unknown size of a value."""
MAX_ESTIMATE: Final = 1_000_000
"""An expression is refused if it could cost more with values of the greatest sizes. Ordinary values are far smaller."""


class Expression:
    """See the module. `interpreted`: why it is evaluated for each node, in words; "" if it is compiled to columns."""

    def __init__(self, text: str, *, score: bool, signals: tuple[str, ...] = ()) -> None:
        """`signals`: all that exist. Raises CelError if the text is no expression of type bool, or of a number for a
        score.
        """
        self.program = environment(signals).compile(text)
        self.text = text
        _check_type(self.program.result_type, score=score)
        check_cost(greatest_cost(self.program.tree, variables_with(signals)))
        self.usual_cost = greatest_cost(self.program.tree, usual_variables(signals))
        """The greatest cost on one node if maps and lists are not larger than usual."""
        self.signals = signals_read(self.program.tree) if signals else frozenset[str]()
        """The signals that it reads."""
        compiled = ColumnCompiler(self.program.tree, evaluator_of).compile()
        self.reads = compiled.reads
        self.interpreted = compiled.interpreted
        self._operation: Operation = compiled.operation
        self._shares = compiled.shares
        self._differs = any(each.reads & ~Reads.TAINTS for each in compiled.inputs)
        self._reads_taints = bool(compiled.inputs)
        self._score = Score(compiled.operation, kind_of_type(self.program.result_type))
        self._bounded = Bounded(self._score)
        self.inputs = inputs = inputs_of(self.program.tree, free_variables(self.program.tree), evaluator_of)
        """The inputs besides the node."""
        self.times = tuple(part for part in inputs if isinstance(part, TimeInput))
        """The parts that read nothing but the time."""
        if problem := next(filter(None, (part.problem() for part in self.times)), ""):
            raise CelError(Issue(0, 0, problem))
        self.reads_namespace = any(part.root == NAMESPACE for part in inputs)
        """True if it depends on the pod's namespace."""
        self._readers = tuple(part.reader() for part in inputs)
        counts = (CACHE, SCOPE) if _counts_pods(self.program.tree) else ()
        self._variables = (*dict.fromkeys(part.root for part in inputs), *counts)
        self._viewer = NodeViewer(self.reads)

    def key(self, subject: RuleSubject) -> Hashable:
        """The key by which results for different pods are kept."""
        return (subject.owner.scope, *[read(subject) for read in self._readers])

    def work(self, table: NodeTable) -> tuple[int, int]:
        """The estimated cost of an evaluation on these nodes, and how often it is evaluated for a new pod. The
        operations on all nodes at once count as one evaluation.
        """
        nodes = int(np.count_nonzero(table.valid))
        times = nodes if self._differs else min(nodes, len(table.taint_sets)) if self._reads_taints else min(nodes, 1)
        return min(self.usual_cost, node_limit(nodes)), times

    def column(self, subject: RuleSubject, kept: KeptColumns, view: View | None = None) -> Column:
        """bool[nodes] and errors: whether each node passes. `view` shows a node with at least the fields that the
        expression reads.
        """
        return self._kept(kept, self._operation, subject, self.of_view, view)

    def scores(self, subject: RuleSubject, kept: KeptColumns, view: View | None = None, *, bounded: bool) -> Column:
        """float64[nodes] and errors; `bounded`: int64[nodes] from 0 to 100."""
        operation, one = (self._bounded, self.bounded_of_view) if bounded else (self._score, self._number)
        return self._kept(kept, operation, subject, one, view)

    def _kept(
        self,
        kept: KeptColumns,
        operation: Operation,
        subject: RuleSubject,
        one: Callable[[RuleSubject, NodeView], object],
        view: View | None,
    ) -> Column:
        view = view or self._viewer.of
        return kept.column(
            operation,
            self.key(subject),
            lambda: subject.variables(self._variables),
            lambda info: one(subject, view(info)),
            self._seconds,
        )

    def _seconds(self, table: NodeTable) -> float:
        """The estimated time of an evaluation on all nodes."""
        return UNIT_SECONDS * prod(self.work(table))

    def evaluate(self, subject: RuleSubject, node: NodeInfo, changes: Mapping[str, object] | None = None) -> object:
        """The value for one node. `changes`: further variables. Raises EvaluationError.

        Columns count only the cost of the parts that they leave to the evaluator, so they may have a value where the
        evaluator exceeds its limit. If an evaluation stays within the least share of a part, no part of it costs more,
        and both have the same value.
        """
        return self.of_view(subject, self._viewer.of(node), changes)

    def of_view(self, subject: RuleSubject, view: NodeView, changes: Mapping[str, object] | None = None) -> object:
        """The same for a node as a value of CEL, with at least the fields that the expression reads."""
        variables = {**subject.variables(self._variables), NODE: view}
        if self.signals:
            variables[SIGNALS] = subject.cache.signals.of_node(view.info.name)
        if changes:
            variables.update(changes)
        limit = node_limit(subject.cache.table.size) // self._shares
        try:
            return self.program.evaluate(variables, limit)
        except CostLimitError:
            del variables[NODE]
            return run_alone(self._operation, LoneNode(view, subject.cache), variables)

    def number(self, subject: RuleSubject, node: NodeInfo) -> float:
        """The value of a score for one node. Raises EvaluationError."""
        return self._number(subject, self._viewer.of(node))

    def bounded_of_view(self, subject: RuleSubject, view: NodeView) -> int:
        """The value of a score as a whole number from 0 to 100. Raises EvaluationError."""
        return int(min(max(self._number(subject, view), 0), MAX_SCORE))

    def _number(self, subject: RuleSubject, view: NodeView) -> float:
        found = float(self.of_view(subject, view))  # type: ignore[arg-type]  # a number: the checker saw to that
        if not isfinite(found):
            raise EvaluationError(NOT_FINITE)
        return found


def _counts_pods(tree: TreeNode) -> bool:
    return (isinstance(tree, Call) and tree.function in (PODS_ON_NODE, PODS_IN_DOMAIN)) or any(
        map(_counts_pods, children(tree))
    )


def signals_read(tree: TreeNode, bound: frozenset[str] = frozenset()) -> frozenset[str]:
    """The names of the signals that a tree reads. Raises CelError if it reads all of them as one value."""
    match tree:
        case Select(operand=Ident(name=name)) if name == SIGNALS and name not in bound:
            return frozenset((tree.field,))
        case Ident(name=name) if name == SIGNALS and name not in bound:
            raise CelError(Issue(0, 0, f"{SIGNALS} can be read one by one only, as {SIGNALS}.NAME"))
        case Comprehension():
            inner = bound | {tree.variable, tree.second, tree.accumulator}
            found = signals_read(tree.range, bound) | signals_read(tree.init, bound)
            for part in (tree.condition, tree.step, tree.result):
                found |= signals_read(part, inner)
            return found
    return frozenset[str]().union(*(signals_read(child, bound) for child in children(tree)))


def evaluator_of(tree: TreeNode) -> Evaluate:
    """A function that evaluates a checked part of an expression."""
    program = environment().part(tree)

    def evaluate(variables: Mapping[str, object], limit: int, interrupted: Callable[[], bool] | None) -> object:
        return program.evaluate(variables, limit, interrupted)

    return evaluate


def _check_type(found: Type, *, score: bool) -> None:
    if score and found not in NUMBERS:
        raise CelError(Issue(0, 0, f"a score must be an int, uint or double, not {found}"))
    if not score and found != types.BOOL:
        raise CelError(Issue(0, 0, f"a filter must be a bool, not {found}"))


def check_cost(cost: int) -> None:
    """Raises CelError if the greatest cost of an expression is too high."""
    if cost > UNBOUNDED:
        raise CelError(Issue(0, 0, "its cost has no bound: it loops over values of unknown size"))
    if cost > MAX_ESTIMATE:
        raise CelError(Issue(0, 0, f"it may cost {cost} on one node, the maximum is {MAX_ESTIMATE}"))


class Score(Operation):
    """A number as a double. One that is not finite is an error."""

    def __init__(self, operation: Operation, kind: VecKind) -> None:
        self._operation, self._kind = operation, kind
        self.reads = operation.reads

    def run(self, run: Run) -> Operand:
        found = as_vec(self._operation.run(run), run.count)
        values = found.data.astype(np.float64)
        errors = found.errors
        if self._kind is VecKind.DOUBLE:
            errors = failing(run.errors.code(NOT_FINITE), ~np.isfinite(values), errors)
        return Vec(VecKind.DOUBLE, values, errors)


class Bounded(Operation):
    """A score as a whole number from 0 to 100; 0 where it is an error."""

    def __init__(self, score: Score) -> None:
        self._score = score
        self.reads = score.reads

    def run(self, run: Run) -> Operand:
        found = as_vec(self._score.run(run), run.count)
        values = np.where(np.isfinite(found.data), found.data, 0.0)
        if found.errors is not None:
            values = np.where(found.errors != 0, 0.0, values)
        return Vec(VecKind.INT, np.clip(values, 0, MAX_SCORE).astype(np.int64), found.errors)
