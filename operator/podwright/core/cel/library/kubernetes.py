"""Kubernetes' functions over quantities and versions. Some have the same name, so that the values decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.library.quantity import Quantity, read_quantity
from podwright.core.cel.library.semver import Semver, normalized, read_semver
from podwright.core.cel.library.signatures import expect, is_readable, unary
from podwright.core.cel.values import Function, Value, no_such_overload


def _semver(text: Value, normalize: Value = False) -> Semver:
    expect("semver", (str, bool), text, normalize)
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


def _of_semver(name: str) -> Function:
    def number_of(value: Semver) -> int:
        number: int = getattr(value, name)
        return number - 2**64 if number >= 2**63 else number

    return unary(name, Semver, number_of)


def _as_integer(value: Quantity) -> int:
    number = value.as_integer()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


PLAIN: Final[dict[str, Function]] = {
    "quantity": unary("quantity", str, read_quantity),
    "isQuantity": is_readable("isQuantity", read_quantity),
    "semver": _semver,
    "isSemver": is_readable("isSemver", _semver),
    "sign": unary("sign", Quantity, Quantity.sign),
    "isInteger": unary("isInteger", Quantity, lambda value: value.as_integer() is not None),
    "asInteger": unary("asInteger", Quantity, _as_integer),
    "asApproximateFloat": unary("asApproximateFloat", Quantity, Quantity.as_float),
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
