"""Scoring curves that args define by points: requestedToCapacityRatio of NodeResourcesFit, and shape of VolumeBinding.

Source: the Kubernetes documentation, "Resource Bin Packing".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from podwright.core.framework.interface import MAX_SCORE
from podwright.core.objects.dataclass import dataclass

MAX_SHAPE_SCORE: Final = 10
"""The highest score of a point; it means MAX_SCORE."""


@dataclass(frozen=True, slots=True)
class UtilizationShapePoint:
    """`utilization` in percent, `score` from 0 to 10."""

    utilization: int = 0
    score: int = 0


def shape_problems(shape: Sequence[UtilizationShapePoint], where: str) -> Iterable[tuple[str, str]]:
    """The problems of a shape, as (field path, problem)."""
    if not shape:
        yield where, "Required value: at least one point must be specified"
        return
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            problem = f"Invalid value: {shape[i].utilization}: values must be sorted in increasing order"
            yield f"{where}[{i}].utilization", problem
            break
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield f"{where}[{i}].utilization", f"Invalid value: {point.utilization}: not in valid range [0, 100]"
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            yield f"{where}[{i}].score", f"Invalid value: {point.score}: not in valid range [0, {MAX_SHAPE_SCORE}]"


def curve_of(shape: Sequence[UtilizationShapePoint]) -> tuple[int, ...]:
    """The score (0 to MAX_SCORE) at 0, 1, … 100 percent, interpolated linearly and truncated towards zero."""
    return tuple(_at(shape, percent) for percent in range(101))


def _at(shape: Sequence[UtilizationShapePoint], percent: int) -> int:
    factor = MAX_SCORE // MAX_SHAPE_SCORE
    for i, point in enumerate(shape):
        if percent <= point.utilization:
            if i == 0:
                return point.score * factor
            before = shape[i - 1]
            rise = (point.score - before.score) * factor * (percent - before.utilization)
            width = point.utilization - before.utilization
            return before.score * factor + (rise // width if rise >= 0 else -(-rise // width))
    return shape[-1].score * factor
