"""Durations as in Kubernetes configuration files: `10s`, `1m30s`, `1.5h`. Source: Go's documentation,
time.ParseDuration.
"""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)", re.ASCII)
_LONGEST: Final = 1000
_MOST: Final = 2**63


def format_duration(seconds: float) -> str:
    """The duration in Go's format: `15m0s`, `1m30s`, `2.5s`, `250ms`."""
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if 0 < seconds < 1:
        return f"{1000 * seconds:g}ms" if seconds >= 1e-3 else f"{1e6 * seconds:g}µs"
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    text = f"{round(rest, 9):.12g}s"
    if hours or minutes:
        text = f"{minutes:.0f}m{text}"
    return f"{hours:.0f}h{text}" if hours else text


def parse_duration(text: str) -> float:
    """Seconds, at most Go's longest duration, 292 years. Raises ValueError for an invalid duration. Only 0 needs no
    unit.
    """
    nanos = _nanoseconds(text)
    if nanos is None:
        raise ValueError(f'time: invalid duration "{text}"')
    return max(-_MOST, min(nanos, _MOST)) / 10**9


def nanoseconds(text: str) -> int | None:
    """A duration in nanoseconds, None if it is not one or exceeds 64 bits."""
    nanos = _nanoseconds(text)
    return nanos if nanos is not None and -_MOST <= nanos < _MOST else None


def _nanoseconds(text: str) -> int | None:
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    if not rest or len(rest) > _LONGEST:
        return None
    total, at = 0, 0
    while at < len(rest):
        found = _PART.match(rest, at)
        if found is None:
            return None
        whole, fraction, unit = found.groups()
        if (not whole and not fraction) or unit not in _UNITS:
            return None
        total += int(whole or "0") * _UNITS[unit]
        if fraction:
            total += int(fraction[:18]) * _UNITS[unit] // 10 ** len(fraction[:18])
        at = found.end()
    return -total if text[:1] == "-" else total
