"""Durations as in Kubernetes configuration files: `10s`, `1m30s`, `1.5h`. Source: Go's documentation,
time.ParseDuration.
"""

from __future__ import annotations

import re
from typing import Final

_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = r"(\d++\.?\d*+|\.\d++)(ns|us|µs|μs|ms|s|m|h)"
_PARTS: Final = re.compile(_PART, re.ASCII)
_WHOLE: Final = re.compile(rf"[-+]?(0|({_PART})+)\Z", re.ASCII)


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
    """Raises ValueError for an invalid duration. Only 0 needs no unit."""
    if not _WHOLE.match(text):
        raise ValueError(f'time: invalid duration "{text}"')
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(text))
    return -seconds if text.startswith("-") else seconds
