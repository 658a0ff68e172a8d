"""Functions whose arguments have fixed classes. For others, the error of a call names the function."""

from __future__ import annotations

from collections.abc import Callable

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.values import Function, Value, no_such_overload


def unary(name: str, kind: type, function: Callable[[Value], Value]) -> Function:
    """A function of one argument."""

    def call(value: Value) -> Value:
        if value.__class__ is not kind:
            raise no_such_overload(name, value)
        return function(value)

    return call


def is_readable(name: str, read: Function) -> Function:
    """A function that says whether `read` reads a text, with the further arguments of a call."""

    def call(text: Value, *rest: Value) -> bool:
        expect(name, (str,), text, *rest)
        try:
            read(text, *rest)
        except EvaluationError:
            return False
        return True

    return call


def expect(name: str, kinds: tuple[type, ...], *args: Value) -> None:
    """Raises EvaluationError unless the arguments have these classes; there may be more of either."""
    if any(arg.__class__ is not kind for arg, kind in zip(args, kinds, strict=False)):
        raise no_such_overload(name, *args)
