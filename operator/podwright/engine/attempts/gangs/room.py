"""True if a waiting gang may have room. An event does not retry a gang for which even the bound of what fits is too
small.

Without this, each ending pod of a gang would retry every waiting gang, although there is room only after the last one.
Nothing is missed: a larger bound needs an event for which one of the plugins that made it too small has a hint, and
only a gang that waits for the events of all these plugins is left alone. Gangs that may preempt are always retried,
unless their victims are still terminating, it is a bound of their queue that leaves no room, or they gather room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.gangs.capacity_bounds import CapacityBounds, why_infeasible
from podwright.core.gangs.gang_preemption import may_preempt, waits_for_victims
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
    """The bounds of these members, valid until nodes change or, on crowded nodes, their nominations. `version`: of
    both.
    """

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

        def rejecting(pod: PodInfo) -> frozenset[str] | None:
            key = self._cache.groups.key_of(pod)
            if key not in answers:
                answers[key] = self._rejecting(pod)
            return answers[key]

        return rejecting

    def _rejecting(self, pod: PodInfo) -> frozenset[str] | None:
        """See RoomCheck."""
        groups, policy = self._cache.groups, self._policies.of(pod)
        group = groups.of(pod) if groups.is_member(pod) else None
        if group is None or not group.gang or policy is None or policy.refusal:
            return None
        members = groups.members(group.key)
        waiting, needed = members.unplaced(), groups.lacking(group)
        if needed <= 1 or len(waiting) < needed:
            return None  # members may be scheduled alone, or what is missing is not room
        nominated = any(each.nominated_node_name or self._cache.nominator.node_of(each.uid) for each in waiting)
        if nominated and not waits_for_victims(self._cache, group, waiting):
            return None
        if not nominated and queues_of(self._cache).bounds.together(waiting, needed, trying=True) is not None:
            return frozenset((QUEUE_QUOTA,))
        try:
            bounds = self._bounds(group.key, policy.framework, waiting)
            if queues_of(self._cache).turns.gathers_room(waiting[0]):
                # Its room becomes free pod by pod. What it may take from others is looked at without an event.
                crowded = self._bounds(group.key, policy.framework, waiting, crowded=True)
                if why_infeasible(group, self._cache, crowded) is None:
                    return None
                plugins = bounds.rejecting_plugins | crowded.rejecting_plugins
            else:
                if why_infeasible(group, self._cache, bounds) is None:
                    return None
                if not nominated and may_preempt(policy.framework, self._cache, group, waiting):
                    return None
                plugins = bounds.rejecting_plugins
        except PluginError:
            return None  # an attempt reports it
        return plugins | {TopologyPlacementGenerator.name} if group.near.required else plugins

    def _bounds(
        self, key: str, framework: Framework, pods: Sequence[PodInfo], *, crowded: bool = False
    ) -> CapacityBounds:
        version = self._cache.table.static_changes.seq, self._cache.nominator.changes if crowded else 0
        known = self._known.get((key, crowded))
        if known is None or (known.version, known.framework, known.pods) != (version, framework, pods):
            known = _Known(framework, pods, version, CapacityBounds(framework, self._cache, pods, crowded=crowded))
            self._known.put((key, crowded), known)
        return known.bounds
