"""Units of preemption: the pods that go, or stay, together.

A pod is a unit of its own, unless its PodGroup has disruption mode `all`: then all members that have a place are one
unit, on whatever nodes. A group of the Workload API gives its pods its priority. Where no pod names a group that counts,
every unit is one pod with its own priority. Source of the rules: kube-scheduler 1.37's behaviour with pod groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import WORKLOAD_API, PodGroup
from podwright.core.preemption.budgets import Budgets
from podwright.core.state.cache import Cache
from podwright.core.state.pod_groups import PodGroups


@dataclass(slots=True, eq=False)
class Unit:
    """Pods that go together; never changed. `grouped`: they belong to a group of the Workload API, which makes them more important."""

    pods: tuple[PodInfo, ...]
    priority: int
    grouped: bool = False
    whole: PodGroup | None = None
    """The group that goes as a whole; None for a pod that goes alone."""


def priority_of(pod: PodInfo, groups: PodGroups) -> int:
    """What counts when somebody wants the pod's place: its group's priority, where that has one, else its own."""
    if not pod.group or not groups.is_member(pod):
        return pod.priority
    group = groups.of(pod)
    return pod.priority if group is None or group.priority is None else group.priority


def units_below(priority: int, pods: Iterable[PodInfo], cache: Cache) -> list[Unit]:
    """The units of lower priority to which these placed pods belong, in the order in which they are met."""
    units: list[Unit] = []
    met: set[str] = set()
    groups = cache.groups
    for pod in pods:
        if not pod.group or not groups.is_member(pod):
            if pod.priority < priority:
                units.append(Unit((pod,), pod.priority))
            continue
        group = groups.of(pod)
        if group is not None and group.all_or_none:
            if group.key in met:
                continue
            met.add(group.key)
            unit = _whole(group, pod, cache)
        else:
            unit = Unit((pod,), priority_of(pod, groups), _ranks(pod))
        if unit.priority < priority:
            units.append(unit)
    return units


def _whole(group: PodGroup, met: PodInfo, cache: Cache) -> Unit:
    # The group's members may be older versions than the cache's: who started since then is known there only.
    uids = cache.groups.members(group.key).placed
    pods = tuple(info.pods[uid] for uid in uids if (info := cache.placement(uid)) is not None) or (met,)
    priority = max(pod.priority for pod in pods) if group.priority is None else group.priority
    return Unit(pods, priority, _ranks(met), group)


def _ranks(pod: PodInfo) -> bool:
    return pod.group.startswith(WORKLOAD_API + ":")


def importance(now: float) -> Callable[[Unit], tuple[int, bool, int, float]]:
    """A sort key: most important first. `now` in seconds, for pods that have not started.

    Greatest priority, then pods of groups before others, then more pods, then the earliest start of any of them.
    """

    def key(unit: Unit) -> tuple[int, bool, int, float]:
        pods = unit.pods
        started = (
            pods[0].start_time if len(pods) == 1 else min(now if p.start_time is None else p.start_time for p in pods)
        )
        return -unit.priority, not unit.grouped, -len(pods), now if started is None else started

    return key


def split_by_budget(
    units: Sequence[Unit], budgets: Iterable[Mapping[str, Any]]
) -> tuple[list[tuple[Unit, int]], list[Unit]]:
    """(violating, others), both in the order given: evicting them in that order overdraws a budget or does not.

    A unit violates if any of its pods does; with it comes how many do.
    """
    left = Budgets(budgets)
    if not left:
        return [], list(units)
    violating: list[tuple[Unit, int]] = []
    others: list[Unit] = []
    for unit in units:
        violations = left.violations(unit.pods)
        if violations:
            violating.append((unit, violations))
        else:
            others.append(unit)
    return violating, others


def disruptions(victims: Iterable[PodInfo], groups: PodGroups) -> tuple[tuple[PodGroup, ...], int]:
    """The groups that go as a whole with these victims, and how many units of groups go in all."""
    whole: dict[str, PodGroup] = {}
    single = 0
    for victim in victims:
        if not victim.group or not groups.is_member(victim):
            continue
        group = groups.of(victim)
        if group is not None and group.all_or_none:
            whole[group.key] = group
        else:
            single += _ranks(victim)
    return tuple(whole.values()), len(whole) + single
