"""Units of preemption: pods that are evicted together or not at all.

A pod is a unit of its own, unless its group is evicted as a whole (`PodGroups.evicted_with`): then its minimum is one
unit, on all its nodes, and what is more (`PodGroups.spares`) can be evicted alone. With the minimum, all are. A group
of the Workload API gives its pods its priority. Without pod groups, every unit is one pod with its own priority. Source
of the rules: kube-scheduler 1.37's behaviour with pod groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from math import inf
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import WORKLOAD_API, PodGroup
from podwright.core.preemption.budgets import BudgetRules, Budgets
from podwright.core.queues.queues import queues_of
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.pod_groups import PodGroups

ABOVE_ALL: Final = 1 << 31
"""Above all priorities that a pod may have."""


@dataclass(slots=True, eq=False)
class Unit:
    """Never changed. `grouped`: the pods belong to a group of the Workload API, which makes them more important."""

    pods: tuple[PodInfo, ...]
    priority: int
    grouped: bool = False
    whole: PodGroup | None = None
    """The group that is evicted as a whole; None for a pod that is evicted alone."""
    spares: tuple[PodInfo, ...] = ()
    """The members of that group that can be evicted without the unit, but not stay without it."""


def priority_of(pod: PodInfo, groups: PodGroups) -> int:
    """The priority that counts in preemption: the group's if it has one, else the pod's; ABOVE_ALL for pods that are
    never evicted.
    """
    if not pod.group or not groups.is_member(pod):
        return pod.priority
    group = groups.of(pod)
    if group is not None and group.firm:
        return ABOVE_ALL
    return pod.priority if group is None or group.priority is None else group.priority


def victims_are_going(pod: PodInfo, priority: int, node: NodeInfo, cache: Cache) -> bool:
    """True if victims that the pod, or its group of this priority, may have are still terminating on the node, so that
    it does not preempt again. For a pod of a queue, pods without a queue count as gone, too, once they terminate.
    """
    queues = queues_of(cache)
    queued = queues.active and bool(queues.queue_of(pod))
    return any(
        other.preempted
        and other.terminating
        and (may_evict(pod, priority, other, cache) or (queued and not queues.queue_of(other)))
        for other in node.pods.values()
    )


def may_evict(pod: PodInfo, priority: int, other: PodInfo, cache: Cache) -> bool:
    """True if the pod, or its group of this priority, may have the other pod evicted in some state of its queues."""
    queues = queues_of(cache)
    if queues.active and (queue := queues.queue_of(pod)):
        other_queue = queues.queue_of(other)
        if other_queue != queue:
            return bool(other_queue)
        if queues.max_runtime(queue) < inf:
            return True
    return priority_of(other, cache.groups) < priority


def units_below(priority: int, pods: Iterable[PodInfo], cache: Cache) -> list[Unit]:
    """The units of lower priority to which these placed pods belong, in the order of the pods."""
    units: list[Unit] = []
    seen: set[str] = set()
    groups, deadline = cache.groups, cache.deadline
    for pod in pods:
        deadline.point()
        if not pod.group or not groups.is_member(pod):
            if pod.priority < priority:
                units.append(Unit((pod,), pod.priority))
            continue
        if (own := groups.of(pod)) is not None and own.firm:
            continue
        group = groups.evicted_with(pod)
        if group is not None:
            spares = groups.spares(group)
            if pod.uid in spares:
                unit = _spare(group, pod)
            elif group.key in seen:
                continue
            else:
                seen.add(group.key)
                unit = _whole(group, pod, cache, spares)
        else:
            unit = Unit((pod,), priority_of(pod, groups), _is_in_workload_api(pod))
        if unit.priority < priority:
            units.append(unit)
    return units


def _spare(group: PodGroup, pod: PodInfo) -> Unit:
    priority = pod.priority if group.priority is None else group.priority
    return Unit((pod,), priority, _is_in_workload_api(pod))


def complete(units: Iterable[Unit]) -> tuple[PodInfo, ...]:
    """The pods of these victims. With the minimum of a gang, all of its members are victims."""
    found: dict[str, PodInfo] = {}
    for unit in units:
        found.update((pod.uid, pod) for pod in (*unit.pods, *unit.spares))
    return tuple(found.values())


def _whole(group: PodGroup, pod: PodInfo, cache: Cache, spares: AbstractSet[str]) -> Unit:
    # The group may hold an older version of a pod than its NodeInfo does, one without its start time.
    uids = cache.groups.placed_in(group)
    members = [info.pods[uid] for uid in uids if (info := cache.placement(uid)) is not None] or [pod]
    pods = tuple(each for each in members if each.uid not in spares)
    priority = max(pod.priority for pod in members) if group.priority is None else group.priority
    besides = tuple(each for each in members if each.uid in spares)
    return Unit(pods, priority, _is_in_workload_api(pod), group, besides)


def _is_in_workload_api(pod: PodInfo) -> bool:
    return pod.group.startswith(WORKLOAD_API + ":")


def importance(now: float) -> Callable[[Unit], tuple[int, bool, int, float]]:
    """A sort key that puts the most important unit first: by highest priority, then members of groups before other
    pods, then most pods, then earliest start of any pod. `now` in seconds: the start of pods that have not started.
    """

    def key(unit: Unit) -> tuple[int, bool, int, float]:
        pods = unit.pods
        started = (
            pods[0].start_time if len(pods) == 1 else min(now if p.start_time is None else p.start_time for p in pods)
        )
        return -unit.priority, not unit.grouped, -len(pods), now if started is None else started

    return key


def split_by_budget(units: Sequence[Unit], budgets: BudgetRules) -> tuple[list[tuple[Unit, int]], list[Unit]]:
    """(violating, others): whether evicting the units in this order violates a budget. Both lists keep the order.

    A unit violates a budget if any of its pods does. With each violating unit comes the number of such pods.
    """
    if not budgets:
        return [], list(units)
    remaining = Budgets(budgets)
    violating: list[tuple[Unit, int]] = []
    others: list[Unit] = []
    for unit in units:
        violations = remaining.violations(unit.pods)
        if violations:
            violating.append((unit, violations))
        else:
            others.append(unit)
    return violating, others


def disruptions(victims: Iterable[PodInfo], groups: PodGroups) -> tuple[tuple[PodGroup, ...], int]:
    """The groups that are evicted as a whole with these victims, and the number of all evicted units that belong to
    groups.
    """
    whole: dict[str, tuple[PodGroup, list[str]]] = {}
    single = 0
    for victim in victims:
        if not victim.group or not groups.is_member(victim):
            continue
        group = groups.evicted_with(victim)
        if group is not None:
            whole.setdefault(group.key, (group, []))[1].append(victim.uid)
        else:
            single += _is_in_workload_api(victim)
    left = [group.key for group, uids in whole.values() if not group.all_or_none and groups.minimum_left(group, uids)]
    single += sum(len(whole.pop(key)[1]) for key in left)
    return tuple(group for group, _ in whole.values()), len(whole) + single


def partial_losses(victims: Iterable[PodInfo], groups: PodGroups) -> Sequence[tuple[PodGroup, int]]:
    """The gangs that keep fewer members than their minimum without these victims, but are not evicted as a whole, and
    how many they lose.
    """
    lost: dict[str, list[str]] = {}
    for victim in victims:
        if victim.group and groups.is_member(victim):
            lost.setdefault(groups.key_of(victim), []).append(victim.uid)
    found = [(group, uids) for key, uids in lost.items() if (group := groups.get(key)) is not None and group.gang]
    return [
        (group, len(uids))
        for group, uids in found
        if not groups.minimum_left(group, uids) and not groups.evicted_whole(group)
    ]
