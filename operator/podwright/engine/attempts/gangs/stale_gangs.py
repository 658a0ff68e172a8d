"""Evicts what is left of gangs that have run without their minimum for as long as they may (`core.gangs.staleness`)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from podwright.core.gangs.staleness import stale_gangs
from podwright.core.objects.durations import format_duration
from podwright.core.objects.pod_group import PodGroup
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.ports import EvictionEvent, Ports, Regarding
from podwright.engine.state import EngineState

AT_ONCE: Final = 64
"""How many evictions begin in one step."""


class StaleGangs:
    """See the module."""

    def __init__(self, state: EngineState, ports: Ports, *, policies: ActivePolicies, assigned: AssignedPods) -> None:
        self._cache = state.cache
        self._clock = state.clock
        self._recorder = ports.recorder
        self._evictor = ports.evictor
        self._policies = policies
        self._assigned = assigned
        self._since: dict[str, float] = {}
        """Since when gangs are stale, by key; of one whose pods were to be evicted, since then."""

    async def evict(self) -> None:
        """Checks all gangs, except other schedulers' gangs."""
        now = self._clock()
        stale = {group.key: group for group in stale_gangs(self._cache, self._assigned.groups_with_successes)}
        self._since = {key: self._since.get(key, now) for key in stale}
        for key, group in stale.items():
            if self._since[key] + group.stale_after <= now:
                self._since[key] = now
                await self._evict(group)

    async def _evict(self, group: PodGroup) -> None:
        pods = [*self._cache.groups.members(group.key).staying.values()]
        if not pods or not all(self._policies.serves(pod.scheduler_name) for pod in pods):
            return
        regarding = Regarding.group(group, pods[0].scheduler_name)
        progress = self._cache.groups.progress(group)
        note = f"{progress}; after {format_duration(group.stale_after)} without the minimum, what is left is evicted"
        self._recorder.record(regarding, "Warning", "StalePodGroup", "Evicting", note)
        event = EvictionEvent("Evicted", "Evicting", note)
        for count, pod in enumerate(pods, 1):
            self._assigned.eviction_started(pod.uid)
            ended = partial(self._ended, pod.uid)
            self._evictor.evict(pod, regarding, pod.node_name, ended, within_budgets=True, event=event)
            if count % AT_ONCE == 0:
                await asyncio.sleep(0)

    def _ended(self, uid: str, deleted: bool) -> None:
        self._assigned.eviction_ended(uid, deleted=deleted)
