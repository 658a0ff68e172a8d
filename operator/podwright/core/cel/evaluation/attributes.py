"""Attributes: a variable or value with the fields and indices that follow it.

cel-go counts the cost of `a.b[c]` by attribute, not by node, and an optional field makes all that follow it optional.
Sources: `interpreter/attributes.go` and `planner.go` of cel-go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.frame import Frame
from podwright.core.cel.library.conversions import go_type, text_in_error
from podwright.core.cel.values import MAX_INT, NONE, Optional, Uint, Value, find, no_such_overload, type_of
from podwright.core.objects.dataclass import dataclass

Step = Callable[[Frame], Value]
"""Evaluates a node. Raises EvaluationError."""

_ABSENT: Final = object()
KEYS: Final = frozenset((bool, int, Uint, float, str))
"""The classes of values that can be an index."""


@dataclass(frozen=True)
class Qualifier:
    """A field or an index. `key` is its constant value, unless `step` computes it. `is_test` is that of `has()`."""

    key: Value = None
    step: Step | None = None
    is_optional: bool = False
    is_test: bool = False


@dataclass(frozen=True)
class Attribute:
    """A value and its qualifiers. `base` adds the cost of the value's own parts only."""

    base: Step
    qualifiers: tuple[Qualifier, ...] = ()

    def then(self, qualifier: Qualifier) -> Attribute:
        """The attribute with one more field or index."""
        return Attribute(self.base, (*self.qualifiers, qualifier))

    def resolver(self) -> Step:
        """Evaluates the attribute. Costs 1 for each qualifier."""
        return _resolver(self.base, self.qualifiers, 0)

    def step(self) -> Step:
        """Evaluates the attribute as a node of its own. Costs 1 more, except for `has()`."""
        is_test = bool(self.qualifiers) and self.qualifiers[-1].is_test
        return _resolver(self.base, self.qualifiers, 0 if is_test else 1)


@dataclass(frozen=True)
class Conditional:
    """`condition ? then_ : else_` with the qualifiers that follow it on both sides."""

    condition: Step
    yes: Attribute | Conditional
    no: Attribute | Conditional

    def then(self, qualifier: Qualifier) -> Conditional:
        """The attribute with one more field or index on both sides."""
        return Conditional(self.condition, self.yes.then(qualifier), self.no.then(qualifier))

    def resolver(self) -> Step:
        """Evaluates the condition and one side. Costs nothing of its own."""
        condition, yes, no = self.condition, self.yes.resolver(), self.no.resolver()

        def choose(frame: Frame) -> Value:
            found = condition(frame)
            if found is True:
                return yes(frame)
            if found is False:
                return no(frame)
            raise no_such_overload()

        return choose

    step = resolver


def _resolver(base: Step, qualifiers: tuple[Qualifier, ...], own: int) -> Step:
    if not qualifiers:
        if not own:
            return base

        def value(frame: Frame) -> Value:
            frame.cost += 1
            return base(frame)

        return value
    if all(q.step is None and not q.is_optional and not q.is_test for q in qualifiers):
        return _constant_path(base, tuple(q.key for q in qualifiers), own)

    none: Value = False if qualifiers[-1].is_test else NONE

    def resolve(frame: Frame) -> Value:
        frame.cost += own
        found = base(frame)
        is_optional = found.__class__ is Optional
        if is_optional:
            if not found.has_value:
                return none
            found = found.value
        for q in qualifiers:
            is_optional = is_optional or q.is_optional
            try:
                key = q.key if q.step is None else q.step(frame)
                found = look_up(found, key, is_test=is_optional or q.is_test)
            except EvaluationError:
                frame.cost += not is_optional
                raise
            if found is _ABSENT and is_optional:
                return none
            frame.cost += 1
            if q.is_test:
                return found is not _ABSENT
        return Optional(found) if is_optional else found

    return resolve


def _constant_path(base: Step, keys: tuple[Value, ...], own: int) -> Step:
    """The usual case: fields and constant indices, none of them optional."""
    count = len(keys)
    if count == 1 and keys[0].__class__ is str:
        only = keys[0]

        def one(frame: Frame) -> Value:
            frame.cost += own
            found = base(frame)
            frame.cost += 1
            if isinstance(found, dict) and only in found:
                return found[only]
            return _look_up_all(frame, found, keys)

        return one

    if not all(key.__class__ is str for key in keys):

        def path(frame: Frame) -> Value:
            frame.cost += own
            found = base(frame)
            frame.cost += count
            return _look_up_all(frame, found, keys)

        return path

    def fields(frame: Frame) -> Value:
        frame.cost += own
        value = found = base(frame)
        frame.cost += count
        for key in keys:
            if not isinstance(found, dict) or key not in found:
                return _look_up_all(frame, value, keys)
            found = found[key]
        return found

    return fields


def _look_up_all(frame: Frame, found: Value, keys: tuple[Value, ...]) -> Value:
    is_optional = found.__class__ is Optional
    if is_optional:
        if not found.has_value:
            frame.cost -= len(keys)
            return found
        found = found.value
    for i, key in enumerate(keys):
        try:
            found = look_up(found, key, is_test=is_optional)
        except EvaluationError:
            frame.cost -= len(keys) - i - (not is_optional)
            raise
        if found is _ABSENT:
            frame.cost -= len(keys) - i
            return NONE
    return Optional(found) if is_optional else found


def look_up(value: Value, key: Value, *, is_test: bool = False) -> Value:
    """Looks up what a value has under a key. Raises EvaluationError if it has nothing; with `is_test` it then returns a
    mark instead.
    """
    if key.__class__ not in KEYS:
        raise EvaluationError(f"invalid qualifier type: {go_type(key)}")
    if isinstance(value, dict):
        found, has = find(value, key)
        if has:
            return found
        if is_test:
            return _ABSENT
        raise EvaluationError(f"no such key: {text_in_error(key)}")
    if isinstance(value, (list, tuple)):
        index = _index(key)
        if 0 <= index < len(value):
            return value[index]
        if is_test:
            return _ABSENT
        raise EvaluationError(f"index out of bounds: {text_in_error(key)}")
    if is_test:
        return _ABSENT
    raise EvaluationError(f"no such key: {text_in_error(key)}")


def _index(key: Value) -> int:
    kind = key.__class__
    if kind is int:
        return key
    if kind is Uint:
        if key > MAX_INT:
            raise EvaluationError(f"unsupported index value {text_in_error(key)} in list")
        return int(key)
    if kind is float:
        if -(2.0**63) < key < 2.0**63 and key == int(key):
            return int(key)
        raise EvaluationError(f"unsupported index value {text_in_error(key)} in list")
    raise EvaluationError(f"unsupported index type '{type_of(key).name}' in list")
