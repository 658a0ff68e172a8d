"""`format`, as cel-go's first version has it, which Kubernetes enables: with the separators of American English."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from math import isinf, isnan
from typing import Final

from podwright.core.cel import types
from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.frame import ELEMENT, Frame
from podwright.core.cel.library.conversions import to_double, to_string
from podwright.core.cel.library.go_text import quoted
from podwright.core.cel.types import Type
from podwright.core.cel.values import Duration, Timestamp, Uint, Value, keys_of, to_key, type_of

_CLAUSE: Final = re.compile(r"%(?:(%)|(?:(\.)([0-9]*))?(.)?)", re.DOTALL)
_DEFAULT_PRECISION: Final = 6
_MAX_PRECISION: Final = 1000
"""cel-go has no limit. No double has more digits behind the point than 1,074."""
_MAX_DIGITS: Final = 6
_SUPERSCRIPT: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_WORDS: Final = ("NaN", "Infinity", "-Infinity")

_INTEGERS: Final = (types.INT.name, types.UINT.name)
_TEXTUAL: Final = (
    *("list", "map", *_INTEGERS, "double", "bool", "string", "bytes", "type"),
    *(types.TIMESTAMP.name, types.DURATION.name, types.NULL.name),
)
CLAUSES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "s": (
        _TEXTUAL,
        (
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
            "and timestamps"
        ),
    ),
    "d": (_INTEGERS, "decimal clause can only be used on integers"),
    "f": (("double", "string"), "fixed-point clause can only be used on doubles"),
    "e": (("double", "string"), "scientific clause can only be used on doubles"),
    "b": ((*_INTEGERS, "bool"), "only integers and bools can be formatted as binary"),
    "x": ((*_INTEGERS, "string", "bytes"), "only integers, byte buffers, and strings can be formatted as hex"),
    "X": ((*_INTEGERS, "string", "bytes"), "only integers, byte buffers, and strings can be formatted as hex"),
    "o": (_INTEGERS, "octal clause can only be used on integers"),
}
"""The clauses with the names of the types that they take, and the error for others."""

Use = Callable[[int, str, int], str]
"""Gives the text for a clause from the index of its argument, its letter and its precision."""


def wrong_type(letter: str, name: str) -> EvaluationError:
    """The error of an argument of a type that its clause does not take."""
    return EvaluationError(f"{CLAUSES[letter][1]}, was given {name}")


def render(text: str, count: int, use: Use) -> Iterator[str]:
    """The parts of a text with its clauses replaced. Raises EvaluationError if a clause is wrong or has no argument."""
    at = used = 0
    for match in _CLAUSE.finditer(text):
        yield text[at : match.start()]
        at = match.end()
        if match.group(1):
            yield "%"
            continue
        if used >= count:
            raise EvaluationError(f"index {used} out of range")
        letter, digits = _clause(match)
        try:
            yield use(used, letter, digits)
        except EvaluationError as error:
            raise EvaluationError(f"error during formatting: {error}") from None
        used += 1
    yield text[at:]


def _clause(match: re.Match[str]) -> tuple[str, int]:
    _, point, precision, letter = match.groups()
    if letter is None and not point:
        raise EvaluationError("unexpected end of string")
    digits = _DEFAULT_PRECISION
    if point:
        reason = None
        if letter is None:
            reason = "could not find end of precision specifier"
        elif not precision:
            reason = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
        elif int(precision[:_MAX_DIGITS]) > _MAX_PRECISION:
            reason = f"precision {precision[:_MAX_DIGITS]} exceeds maximum allowed precision {_MAX_PRECISION}"
        if reason:
            raise EvaluationError(f"could not parse formatting clause: error while parsing precision: {reason}")
        digits = int(precision)
    if letter not in CLAUSES:
        raise EvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')
    return letter, digits


def format_text(frame: Frame, text: str, args: Sequence[Value]) -> str:
    """Replaces the clauses of a text. Raises EvaluationError if there are too few arguments, or one has the wrong
    type.
    """

    def use(index: int, letter: str, digits: int) -> str:
        found = _formatted(frame, letter, digits, args[index])
        frame.allocate(len(found))
        return found

    frame.allocate(len(text))
    return "".join(render(text, len(args), use))


def _formatted(frame: Frame, letter: str, digits: int, value: Value) -> str:
    name = type_of(value).name
    if name not in CLAUSES[letter][0] or (letter in "fe" and name == "string" and value not in _WORDS):
        raise wrong_type(letter, name)
    match letter:
        case "s":
            return _string(frame, value)
        case "f":
            return _fixed(to_double(value), digits)
        case "e":
            return _scientific(to_double(value), digits)
        case "x" | "X" if name in ("string", "bytes"):
            found = (value.encode() if name == "string" else value).hex()
            return found if letter == "x" else found.upper()
    return format(int(value), letter)


def _special(number: float) -> str | None:
    if isnan(number):
        return "NaN"
    if isinf(number):
        return "∞" if number > 0 else "-∞"
    return None


def _fixed(number: float, digits: int) -> str:
    return _special(number) or format(Decimal(number or 0), f",.{digits}f")


def _scientific(number: float, width: int) -> str:
    """cel-go takes the precision for the width."""
    text = _special(number)
    if text is None:
        mantissa, _, exponent = format(number or 0.0, f".{_DEFAULT_PRECISION}e").partition("e")
        power = int(exponent)
        digits = f"{'-' if power < 0 else ''}{abs(power):02d}".translate(_SUPERSCRIPT)
        text = f"{mantissa}\u00d710{digits}"
    return text.rjust(width)


def _string(frame: Frame, value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join([_nested(frame, part) for part in value]) + "]"
    if isinstance(value, dict):
        entries = sorted(_entry(frame, value, key) for key in keys_of(value))
        return "{" + ", ".join(f"{key}:{text}" for key, text in entries) + "}"
    if value.__class__ is Type:
        return value.name
    try:
        return to_string(value)
    except EvaluationError as error:
        raise EvaluationError(f'could not convert argument "{error}" to string') from None


def _entry(frame: Frame, value: dict[Value, Value], key: Value) -> tuple[str, str]:
    if key.__class__ not in (str, bool, int, Uint):
        raise EvaluationError(f"no formatting function for map key of type {type_of(key).name}")
    return (_quoted(key) if key.__class__ is str else to_string(key), _nested(frame, value[to_key(key)]))


def _nested(frame: Frame, value: Value) -> str:
    kind = value.__class__
    frame.allocate(4 * ELEMENT + (len(value) if kind is str or kind is bytes else 0))
    if kind is str:
        return _quoted(value)
    if kind is bytes:
        return "b" + _quoted(_string(frame, value))
    if kind is float:
        special = _special(value)
        return f"{value:.6f}" if special is None else quoted({"∞": "+Inf", "-∞": "-Inf"}.get(special, special))
    if kind is Timestamp or kind is Duration:
        return f"{'timestamp' if kind is Timestamp else 'duration'}({_quoted(to_string(value))})"
    name = type_of(value).name
    if name not in _TEXTUAL:
        raise EvaluationError(f"no formatting function for {name}")
    return _string(frame, value)


def _quoted(text: str) -> str:
    return quoted(text, shown=len(text))
