"""How often plugins were called (`scheduler_plugin_evaluation_total`): per pod in PreFilter and PreScore, per node in
Filter and Score.

Filters run over all nodes at once, so calls per node are computed: a filter is counted for each node that the filters
before it let pass. Every attempt is counted, which costs it one look-up: attempts in which the same plugins returned
Skip share their sums, and `fold` turns these sums into counts of plugins when the metrics are scraped.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from podwright.core.framework.observer import Observer, PluginNames
from podwright.engine.records.families import CounterFamily

_ATTEMPTS: Final = 0
_NODES: Final = 1
"""Nodes that the filters ran on."""
_SCORED: Final = 2
"""Attempts with more than one feasible node."""
_FEASIBLE: Final = 3
"""Nodes that were scored."""

_MAX_SUMS: Final = 1_000
"""If one framework has more sums, they are folded, because the metrics may never be scraped."""
_COUNTED: Final = ("PreFilter", "Filter", "PreScore", "Score")
_Key = tuple[tuple[str, ...], tuple[str, ...], str]
"""The plugins that returned Skip in PreFilter and in PreScore, and the one whose PreFilter ended the attempt. Tuples
cost half of what sets cost. The same plugins in another order get sums of their own, which does no harm.
"""


class _Sums:
    """Attempts in which the same plugins ran."""

    __slots__ = ("numbers", "rejected")

    def __init__(self) -> None:
        self.numbers = array("q", (0, 0, 0, 0))
        self.rejected: Counter[str] = Counter()


class PluginEvaluations(Observer):
    """The base of `Metrics`. Sums attempts, and folds them into a counter with the labels plugin, extension point and
    profile.
    """

    def __init__(self, family: CounterFamily) -> None:
        self._family = family
        self._frameworks: dict[PluginNames, dict[_Key, _Sums]] = {}

    def framework_built(self, plugins: PluginNames) -> None:
        """Shows the framework's counts from the start, with 0. Folds the sums of removed frameworks, so that they do
        not accumulate.
        """
        self.fold()
        for point in _COUNTED:
            for name in plugins.at[point]:
                self._count(plugins, point, name, 0)

    def attempt_ended(
        self,
        plugins: PluginNames,
        skipped: tuple[Collection[str], Collection[str]],
        nodes: int,
        rejected: Mapping[str, int],
        scored: int,
        ended_by: str,
    ) -> None:
        attempts = self._frameworks.setdefault(plugins, {})
        key = (tuple(skipped[0]), tuple(skipped[1]), ended_by)
        sums = attempts.get(key)
        if sums is None:
            if len(attempts) >= _MAX_SUMS:
                self.fold()
                attempts = self._frameworks[plugins] = {}
            sums = attempts[key] = _Sums()
        numbers = sums.numbers
        numbers[_ATTEMPTS] += 1
        numbers[_NODES] += nodes
        if scored:
            numbers[_SCORED] += 1
            numbers[_FEASIBLE] += scored
        for plugin, count in rejected.items():
            sums.rejected[plugin] += count

    def fold(self) -> None:
        """Adds the sums since the last call to the counter."""
        frameworks, self._frameworks = self._frameworks, {}
        for plugins, attempts in frameworks.items():
            for (no_filter, no_score, ended_by), sums in attempts.items():
                self._fold(plugins, sums, no_filter, no_score, ended_by)

    def _fold(
        self, plugins: PluginNames, sums: _Sums, no_filter: Collection[str], no_score: Collection[str], ended_by: str
    ) -> None:
        for name in plugins.at["PreFilter"]:
            if name not in no_filter:
                self._count(plugins, "PreFilter", name, sums.numbers[_ATTEMPTS])
            if name == ended_by:
                break
        nodes = sums.numbers[_NODES]
        for name in plugins.at["Filter"]:
            if name not in no_filter:
                self._count(plugins, "Filter", name, nodes)
                nodes -= sums.rejected[name]
        for point, number in (("PreScore", _SCORED), ("Score", _FEASIBLE)):
            for name in plugins.at[point]:
                if name not in no_score:
                    self._count(plugins, point, name, sums.numbers[number])

    def _count(self, plugins: PluginNames, point: str, name: str, count: int) -> None:
        self._family.of(name, point, plugins.profile)[0] += count
