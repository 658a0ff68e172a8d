"""Helpers for plugins: normalisation by the highest score, and filters with one reason for all nodes."""

from __future__ import annotations

import numpy as np

from podwright.core.framework.interface import MAX_SCORE, Bools, FilterResult, Int64s, WholeNumbers
from podwright.core.framework.status import Status


def normalize_by_greatest(scores: WholeNumbers | int, *, reverse: bool = False) -> Int64s | int:
    """100 · score / highest score, truncated; with `reverse`, 100 minus that. Scores must not be negative.

    If all scores are 0, the result is 0, or 100 with `reverse`. int64[feasible], or one number for all of them.
    """
    greatest = scores if isinstance(scores, int) else int(np.max(scores, initial=0))
    if greatest == 0:
        return MAX_SCORE if reverse else 0
    if isinstance(scores, int):
        return 0 if reverse else MAX_SCORE
    scaled: Int64s = np.multiply(scores, MAX_SCORE, dtype=np.int64) // greatest
    return MAX_SCORE - scaled if reverse else scaled


def rejected_alike(ok: Bools, status: Status) -> FilterResult:
    """The verdict of a filter that rejects all nodes with the same status. `ok`: bool[nodes]."""
    rows = len(ok)
    return FilterResult(ok, lambda: (np.zeros(rows, np.int8), (status,)))
