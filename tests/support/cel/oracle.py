"""Asks Kubernetes' own code for the answer of expressions, and this project's for the same.

`oracle_test.go` is built with Go into the cache, like the control plane.
"""

import base64
import json
import struct
import subprocess
from decimal import Decimal, localcontext
from pathlib import Path

from podwright.core.cel import types
from podwright.core.cel.devices import compile_selector, device_variables, matches
from podwright.core.cel.errors import CelError, EvaluationError
from podwright.core.cel.library.conversions import parse_timestamp, timestamp_text
from podwright.core.cel.library.quantity import Quantity, read_quantity
from podwright.core.cel.library.semver import Semver, read_semver
from podwright.core.cel.types import Type
from podwright.core.cel.values import MIN_INT, Duration, Optional, Timestamp, Uint, keys_of, to_key, type_of
from podwright.testing.build import build_source
from podwright.testing.versions import Versions

SOURCE = Path(__file__).with_name("oracle_test.go")
LIMIT = 1_000_000
PLAIN = {
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "dyn": types.DYN,
    "duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
    "quantity": types.QUANTITY,
    "semver": types.SEMVER,
}


def program():
    """The oracle's program, built if need be."""
    return build_source(SOURCE, Versions())


def declared(declaration):
    """The type that a JSON declaration of the oracle stands for."""
    size = declaration.get("max")
    match declaration["type"]:
        case "list":
            return types.list_of(declared(declaration["items"]), size)
        case "map":
            return types.map_of(types.STRING, declared(declaration["items"]), size)
        case "object":
            return types.object_of(declaration["name"], {n: declared(f) for n, f in declaration["fields"].items()})
    kind = PLAIN[declaration["type"]]
    return kind.sized(size) if size else kind


def ask(variables, questions):
    """The oracle's answers. `variables` are JSON declarations, each question is an expression with variables or a
    device.
    """
    lines = [json.dumps(variables), *(json.dumps(question) for question in questions)]
    done = subprocess.run([program()], input="\n".join(lines).encode(), capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def answer(environment, question):
    """This project's answer, in the oracle's form."""
    if "device" in question:
        return _selected(question)
    try:
        compiled = environment.compile(question["expression"])
    except CelError as error:
        return {"refusal": str(error)}
    found = {"type": str(compiled.result_type)}
    variables = {name: decode(value) for name, value in question["variables"].items()}
    return found | _evaluated(compiled, variables, question["limit"])


def _evaluated(compiled, variables, limit):
    try:
        value, cost = compiled.evaluate_with_cost(variables, limit)
    except EvaluationError as error:
        return {"error": str(error)}
    return {"value": encode(value), "cost": cost}


def _selected(question):
    try:
        compiled = compile_selector(question["expression"])
    except CelError as error:
        return {"refusal": str(error)}
    device = question["device"]
    found = {"type": str(compiled.result_type)}
    try:
        variables = device_variables(
            device["driver"],
            device["attributes"],
            device["capacity"],
            allow_multiple_allocations=device["multiple"],
        )
        return found | {
            "value": encode(matches(compiled, variables)),
            "cost": compiled.evaluate_with_cost(variables, LIMIT)[1],
        }
    except EvaluationError as error:
        return found | {"error": str(error)}


def decode(value):
    """A value from the oracle's JSON."""
    ((kind, content),) = value.items()
    match kind:
        case "null":
            return None
        case "int":
            return int(content)
        case "uint":
            return Uint(content)
        case "double":
            return struct.unpack(">d", bytes.fromhex(content.zfill(16)))[0]
        case "bytes":
            return base64.b64decode(content)
        case "duration":
            return Duration(int(content))
        case "timestamp":
            return parse_timestamp(content)
        case "quantity":
            return read_quantity(content)
        case "semver":
            return read_semver(content)
        case "list":
            return [decode(element) for element in content]
        case "map":
            return {to_key(decode(key)): decode(element) for key, element in content}
    return content


def encode(value):
    """A value in the oracle's JSON."""
    kind = value.__class__
    if value is None:
        return {"null": True}
    if kind is bool or kind is str:
        return {"bool" if kind is bool else "string": value}
    if kind is int or kind is Uint:
        return {"int" if kind is int else "uint": str(int(value))}
    if kind is float:
        return {"double": f"{int.from_bytes(struct.pack('>d', value)):x}"}
    if kind is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if kind is Duration:
        return {"duration": str(value.nanos)}
    if kind is Timestamp:
        return {"timestamp": timestamp_text(Timestamp(value.nanos))}
    if kind is Optional:
        return {"optional": [encode(value.value)] if value.has_value else []}
    if kind is Quantity:
        with localcontext(prec=5_000):
            return {"quantity": format(Decimal(value.value).scaleb(value.scale), "f")}
    if kind is Semver:
        return {"semver": str(value)}
    if kind is Type:
        return {"type": value.name}
    if isinstance(value, (list, tuple)):
        return {"list": [encode(element) for element in value]}
    if isinstance(value, dict):
        return {"map": [[encode(key), encode(value[to_key(key)])] for key in keys_of(value)]}
    return {"other": f"{type_of(value).name} {value}"}


def differences(variables, environment, questions):
    """The questions with another answer, each with the oracle's answer and ours. cel-go iterates maps at random:
    several orders count.
    """
    found = [
        (question, theirs, ours)
        for question, theirs in zip(questions, ask(variables, questions), strict=True)
        if normalized(theirs) != normalized(ours := answer(environment, question))
    ]
    for _ in range(_ORDERS):
        again = ask(variables, [question for question, _, _ in found])
        found = [
            (question, theirs, ours)
            for (question, theirs, ours), other in zip(found, again, strict=True)
            if normalized(other) != normalized(ours)
        ]
    return found


_ORDERS = 8


def is_fault(ours):
    """True if a Python error ended our evaluation."""
    return "internal error: " in f"{ours.get('error')} {ours.get('refusal')}"


def known_difference(question, theirs, ours):
    """True if docs/cel.md names the difference."""
    if any("hash of unhashable type" in theirs.get(name, "") for name in ("error", "refusal")):
        return True
    if theirs.get("error", "").startswith("internal error: "):
        return "error" in ours
    if "…" in ours.get("error", ""):
        return theirs.get("error", "").startswith(ours["error"].partition("…")[0])
    text = question["expression"]
    if ("quantity(" in text and str(MIN_INT) in text) or text.count("y + ") > 1:
        return _outcome(theirs).keys() == _outcome(ours).keys()
    if all(_NO_PATTERN in found.get("error", "") for found in (theirs, ours)):
        return True
    if "*types.concatList" in theirs.get("error", ""):
        return ours.get("error") == theirs["error"].replace("concatList", "baseList")
    if _UNREADABLE in theirs.get("error", "") and _UNREADABLE in ours.get("error", ""):
        return theirs["error"].partition("Parse")[0] == ours["error"].partition("Parse")[0]
    if "flatten()" in question["expression"] and "sortBy(" in question["expression"]:
        return "refusal" in ours or "refusal" in theirs or _outcome(theirs) == _outcome(ours)
    return False


_NO_PATTERN = "error parsing regexp: "
_UNREADABLE = "parse error during conversion from string"


def _outcome(found):
    """Returns the result of an evaluation without its cost."""
    kept = normalized(found)
    return {name: kept[name] for name in ("refusal", "error", "value") if name in kept}


def normalized(found):
    """An answer without what has no meaning: the order of maps, the notation of quantities, the place and words of a
    refusal.
    """
    if "refusal" in found:
        return {"refusal": True}
    kept = {name: found[name] for name in ("type", "error") if name in found}
    if "value" in found:
        kept["value"] = _canonical(found["value"])
        kept["cost"] = found.get("cost")
    return kept


def _canonical(value):
    ((kind, content),) = value.items()
    if kind == "map":
        return (kind, tuple(sorted((_canonical(key), _canonical(element)) for key, element in content)))
    if kind in ("list", "optional"):
        return (kind, tuple(_canonical(element) for element in content))
    if kind == "quantity":
        return (kind, Decimal(content))
    if kind == "double" and content.lstrip("-").startswith(("7ff8", "fff8")):
        return (kind, "NaN")
    return (kind, content)
