"""How often each plugin was asked in PreFilter, PreScore, and about a node in Filter and Score: counted for whole attempts.

Filters look at all nodes together and stop nobody at the first rejection, so the count of a plugin is worked out: it was asked about
the nodes that those before it had left. Attempts in which the same plugins had something to say are summed, which costs an
attempt one look-up. Source of what counts: kube-scheduler's `plugin_evaluation_total`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from podwright.core.framework.interface import CycleState
from podwright.core.framework.profile import Point
from podwright.core.framework.status import Code, Status

ATTEMPTS: Final = 0
NODES: Final = 1
"""Nodes that the filters were asked about."""
SCORED: Final = 2
"""Attempts in which several nodes were feasible."""
FEASIBLE: Final = 3
"""Nodes that were scored."""

_COUNTED: Final = (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)
_Key = tuple[tuple[str, ...], tuple[str, ...], str]
"""The plugins that said Skip before Filter and before Score, and the one whose PreFilter ended the attempt. Tuples cost half of what
sets do; in another order the same plugins are summed apart, which does no harm."""


class Evaluations:
    """Counts of one framework, whose plugins by point are given."""

    def __init__(self, points: Mapping[Point, Sequence[Any]]) -> None:
        self._points = points
        self._sums: dict[_Key, tuple[array[int], Counter[str]]] = {}

    def attempted(
        self, state: CycleState, nodes: int, rejected: Mapping[str, int], feasible: int, ended: Status | None = None
    ) -> None:
        """One attempt that did not fail. `nodes`: those that were filtered, and `rejected` how many of them each plugin turned
        down; `feasible`: those that were scored, 0 if there was no choice; `ended`: the rejection of PreFilter.
        """
        by = ended.plugin if ended is not None and ended.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else ""
        key = (tuple(state.skip_filter), tuple(state.skip_score), by)
        known = self._sums.get(key)
        if known is None:
            known = self._sums[key] = (array("q", (0, 0, 0, 0)), Counter())
        sums, turned_down = known
        sums[ATTEMPTS] += 1
        sums[NODES] += nodes
        if feasible:
            sums[SCORED] += 1
            sums[FEASIBLE] += feasible
        for plugin, count in rejected.items():
            turned_down[plugin] += count

    def drain(self) -> Iterator[tuple[str, Point, int]]:
        """What was counted since the last time, by plugin and point; nothing twice, and zeros for those that were not asked."""
        for point in _COUNTED:
            yield from ((plugin, point, 0) for plugin in self._asked(point, ()))
        drained, self._sums = self._sums, {}
        for (no_filter, no_score, ended_by), (sums, turned_down) in drained.items():
            for plugin in self._until(ended_by, no_filter):
                yield plugin, Point.PRE_FILTER, sums[ATTEMPTS]
            nodes = sums[NODES]
            for plugin in self._asked(Point.FILTER, no_filter):
                yield plugin, Point.FILTER, nodes
                nodes -= turned_down[plugin]
            for plugin in self._asked(Point.PRE_SCORE, no_score):
                yield plugin, Point.PRE_SCORE, sums[SCORED]
            for plugin in self._asked(Point.SCORE, no_score):
                yield plugin, Point.SCORE, sums[FEASIBLE]

    def _asked(self, point: Point, skipped: Collection[str]) -> list[str]:
        return [plugin.name for plugin in self._points[point] if plugin.name not in skipped]

    def _until(self, ended_by: str, skipped: Collection[str]) -> list[str]:
        asked = self._asked(Point.PRE_FILTER, skipped)
        return asked[: asked.index(ended_by) + 1] if ended_by in asked else asked
