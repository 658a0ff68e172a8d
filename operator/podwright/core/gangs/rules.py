"""What a pod group must fulfil before and while its members are placed, and how it is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.state.cache import Cache

DEFAULT_POLICY = "PreemptLowerPriority"


def disagreement(group: PodGroup, waiting: Sequence[PodInfo], placed: Iterable[PodInfo]) -> str:
    """Why the members cannot be planned together; empty if they can.

    They share scheduler name and preemption policy, and the group's priority, where it has one, else each other's.
    """
    if not waiting:
        return ""
    first = waiting[0]
    priority = first.priority if group.priority is None else group.priority
    policy = group.preemption_policy or first.preemption_policy
    whose = "the pod group's priority" if group.priority is not None else "one another"
    for pod in (*waiting, *placed):
        if pod.scheduler_name != first.scheduler_name:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{pod.scheduler_name}" and "{first.scheduler_name}"'
            )
        if pod.priority != priority:
            return (
                f"all pods in a single pod group should have the same priority as {whose}, "
                f"got {pod.priority} and {priority}"
            )
        if pod.preemption_policy != policy:
            return (
                "all pods in a single pod group should have the same preemption policy, "
                f"got {pod.preemption_policy} and {policy}"
            )
    return ""


def too_few(group: PodGroup, placed: int, remaining: int) -> str:
    """Why the group cannot be placed even if all remaining members are; empty if it may."""
    if placed + remaining >= group.min_count:
        return ""
    return f"minCount ({group.min_count}) cannot be satisfied: {placed} scheduled, {remaining} remaining"


def wanting(group: PodGroup, placed: int) -> str:
    """What is said when all members were tried."""
    if placed >= group.min_count:
        return ""
    return f"minCount ({group.min_count}) is not yet satisfied: {placed} scheduled, 0 remaining"


def shortage(group: PodGroup, cache: Cache) -> str:
    """Why the cluster has not what the group needs in all (`minResources`); empty if it has.

    What members that are placed already request counts as theirs.
    """
    if not group.min_resources:
        return ""
    taken: Counter[str] = Counter()
    for pod in cache.groups.members(group.key).placed.values():
        taken.update(dict(pod.requests.amounts))
    table = cache.table
    valid = table.valid
    lacking = []
    for resource, needed in group.min_resources.items():
        free = np.maximum(table.allocatable(resource) - table.requested(resource), 0)[valid].sum()
        if int(free) + taken[resource] < needed:
            lacking.append(resource)
    if not lacking:
        return ""
    return f"minResources of the pod group are not free in the cluster: {', '.join(sorted(lacking))}"
