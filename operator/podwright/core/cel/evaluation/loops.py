"""The closures of macros: loops over lists and maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.evaluation.attributes import Step
from podwright.core.cel.evaluation.scopes import UNSET, FailedStep
from podwright.core.cel.frame import Frame
from podwright.core.cel.library.conversions import go_type
from podwright.core.cel.library.operators import GrowingList, GrowingMap
from podwright.core.cel.values import Value, keys_of, to_key

Places = tuple[int, int, int | None]
"""Where the frame has the accumulator, the first variable, and the second one of macros that have it."""


def fresh(empty: Value) -> Step:
    """The start of an accumulator that grows in place."""
    return (lambda _frame: GrowingList()) if isinstance(empty, list) else (lambda _frame: GrowingMap())


def binding(place: int, result: Step) -> Step:
    """A loop over nothing, which `cel.bind` is."""

    def bind(frame: Frame) -> Value:
        frame.slots[place] = UNSET
        return result(frame)

    return bind


def loop(places: Places, range_: Step, condition: Step | None, step: Step) -> Callable[[Frame], None]:
    """Runs the step for each element while the condition holds. A step that fails becomes the accumulator's value."""
    place, first, second = places

    def run(frame: Frame) -> None:
        found = range_(frame)
        slots = frame.slots
        slots[place] = UNSET
        for key, value in _elements(found, with_keys=second is not None):
            frame.check()
            slots[first] = key
            if second is not None:
                slots[second] = value
            if condition is not None:
                try:
                    if condition(frame) is False:
                        break
                except EvaluationError:
                    pass
            try:
                slots[place] = step(frame)
            except EvaluationError as error:
                slots[place] = FailedStep(error)

    return run


def finished(run: Callable[[Frame], None], result: Step, *, grows: bool) -> Step:
    """The value of a loop."""

    def finish(frame: Frame) -> Value:
        run(frame)
        found = result(frame)
        if grows:
            if found.__class__ is GrowingList:
                return list(found)
            if found.__class__ is GrowingMap:
                return dict(found)
        return found

    return finish


def _elements(found: Value, *, with_keys: bool) -> Iterator[tuple[Value, Value]]:
    if isinstance(found, dict):
        if with_keys:
            return ((key, found[to_key(key)]) for key in list(keys_of(found)))
        return ((key, None) for key in list(keys_of(found)))
    if isinstance(found, (list, tuple)):
        return iter(enumerate(found)) if with_keys else ((value, None) for value in found)
    if with_keys:
        raise EvaluationError(f"unsupported comprehension range type: {go_type(found)}")
    raise EvaluationError(f"got '{go_type(found)}', expected iterable type")
