"""Room for pods of a size: how many of them there is room for, and which pods to move for one more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.interface import Bools, Int64s
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import PODS
from podwright.core.rebalance.movable import Movable, may_be_emptied, to_move
from podwright.core.rebalance.rules import RebalanceRules
from podwright.core.state.cache import Cache
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo


def fill_of(table: NodeTable, resources: Iterable[str]) -> NDArray[np.float64]:
    """float64[nodes]: the greatest share of these resources that pods request."""
    shares = np.zeros(table.size)
    for resource in resources:
        np.maximum(shares, table.requested(resource) / np.maximum(table.allocatable(resource), 1), out=shares)
    return shares


class Room:
    """See the module. `takes`: bool[nodes], those that may take pods. With `level`, there is to be room for `count`
    pods in each of some domains, and only domains with room for all of them count.
    """

    def __init__(self, cache: Cache, rules: RebalanceRules, movable: Movable, takes: Bools) -> None:
        self._cache = cache
        self.requests = {resource: amount for resource, amount in rules.room.items() if amount}
        self.count = rules.room_count if self.requests else 0
        self.wanted = self.count * rules.room_domains
        self.level = cache.topologies.levels((rules.room_key,))[0] if rules.room_key else None
        self._each = self.wanted if self.level is None else self.count
        self._movable = movable
        self._counts = takes.copy()
        """bool[nodes]: those whose room counts."""
        if self.count:
            others = [info.slot for info in cache.nodes.values() if info.node and not may_be_emptied(info.node)]
            self._counts[others] = False

    def total(self, *, empty: bool = False) -> int:
        """For how many of the pods there is room, at most as many as are asked for. `empty`: if no node had pods."""
        if not self.count:
            return 0
        fit = self.per_node(empty=empty)
        if self.level is not None:
            return min(self.wanted, self.count * int((self.level.sums(fit) >= self.count).sum()))
        return min(self.wanted, int(fit.sum()))

    def at(self, info: NodeInfo) -> int:
        """For how many of the pods there is room in its domain, or without domains on the node; 0 if none is asked
        for.
        """
        if not self.count:
            return 0
        there = info.slot if self.level is None else self.level.codes == self.level.codes[info.slot]
        return int(self.per_node()[there].sum())

    def beside(self, info: NodeInfo) -> Sequence[NodeInfo]:
        """The nodes of its domain, or without domains the node alone."""
        if self.level is None:
            return [info]
        codes = self.level.codes
        return [each for each in self._cache.nodes.values() if each.node and codes[each.slot] == codes[info.slot]]

    def taken_by(self, pod: PodInfo, sources: NDArray[np.intp]) -> Bools:
        """bool[nodes]: where the pod would take some of the room that is there, or that is made in a domain of
        `sources`.
        """
        if not self.count:
            return np.zeros(self._cache.table.size, np.bool_)
        fit = self.per_node()
        lost = fit - self.per_node(more=pod.requests.amounts)
        if self.level is None:
            return lost > max(0, int(fit.sum()) - self.wanted)
        sums, codes = np.append(self.level.sums(fit), 0), self.level.codes  # the last: nodes in no domain
        spare = np.where(sums >= self.count, sums - self.count, sums.max())
        made = codes[sources]
        spare[made[sums[made] < self.count]] = 0
        return (lost > spare[codes]) & (codes >= 0)

    def per_node(self, *, empty: bool = False, more: Mapping[str, int] | None = None) -> Int64s:
        """int64[nodes]: for how many of the pods each has room, beside one that requests `more`."""
        table, used = self._cache.table, int(not empty)
        fit = table.allocatable(PODS) - table.pods * used - int(more is not None)
        for resource, amount in self.requests.items():
            free = table.allocatable(resource) - table.requested(resource) * used - (more or {}).get(resource, 0)
            fit = np.minimum(fit, free // amount)
        return np.where(self._counts, np.maximum(fit, 0), 0)

    def domain_of(self, info: NodeInfo) -> str:
        """The name of its domain; "" if it is in none that counts."""
        code = -1 if self.level is None else int(self.level.codes[info.slot])
        return "" if self.level is None or code < 0 else self.level.name(code)

    def candidates(self) -> Iterator[Iterator[tuple[NodeInfo, Sequence[PodInfo]]]]:
        """Nodes with the pods whose moves make room for one more pod there, until there is enough; the fewest moves
        first. Those of a domain come together.
        """
        found: dict[int, list[tuple[int, str, NodeInfo]]] = {}
        codes = np.where(self._counts, 0 if self.level is None else self.level.codes, -1)
        for info in self._cache.nodes.values() if self.total() < self.wanted else ():
            self._cache.deadline.point()
            if codes[info.slot] >= 0 and (pods := in_the_way(info, self.requests, self._movable)):
                found.setdefault(int(codes[info.slot]), []).append((len(pods), info.name, info))
        costs, fit = [], self.per_node()
        sums = [int(fit.sum())] if self.level is None else self.level.sums(fit).tolist()
        for code, each in found.items():
            each.sort(key=lambda one: one[:2])
            lacking = max(0, self._each - sums[code])
            costs.append((len(each) < lacking, sum(moves for moves, *_ in each[:lacking]), code))
        for *_, code in sorted(costs):
            there = codes == code
            if self.total() < self.wanted and self._lacking(there) > 0:
                yield self._candidates([info for *_, info in found[code]], there)

    def _lacking(self, there: Bools) -> int:
        """For how many more pods these nodes are to have room."""
        return self._each - int(self.per_node()[there].sum())

    def _candidates(self, infos: Sequence[NodeInfo], there: Bools) -> Iterator[tuple[NodeInfo, Sequence[PodInfo]]]:
        for info in infos:
            # A node may give room for several. What is in the way there may have changed with each step.
            while (lacking := self._lacking(there)) > 0 and (pods := in_the_way(info, self.requests, self._movable)):
                yield info, pods
                if self._lacking(there) >= lacking:
                    break


def in_the_way(info: NodeInfo, requests: Mapping[str, int], movable: Movable) -> Sequence[PodInfo]:
    """Returns the fewest movable pods without which one more pod with these requests fits on the node; empty if there
    is no such set.
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
