"""How long pods waited for a node, in figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podwright.core.objects.dataclass import dataclass

WAITED_LONG: Final = 60.0
"""Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTimes:
    """How long pods waited for a node. Pods that never got one waited until they left or the replay ended."""

    mean: float
    median: float
    p95: float
    p99: float
    longest: float
    long: int
    """How many waited longer than a minute."""
    curve: Sequence[tuple[float, float]]
    """(seconds, the share of pods that waited at most so long)."""


def waiting_times(waits: Sequence[float]) -> WaitingTimes:
    """The figures about these times."""
    ordered = sorted(waits)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    steps = sorted({int(len(ordered) * step / 200) for step in range(200)} | {len(ordered) - 1}) if ordered else []
    return WaitingTimes(
        mean=sum(ordered) / len(ordered) if ordered else 0.0,
        median=at(0.5),
        p95=at(0.95),
        p99=at(0.99),
        longest=ordered[-1] if ordered else 0.0,
        long=sum(wait > WAITED_LONG for wait in ordered),
        curve=[(ordered[step], (step + 1) / len(ordered)) for step in steps],
    )
