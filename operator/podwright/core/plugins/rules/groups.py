"""Groups: the results of several rules of a policy as one, so that a decision looks up one result instead of a column
for each rule.

Rules that go out of date at the same changes are in one group: those that read nodes alone, and those that read also
what the pods on a node request. A group's result is kept by what its rules read of the pod. After a decision one node
has changed: then the rules are evaluated on that node alone. Invariant: a kept result equals that of the rules'
columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel_columns.kept import ENTRY_BYTES, FEW_ROWS, Column, KeptColumns, changes_of
from podwright.core.cel_columns.nodes import NodeView
from podwright.core.cel_columns.vectors import Bools, Codes, ErrorTexts, held_bytes
from podwright.core.cel_columns.views import NodeViews
from podwright.core.framework.interface import Int64s
from podwright.core.objects.dataclass import dataclass
from podwright.core.plugins.rules.owner import RuleOwner
from podwright.core.plugins.rules.rule_set import Filter, RuleScore
from podwright.core.plugins.rules.subject import Input, RuleSubject, TimeInput
from podwright.core.state.columns.change_log import RowChanges

Subjects = Mapping[RuleOwner, RuleSubject]
R = TypeVar("R", bound=Filter | RuleScore)
V = TypeVar("V")
A = TypeVar("A", bound=np.generic)


class Failing(NamedTuple):
    """A rule that has an error on a node, by its position among the policy's filters or scores, with the node's row and
    the error.
    """

    position: int
    row: int
    text: str


def failing_of(position: int, column: Column) -> Sequence[Failing]:
    """The rule with this column, if it has an error."""
    if column.failing is None or column.vec.errors is None:
        return ()
    return (Failing(position, column.failing, column.texts.text(int(column.vec.errors[column.failing]))),)


class RuleVerdict(NamedTuple):
    """The verdict of a filter, by its position, on all nodes at one moment. The arrays are never changed in place."""

    position: int
    passing: Bools
    errors: Codes | None
    texts: ErrorTexts

    @staticmethod
    def of(position: int, column: Column) -> RuleVerdict:
        return RuleVerdict(position, column.passing, column.vec.errors, column.texts)


class Passing(NamedTuple):
    """bool[nodes]: the nodes that pass all filters of a group; and each filter's verdict."""

    ok: Bools
    verdicts: Sequence[RuleVerdict]


@dataclass(slots=True)
class Result(Generic[V]):
    """`failing`: the rules that have errors; `wrong`: bool[nodes], where one has an error, or None.

    `seq`: which changes of nodes the value knows.
    """

    value: V
    failing: Sequence[Failing]
    wrong: Bools | None
    seq: Hashable


class RuleGroup(ABC, Generic[R, V]):
    """See the module. `rules` have their positions among the policy's filters or scores."""

    def __init__(self, rules: Sequence[tuple[int, R]], kept: KeptColumns, views: NodeViews) -> None:
        self._rules: Sequence[tuple[int, R]] = rules
        self._kept: KeptColumns = kept
        self._views: NodeViews = views
        reads = reduce(or_, (rule.expression.reads for _, rule in rules))
        self._log: RowChanges = changes_of(reads, kept.nodes.cache)
        parts: dict[tuple[RuleOwner, Input | TimeInput], None] = dict.fromkeys(
            (rule.owner, part) for _, rule in rules for part in rule.expression.inputs
        )
        self._readers: Sequence[tuple[RuleOwner, Callable[[RuleSubject], Hashable]]] = [
            (owner, part.reader()) for owner, part in parts
        ]
        self._known: Hashable = tuple(
            (i, rule.expression, rule.owner.scope, *self._settings(rule)) for i, rule in rules
        )

    def get(self, subjects: Subjects) -> Result[V]:
        """The up-to-date result."""
        kept, seq = self._kept, self._log.seq
        inputs = [read(subjects[owner]) for owner, read in self._readers]
        key = (self._known, kept.nodes.limit, *inputs)
        found: Result[V] | None = kept.groups.get(key)
        if found is None or (found.seq != seq and not self._refreshed(found, subjects)):
            columns = [self._column(rule, subjects[rule.owner]) for _, rule in self._rules]
            value, size = self._combined(columns)
            found = Result(value, self._failing(columns), _wrong(columns), seq)
            size += 0 if found.wrong is None else found.wrong.nbytes
            kept.groups.put(key, found, size + held_bytes(inputs) + ENTRY_BYTES)
        found.seq = seq
        return found

    def _refreshed(self, found: Result[V], subjects: Subjects) -> bool:
        """Evaluates the rules on the few nodes that have changed. False if these are too many, or a rule has or had an
        error on one.
        """
        changed = self._log.since(found.seq)
        table = self._kept.nodes.table
        if changed is None or self._length(found.value) != table.size:
            return False
        rows = set(changed)
        if len(rows) > FEW_ROWS or (found.wrong is not None and any(found.wrong[row] for row in rows)):
            return False
        values = []
        try:
            for row in rows:
                if table.nodes[row] is not None:
                    view = self._views.of(self._kept.nodes.node_at(row))
                    values.append((row, [self._value(rule, subjects[rule.owner], view) for _, rule in self._rules]))
        except EvaluationError:
            return False
        found.value = self._written(found.value, values)
        return True

    def _failing(self, columns: Sequence[Column]) -> Sequence[Failing]:
        pairs = zip(self._rules, columns, strict=True)
        return [found for (position, _), column in pairs for found in failing_of(position, column)]

    @staticmethod
    @abstractmethod
    def _settings(rule: R) -> Sequence[int]:
        """Returns the rule's settings, besides its expression, that the result depends on."""

    @abstractmethod
    def _column(self, rule: R, subject: RuleSubject) -> Column:
        """The rule's result on all nodes."""

    @staticmethod
    @abstractmethod
    def _value(rule: R, subject: RuleSubject, view: NodeView) -> int:
        """The rule's result on one node. Raises EvaluationError."""

    @abstractmethod
    def _combined(self, columns: Sequence[Column]) -> tuple[V, int]:
        """The value of the columns of all rules, and its bytes."""

    @staticmethod
    @abstractmethod
    def _length(value: V) -> int:
        """The number of rows."""

    @staticmethod
    @abstractmethod
    def _written(value: V, rows: Sequence[tuple[int, Sequence[int]]]) -> V:
        """The value with these results of all rules in these rows. Copies what differs."""


class FilterGroup(RuleGroup[Filter, Passing]):
    """Filters: which nodes pass all of them."""

    @staticmethod
    def _settings(_rule: Filter) -> Sequence[int]:
        return ()

    def _column(self, rule: Filter, subject: RuleSubject) -> Column:
        return rule.expression.column(subject, self._kept, self._views.of)

    @staticmethod
    def _value(rule: Filter, subject: RuleSubject, view: NodeView) -> int:
        return rule.expression.of_view(subject, view) is True

    def _combined(self, columns: Sequence[Column]) -> tuple[Passing, int]:
        verdicts = [
            RuleVerdict.of(position, column) for (position, _), column in zip(self._rules, columns, strict=True)
        ]
        ok = np.logical_and.reduce([verdict.passing for verdict in verdicts])
        errors = (verdict.errors for verdict in verdicts)
        size = ok.nbytes * (1 + len(verdicts)) + sum(each.nbytes for each in errors if each is not None)
        return Passing(ok, verdicts), size

    @staticmethod
    def _length(value: Passing) -> int:
        return len(value.ok)

    @staticmethod
    def _written(value: Passing, rows: Sequence[tuple[int, Sequence[int]]]) -> Passing:
        verdicts = [
            verdict
            if (passing := with_rows(verdict.passing, [(row, found[i]) for row, found in rows])) is verdict.passing
            else verdict._replace(passing=passing)
            for i, verdict in enumerate(value.verdicts)
        ]
        return Passing(with_rows(value.ok, [(row, all(found)) for row, found in rows]), verdicts)


class ScoreGroup(RuleGroup[RuleScore, Int64s]):
    """Scores that are not normalised: int64[nodes], their weighted sum."""

    @staticmethod
    def _settings(rule: RuleScore) -> Sequence[int]:
        return (rule.weight,)

    def _column(self, rule: RuleScore, subject: RuleSubject) -> Column:
        return rule.expression.scores(subject, self._kept, self._views.of, bounded=True)

    @staticmethod
    def _value(rule: RuleScore, subject: RuleSubject, view: NodeView) -> int:
        return rule.weight * rule.expression.bounded_of_view(subject, view)

    def _combined(self, columns: Sequence[Column]) -> tuple[Int64s, int]:
        total = np.zeros(self._kept.nodes.size, np.int64)
        for (_, rule), column in zip(self._rules, columns, strict=True):
            total += rule.weight * column.vec.data
        return total, total.nbytes

    @staticmethod
    def _length(value: Int64s) -> int:
        return len(value)

    @staticmethod
    def _written(value: Int64s, rows: Sequence[tuple[int, Sequence[int]]]) -> Int64s:
        return with_rows(value, [(row, sum(found)) for row, found in rows])


def with_rows(values: NDArray[A], rows: Sequence[tuple[int, int]]) -> NDArray[A]:
    """The values with these rows replaced: a copy, unless nothing differs."""
    for i, (row, value) in enumerate(rows):
        if values[row] != value:
            values = values.copy()
            for changed, new in rows[i:]:
                values[changed] = new
            break
    return values


def _wrong(columns: Sequence[Column]) -> Bools | None:
    errors = [column.vec.errors != 0 for column in columns if column.vec.errors is not None]
    return np.logical_or.reduce(errors) if errors else None
