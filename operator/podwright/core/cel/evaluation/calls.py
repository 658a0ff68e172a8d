"""The closures of calls: arguments, cost, then the function.

As in cel-go, an argument that fails ends the call, after the other argument of a call with two has been evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Final

from podwright.core.cel.checking.tree import Call
from podwright.core.cel.cost.counted import OF_RESULT, STRING_FACTOR, CallCost, call_cost
from podwright.core.cel.errors import CelError, EvaluationError, Issue
from podwright.core.cel.evaluation.attributes import Step
from podwright.core.cel.frame import Frame
from podwright.core.cel.library.equality import equal
from podwright.core.cel.library.regexes import PREPARED as REGEX_FUNCTIONS
from podwright.core.cel.values import Function, Opaque, Value, size_of
from podwright.core.objects.dataclass import dataclass

_ERROR: Final = object()
"""Stands for an argument or result that failed: its size is 1."""


@dataclass(frozen=True)
class Functions:
    """The functions of an environment by name.

    `allocating` have the Frame as their first argument, since their result may be greater than their cost says.
    `prepared` make a function from the call's constant arguments by their index and the number of all, once, or return
    None. They raise EvaluationError if the expression is to be refused.
    """

    plain: Mapping[str, Function]
    allocating: Mapping[str, Function]
    prepared: Mapping[str, Function]


def compile_call(node: Call, steps: Sequence[Step], constants: Mapping[int, Value], functions: Functions) -> Step:
    """Raises CelError if the environment has no such function, or a constant argument is wrong."""
    if node.function == "_==_":
        return _equality(steps[0], steps[1], wanted=True)
    if node.function == "_!=_":
        return _equality(steps[0], steps[1], wanted=False)
    cost = call_cost(node.function, node.overload)
    function = functions.plain.get(node.function)
    if node.function in functions.prepared:
        try:
            function = functions.prepared[node.function](constants, len(steps)) or function
        except EvaluationError as error:
            raise CelError(Issue(0, node.offset, str(error))) from None
    needs_frame = function is None
    if function is None:
        function = functions.allocating.get(node.function)
    if function is None:
        raise CelError(Issue(0, node.offset, f"undeclared reference to '{node.function}' (in container '')"))
    if isinstance(cost, int):
        if len(steps) == 1 and not needs_frame:
            return _unary(steps[0], cost, function)
        if len(steps) == 2 and not needs_frame:
            return _binary(steps[0], steps[1], cost, function)
        fixed = cost
        return _general(
            tuple(steps),
            lambda _args, _result: fixed,
            function,
            needs_frame=needs_frame,
            of_result=False,
            evaluates_both=True,
        )
    # cel-go prepares a call with a constant regular expression: it then stops at the first argument that fails.
    stops = node.function in REGEX_FUNCTIONS and 1 in constants
    return _general(
        tuple(steps), cost, function, needs_frame=needs_frame, of_result=cost in OF_RESULT, evaluates_both=not stops
    )


def _unary(operand: Step, cost: int, function: Function) -> Step:
    def call(frame: Frame) -> Value:
        frame.cost += cost
        return function(operand(frame))

    return call


def _binary(left: Step, right: Step, cost: int, function: Function) -> Step:
    def call(frame: Frame) -> Value:
        frame.cost += cost
        try:
            a = left(frame)
        except EvaluationError:
            _evaluate(right, frame)
            raise
        return function(a, right(frame))

    return call


def _evaluate(step: Step, frame: Frame) -> Value:
    """The value of what counts only for its cost, since the call has failed."""
    try:
        return step(frame)
    except EvaluationError:
        return _ERROR


def _equality(left: Step, right: Step, *, wanted: bool) -> Step:
    def test(frame: Frame) -> Value:
        try:
            a = left(frame)
        except EvaluationError:
            other = _evaluate(right, frame)
            frame.cost += _equality_cost(_ERROR, other, is_equals=wanted)
            raise
        try:
            b = right(frame)
        except EvaluationError:
            frame.cost += _equality_cost(a, _ERROR, is_equals=wanted)
            raise
        frame.cost += _equality_cost(a, b, is_equals=wanted)
        frame.check()
        try:
            return equal(a, b, frame) is wanted
        except EvaluationError:
            if wanted:
                raise
            return True

    return test


def _equality_cost(a: Value, b: Value, *, is_equals: bool) -> int:
    """Kubernetes counts 1 for its own types on the left-hand side of `==`, not of `!=`."""
    if is_equals and isinstance(a, Opaque):
        return 1
    return ceil(float(min(size_of(a), size_of(b))) * STRING_FACTOR)


def _general(
    steps: tuple[Step, ...],
    cost: CallCost,
    function: Function,
    *,
    needs_frame: bool,
    of_result: bool,
    evaluates_both: bool,
) -> Step:
    """`evaluates_both`: of two arguments, the second one even if the first one fails."""
    last = len(steps) - 1
    is_binary = len(steps) == 2 and evaluates_both

    def call(frame: Frame) -> Value:
        args: list[Value] = []
        for i, step in enumerate(steps):
            try:
                args.append(step(frame))
            except EvaluationError:
                if is_binary and i == 0:
                    other = _evaluate(steps[1], frame)
                    frame.cost += cost((_ERROR, other), _ERROR)
                elif i == last:
                    frame.cost += cost((*args, _ERROR), _ERROR)
                raise
        values = tuple(args)
        if not of_result:
            frame.cost += cost(values, None)
            frame.check()
            return function(frame, *values) if needs_frame else function(*values)
        try:
            result = function(frame, *values) if needs_frame else function(*values)
        except EvaluationError:
            frame.cost += cost(values, _ERROR)
            raise
        frame.cost += cost(values, result)
        return result

    return call
