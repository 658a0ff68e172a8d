"""The metrics about rebalancing, a part of the catalogue. See `metrics`."""

from __future__ import annotations

from typing import Final

from podwright.engine.records.families import Counter

REBALANCE_PLANS: Final = Counter(
    "podwright_rebalance_plans", "Plans of RebalancePolicies, by outcome: empty, planned, done or ended.", ("outcome",)
)
REBALANCE_MOVES: Final = Counter(
    "podwright_rebalance_moves",
    "Moves that have ended, by result: moved, refused, lost, timeout, notReady or stopped.",
    ("result",),
)
REBALANCE_GAIN: Final = Counter("podwright_rebalance_gain", "The gain of the steps that were carried out.")
