"""The closures of operators that are no functions: logic, literals, `in` with constants, optional values."""

from __future__ import annotations

from collections.abc import Sequence

from podwright.core.cel.cost.counted import LIST_COST, MAP_COST
from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.evaluation.attributes import Step
from podwright.core.cel.frame import ELEMENT, Frame
from podwright.core.cel.library.conversions import text_in_error
from podwright.core.cel.values import BoolKey, Optional, Uint, Value, no_such_overload, to_key


def logic(terms: Sequence[Step], *, until: bool) -> Step:
    """`&&` with `until` False, `||` with True: one term with that value decides, even if others fail."""
    steps = tuple(terms)

    def decide(frame: Frame) -> Value:
        error: EvaluationError | None = None
        for step in steps:
            try:
                found = step(frame)
            except EvaluationError as raised:
                error = error or raised
                continue
            if found is until:
                return until
            if found.__class__ is not bool and error is None:
                error = no_such_overload()
        if error is not None:
            raise error
        return not until

    return decide


def not_strictly_false(operand: Step) -> Step:
    """True if a loop goes on: errors and other values than bool count as true."""

    def test(frame: Frame) -> Value:
        try:
            found = operand(frame)
        except EvaluationError:
            found = True
        frame.cost += 1
        return found if found.__class__ is bool else True

    return test


def choose_optional(left: Step, right: Step, *, unwrap: bool) -> Step:
    """`a.or(b)`, and with `unwrap` `a.orValue(b)`."""

    def choose(frame: Frame) -> Value:
        found = left(frame)
        if found.__class__ is not Optional:
            raise no_such_overload()
        if found.has_value:
            return found.value if unwrap else found
        return right(frame)

    return choose


def membership(operand: Step, elements: list[Value]) -> Step | None:
    """`a in [constants]`, None unless all are strings, bools or numbers."""
    found: set[Value] = set()
    for element in elements:
        if element.__class__ not in (bool, int, Uint, float, str):
            return None
        if element == element:  # noqa: PLR0124 -- not NaN
            found.add(to_key(element))

    def test(frame: Frame) -> Value:
        return to_key(operand(frame)) in found

    return test


def build_list(steps: tuple[Step, ...], optional: frozenset[int]) -> Step:
    """`[a, ?b]`."""
    room = ELEMENT * len(steps)
    if not optional:

        def build(frame: Frame) -> Value:
            frame.cost += LIST_COST
            frame.allocate(room)
            return [step(frame) for step in steps]

        return build

    def build_some(frame: Frame) -> Value:
        frame.cost += LIST_COST
        frame.allocate(room)
        found: list[Value] = []
        for i, step in enumerate(steps):
            value = step(frame)
            if i not in optional:
                found.append(value)
            elif value.__class__ is not Optional:
                raise EvaluationError(
                    f"cannot initialize optional list element from non-optional value {text_in_error(value)}"
                )
            elif value.has_value:
                found.append(value.value)
        return found

    return build_some


def build_map(entries: tuple[tuple[Step, Step, bool], ...]) -> Step:
    """`{key: value, ?key: value}`."""
    room = 2 * ELEMENT * len(entries)

    def build(frame: Frame) -> Value:
        frame.cost += MAP_COST
        frame.allocate(room)
        found: dict[Value, Value] = {}
        for key_step, value_step, is_optional in entries:
            key, value = key_step(frame), value_step(frame)
            if is_optional:
                value = _optional_entry(found, key, value)
                if value is BoolKey:
                    continue
            found[to_key(key)] = value
        return found

    return build


def _optional_entry(found: dict[Value, Value], key: Value, value: Value) -> Value:
    """Returns the value of an optional entry; if it is empty, drops the key and returns the class BoolKey."""
    if value.__class__ is not Optional:
        raise EvaluationError(
            f"cannot initialize optional entry '{text_in_error(key)}' from non-optional value {text_in_error(value)}"
        )
    if value.has_value:
        return value.value
    found.pop(to_key(key), None)
    return BoolKey
