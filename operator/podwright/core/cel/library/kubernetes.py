"""Kubernetes' functions over quantities and versions. Some have the same name, so that the values decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.library.quantity import Quantity, read_quantity
from podwright.core.cel.library.semver import Semver, normalized, read_semver
from podwright.core.cel.values import Function, Value, no_such_overload


def _reader(name: str, read: Callable[[str], Value]) -> Function:
    def call(text: Value) -> Value:
        if text.__class__ is not str:
            raise no_such_overload(name, text)
        return read(text)

    return call


def _is_readable(name: str, read: Function) -> Function:
    def call(text: Value, *rest: Value) -> bool:
        if text.__class__ is not str:
            raise no_such_overload(name, text, *rest)
        try:
            read(text, *rest)
        except EvaluationError:
            return False
        return True

    return call


def _semver(text: Value, normalize: Value = False) -> Semver:
    if text.__class__ is not str or normalize.__class__ is not bool:
        raise no_such_overload("semver", text, normalize)
    return read_semver(normalized(text) if normalize else text)


def _compared(name: str, a: Value, b: Value) -> int:
    if a.__class__ is Quantity and b.__class__ is Quantity:
        return a.compare(b)
    if a.__class__ is Semver and b.__class__ is Semver:
        return a.compare(b)
    raise no_such_overload(name, a, b)


def _sum(name: str, sign: int) -> Function:
    def call(a: Value, b: Value) -> Quantity:
        if b.__class__ is int:
            b = Quantity(b)
        if a.__class__ is not Quantity or b.__class__ is not Quantity:
            raise no_such_overload(name, a, b)
        return a.add(b if sign > 0 else b.negated())

    return call


def _of_quantity(name: str, get: Callable[[Quantity], Value]) -> Function:
    def call(value: Value) -> Value:
        if value.__class__ is not Quantity:
            raise no_such_overload(name, value)
        return get(value)

    return call


def _of_semver(name: str) -> Function:
    def call(value: Value) -> Value:
        if value.__class__ is not Semver:
            raise no_such_overload(name, value)
        number: int = getattr(value, name)
        return number - 2**64 if number >= 2**63 else number

    return call


def _as_integer(value: Quantity) -> int:
    number = value.as_integer()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


PLAIN: Final[dict[str, Function]] = {
    "quantity": _reader("quantity", read_quantity),
    "isQuantity": _is_readable("isQuantity", _reader("quantity", read_quantity)),
    "semver": _semver,
    "isSemver": _is_readable("isSemver", _semver),
    "sign": _of_quantity("sign", Quantity.sign),
    "isInteger": _of_quantity("isInteger", lambda value: value.as_integer() is not None),
    "asInteger": _of_quantity("asInteger", _as_integer),
    "asApproximateFloat": _of_quantity("asApproximateFloat", Quantity.as_float),
    "isGreaterThan": lambda a, b: _compared("isGreaterThan", a, b) > 0,
    "isLessThan": lambda a, b: _compared("isLessThan", a, b) < 0,
    "compareTo": lambda a, b: _compared("compareTo", a, b),
    "add": _sum("add", 1),
    "sub": _sum("sub", -1),
    "major": _of_semver("major"),
    "minor": _of_semver("minor"),
    "patch": _of_semver("patch"),
}


def _prepared(function: Function) -> Function:
    """Evaluates a call with constant arguments once. One that fails does so each time, as in cel-go."""

    def prepare(constants: Mapping[int, Value], count: int) -> Function | None:
        if len(constants) < count:
            return None
        try:
            value = function(*(constants[i] for i in range(count)))
        except EvaluationError:
            return None
        return lambda *_args: value

    return prepare


PREPARED: Final[dict[str, Function]] = {name: _prepared(PLAIN[name]) for name in ("quantity", "semver")}
