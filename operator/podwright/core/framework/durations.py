"""Durations as Kubernetes' configuration files have them: `10s`, `1m30s`, `1.5h`. Source: Go's documentation, time.ParseDuration."""

from __future__ import annotations

import re
from typing import Final

_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_PARTS: Final = re.compile(_PART, re.ASCII)
_WHOLE: Final = re.compile(rf"[-+]?(0|({_PART})+)\Z", re.ASCII)


def seconds_of(text: str) -> float:
    """Raises ValueError for what is no duration; only 0 goes without a unit."""
    if not _WHOLE.match(text):
        raise ValueError(f'time: invalid duration "{text}"')
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(text))
    return -seconds if text.startswith("-") else seconds
