"""True if a waiting gang may have room. An event does not retry a gang for which even the bound of what fits is too
small.

Without this, each ending pod of a gang would retry every waiting gang, although there is room only after the last one.
Nothing is missed: a larger bound needs an event for which one of the plugins that made it too small has a hint, and
only a gang that waits for the events of all these plugins is left alone. Gangs that may preempt are always retried,
unless their victims are still terminating, it is a bound of their queue that leaves no room, or they gather room.

Room that reservations hold for others counts as taken, because its end is an event. How many members find room is the
same for gangs of one kind, so an event counts it once for them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf
from typing import Final

from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.gangs.capacity_bounds import CapacityBounds, why_infeasible
from podwright.core.gangs.gang_preemption import (
    finds_nobody,
    may_preempt,
    never_preempts,
    priority_of,
    waits_for_victims,
)
from podwright.core.objects.compaction import RecentCache
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.topology_placement_generator import TopologyPlacementGenerator
from podwright.core.queue import RoomCheck
from podwright.core.queues.queues import QUEUE_QUOTA, queues_of
from podwright.core.state.cache import Cache
from podwright.engine.policies.active_policies import ActivePolicies

REMEMBERED: Final = 256
"""For how many gangs the bounds are remembered."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The bounds of these members, valid until nodes change or, where they count, nominations. `version`: of both."""

    framework: Framework
    pods: Sequence[PodInfo]
    version: tuple[int, int]
    bounds: CapacityBounds


class GangRoom:
    """See the module."""

    def __init__(self, cache: Cache, policies: ActivePolicies) -> None:
        self._cache = cache
        self._policies = policies
        self._known: RecentCache[tuple[str, bool], _Known] = RecentCache(REMEMBERED)
        """By group, and whether they are crowded."""

    def check(self) -> RoomCheck:
        """A check against the current state, to be called once for each group. It is valid until the cache changes."""
        answers: dict[str, frozenset[str] | None] = {}
        kinds: dict[Hashable, tuple[float, frozenset[str]]] = {}

        def rejecting(pod: PodInfo) -> frozenset[str] | None:
            key = self._cache.groups.key_of(pod)
            if key not in answers:
                answers[key] = self._rejecting(pod, kinds)
            return answers[key]

        return rejecting

    def _rejecting(self, pod: PodInfo, kinds: dict[Hashable, tuple[float, frozenset[str]]]) -> frozenset[str] | None:
        """See RoomCheck. `kinds`: for how many members there is room, by kind, and what leaves no more. Infinite for
        those that might preempt.
        """
        cache, policy = self._cache, self._policies.of(pod)
        group = cache.groups.of(pod) if cache.groups.is_member(pod) else None
        if group is None or not group.gang or policy is None or policy.refusal:
            return None
        waiting, needed = cache.groups.members(group.key).unplaced(), cache.groups.lacking(group)
        if not needed or len(waiting) < needed or needed == 1 < len(waiting):
            return None  # members may be scheduled alone, or what is missing is not room
        nominated = any(each.nominated_node_name or cache.nominator.node_of(each.uid) for each in waiting)
        if nominated and not waits_for_victims(cache, group, waiting):
            return None
        queues, framework = queues_of(cache), policy.framework
        if not nominated and queues.bounds.together(waiting, needed, trying=True) is not None:
            return frozenset((QUEUE_QUOTA,))
        # Of a gang that gathers room, it becomes free pod by pod. What it may take from others is looked at without an
        # event.
        gathers = not nominated and queues.turns.gathers_room(waiting[0])
        try:
            bounds = self._bounds(group.key, framework, waiting, crowded=gathers, held=len(cache.reservations) > 0)
            if bounds.kind is not None and not (nominated or gathers or group.near.required):
                queue = queues.set_of(waiting[0]) if queues.active else ""
                who = queue, priority_of(group, waiting), never_preempts(group, waiting)
                kind = framework, bounds.kind, who
                if kind not in kinds:
                    nobody = finds_nobody(framework, cache, group, waiting)
                    kinds[kind] = int(bounds.per_node().sum()) if nobody else inf, bounds.rejecting_plugins
                most, plugins = kinds[kind]
                if needed > most:
                    return plugins
            if why_infeasible(group, cache, bounds) is None:
                return None
            if not (nominated or gathers) and may_preempt(framework, cache, group, waiting):
                return None
        except PluginError:
            return None  # an attempt reports it
        plugins = bounds.rejecting_plugins
        return plugins | {TopologyPlacementGenerator.name} if group.near.required else plugins

    def _bounds(
        self, key: str, framework: Framework, pods: Sequence[PodInfo], *, crowded: bool, held: bool
    ) -> CapacityBounds:
        version = self._cache.table.static_changes.seq, self._cache.nominator.changes if crowded or held else 0
        known = self._known.get((key, crowded))
        if known is None or (known.version, known.framework, known.pods) != (version, framework, pods):
            bounds = CapacityBounds(framework, self._cache, pods, crowded=crowded, held=held)
            known = _Known(framework, pods, version, bounds)
            self._known.put((key, crowded), known)
        return known.bounds
