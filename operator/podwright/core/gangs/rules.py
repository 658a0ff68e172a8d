"""The rules for a pod group before and while its members are placed, with the messages if they are violated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import VOLCANO_API, PodGroup
from podwright.core.objects.resources import PODS
from podwright.core.plugins.gang_scheduling import DEFAULT_ARGS, GangSchedulingArgs
from podwright.core.state.cache import Cache

_COUNTS: Final = re.compile(
    r": \d+ scheduled, \d+ remaining|; [^;]*: room for \d+ of \d+|, of which \d+ were tried [a-z ]+"
    r"|(?<!minCount) \(\d[^;)]*\)"
)

STARVED: Final = "; the solver got hardly any CPU"
"""Ends the text about a joint plan that another attempt may well find."""


def disagreement(
    group: PodGroup, waiting: Sequence[PodInfo], placed: Iterable[PodInfo], *, of_class: bool = False
) -> str:
    """Why the members cannot be planned together; empty if they can.

    All must have the same scheduler name, priority and preemption policy. A group's own priority and policy count where
    it has them. `of_class`: all have the priority of the group's PriorityClass, or are about to get it.
    """
    if not waiting:
        return ""
    first = waiting[0]
    priority = first.own_priority if group.priority is None else group.priority
    policy = group.preemption_policy or first.preemption_policy
    whose = "the pod group's priority" if group.priority is not None else "one another"
    for pod in (*waiting, *placed):
        if pod.scheduler_name != first.scheduler_name:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{pod.scheduler_name}" and "{first.scheduler_name}"'
            )
        if not of_class and pod.own_priority != priority:
            return (
                f"all pods in a single pod group should have the same priority as {whose}, "
                f"got {pod.own_priority} and {priority}"
            )
        if pod.preemption_policy != policy:
            return (
                "all pods in a single pod group should have the same preemption policy, "
                f"got {pod.preemption_policy} and {policy}"
            )
    return ""


def minimum_out_of_reach(minimum: int, placed: int, remaining: int) -> str:
    """Why so many members cannot be placed even if all remaining ones are; empty if they may. Also of parts of a
    group.
    """
    if placed + remaining >= minimum:
        return ""
    return f"minCount ({minimum}) cannot be satisfied: {placed} scheduled, {remaining} remaining"


def minimum_not_reached(minimum: int, placed: int) -> str:
    """Why the minimum is not reached after all members were tried; empty if it is."""
    if placed >= minimum:
        return ""
    return f"minCount ({minimum}) is not yet satisfied: {placed} scheduled, 0 remaining"


def without_counts(message: str) -> str:
    """The message without numbers of members, the domain with the most room, and amounts of queues in brackets, which
    differ from attempt to attempt.
    """
    return _COUNTS.sub("", message)


def shortage(group: PodGroup, cache: Cache, args: GangSchedulingArgs = DEFAULT_ARGS) -> str:
    """Why the cluster has too few free resources for the group's `minResources`, or why these cannot be read; empty if
    it has enough, or need not.

    For a group of Volcano, they count until its minimum is placed, as Volcano's action enqueue compares them once.

    What placed members request counts towards `minResources`. What pods of others request that are nominated to nodes
    does not: they wait for victims that were evicted for them.
    """
    of_volcano = group.api == VOLCANO_API
    ignored = (args.min_resources or ("Ignored" if of_volcano else "Required")) == "Ignored"
    wanted = group.min_resources or group.resources_problem
    if not wanted or ignored or (of_volcano and not cache.groups.lacking(group)):
        return ""
    if group.resources_problem:
        return f"minResources of the pod group cannot be read: {group.resources_problem}"
    members = cache.groups.members(group.key)
    priority = group.priority
    if priority is None:
        priority = min((pod.priority for pod in members.waiting.values()), default=0)
    taken: Counter[str] = Counter()
    for pod in members.placed.values():
        taken.update({**pod.requests.amounts, PODS: 1})
    nominator = cache.nominator
    nominated = [pod for node_name in nominator.nodes() for pod in nominator.on(node_name)]
    if nominated and members.waiting:
        queue, _, usable = nominator.rank(next(iter(members.waiting.values())))
        nominated = nominator.before_rank((queue, priority, usable), nominated)
    for pod in nominated:
        if cache.groups.key_of(pod) != group.key:
            taken.subtract({**pod.requests.amounts, PODS: 1})
    table = cache.table
    valid = table.valid
    lacking = []
    for resource, needed in group.min_resources.items():
        requested = table.pods if resource == PODS else table.requested(resource)
        free = np.maximum(table.allocatable(resource) - requested, 0)[valid].sum()
        if int(free) + taken[resource] < needed:
            lacking.append(resource)
    if not lacking:
        return ""
    return f"minResources of the pod group are not free in the cluster: {', '.join(sorted(lacking))}"
