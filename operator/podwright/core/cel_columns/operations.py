"""Operators over columns: logic, comparisons, arithmetic, `in`, `?:` and conversions of numbers.

Each gives on every row what the evaluator gives for that node, value or error. Operands that have an error on a row
give the first of these errors, except where CEL absorbs it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.library.regexes import PLAIN
from podwright.core.cel_columns.arithmetic import ARITHMETIC, Answer, negated, to_double, to_int
from podwright.core.cel_columns.nodes import NameTable, TextTable
from podwright.core.cel_columns.run import Operation, Run
from podwright.core.cel_columns.vectors import (
    Bools,
    Codes,
    ColumnFailure,
    Operand,
    Scalar,
    Vec,
    VecKind,
    as_vec,
    failing,
    joined,
)


def errors_of(operand: Operand, rows: int) -> Codes:
    """The errors of an operand on each row."""
    if isinstance(operand, ColumnFailure):
        return np.full(rows, operand.code, np.int32)
    found = operand.errors if isinstance(operand, Vec) else None
    return np.zeros(rows, np.int32) if found is None else found


def failed(left: Operand, right: Operand, kind: VecKind, rows: int) -> Operand | None:
    """The result of a function of two operands of which at least one is an error on all rows; None if neither is."""
    if isinstance(left, ColumnFailure):
        return left
    if not isinstance(right, ColumnFailure):
        return None
    if isinstance(left, Scalar) or left.errors is None:
        return right
    errors = np.where(left.errors != 0, left.errors, np.int32(right.code))
    return Vec(kind, np.zeros(rows, kind.value), errors)


class Logic(Operation):
    """`&&`, or `||` with `until` True: that value on one side decides, even if the other side is an error."""

    def __init__(self, left: Operation, right: Operation, *, until: bool) -> None:
        self._left, self._right, self._until = left, right, until
        self.reads = left.reads | right.reads

    def run(self, run: Run) -> Operand:
        left = self._left.run(run)
        if isinstance(left, Scalar):
            return left if left.value is self._until else self._right.run(run)
        right = self._right.run(run)
        if isinstance(right, Scalar):
            if right.value is self._until:
                return right
            return left
        a, b = as_vec(left, run.count), as_vec(right, run.count)
        data = a.data | b.data if self._until else a.data & b.data
        if a.errors is None and b.errors is None:
            return Vec(VecKind.BOOL, data)
        first, second = errors_of(a, run.count), errors_of(b, run.count)
        decided = ((first == 0) & (a.data == self._until)) | ((second == 0) & (b.data == self._until))
        errors = np.where(decided, 0, np.where(first != 0, first, second)).astype(np.int32)
        return Vec(VecKind.BOOL, np.where(decided, self._until, data), errors if errors.any() else None)


class Not(Operation):
    """`!x`."""

    def __init__(self, operand: Operation) -> None:
        self._operand = operand
        self.reads = operand.reads

    def run(self, run: Run) -> Operand:
        found = self._operand.run(run)
        if isinstance(found, Scalar):
            return Scalar(not found.value)
        return found if isinstance(found, ColumnFailure) else Vec(VecKind.BOOL, ~found.data, found.errors)


class ConditionalColumn(Operation):
    """`condition ? yes : no`."""

    def __init__(self, condition: Operation, yes: Operation, no: Operation) -> None:
        self._condition, self._yes, self._no = condition, yes, no
        self.reads = condition.reads | yes.reads | no.reads

    def run(self, run: Run) -> Operand:
        condition = self._condition.run(run)
        if isinstance(condition, ColumnFailure):
            return condition
        if isinstance(condition, Scalar):
            return (self._yes if condition.value else self._no).run(run)
        return chosen(condition, self._yes.run(run), self._no.run(run), run.count)


def chosen(condition: Vec, yes: Operand, no: Operand, rows: int) -> Vec:
    """`yes` where the condition holds, `no` where it does not. Both are of one type."""
    a, b = as_vec(yes, rows), as_vec(no, rows)
    if isinstance(yes, ColumnFailure):
        a = Vec(b.kind, np.zeros(rows, b.kind.value), a.errors, b.table)
    elif isinstance(no, ColumnFailure):
        b = Vec(a.kind, np.zeros(rows, a.kind.value), b.errors, a.table)
    table, other = a.table, b.data
    if a.kind is VecKind.TABLE and a.table is not b.table:
        table, other = (*a.table, *b.table), b.data + np.int32(len(a.table))
    errors = None
    if a.errors is not None or b.errors is not None:
        errors = np.where(condition.data, errors_of(a, rows), errors_of(b, rows)).astype(np.int32)
    return Vec(a.kind, np.where(condition.data, a.data, other), joined(condition.errors, errors), table)


class Binary(Operation):
    """A function of two operands that is an error where one of them is. `result`: the kind of its values."""

    def __init__(self, left: Operation, right: Operation, *, result: VecKind = VecKind.BOOL) -> None:
        self._left, self._right, self._result = left, right, result
        self.reads = left.reads | right.reads

    def run(self, run: Run) -> Operand:
        left, right = self._left.run(run), self._right.run(run)
        failure = failed(left, right, self._result, run.count)
        return self._combined(left, right, run) if failure is None else failure

    @abstractmethod
    def _combined(self, left: Operand, right: Operand, run: Run) -> Operand:
        """Computes the result. Neither operand is an error on all rows."""


_ORDER: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "_<_": np.less,
    "_<=_": np.less_equal,
    "_>_": np.greater,
    "_>=_": np.greater_equal,
}


class NumberComparison(Binary):
    """`<`, `<=`, `>` and `>=` of two numbers."""

    def __init__(self, function: str, left: Operation, right: Operation, kinds: tuple[VecKind, VecKind]) -> None:
        super().__init__(left, right)
        self._compare = _ORDER[function]
        self._as_doubles = kinds[0] is not kinds[1]
        self._ordered = VecKind.DOUBLE not in kinds

    def _combined(self, left: Operand, right: Operand, run: Run) -> Operand:
        a, b, errors = _numbers(left, right, run)
        if self._as_doubles:
            a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        if not self._ordered:
            unordered = np.isnan(a) | np.isnan(b)
            errors = joined(errors, failing(run.errors.code("NaN values cannot be ordered"), unordered))
        return Vec(VecKind.BOOL, self._compare(a, b), errors)


class Equality(Binary):
    """`==` and `!=` of two numbers, bools or strings."""

    def __init__(self, left: Operation, right: Operation, kinds: tuple[VecKind, VecKind], *, negated: bool) -> None:
        super().__init__(left, right)
        self._kinds = kinds
        self._negated = negated

    def _combined(self, left: Operand, right: Operand, run: Run) -> Operand:
        if self._kinds == (VecKind.TABLE, VecKind.TABLE):
            same, errors = _same_texts(as_vec(left, run.count), right)
        else:
            a, b, errors = _numbers(left, right, run)
            if self._kinds[0] is not self._kinds[1]:
                a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
            same = np.equal(a, b)
        return Vec(VecKind.BOOL, ~same if self._negated else same, errors)


def _same_texts(left: Vec, right: Operand) -> tuple[Bools, Codes | None]:
    if isinstance(right, Scalar):
        return _equals(left, right.value), left.errors
    assert isinstance(right, Vec)
    errors = joined(left.errors, right.errors)
    if len(left.table) == 1:
        left, right = right, left
    if len(right.table) == 1:
        return _equals(left, right.table[0]), errors
    known: dict[object, int] = {}
    a, b = (
        np.array([known.setdefault(text, len(known)) for text in side.table] or [0], np.int32) for side in (left, right)
    )
    return a[left.data] == b[right.data], errors


_NOWHERE: Final = -2


def _equals(vec: Vec, text: object) -> Bools:
    """Which entries are this text."""
    if isinstance(vec.table, TextTable | NameTable):
        try:
            position = vec.table.index(text)
        except ValueError:
            position = _NOWHERE
        found: Bools = vec.data == position
    else:
        found = np.array([each == text for each in vec.table] or [False], np.bool_)[vec.data]
    return found


class TextTest(Binary):
    """`startsWith`, `endsWith`, `contains` and `matches` of a text, with a text that does not depend on the node."""

    def __init__(self, function: str, text: Operation, argument: Operation) -> None:
        super().__init__(text, argument)
        self._test = _TESTS[function]

    def _combined(self, text: Operand, argument: Operand, run: Run) -> Operand:
        assert isinstance(argument, Scalar)
        vec = as_vec(text, run.count)
        asked = range(len(vec.table)) if len(vec.table) <= 2 * run.count + 8 else sorted(set(vec.data.tolist()))
        found = np.zeros(max(len(vec.table), 1), np.bool_)
        try:
            for number, position in enumerate(asked):
                if number % _PAUSE_EVERY == _PAUSE_EVERY - 1:
                    run.nodes.deadline.point()
                value = vec.table[position] if vec.table else None
                found[position] = isinstance(value, str) and self._test(value, str(argument.value))
        except EvaluationError as error:
            return run.failure(str(error))
        return Vec(VecKind.BOOL, found[vec.data], vec.errors)


_PAUSE_EVERY: Final = 64
_TESTS: Final[Mapping[str, Callable[[str, str], object]]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": str.__contains__,
    "matches": PLAIN["matches"],
}
TEXT_TESTS: Final = frozenset(_TESTS)


class ListMembership(Binary):
    """`x in list` of a string, and a list of strings that does not depend on the node."""

    def _combined(self, item: Operand, elements: Operand, run: Run) -> Operand:
        assert isinstance(elements, Scalar)
        wanted, vec = frozenset(elements.value), as_vec(item, run.count)  # type: ignore[call-overload]  # a list of CEL
        having = np.array([value in wanted for value in vec.table] or [False], np.bool_)
        return Vec(VecKind.BOOL, having[vec.data], vec.errors)


class Arithmetic(Binary):
    """`+`, `-`, `*`, `/` and `%` of two numbers of one kind."""

    def __init__(self, function: str, left: Operation, right: Operation, kind: VecKind) -> None:
        super().__init__(left, right, result=kind)
        self._compute = ARITHMETIC[function, kind]

    def _combined(self, left: Operand, right: Operand, run: Run) -> Operand:
        a, b, errors = _numbers(left, right, run)
        kind = self._result
        return _answer(run, kind, self._compute(_of_kind(a, kind), _of_kind(b, kind)), errors)


class Unary(Operation):
    """`-x`, `int(x)` and `double(x)` of a number."""

    def __init__(self, operand: Operation, function: str, kinds: tuple[VecKind, VecKind]) -> None:
        self._operand = operand
        self._function = function
        self._from, self._to = kinds
        self.reads = operand.reads

    def run(self, run: Run) -> Operand:
        found = self._operand.run(run)
        if isinstance(found, ColumnFailure):
            return found
        vec = as_vec(found, run.count)
        data = _of_kind(vec.data, self._from)
        if self._function == "-_":
            answer = negated(self._from, data)
        elif self._from is self._to:
            return vec
        else:
            answer = to_double(data) if self._to is VecKind.DOUBLE else to_int(self._from, data)
        return _answer(run, self._to, answer, vec.errors)


def _numbers(left: Operand, right: Operand, run: Run) -> tuple[Any, Any, Codes | None]:
    """The numbers of two operands, and the errors of both."""
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        left = as_vec(left, run.count)
    return _data(left), _data(right), joined(_errors(left), _errors(right))


def _of_kind(values: Any, kind: VecKind) -> Any:
    """The numbers. What has errors on all rows may be a Vec of another kind, whose values nothing reads."""
    return values if values.dtype.type is kind.value else values.astype(kind.value)


def _data(operand: Operand) -> Any:
    if isinstance(operand, Vec):
        return operand.data
    assert isinstance(operand, Scalar)
    value = operand.value
    return (
        np.float64(value)
        if isinstance(value, float)
        else np.bool_(value)
        if isinstance(value, bool)
        else _integer(value)
    )


def _integer(value: Any) -> Any:
    return np.uint64(value) if value.__class__ is not int else np.int64(value)


def _errors(operand: Operand) -> Codes | None:
    return operand.errors if isinstance(operand, Vec) else None


def _answer(run: Run, kind: VecKind, answer: Answer, errors: Codes | None) -> Vec:
    data, wrong = answer
    for text, where in wrong:
        errors = failing(run.errors.code(text), np.broadcast_to(where, data.shape), errors)
    return Vec(kind, data, errors)
