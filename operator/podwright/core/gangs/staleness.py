"""Stale gangs: those that run on without their minimum. What is left of one may be evicted after a time.

Source: KAI's `pkg/scheduler/actions/stalegangeviction` and `IsStale` in `pkg/scheduler/api/podgroup_info/job_info.go`
at v0.17.0-9-gd5bc503a. As there, pods that terminate count until they are gone, and a gang ends once one of its pods
has succeeded. Unlike there, parts of a group of which its minimum needs none may lack pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import inf

from podwright.core.gangs.gang_preemption import waits_for_victims
from podwright.core.objects.pod_group import PodGroup
from podwright.core.state.cache import Cache


def stale_gangs(cache: Cache, ended: Collection[str]) -> Iterator[PodGroup]:
    """The stale gangs that are not to stay so for ever. `ended`: the keys of those of which a pod has succeeded."""
    for group in cache.groups.partially_placed:
        members = cache.groups.members(group.key)
        if group.stale_after == inf or group.key in ended or members.ending or members.assumed:
            continue
        waiting = members.unplaced()
        if not waiting or not waits_for_victims(cache, group, waiting):
            yield group
