"""CrowdedNodes: verdicts on nodes with the pods that are nominated to them, for one pod.

A gang of 1,000 members beside 1,000 nominations needs a million of these verdicts. The verdicts of the filters before
the first one that looks beyond the node are cached (see `verdict_cache`). The filters after it run for each pod,
without a copy of its state if they can.

Most pods need none of them: of their filters, only the one that compares requests looks at other pods. It compares
all nodes at once (`settle`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework import contract
from podwright.core.framework.contract import call
from podwright.core.framework.diagnosis import NodeDiagnosis
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools, CycleState, FilterPlugin
from podwright.core.framework.profile import Point
from podwright.core.framework.status import Status
from podwright.core.objects.pod import PodInfo
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.crowds import Crowd
from podwright.core.state.nodeinfo import NodeInfo

FITS: Final = -1
UNKNOWN: Final = -2


class CrowdedFilter(FilterPlugin):
    """A filter that needs no copy of the state to count pods that are not on the node yet. For plugins of the core."""

    @abstractmethod
    def filter_crowded(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, others: Sequence[PodInfo]
    ) -> Status | None:
        """Returns the answer of `filter` after `add_pod` for each of `others` on the node. Changes no state."""


class CrowdFilter(FilterPlugin):
    """A filter that compares the pod with all nominated pods at once. For plugins of the core."""

    @abstractmethod
    def filter_crowd(
        self, pod: PodInfo, table: NodeTable, crowd: Crowd
    ) -> tuple[NDArray[np.int64], Sequence[Status]] | None:
        """For each row of the crowd, the number of its rejection, or FITS or UNKNOWN; and the rejections. None: all are
        unknown.
        """


class CrowdedNodes:
    """See the module. `state`: that of the pod's PreFilter. Nothing else may change while these verdicts are asked
    for.
    """

    def __init__(self, framework: Framework, state: CycleState, pod: PodInfo) -> None:
        self._framework, self._state, self._pod = framework, state, pod
        skipped = state.skip_filter
        active = [plugin for plugin in framework.filter_plugins if plugin.name not in skipped]
        keys = []
        for plugin in active:
            key = None if plugin.name in framework.beyond_node else contract.verdict_key_of(plugin, pod)
            if key is None:
                break
            keys.append(key)
        first, self._rest = active[: len(keys)], active[len(keys) :]
        adjusted = [plugin for plugin in framework.pre_filter_extensions if plugin.name not in skipped]
        names = {plugin.name for plugin in first}
        if self._rest and any(plugin.name in names or not contract.is_in_tree(plugin) for plugin in adjusted):
            first, self._rest = [], active
        self._first = first
        self._active, self._adjusted = active, {plugin.name for plugin in adjusted}
        self._told = not all(map(contract.is_in_tree, adjusted))
        """True if a plugin of others learns of each nominated pod."""
        self._crowded = [
            plugin for plugin in self._rest if isinstance(plugin, CrowdedFilter) and contract.is_in_tree(plugin)
        ]
        cached = first or not self._rest
        self._cached = framework.cached_verdicts((*keys, pod.priority, frozenset(skipped)) if cached else None)

    def settle(self, crowd: Crowd, diagnosis: NodeDiagnosis, alive: Bools) -> tuple[Bools, dict[int, Status]]:
        """Which rows of the crowd need no `verdict`, bool[rows], and the rejections of these, by slot. `diagnosis` and
        `alive`: of the nodes without nominated pods.
        """
        framework, slots = self._framework, crowd.slots
        settled = np.zeros(len(slots), np.bool_)
        position = next((i for i, plugin in enumerate(self._active) if isinstance(plugin, CrowdFilter)), -1)
        earlier, later = self._active[: max(position, 0)], self._active[position + 1 :]
        if position < 0 or self._told or not self._are_blind(earlier):
            return settled, {}
        plugin = self._active[position]
        assert isinstance(plugin, CrowdFilter)
        found = plugin.filter_crowd(self._pod, framework.handle.cache.table, crowd)
        if found is None:
            return settled, {}
        codes, statuses = found
        names = {each.name for each in earlier}
        for stage in diagnosis.stages:
            if stage.plugin in names:
                settled |= stage.rejected[slots]
        if diagnosis.considered is not None:
            settled |= ~diagnosis.considered_rows(diagnosis.considered)[slots]
        rejected = (codes >= 0) & ~settled
        by_slot = zip(slots[rejected].tolist(), codes[rejected].tolist(), strict=True)
        settled |= rejected
        if self._are_blind(later):
            settled |= (codes == FITS) & alive[slots]
        return settled, {slot: statuses[code] for slot, code in by_slot}

    def _are_blind(self, plugins: Sequence[FilterPlugin]) -> bool:
        """True if none of these filters can notice nominated pods."""
        return all(
            plugin.name in self._framework.only_node_filters and plugin.name not in self._adjusted for plugin in plugins
        )

    def verdict(self, node: NodeInfo, others: Sequence[PodInfo]) -> Status | None:
        """The first rejection with the pods `others` on the node, too; None: the node passes."""
        framework, state, pod = self._framework, self._state, self._pod
        if self._cached is not None:
            known = self._cached.get(node, others)
            if known is None:
                known = (self._filter_first(node, others),)
                self._cached.put(node, others, known[0])
            if known[0] is not None or not self._rest:
                return known[0]
        if len(self._crowded) < len(self._rest):
            return framework.filter_crowded_node(state, pod, node, others, self._rest)
        for plugin in self._crowded:
            if (status := call(plugin, Point.FILTER, plugin.filter_crowded, state, pod, node, others)) is not None:
                return status.by(plugin.name)
        return None

    def _filter_first(self, node: NodeInfo, others: Sequence[PodInfo]) -> Status | None:
        if not self._rest:
            return self._framework.filter_crowded_node(self._state, self._pod, node, others)
        crowded = node.clone()
        for other in others:
            crowded.add(other)
        return self._framework.filter_node(self._state, self._pod, crowded, self._first)
