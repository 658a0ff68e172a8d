"""How many members nodes can take at most, by columns alone: what is worth neither a trial nor an eviction.

Counted are resources, and the filters that look at nothing but the node itself. Invariant: never less than what fits, so that
too little by this is too little. Where a profile has none of these filters, everything seems to fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from podwright.core.framework import contract
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework, looks_beyond_node
from podwright.core.framework.interface import (
    Bools,
    CycleState,
    DomainPlugin,
    Int64s,
    PreFilterPlugin,
    ResourceFilter,
    Scope,
)
from podwright.core.framework.profile import Point
from podwright.core.framework.status import Status
from podwright.core.gangs.rules import too_few, wanting
from podwright.core.gangs.topology_domains import Domains, add_up
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.state.cache import Cache
from podwright.core.state.columns.table import NodeTable

_WHERE_PODS_MATTER: Final = (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE, Point.RESERVE)


@dataclass(slots=True)
class _Kind:
    """Members that ask for the same. `open`: bool[nodes], where filters of the node let them; None: not asked yet."""

    pod: PodInfo
    asked: Sequence[tuple[str, int]]
    count: int = 0
    open: Bools | None = None


class Outlook:
    """See the module. Reads the cache as it is when asked; nodes must stay what they are meanwhile, pods need not."""

    def __init__(self, framework: Framework, cache: Cache, pods: Sequence[PodInfo]) -> None:
        self._framework = framework
        self._cache = cache
        self._pods = pods
        self.members = len(pods)
        self._fit = next((plugin for plugin in framework.filter_plugins if isinstance(plugin, ResourceFilter)), None)
        self._filters = [p for p in framework.filter_plugins if p.scope is Scope.NODE and p.filter_all is not None]
        noticing = dict.fromkeys(framework.at(*_WHERE_PODS_MATTER))
        self._noticing = tuple(noticing)
        kinds: dict[tuple[Any, ...], _Kind] = {}
        for pod in pods:
            key = (pod.requests, *(contract.verdict_key_of(plugin, pod) for plugin in self._filters))
            kind = kinds.get(key)
            if kind is None:
                kind = kinds[key] = _Kind(
                    pod, () if self._fit is None else _least(self._fit.checked_requests(pod.requests), pod)
                )
            kind.count += 1
        self._kinds = tuple(kinds.values())
        self.blockers: set[str] = set()
        """Filters of the node that turned some node down, as far as they were asked."""

    # Estimates

    def room(self, *, emptied: bool = False) -> Int64s:
        """int64[nodes]: at most so many members fit on each. `emptied`: if all pods that are there left."""
        rooms = self._rooms(emptied=emptied)
        return rooms[0] if len(rooms) == 1 else self._together(rooms, emptied=emptied)

    def most(self, codes: Int64s, count: int, *, emptied: bool = False) -> Int64s:
        """int64[count]: at most so many members fit on each of these sets of nodes. `codes`: int64[nodes], -1 for in none."""
        rooms = self._rooms(emptied=emptied)
        most = np.zeros(count, np.int64)
        for kind, room in zip(self._kinds, rooms, strict=True):
            most += np.minimum(add_up(room, codes, count), kind.count)
        if len(rooms) > 1:
            np.minimum(most, add_up(self._together(rooms, emptied=emptied), codes, count), out=most)
        return most

    def in_all(self, *, emptied: bool = False) -> int:
        """At most so many members fit on all nodes together."""
        return int(self.most(np.zeros(self._cache.table.size, np.int64), 1, emptied=emptied)[0])

    def _rooms(self, *, emptied: bool) -> list[Int64s]:
        """For each kind by itself."""
        return [
            np.where(self._open(kind), self._fits(kind.asked, kind.count, emptied=emptied), 0) for kind in self._kinds
        ]

    def _together(self, rooms: Sequence[Int64s], *, emptied: bool) -> Int64s:
        """What several kinds can take of one node: no more than all of them by themselves, or of the least demanding."""
        amounts = [dict(kind.asked) for kind in self._kinds]
        shared = set(amounts[0]).intersection(*amounts[1:])
        least = [(resource, min(asked[resource] for asked in amounts)) for resource in sorted(shared)]
        return np.minimum(np.sum(rooms, axis=0), self._fits(least, self.members, emptied=emptied))

    def _fits(self, asked: Sequence[tuple[str, int]], count: int, *, emptied: bool) -> Int64s:
        table = self._cache.table
        if self._fit is None:
            return np.where(table.valid, count, 0)
        places = table.allowed_pods if emptied else table.allowed_pods - table.pods
        fits = np.minimum(places, count)
        for resource, amount in asked:
            if amount > 0:
                free = (
                    table.allocatable(resource) if emptied else table.allocatable(resource) - table.requested(resource)
                )
                fits = np.minimum(fits, free // amount)
        return np.where(table.valid, np.maximum(fits, 0), 0)

    def _open(self, kind: _Kind) -> Bools:
        if kind.open is None:
            table = self._cache.table
            kind.open = table.valid
            for plugin in self._filters:
                passing = _passing(plugin, kind.pod, table)
                if passing is not None and np.any(kind.open & ~passing):
                    self.blockers.add(plugin.name)
                    kind.open = kind.open & passing
        return kind.open

    @property
    def rejecting(self) -> frozenset[str]:
        """The filters by which estimates were made: whose hints say when they may have changed."""
        return frozenset(self.blockers) | (frozenset() if self._fit is None else frozenset((self._fit.name,)))

    # Who matters

    @property
    def is_local(self) -> bool:
        """No plugin notices pods on nodes that no member can be on, apart from those that `reach_beyond_node`."""
        return not any(looks_beyond_node(plugin, pod) for plugin in self._noticing for pod in self._pods)

    @property
    def reaching(self) -> Sequence[Callable[[PodInfo], bool]]:
        """Functions that say of a placed pod whether a plugin may notice it on other nodes."""
        return [
            contract.guarded(plugin, Point.FILTER, plugin.reaches_beyond_node)
            for plugin in self._noticing
            if isinstance(plugin, DomainPlugin) and plugin.reaches_beyond_node is not None
        ]


def hopeless(group: PodGroup, cache: Cache, outlook: Outlook, *, emptied: bool = False) -> str | None:
    """Why the group's waiting members cannot be placed, whatever else is so; None if they may. `emptied`: see `room`."""
    placed = cache.groups.placed(group.key)
    if objection := too_few(group, placed, outlook.members):
        return objection
    if group.topology_key:
        domains = Domains(cache, group.topology_key)
        best = max(outlook.most(domains.codes, len(domains), emptied=emptied).tolist(), default=0)
    else:
        best = outlook.in_all(emptied=emptied)
    if best and placed + best >= group.min_count:
        return None
    # As a trial says it that stops once too few are left.
    text = too_few(group, placed + best, max(group.min_count - 1 - placed - best, 0)) or wanting(group, placed + best)
    if not group.topology_key:
        return text
    return f"0/{len(domains)} placements are available, first placement status: {text}"


def _least(asked: Sequence[tuple[str, int]], pod: PodInfo) -> Sequence[tuple[str, int]]:
    """What the pod takes from a node where that is less than what must be free."""
    taken = pod.requests.amounts
    return tuple((resource, min(amount, taken.get(resource, 0))) for resource, amount in asked)


def _passing(plugin: Any, pod: PodInfo, table: NodeTable) -> Bools | None:
    """bool[nodes]: the nodes that pass a filter of scope NODE. None: all of them, as far as can be told."""
    if contract.verdict_key_of(plugin, pod) is None:
        return None
    state = CycleState()
    try:
        if isinstance(plugin, PreFilterPlugin):
            answer = contract.call(plugin, Point.PRE_FILTER, plugin.pre_filter, state, pod)
            status = None if answer is None else contract.pre_filter_answer(plugin, answer)
            if isinstance(status, Status):
                return np.zeros(table.size, np.bool_) if status.rejected else None
        answer = contract.call(plugin, Point.FILTER, plugin.filter_all, state, pod, table)
        result = contract.filter_result(plugin, answer, table.size)
    except PluginError:
        return None  # The plugin fails again when a member is tried, and is reported then.
    return None if result is None else result.ok
