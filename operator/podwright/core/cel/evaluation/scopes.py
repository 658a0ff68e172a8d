"""The variables of comprehensions while a tree is compiled: each has a place in the frame."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.evaluation.attributes import Step
from podwright.core.cel.frame import Frame
from podwright.core.cel.values import Value
from podwright.core.objects.dataclass import dataclass


@dataclass(frozen=True)
class FailedStep:
    """The value of an accumulator whose step failed: a later use raises the error."""

    error: EvaluationError


UNSET: Final = object()
"""The value of an accumulator before its first use."""


@dataclass(slots=True)
class NameScope:
    """The names in scope with the closures that read them. `count` is the number of places in use so far."""

    names: dict[str, Step] = field(default_factory=dict)
    count: int = 0

    def place(self) -> int:
        """A new place in the frame."""
        self.count += 1
        return self.count - 1


def variable(place: int) -> Step:
    """Reads the variable of a loop."""

    def read(frame: Frame) -> Value:
        return frame.slots[place]

    return read


def accumulator(place: int, init: Step) -> Step:
    """Reads an accumulator, which starts with its first use, as in cel-go."""

    def read(frame: Frame) -> Value:
        found = frame.slots[place]
        if found is UNSET:
            try:
                found = init(frame)
            except EvaluationError as error:
                frame.slots[place] = FailedStep(error)
                raise
            frame.slots[place] = found
        elif found.__class__ is FailedStep:
            raise found.error
        return found

    return read


def global_variable(name: str) -> Step:
    """Reads a variable of the environment."""

    def read(frame: Frame) -> Value:
        try:
            return frame.variables[name]
        except KeyError:
            raise EvaluationError(f"no such attribute(s): {name}") from None

    return read
