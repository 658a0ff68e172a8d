"""A pod group as preemptor: as a whole or not at all. `preempt` is the way in.

    eligible? ─► room for it without units of lower priority? ─► these leave the cache ─► the group is planned once ─► units come
    back one by one, most important first, those under a budget before all; a unit beside which the group no longer fits is a
    victim ─► all restored

Everything happens on the cache itself, in memory, and is taken back before `preempt` returns. Only pods that can matter are
touched: see `candidates`. Next: `reprieve`. Source of the rules: kube-scheduler 1.37's preemption by pod groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import PodGroupPostFilterPlugin
from podwright.core.framework.status import Code, Status, unresolvable, unschedulable
from podwright.core.gangs.candidates import Candidates, any_below
from podwright.core.gangs.decisions import GangDecision, GangFault, GangPlacement, GangPreemption
from podwright.core.gangs.outlook import Outlook, hopeless
from podwright.core.gangs.reprieve import Aside, Reprieve
from podwright.core.gangs.rules import shortage
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.plugins.default_preemption import NEVER
from podwright.core.preemption.units import Unit, importance, priority_of
from podwright.core.state.cache import Cache

NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
NOT_FOR_A_SUM: Final = "nobody is evicted for minResources"
ONGOING: Final = "ongoing preemption on nominated nodes"
ATTEMPTS: Final = (False, True)
"""How thorough units are looked at: quickly, and, where a filter turns out to look farther than it seemed, one by one."""
_PREFIX: Final = "pod group preemption: "


def preempt(
    framework: Framework,
    cache: Cache,
    group: PodGroup,
    pods: Sequence[PodInfo],
    replan: Callable[[], GangDecision],
    now: float,
) -> GangPreemption | GangPlacement | Status:
    """Who must go for the group's waiting `pods` to fit, or why nobody can help. Leaves the cache as it was.

    A placement: nobody need go after all, because the group was planned otherwise than before. `replan` plans the group on the
    cache as it is when called. `now` in seconds since the epoch. The texts are what the group's own message ends with. Without a PodGroupPostFilterPlugin at PostFilter a group preempts no pods: a Status without text.
    """
    plugins = (plugin for plugin in framework.post_filter_plugins if isinstance(plugin, PodGroupPostFilterPlugin))
    plugin = next(plugins, None)
    if plugin is None or not pods:
        return unschedulable()
    return plugin.pod_group_post_filter(lambda: _preempt(framework, cache, group, pods, replan, now))


def _preempt(
    framework: Framework,
    cache: Cache,
    group: PodGroup,
    pods: Sequence[PodInfo],
    replan: Callable[[], GangDecision],
    now: float,
) -> GangPreemption | GangPlacement | Status:
    if _never(group, pods):
        return unschedulable(_PREFIX + NEVER)
    priority = min(pod.priority for pod in pods) if group.priority is None else group.priority
    nominations = _nominations(cache, pods)
    if _is_ongoing(cache, set(nominations.values()), priority):
        return GangPreemption(nominations, (), _PREFIX + ONGOING)
    if not any_below(priority, cache):
        return unresolvable(_PREFIX + NO_VICTIMS)
    if shortage(group, cache):
        return unschedulable(_PREFIX + NOT_FOR_A_SUM)
    aside = Aside(cache)
    try:
        outlook = Outlook(framework, cache, pods)
        if (objection := hopeless(group, cache, outlook, emptied=True)) is not None:
            return unschedulable(_PREFIX + objection)
        candidates = Candidates(cache, priority, outlook)
        aside.take(candidates.pods)
        if (objection := hopeless(group, cache, outlook)) is not None:
            return unschedulable(_PREFIX + objection)
        decision = replan()
        if isinstance(decision, GangPlacement):
            return _select(framework, cache, decision, candidates, aside, now)
        if isinstance(decision, GangFault):
            return Status(Code.ERROR, (decision.message,), decision.plugin)
        return unschedulable(_PREFIX + decision.message)
    except PluginError as fault:
        return Status(Code.ERROR, (str(fault),), fault.plugin)
    finally:
        aside.restore()


def _select(
    framework: Framework, cache: Cache, found: GangPlacement, candidates: Candidates, aside: Aside, now: float
) -> GangPreemption | GangPlacement:
    for thorough in ATTEMPTS:
        with Reprieve(framework, cache, found.placements, aside, thorough=thorough) as reprieve:
            units = candidates.units(reprieve.concerned(candidates.pods))
            asked = {pod.uid for unit in units for pod in unit.pods}
            aside.put_back([pod for pod in candidates.pods if pod.uid not in asked])
            units.sort(key=importance(now))
            victims, violations = _without(candidates, units, reprieve)
            if reprieve.holds():
                break
        going = {pod.uid for unit in victims for pod in unit.pods}
        aside.take(pod for pod in candidates.pods if pod.uid not in going)
    if not victims:
        return found
    leaving = tuple(pod for unit in sorted(victims, key=importance(now)) for pod in unit.pods)
    return GangPreemption(
        nominations={placement.pod.uid: placement.node_name for placement in found.placements},
        victims=leaving,
        message=f"{_PREFIX}found a placement for podgroup, preempting {len(leaving)} victims",
        disrupted=tuple(unit.whole for unit in victims if unit.whole is not None),
        violations=violations,
    )


def _without(candidates: Candidates, units: Sequence[Unit], reprieve: Reprieve) -> tuple[dict[Unit, None], int]:
    """The units that must go, and how many of their pods overdraw a budget. The others are back on the cache."""
    victims: dict[Unit, None] = {}
    violations = 0
    for unit, count in candidates.split(units):
        if not reprieve.spares(unit):
            victims[unit] = None
            violations += count
    return victims, violations


def _never(group: PodGroup, pods: Sequence[PodInfo]) -> bool:
    if group.preemption_policy is not None:
        return group.preemption_policy == "Never"
    return any(pod.preemption_policy == "Never" for pod in pods)


def _nominations(cache: Cache, pods: Sequence[PodInfo]) -> dict[str, str]:
    """Where members were promised a place, by uid. Our own promise may not have come back from the API server yet."""
    promised = ((pod.uid, cache.nominator.node_of(pod.uid) or pod.nominated_node_name) for pod in pods)
    return {uid: name for uid, name in promised if name}


def _is_ongoing(cache: Cache, nodes: set[str], priority: int) -> bool:
    """Victims of lower priority are still going on a node that a member waits for."""
    infos = (info for name in nodes if (info := cache.present(name)) is not None)
    return any(
        pod.terminating and pod.preempted and priority_of(pod, cache.groups) < priority
        for info in infos
        for pod in info.pods.values()
    )
