"""cel-go's extension of string functions, in the version that Kubernetes enables (2)."""

from __future__ import annotations

from typing import Final

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.frame import ELEMENT, Frame
from podwright.core.cel.library import lists
from podwright.core.cel.library.conversions import text_in_error
from podwright.core.cel.library.formatting import format_text
from podwright.core.cel.library.signatures import expect, unary
from podwright.core.cel.values import Function, Value, no_such_overload

_SPACE: Final = (
    "\t\n\v\f\r "
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _char_at(text: Value, index: Value) -> str:
    expect("charAt", (str, int), text, index)
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(frame: Frame, text: Value, part: Value, offset: Value = 0) -> int:
    if lists.is_list(text):
        return lists.index_of(frame, text, part)
    expect("indexOf", (str, str, int), text, part, offset)
    if offset < 0:
        raise EvaluationError(f"index out of range: {offset}")
    if not part:
        return min(offset, len(text))
    return text.find(part, offset) if offset < len(text) else -1


def _last_index_of(frame: Frame, text: Value, part: Value, offset: Value = None) -> int:
    if lists.is_list(text):
        return lists.last_index_of(frame, text, part)
    expect("lastIndexOf", (str, str), text, part)
    if offset is None:
        return text.rfind(part)
    expect("lastIndexOf", (str, str, int), text, part, offset)
    if offset < 0:
        raise EvaluationError(f"index out of range: {offset}")
    if not part:
        return min(offset, len(text))
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _substring(text: Value, start: Value, end: Value = None) -> str:
    if end is None:
        expect("substring", (str, int), text, start)
        end = len(text)
        if not 0 <= start <= end:
            raise EvaluationError(f"index out of range: {start}")
    expect("substring", (str, int, int), text, start, end)
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise EvaluationError(f"index out of range: {index}")
    return text[start:end]


def _replace(frame: Frame, text: Value, old: Value, new: Value, count: Value = -1) -> str:
    expect("replace", (str, str, str, int), text, old, new, count)
    times = text.count(old) if count < 0 else min(count, text.count(old))
    frame.allocate(len(text) + times * max(0, len(new) - len(old)))
    return text.replace(old, new, max(count, -1))


def _split(frame: Frame, text: Value, separator: Value, count: Value = -1) -> Value:
    expect("split", (str, str, int), text, separator, count)
    if not count:
        return []
    parts = (text.count(separator) if separator else len(text)) + 1
    frame.allocate(ELEMENT * (parts if count < 0 else min(parts, count)) + len(text))
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if count < 0 or count >= len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


def _join(frame: Frame, parts: Value, separator: Value = "") -> str:
    if not lists.is_list(parts) or separator.__class__ is not str:
        raise no_such_overload("join", parts, separator)
    size = len(separator) * len(parts)
    for part in parts:
        if part.__class__ is not str:
            raise EvaluationError(f"join: invalid input: {text_in_error(part)}")
        size += len(part)
    frame.allocate(size)
    return separator.join(parts)


def _format(frame: Frame, text: Value, args: Value) -> str:
    if text.__class__ is not str or not lists.is_list(args):
        raise no_such_overload("format", text, args)
    return format_text(frame, text, args)


PLAIN: Final[dict[str, Function]] = {
    "charAt": _char_at,
    "substring": _substring,
    "lowerAscii": unary("lowerAscii", str, lambda text: text.translate(_LOWER)),
    "upperAscii": unary("upperAscii", str, lambda text: text.translate(_UPPER)),
    "trim": unary("trim", str, lambda text: text.strip(_SPACE)),
    "strings.quote": unary("strings.quote", str, lambda text: f'"{text.translate(_QUOTED)}"'),
}
ALLOCATING: Final[dict[str, Function]] = {
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "format": _format,
}
