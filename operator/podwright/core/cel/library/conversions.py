"""Conversions between values: `int(x)`, `string(x)`, `timestamp(x)`, and the text of values in errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isinf, isnan, trunc
from typing import Final

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.types import Type
from podwright.core.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    Duration,
    Opaque,
    Optional,
    Timestamp,
    Uint,
    Value,
    keys_of,
    no_such_overload,
    to_key,
    type_of,
)
from podwright.core.objects.durations import nanoseconds

_SECOND: Final = 10**9
MIN_SECONDS: Final = -62135596800
"""The year 1."""
MAX_SECONDS: Final = 253402300799
"""The end of the year 9999."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UNSIGNED: Final = re.compile(r"[0-9]+", re.ASCII)
_DIGITS: Final = "[0-9]++(?:_[0-9]++)*+"
_HEX_DIGITS: Final = "[0-9a-fA-F]++(?:_[0-9a-fA-F]++)*+"
_FLOAT: Final = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?", re.ASCII)
_HEX_FLOAT: Final = re.compile(
    rf"[+-]?0[xX](?:_?{_HEX_DIGITS}(?:\.(?:{_HEX_DIGITS})?)?|\.{_HEX_DIGITS})[pP][+-]?{_DIGITS}", re.ASCII
)
_SPECIAL_FLOAT: Final = re.compile(r"[+-]?(?:inf(?:inity)?)|nan", re.IGNORECASE | re.ASCII)
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_MAX_DIGITS: Final = 40
"""No 64-bit number has as many significant digits."""


def conversion_error(value: Value, to: str) -> EvaluationError:
    """The error of a value that another type cannot express."""
    return EvaluationError(f"type conversion error from '{type_of(value).name}' to '{to}'")


def to_int(value: Value) -> int:
    """Raises EvaluationError if the value is not an integer of 64 bits."""
    kind = value.__class__
    if kind is int:
        return value
    if kind is Uint:
        if value > MAX_INT:
            raise EvaluationError("integer overflow")
        return int(value)
    if kind is float:
        if isnan(value) or not -(2.0**63) < value < 2.0**63:
            raise EvaluationError("integer overflow")
        return trunc(value)
    if kind is str and _INTEGER.fullmatch(value):
        digits = value.lstrip("+-").lstrip("0")
        if len(digits) < _MAX_DIGITS:
            number = -int(digits or "0") if value.startswith("-") else int(digits or "0")
            if MIN_INT <= number <= MAX_INT:
                return number
    if kind is Duration:
        return value.nanos
    if kind is Timestamp:
        return value.nanos // _SECOND
    raise _refused(value, "int")


def to_uint(value: Value) -> Uint:
    """Raises EvaluationError if the value is not an unsigned integer of 64 bits."""
    kind = value.__class__
    if kind is Uint:
        return value
    if kind is int:
        if value < 0:
            raise EvaluationError("unsigned integer overflow")
        return Uint(value)
    if kind is float:
        if isnan(value) or not 0 <= value < 2.0**64:
            raise EvaluationError("unsigned integer overflow")
        return Uint(trunc(value))
    if kind is str and _UNSIGNED.fullmatch(value):
        digits = value.lstrip("0")
        if len(digits) < _MAX_DIGITS and int(digits or "0") <= MAX_UINT:
            return Uint(digits or "0")
    raise _refused(value, "uint")


def to_double(value: Value) -> float:
    """Raises EvaluationError if the value is not a number."""
    kind = value.__class__
    if kind is float:
        return value
    if kind is int or kind is Uint:
        return float(value)
    if kind is str:
        if _HEX_FLOAT.fullmatch(value):
            try:
                return float.fromhex(value.replace("_", ""))
            except OverflowError:
                raise conversion_error(value, "double") from None
        if _SPECIAL_FLOAT.fullmatch(value):
            return float(value)
        if _FLOAT.fullmatch(value):
            number = float(value)
            if not isinf(number):
                return number
    raise _refused(value, "double")


def to_bool(value: Value) -> bool:
    """Raises EvaluationError if the value is not a bool or one of Go's words for it."""
    if value.__class__ is bool:
        return value
    if value.__class__ is str and value in _BOOLS:
        return _BOOLS[value]
    raise _refused(value, "bool")


def to_bytes(value: Value) -> bytes:
    """Raises EvaluationError if the value is neither bytes nor a string."""
    if value.__class__ is bytes:
        return value
    if value.__class__ is str:
        return value.encode()
    raise _refused(value, "bytes")


def to_string(value: Value) -> str:
    """Raises EvaluationError if the value has no text."""
    kind = value.__class__
    if kind is str:
        return value
    if kind is int or kind is Uint:
        return str(int(value))
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return double_text(value)
    if kind is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    if kind is Duration:
        return duration_text(value)
    if kind is Timestamp:
        return timestamp_text(value)
    raise _refused(value, "string")


def to_duration(value: Value) -> Duration:
    """Raises EvaluationError if the value is neither a duration nor the text of one in Go's notation."""
    if value.__class__ is Duration:
        return value
    if value.__class__ is str:
        nanos = nanoseconds(value)
        if nanos is not None:
            return Duration(nanos)
    raise _refused(value, "google.protobuf.Duration")


def to_timestamp(value: Value) -> Timestamp:
    """Raises EvaluationError if the value is no time, seconds since 1970, or time in RFC 3339."""
    kind = value.__class__
    if kind is Timestamp:
        return value
    if kind is int:
        if not MIN_SECONDS <= value <= MAX_SECONDS:
            raise EvaluationError("timestamp overflow")
        return Timestamp(value * _SECOND)
    if kind is str:
        found = parse_timestamp(value)
        if found is not None:
            if not MIN_SECONDS <= found.nanos // _SECOND <= MAX_SECONDS:
                raise EvaluationError("timestamp overflow")
            return found
    raise _refused(value, "google.protobuf.Timestamp")


_SOURCES: Final = {
    "int": {"int", "uint", "double", "string", "google.protobuf.Duration", "google.protobuf.Timestamp"},
    "uint": {"int", "uint", "double", "string"},
    "double": {"int", "uint", "double", "string"},
    "bool": {"bool", "string"},
    "bytes": {"bytes", "string"},
    "google.protobuf.Duration": {"google.protobuf.Duration", "string"},
    "google.protobuf.Timestamp": {"google.protobuf.Timestamp", "string", "int"},
    "string": {
        *("string", "int", "uint", "bool", "double", "bytes"),
        *("google.protobuf.Duration", "google.protobuf.Timestamp"),
    },
}
_FUNCTIONS: Final = {"google.protobuf.Duration": "duration", "google.protobuf.Timestamp": "timestamp"}


def _refused(value: Value, to: str) -> EvaluationError:
    if type_of(value).name in _SOURCES[to]:
        return conversion_error(value, to)
    return no_such_overload(_FUNCTIONS.get(to, to), value)


def duration_text(value: Duration) -> str:
    """Seconds as the shortest decimal that reads back as the same double, as cel-go writes them."""
    seconds, nanos = divmod(abs(value.nanos), _SECOND)
    number = float(seconds) + float(nanos) / 1e9
    return f"{'-' if value.nanos < 0 else ''}{plain_double(number)}s"


def plain_double(number: float) -> str:
    """The shortest decimal without an exponent."""
    text = format(Decimal(repr(number)), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text


def double_text(number: float) -> str:
    """A double as Go's `%g` writes it: with an exponent below 1e-4 and from 1e6 on."""
    if isnan(number):
        return "NaN"
    if isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if number == 0:
        return "-0" if str(number).startswith("-") else "0"
    _sign, digits, _ = Decimal(repr(number)).as_tuple()
    exponent = Decimal(repr(number)).adjusted()
    if -4 <= exponent < _MAX_PLAIN:
        return plain_double(number)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
    return f"{'-' if number < 0 else ''}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


_MAX_PLAIN: Final = 6

_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)


def parse_timestamp(text: str) -> Timestamp | None:
    """A time in RFC 3339, None if it is not one."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found.group(i)) for i in range(1, 7))
    fraction = (found.group(7) or "")[:9].ljust(9, "0")
    zone = found.group(8)
    offset = 0
    if zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
    leap = year == 0
    try:
        moment = datetime(year or 4, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    seconds = (moment - _EPOCH) // timedelta(seconds=1) - offset
    if leap:
        seconds -= 4 * 365 * 86400 + 86400
    return Timestamp(seconds * _SECOND + int(fraction), offset)


_CYCLE: Final = 146097 * 86400
"""Seconds of 400 years, after which the calendar repeats."""


def moment_of(value: Timestamp, offset: int) -> tuple[datetime, int, int]:
    """The time in a zone that is `offset` seconds east of UTC, by at most 400 years: to the second, its year, and its
    nanoseconds.

    The year may be one that `datetime` does not have. Then the first part is 400 years off, in a year with the same
    calendar.
    """
    seconds, nanos = divmod(value.nanos, _SECOND)
    seconds += offset
    shift = 400 if seconds < MIN_SECONDS else -400 if seconds > MAX_SECONDS else 0
    moment = _EPOCH.replace(tzinfo=None) + timedelta(seconds=seconds + shift // 400 * _CYCLE)
    return moment, moment.year - shift, nanos


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 with as many digits of the second as needed."""
    moment, year, nanos = moment_of(value, value.offset)
    text = f"{year:04d}-{moment.month:02d}-{moment.day:02d}T{moment:%H:%M:%S}"
    if nanos:
        text += "." + f"{nanos:09d}".rstrip("0")
    if not value.offset:
        return text + "Z"
    hours, minutes = divmod(abs(value.offset) // 60, 60)
    return f"{text}{'-' if value.offset < 0 else '+'}{hours:02d}:{minutes:02d}"


_SHOWN: Final = 200


def text_in_error(value: Value) -> str:
    """A value as Go's `%v` writes it, which cel-go's errors do. Long values are cut."""
    found, size = [], 0
    for piece in _pieces(value):
        found.append(piece)
        size += len(piece)
        if size > _SHOWN:
            return "".join(found)[:_SHOWN] + "…"
    return "".join(found)


def _pieces(value: Value) -> Iterator[str]:
    if isinstance(value, (list, tuple)):
        yield "["
        for i, part in enumerate(value):
            yield ", " if i else ""
            yield from _pieces(part)
        yield "]"
    elif isinstance(value, dict):
        yield "{"
        for i, key in enumerate(keys_of(value)):
            yield ", " if i else ""
            yield from _pieces(key)
            yield ": "
            yield from _pieces(value[to_key(key)])
        yield "}"
    elif value.__class__ is Optional:
        yield "optional(" if value.has_value else "optional.none()"
        if value.has_value:
            yield from _pieces(value.value)
            yield ")"
    else:
        yield _scalar_text(value)


def _scalar_text(value: Value) -> str:
    kind = value.__class__
    if kind is str:
        return value[: _SHOWN + 1]
    if value is None:
        return "NULL_VALUE"
    if kind is bytes:
        return "[" + " ".join(map(str, value[:_SHOWN])) + "]"
    if kind is Type:
        return value.name
    return str(value) if isinstance(value, Opaque) else to_string(value)


_GO_TYPES: Final = {
    "null_type": "types.Null",
    "bool": "types.Bool",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "string": "types.String",
    "bytes": "types.Bytes",
    "list": "*types.baseList",
    "map": "*types.baseMap",
    "type": "*types.Type",
    "optional_type": "*types.Optional",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "kubernetes.Quantity": "cel.Quantity",
    "kubernetes.Semver": "cel.Semver",
    "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR",
}


def go_type(value: Value) -> str:
    """The name of cel-go's class of a value, which some of its errors have."""
    name = type_of(value).name
    return ("*" if getattr(value, "is_result", False) else "") + _GO_TYPES.get(name, name)


CONVERSIONS: Final[dict[str, Callable[[Value], Value]]] = {
    "bool": to_bool,
    "bytes": to_bytes,
    "double": to_double,
    "duration": to_duration,
    "int": to_int,
    "string": to_string,
    "timestamp": to_timestamp,
    "uint": to_uint,
    "dyn": lambda value: value,
    "type": type_of,
}
"""The functions of one argument that convert. cel-go evaluates them once, at compilation, if the argument is constant.
"""
