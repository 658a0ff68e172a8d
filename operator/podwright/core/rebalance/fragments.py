"""Fragments of shared devices: how many there are in all, and which pods to move for fewer of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import floor

import numpy as np

from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.shares.device_shares import DeviceShares
from podwright.core.rebalance.movable import View
from podwright.core.rebalance.rules import FEWEST_FRAGMENTS, RebalanceRules
from podwright.core.state.cache import Cache


class DeviceFragments:
    """See the module. The measure is that of the first placed pod whose policy has strategy LeastFragmentation."""

    def __init__(self, cache: Cache, rules: RebalanceRules, view: View) -> None:
        self._cache = cache
        self._weight = rules.weights.get(FEWEST_FRAGMENTS, 0)
        self._view = view

    @cached_property
    def _plugin(self) -> DeviceShares | None:
        for info in self._cache.nodes.values() if self._weight else ():
            self._cache.deadline.point()
            for framework in filter(None, map(self._view.framework_of, info.pods.values())):
                found = framework.plugins.get(DeviceShares.name)
                if isinstance(found, DeviceShares) and found.counts_fragments:
                    return found
        return None

    def worth(self, before: float) -> int:
        """Returns the value of fewer fragments than `before`, which is in devices; negative if there are more."""
        return floor(self._weight * (before - self.total()) + 1e-9) if self._weight else 0

    def total(self) -> float:
        """All fragments, in devices."""
        return 0.0 if self._plugin is None else float(self._plugin.fragments()[self._cache.table.valid].sum())

    def best(self, pod: PodInfo, slots: Sequence[int]) -> str:
        """The node among these where the pod makes the fewest fragments."""
        assert self._plugin is not None, "there are candidates"
        return self._cache.table.names[slots[int(np.argmin(self._plugin.growth(pod)[slots]))]]

    def candidates(self) -> Iterator[PodInfo]:
        """Pods with shares of devices, those on the nodes with the most fragments first."""
        plugin = self._plugin
        if plugin is None:
            return
        found = plugin.fragments()
        for slot in np.argsort(-found, kind="stable").tolist():
            if self._cache.table.nodes[slot] is not None:
                yield from [pod for pod in self._cache.node_at(slot).pods.values() if plugin.shares(pod)]
