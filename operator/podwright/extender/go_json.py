"""JSON as Go's encoding/json reads it, with Go's words in errors.

The extender protocol has no specification but the Go types of k8s.io/kube-scheduler/extender/v1. So this reader accepts
what Go accepts: keys in any case, null for every type, unknown keys, and anything after the first value. Errors end up
in pods' conditions, where operators search for the words that kube-scheduler writes there. Source:
https://pkg.go.dev/encoding/json
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeVar

import orjson

from podwright.kube.client.json_text import innermost_open, loads

T = TypeVar("T")

Reader = Callable[[Any, str], T]
"""Reads one value. The text is the value's path as in Go's errors; empty for the outermost value. Raises GoJSONError.
"""

_LITERALS: Final = {"n": "null", "t": "true", "f": "false"}
_EXPECTED: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Illegal trailing comma before end of array": "looking for beginning of value",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
}
"""Python's messages, and what Go says of the character at which both stop."""


class GoJSONError(ValueError):
    """The text is not JSON, or a value in it has the wrong type. The message is Go's."""


def read(body: bytes) -> Any:
    """The first JSON value of a body. Raises GoJSONError.

    Python's reader, which takes ten times as long, reads only what orjson refuses: invalid UTF-8, lone surrogates, long
    numbers, a value with something after it.
    """
    try:
        return loads(body)
    except orjson.JSONDecodeError:
        text = body.decode("utf-8", "replace").lstrip(" \t\r\n")
    return read_at(text, 0)[0]


def read_at(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that begins at a position of the text, and where it ends. Raises GoJSONError."""
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise GoJSONError(_syntax_error(text[at:], error.msg, error.pos - at)) from None
    except GoJSONError:
        raise
    except (ValueError, RecursionError):
        raise GoJSONError("exceeded max depth, or a number is too long") from None


def invalid_character(character: str, where: str) -> GoJSONError:
    """The error for a character at a place where Go expects another."""
    return GoJSONError(f"invalid character {_quoted(character)} {where}")


def _no_constant(name: str) -> NoReturn:
    raise GoJSONError(f"invalid character {name.lstrip('-')[0]!r} looking for beginning of value")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


def _syntax_error(text: str, message: str, at: int) -> str:
    if not text:
        return "EOF"
    if message.startswith("Unterminated string"):
        return "unexpected EOF"
    if text[at:] == "-":
        return "unexpected EOF"
    if message.startswith("Illegal trailing comma"):
        at = len(text) - len(text[at + 1 :].lstrip())
    if at >= len(text):
        return "unexpected EOF"
    character = text[at]
    literal = _LITERALS.get(character) if message == "Expecting value" else None
    if literal is not None:
        for step, expected in enumerate(literal):
            if at + step >= len(text):
                return "unexpected EOF"
            if text[at + step] != expected:
                return f"invalid character {_quoted(text[at + step])} in literal {literal} (expecting {expected!r})"
    if message.startswith("Invalid control character"):
        return f"invalid character {_quoted(character)} in string literal"
    if message.startswith("Invalid \\"):
        escape = text[at + 1 :] if character == "\\" else text[at:]
        return f"invalid character {_quoted(escape[:1])} in string escape code" if escape else "unexpected EOF"
    where = _EXPECTED.get(message)
    if where is None:  # Expecting ',' delimiter
        where = "after object key:value pair" if innermost_open(text[:at].encode()) == b"{" else "after array element"
    return f"invalid character {_quoted(character)} {where}"


def _quoted(character: str) -> str:
    return "'\\''" if character == "'" else repr(character)


# Values of a type


def mismatch(value: object, where: str, go_type: str) -> GoJSONError:
    """The error for a value of another type than `go_type`."""
    target = f"struct field {where}" if where else "value"
    return GoJSONError(f"json: cannot unmarshal {_kind(value)} into Go {target} of type {go_type}")


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def string(value: Any, where: str) -> str:
    """A string; empty for null. Lone surrogates become U+FFFD."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise mismatch(value, where, "string")
    return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def int64(value: Any, where: str) -> int:
    """A whole number of 64 bits; 0 for null."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise mismatch(value, where, "int64")
    if isinstance(value, float) or not -(2**63) <= value < 2**63:
        target = f"struct field {where}" if where else "value"
        raise GoJSONError(f"json: cannot unmarshal number {value!r:.40} into Go {target} of type int64")
    return value


def raw_object(go_type: str) -> Reader[Mapping[str, Any] | None]:
    """Reads a JSON object as it is; None for null."""

    def reader(value: Any, where: str) -> Mapping[str, Any] | None:
        if value is not None and not isinstance(value, dict):
            raise mismatch(value, where, go_type)
        return value

    return reader


def list_of(item: Reader[T], go_type: str) -> Reader[tuple[T, ...] | None]:
    """Reads a list; None for null, which differs from an empty list."""

    def reader(value: Any, where: str) -> tuple[T, ...] | None:
        if value is None:
            return None
        if not isinstance(value, list):
            raise mismatch(value, where, go_type)
        return tuple(item(each, where) for each in value)

    return reader


def strings(value: Any, where: str) -> tuple[str, ...] | None:
    """Reads a list of strings, which may be long; None for null."""
    if isinstance(value, list):
        try:
            if "".join(value).isascii():  # as names are: a tenth of the time
                return tuple(value)
        except TypeError:
            pass  # not all are strings
    return _strings(value, where)


def map_of(item: Reader[T], go_type: str) -> Reader[Mapping[str, T]]:
    """Reads an object with any keys; empty for null."""

    def reader(value: Any, where: str) -> Mapping[str, T]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise mismatch(value, where, go_type)
        return {string(key, where): item(each, where) for key, each in value.items()}

    return reader


_strings: Final = list_of(string, "[]string")


def struct(value: Any, where: str, name: str, fields: Mapping[str, Reader[Any]]) -> dict[str, Any]:
    """Reads the fields of a Go struct of the package v1, by names in any case; later keys win. A field that is missing
    reads as null.

    `where`: the path of the struct from the outermost one, if it is inside another.
    """
    if value is not None and not isinstance(value, dict):
        raise mismatch(value, where, f"v1.{name}")
    found: dict[str, Any] = dict.fromkeys(fields)
    by_folded = {field.casefold(): field for field in fields}
    for key, each in (value or {}).items():
        field = key if key in found else by_folded.get(key.casefold())
        if field is not None:
            found[field] = each
    _, _, path = where.partition(".")
    prefix = f"{name}.{path}." if path else f"{name}."
    return {field: reader(found[field], prefix + field) for field, reader in fields.items()}
