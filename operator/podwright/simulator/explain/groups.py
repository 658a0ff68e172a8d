"""Explains a pod group: how many members exist, how many fit together, and what the group lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from podwright.core.cycle import Rejection
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangFault, GangPlacement, GangRejection
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.objects.wording import counted
from podwright.core.plugins.gang_scheduling import TOO_FEW, GangScheduling
from podwright.core.queues.queues import QUEUE_QUOTA
from podwright.core.state.cache import Cache
from podwright.core.state.levels import EXISTING
from podwright.simulator.explain.changes.groups import GroupChanges, planner_for
from podwright.simulator.explain.changes.trials import Trials
from podwright.simulator.explain.events import events_for
from podwright.simulator.explain.held_room import held_room
from podwright.simulator.explain.results import Cause, Explanation, PodState, PreemptionFound, Rejected, victims_of
from podwright.simulator.loaded import LoadedCluster


def explain_member(
    cluster: LoadedCluster, framework: Framework, pod: PodInfo, found: Explanation, trials: Trials | None
) -> Explanation:
    """Why a waiting member of a group waits. `found`: what is already known. `trials`: tries changes; None: no changes
    are searched for. Raises PluginError.
    """
    cache = cluster.cache
    group = cache.groups.of(pod)
    if group is None:
        why = cache.groups.awaited.get(pod.group)
        name = pod.group.rpartition("/")[2]
        cause = Cause(
            reason="GroupMissing" if why is None else "OwnerUnknown",
            text=f"its PodGroup {pod.namespace}/{name} does not exist"
            if why is None
            else f"its group is not known: {why}",
            plugin=GangScheduling.name,
        )
        return replace(
            found, state=PodState.GATED, causes=(cause,), events=events_for(framework, (GangScheduling.name,))
        )
    if group.gang and not cache.groups.has_minimum(group):
        return _too_few(cluster, framework, group, pod, found, trials)
    return _decided(cluster, framework, group, pod, found, trials)


def _too_few(
    cluster: LoadedCluster,
    framework: Framework,
    group: PodGroup,
    pod: PodInfo,
    found: Explanation,
    trials: Trials | None,
) -> Explanation:
    members = cluster.cache.groups.members(group.key)
    lacking = cluster.cache.groups.lacking(group, EXISTING)
    has = f"has {members.total} of {counted(group.min_count, 'member')}"
    if members.levels is not None:
        has = f"is incomplete: {members.levels.root.why_unmet(EXISTING)}"
    text = f"its group {group.title} {has}: {lacking} more {'is' if lacking == 1 else 'are'} needed before any is tried"
    changes = trials.in_time(GroupChanges(trials, framework, group, pod).for_too_few(lacking)) if trials else ()
    return replace(
        found,
        state=PodState.GATED,
        causes=(Cause(reason="GangTooSmall", text=text, plugin=GangScheduling.name),),
        message=TOO_FEW,
        events=events_for(framework, (GangScheduling.name,)),
        changes=tuple(changes),
    )


def _decided(
    cluster: LoadedCluster,
    framework: Framework,
    group: PodGroup,
    pod: PodInfo,
    found: Explanation,
    trials: Trials | None,
) -> Explanation:
    cache = cluster.cache
    waiting = [each for each in cache.groups.members(group.key).unplaced() if not each.gates]
    decision = decide(planner_for(framework, cache, group), waiting, cluster.world.now())
    if isinstance(decision, GangPlacement):
        return _fits(decision, pod, found)
    if isinstance(decision, GangFault):
        return replace(found, causes=(Cause(reason="GroupFault", text=decision.message),), message=decision.message)
    attempts = [each for each in decision.attempts.values() if isinstance(each, Rejection)]
    fitting = len(decision.attempts) - len(attempts)
    groups = tuple(_rejected(attempts[0])) if attempts else ()
    own = decision.attempts.get(pod.uid)
    held = held_room(cluster, partial(_nodes_of, planner_for(framework, cache, group), waiting))
    changes = trials.in_time(GroupChanges(trials, framework, group, pod).for_rejected(decision)) if trials else ()
    return replace(
        found,
        causes=(*((held,) if held else ()), _no_room(cluster.cache, group, fitting, groups, decision)),
        message=own.message if isinstance(own, Rejection) else decision.message,
        rejections=groups,
        preemption=_preemption(decision),
        events=events_for(framework, decision.plugins),
        changes=tuple(changes),
    )


def _nodes_of(planner: GangPlanner, members: Sequence[PodInfo]) -> Collection[str]:
    """The nodes that the members would get."""
    decision = planner.plan(members)
    return {each.node_name for each in decision.placements} if isinstance(decision, GangPlacement) else ()


def _fits(decision: GangPlacement, pod: PodInfo, found: Explanation) -> Explanation:
    own = next((each for each in decision.placements if each.pod.uid == pod.uid), None)
    if own is None:
        text = (
            f"its group gets {counted(len(decision.placements), 'node')}, but there is no room for this member beside "
            "the others"
        )
        return replace(found, causes=(Cause(reason="NoRoomBesideGroup", text=text),))
    text = f"its group fits now: {counted(len(decision.placements), 'member')} get a node, this one {own.node_name}"
    return replace(found, state=PodState.FITS, feasible=own.feasible, causes=(Cause(reason="FitsNow", text=text),))


def _rejected(rejection: Rejection) -> Iterator[Rejected]:
    """Why a member fits nowhere beside those before it, by plugin and reason."""
    for plugin, reasons in rejection.diagnosis.reasons_by_plugin().items():
        for reason, nodes in reasons.most_common():
            yield Rejected(plugin=plugin, reason=reason, nodes=nodes, only=nodes, examples=(), resolvable=True)


def _no_room(cache: Cache, group: PodGroup, fitting: int, groups: Sequence[Rejected], decision: GangRejection) -> Cause:
    # The minimum of a composite group is a number of groups.
    least = cache.groups.lacking(group) if group.composite else group.min_count
    if QUEUE_QUOTA in decision.plugins and not groups:
        name, first = (
            group.title,
            next((each for each in decision.attempts.values() if isinstance(each, Rejection)), None),
        )
        status = None if first is None else first.diagnosis.pre_filter
        beside = f" (beside {counted(fitting, 'member')})" if fitting else ""
        words = _own_words(decision) if status is None else f"{status.message}{beside}"
        text = f"its group {name} of {counted(least, 'member')} is kept waiting by a queue: {words}"
        return Cause(reason="QueueLimit", text=text, plugin=QUEUE_QUOTA)
    why = ", ".join(f"{each.reason} on {counted(each.nodes, 'node')}" for each in groups[:2])
    need = counted(least, "member")
    if group.near.required:
        labels, detail = " and ".join(group.near.required), _own_words(decision).partition("; ")[2]
        text = (
            f"no domain of {labels} has room for {need} of its group {group.title} at once{detail and f' ({detail})'}"
        )
        return Cause(reason="GangDomainTooSmall", text=f"{text}{f'; for the next one: {why}' if why else ''}")
    if not decision.attempts:
        return Cause(reason="GangNoRoom", text=f"its group {group.title} is not placed: {decision.message}")
    placed = cache.groups.placed(group.key)
    if placed:
        are = "1 member is" if placed == 1 else f"{placed:,} members are"
        need = f"{cache.groups.lacking(group):,} more"
        text = (
            f"of its group {group.title}, {are} placed already; it needs room for {need} at once, and only {fitting} "
            "fit"
        )
    else:
        text = f"its group {group.title} needs room for {need} at once, and only {fitting} fit"
    return Cause(reason="GangNoRoom", text=f"{text}{f'; for the next one: {why}' if why else ''}")


def _own_words(decision: GangRejection) -> str:
    """The message without what preemption says."""
    return decision.message.partition(", preemption: ")[0].partition(", pod group preemption")[0]


def _preemption(decision: GangRejection) -> PreemptionFound | None:
    found = decision.preemption
    if found is None:
        return None
    node = next(iter(found.nominations.values()), "")
    return PreemptionFound(
        message=found.message, node=node, victims=victims_of(found.victims), violations=found.violations
    )
