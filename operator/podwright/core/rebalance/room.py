"""Room for pods of a size: how many of them there is room for, and which pods to move for one more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from podwright.core.framework.interface import Bools
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import PODS
from podwright.core.rebalance.movable import Movable, may_be_emptied, to_move
from podwright.core.rebalance.rules import RebalanceRules
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo


class Room:
    """See the module. `takes`: bool[nodes], those that may take pods."""

    def __init__(self, cache: Cache, rules: RebalanceRules, movable: Movable, takes: Bools) -> None:
        self._cache = cache
        self._requests = {resource: amount for resource, amount in rules.room.items() if amount}
        self._count = rules.room_count if self._requests else 0
        self._movable = movable
        self._counts = takes.copy()
        """bool[nodes]: those whose room counts."""
        if self._count:
            others = [info.slot for info in cache.nodes.values() if info.node and not may_be_emptied(info.node)]
            self._counts[others] = False

    def total(self) -> int:
        """For how many of the pods there is room, at most as many as are asked for."""
        if not self._count:
            return 0
        table = self._cache.table
        fit = table.allocatable(PODS) - table.pods
        for resource, amount in self._requests.items():
            fit = np.minimum(fit, (table.allocatable(resource) - table.requested(resource)) // amount)
        return min(self._count, int(np.maximum(fit, 0)[self._counts].sum()))

    def candidates(self) -> Iterator[tuple[NodeInfo, Sequence[PodInfo]]]:
        """Nodes with the pods whose moves make room for one more pod there, until there is enough; the fewest moves
        first.
        """
        if self.total() >= self._count:
            return
        found = []
        for info in self._cache.nodes.values():
            self._cache.deadline.point()
            if info.slot >= 0 and self._counts[info.slot] and (pods := in_the_way(info, self._requests, self._movable)):
                found.append((len(pods), info.name, info))
        for _, _, info in sorted(found, key=lambda each: each[:2]):
            # A node may give room for several. What is in the way there may have changed with each step.
            while self.total() < self._count and (pods := in_the_way(info, self._requests, self._movable)):
                before = self.total()
                yield info, pods
                if self.total() <= before:
                    break


def in_the_way(info: NodeInfo, requests: Mapping[str, int], movable: Movable) -> Sequence[PodInfo]:
    """As few pods as possible that may move, without which one more pod with these requests fits on the node; empty
    without such.
    """
    free = {each: info.allocatable(each) - info.requested.get(each, 0) for each in requests}
    fit = max(0, min((free[each] // amount for each, amount in requests.items()), default=0))
    lack = {each: (fit + 1) * amount - free[each] for each, amount in requests.items()}
    pods = [pod for pod in to_move(info) if not movable.why_not(pod)]
    pods.sort(key=lambda pod: -size_of(pod, requests))
    chosen: list[PodInfo] = []
    for pod in pods:
        if all(amount <= 0 for amount in lack.values()):
            break
        if any(amount > 0 and pod.requests.amounts.get(each) for each, amount in lack.items()):
            chosen.append(pod)
            for each in lack:
                lack[each] -= pod.requests.amounts.get(each, 0)
    if any(amount > 0 for amount in lack.values()):
        return []
    for pod in reversed(chosen[:]):  # those that the others make superfluous
        if all(amount + pod.requests.amounts.get(each, 0) <= 0 for each, amount in lack.items()):
            chosen.remove(pod)
            for each in lack:
                lack[each] += pod.requests.amounts.get(each, 0)
    return chosen


def size_of(pod: PodInfo, requests: Mapping[str, int]) -> float:
    """How much of these requests the pod has."""
    return sum(pod.requests.amounts.get(each, 0) / amount for each, amount in requests.items())
