"""The parts of times and durations: `getHours` and the like, in UTC or a zone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.library.conversions import moment_of
from podwright.core.cel.library.go_text import quoted
from podwright.core.cel.values import Duration, Function, Timestamp, Value, no_such_overload
from podwright.core.objects.integers import int64_of

_SECOND: Final = 10**9
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MAX_NAME: Final = 64

_PARTS: Final[dict[str, Callable[[datetime, int, int], int]]] = {
    "getFullYear": lambda _moment, year, _nanos: year,
    "getMonth": lambda moment, _year, _nanos: moment.month - 1,
    "getDayOfYear": lambda moment, _year, _nanos: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment, _year, _nanos: moment.day - 1,
    "getDate": lambda moment, _year, _nanos: moment.day,
    "getDayOfWeek": lambda moment, _year, _nanos: moment.isoweekday() % 7,
    "getHours": lambda moment, _year, _nanos: moment.hour,
    "getMinutes": lambda moment, _year, _nanos: moment.minute,
    "getSeconds": lambda moment, _year, _nanos: moment.second,
    "getMilliseconds": lambda _moment, _year, nanos: nanos // 10**6,
}
_UNITS: Final = {
    "getHours": 3600 * _SECOND,
    "getMinutes": 60 * _SECOND,
    "getSeconds": _SECOND,
    "getMilliseconds": 10**6,
}


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _offset(value: Timestamp, zone: str) -> int:
    """Seconds east of UTC, at most 292 years. `Local` is UTC on every machine. Raises EvaluationError for an unknown
    zone.
    """
    if zone in ("", "UTC", "Local"):
        return 0
    hours, colon, minutes = zone.partition(":")
    if not colon:
        if ".." in zone or zone[0] in "/\\":
            raise EvaluationError("time: invalid location name")
        found = _zone(zone) if len(zone) <= _MAX_NAME else None
        if found is None:
            raise EvaluationError(f"unknown time zone {zone[:_MAX_NAME]}")
        moment = moment_of(value, 0)[0].replace(tzinfo=UTC)
        if not 2 <= moment.year <= 9998:
            moment = moment.replace(year=2 if moment.year < 2 else 9998, day=28)
        shift = moment.astimezone(found).utcoffset()
        return int(shift.total_seconds()) if shift else 0
    east = _number(hours) * 60
    east += _number(minutes) if zone[0] != "-" else -_number(minutes)
    nanos = (east * 60 * _SECOND + 2**63) % 2**64 - 2**63  # as Go's 64 bits, which overflow from 2,562,048 hours on
    return nanos // _SECOND if nanos >= 0 else -(-nanos // _SECOND)


def _number(text: str) -> int:
    """As Go's `strconv.Atoi` reads it. Raises EvaluationError."""
    number = int64_of(text)
    if number is None:
        reason = "value out of range" if _NUMBER.fullmatch(text) else "invalid syntax"
        raise EvaluationError(f"strconv.Atoi: parsing {quoted(text)}: {reason}")
    return number


def _part(name: str) -> Function:
    part = _PARTS[name]
    unit = _UNITS.get(name)

    def get(value: Value, zone: Value = "UTC") -> int:
        if value.__class__ is Duration and unit is not None and zone == "UTC":
            nanos: int = value.nanos
            return nanos // unit if nanos >= 0 else -(-nanos // unit)
        if value.__class__ is not Timestamp or zone.__class__ is not str:
            raise no_such_overload(name, value)
        return part(*moment_of(value, _offset(value, zone)))

    return get


TIME_FUNCTIONS: Final = {name: _part(name) for name in _PARTS}
