"""The environment of device selectors, as the API server and kube-scheduler have it.

    program = compile_selector("device.driver == 'gpu.example.com'")
    matches(program, device_variables("gpu.example.com", device))

Sources: `k8s.io/dynamic-resource-allocation/cel`, `resource/v1/types.go`. As in kube-scheduler, which reads stored
expressions, attributes may be lists, and `includes` and `allowMultipleAllocations` are always known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from podwright.core.cel import types
from podwright.core.cel.environment import Environment, Program
from podwright.core.cel.errors import CelError, EvaluationError, Issue
from podwright.core.cel.library.quantity import read_quantity
from podwright.core.cel.library.semver import read_semver
from podwright.core.cel.types import map_of, object_of
from podwright.core.cel.values import DefaultMap, Value, type_of

COST_LIMIT: Final = 1_000_000
"""`CELSelectorExpressionMaxCost`."""

_MAX_ENTRIES: Final = 32
_MAX_VALUE: Final = 64
_DOMAIN: Final = types.STRING.sized(63)
_ID: Final = types.STRING.sized(32)
_ATTRIBUTE: Final = types.DYN.sized(_MAX_VALUE)

DEVICE: Final = object_of(
    "kubernetes.DRADevice",
    {
        "driver": types.STRING.sized(63),
        "allowMultipleAllocations": types.BOOL.sized(1),
        "attributes": map_of(_DOMAIN, map_of(_ID, _ATTRIBUTE, _MAX_ENTRIES), _MAX_ENTRIES),
        "capacity": map_of(_DOMAIN, map_of(_ID, types.QUANTITY, _MAX_ENTRIES), _MAX_ENTRIES),
    },
)
VARIABLES: Final = {"device": DEVICE}


@cache
def environment() -> Environment:
    """The environment, made once."""
    return Environment(VARIABLES)


def compile_selector(text: str) -> Program:
    """Compiles a selector. Raises CelError if its syntax or types are wrong, or if its result is neither a bool nor of
    unknown type.
    """
    program = environment().compile(text)
    kind = program.result_type
    if kind not in (types.BOOL, types.DYN):
        raise CelError(Issue(0, 0, f"must evaluate to bool or the unknown type, not {kind}"))
    return program


def refusal(error: CelError, text: str) -> str:
    """Why the selector `text` is refused, in kube-scheduler's words."""
    if error.message.startswith("must evaluate to "):
        return error.message
    return f"compilation failed: {error.report(text)}"


def device_variables(
    driver: str,
    attributes: Mapping[str, Mapping[str, Value]],
    capacity: Mapping[str, str],
    *,
    allow_multiple_allocations: bool = False,
) -> dict[str, Value]:
    """The variables of a device's selectors. `attributes` are as in the API: `{"name": {"version": "1.0.0"}}`;
    `capacity` has the text of quantities. Names without a domain belong to the driver's.

    Raises EvaluationError with kube-scheduler's text if an attribute has no value that Kubernetes knows.
    """
    found: dict[str, dict[str, Value]] = {}
    for name, attribute in attributes.items():
        domain, id_ = _split(name, driver)
        try:
            found.setdefault(domain, {})[id_] = _attribute_value(attribute)
        except EvaluationError as error:
            raise EvaluationError(f"attribute {name}: {error}") from None
    amounts: dict[str, dict[str, Value]] = {}
    for name, amount in capacity.items():
        domain, id_ = _split(name, driver)
        amounts.setdefault(domain, {})[id_] = read_quantity(amount)
    device = {
        "driver": driver,
        "allowMultipleAllocations": allow_multiple_allocations,
        "attributes": DefaultMap(found, {}),
        "capacity": DefaultMap(amounts, {}),
    }
    return {"device": device}


def matches(
    program: Program,
    variables: Mapping[str, Value],
    limit: int = COST_LIMIT,
    interrupted: Callable[[], bool] | None = None,
) -> bool:
    """True if a selector selects a device. Raises EvaluationError with kube-scheduler's text. `limit`, `interrupted`:
    see Program.evaluate.
    """
    value = program.evaluate(variables, limit, interrupted)
    if value.__class__ is bool:
        return value
    kind = type_of(value).name
    reason = _NOT_BOOL.get(kind, f"type conversion error from '{kind}' to 'bool'")
    raise EvaluationError(f"CEL result of type {kind} could not be converted to bool: {reason}")


_NOT_BOOL: Final = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "string": "unsupported native conversion from string to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "google.protobuf.Duration": "type conversion error from 'Duration' to 'bool'",
    "google.protobuf.Timestamp": "type conversion error from 'Timestamp' to 'bool'",
    "kubernetes.Quantity": "type conversion error from 'Quantity' to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
    "type": "type conversion not supported for 'type'",
}


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, id_ = name.partition("/")
    return (domain, id_) if slash else (driver, name)


def _attribute_value(attribute: Mapping[str, Value]) -> Value:
    for name in ("ints", "bools", "strings"):
        if attribute.get(name) is not None:
            return list(attribute[name])
    if attribute.get("versions") is not None:
        return [_version(text) for text in attribute["versions"]]
    for name in ("int", "bool", "string"):
        if attribute.get(name) is not None:
            return attribute[name]
    if attribute.get("version") is not None:
        return _version(attribute["version"])
    raise EvaluationError("unsupported attribute value")


def _version(text: str) -> Value:
    try:
        return read_semver(text)
    except EvaluationError as error:
        raise EvaluationError(f"parse semantic version: {error}") from None
