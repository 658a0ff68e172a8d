"""Explains a pod group: how many members exist, how many fit together, and what the group lacks."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from podwright.core.cycle import Rejection
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangDecision, GangFault, GangPlacement, GangRejection
from podwright.core.gangs.plan import Planner, decide
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.pod_group import APIS, PodGroup
from podwright.core.plugins.gang_scheduling import TOO_FEW, GangScheduling
from podwright.simulator.explain.amounts import counted
from podwright.simulator.explain.changes.node_edits import manifest, shapes
from podwright.simulator.explain.changes.patches import difference
from podwright.simulator.explain.changes.pod_edits import Place, lacking, with_less
from podwright.simulator.explain.changes.trials import Trials
from podwright.simulator.explain.events import events_for
from podwright.simulator.explain.results import (
    Cause,
    Change,
    Edit,
    Explanation,
    PreemptionFound,
    Rejected,
    State,
    Victim,
)
from podwright.simulator.explain.verdicts import verdicts_of
from podwright.simulator.loaded import LoadedCluster

_SHAPES: Final = 6
_FEWER: Final = 3
_PARTS: Final = 16
"""The steps in which smaller requests are tried."""
_KINDS: Final[Mapping[str, str]] = {api: kind for kind, api in APIS.items()}


def explain_member(
    cluster: LoadedCluster, framework: Framework, pod: PodInfo, found: Explanation, trials: Trials | None
) -> Explanation:
    """Why a waiting member of a group waits. `found`: what is known already. `trials`: None if nothing that would help is searched. Raises PluginError."""
    cache = cluster.cache
    group = cache.groups.of(pod)
    if group is None:
        name = pod.group.rpartition("/")[2]
        cause = Cause(
            reason="GroupMissing",
            text=f"its PodGroup {pod.namespace}/{name} does not exist",
            plugin=GangScheduling.name,
        )
        return replace(found, state=State.GATED, causes=(cause,), events=events_for(framework, (GangScheduling.name,)))
    members = cache.groups.members(group.key)
    if group.gang and members.total < group.min_count:
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
    total = cluster.cache.groups.members(group.key).total
    lacking = group.min_count - total
    text = (
        f"its group {group.label} has {total} of {counted(group.min_count, 'member')}:"
        f" {lacking} more {'is' if lacking == 1 else 'are'} needed before any is tried"
    )
    return replace(
        found,
        state=State.GATED,
        causes=(Cause(reason="GangTooSmall", text=text, plugin=GangScheduling.name),),
        message=TOO_FEW,
        events=events_for(framework, (GangScheduling.name,)),
        changes=tuple(trials.in_time(_for_too_few(trials, framework, group, pod, lacking))) if trials else (),
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
    waiting = cache.groups.members(group.key).unplaced()
    decision = decide(_planner(framework, cache, group), waiting, cluster.world.now())
    if isinstance(decision, GangPlacement):
        return _fits(decision, pod, found)
    if isinstance(decision, GangFault):
        return replace(found, causes=(Cause(reason="GroupFault", text=decision.message),), message=decision.message)
    attempts = [each for each in decision.attempts.values() if isinstance(each, Rejection)]
    placed = len(decision.attempts) - len(attempts) + cache.groups.placed(group.key)
    groups = tuple(_rejected(attempts[0])) if attempts else ()
    own = decision.attempts.get(pod.uid)
    return replace(
        found,
        causes=(_no_room(group, placed, groups, decision),),
        message=own.message if isinstance(own, Rejection) else decision.message,
        rejections=groups,
        preemption=_preemption(decision),
        events=events_for(framework, decision.plugins),
        changes=tuple(trials.in_time(_changes(trials, framework, group, pod, decision))) if trials else (),
    )


def _planner(framework: Framework, cache: Any, group: PodGroup) -> Planner:
    args = framework.profile.args.get(GangScheduling.name)
    pack_by = "" if args is None else args.topology_key
    return Planner(framework=framework, cache=cache, group=group, below=lambda _: 0, pack_by=pack_by)


def _fits(decision: GangPlacement, pod: PodInfo, found: Explanation) -> Explanation:
    own = next((each for each in decision.placements if each.pod.uid == pod.uid), None)
    if own is None:
        text = f"its group gets {counted(len(decision.placements), 'node')}, but there is no room for this member beside the others"
        return replace(found, causes=(Cause(reason="NoRoomBesideGroup", text=text),))
    text = f"its group fits now: {counted(len(decision.placements), 'member')} get a node, this one {own.node_name}"
    return replace(found, state=State.FITS, feasible=own.feasible, causes=(Cause(reason="FitsNow", text=text),))


def _rejected(rejection: Rejection) -> Iterator[Rejected]:
    """Why a member fits nowhere beside those before it, by plugin and reason."""
    for plugin, reasons in rejection.diagnosis.reasons_by_plugin().items():
        for reason, nodes in reasons.most_common():
            yield Rejected(plugin=plugin, reason=reason, nodes=nodes, only=nodes, examples=(), resolvable=True)


def _no_room(group: PodGroup, placed: int, groups: Sequence[Rejected], decision: GangRejection) -> Cause:
    why = ", ".join(f"{each.reason} on {counted(each.nodes, 'node')}" for each in groups[:2])
    need = counted(group.min_count, "member")
    if group.topology_key:
        text = f"no domain of {group.topology_key} has room for {need} of its group {group.label} at once"
        return Cause(reason="GangDomainTooSmall", text=f"{text}{f'; for the next one: {why}' if why else ''}")
    if not decision.attempts:
        return Cause(reason="GangNoRoom", text=f"its group {group.label} is not placed: {decision.message}")
    text = f"its group {group.label} needs room for {need} at once, and only {placed} fit"
    return Cause(reason="GangNoRoom", text=f"{text}{f'; for the next one: {why}' if why else ''}")


def _preemption(decision: GangRejection) -> PreemptionFound | None:
    found = decision.preemption
    if found is None:
        return None
    victims = tuple(Victim(pod=victim.key, priority=victim.priority) for victim in found.victims)
    node = next(iter(found.nominations.values()), "")
    return PreemptionFound(message=found.message, node=node, victims=victims, violations=found.violations)


# What would help


def _plan(trials: Trials, framework: Framework, key: str, waiting: Sequence[PodInfo]) -> GangDecision | None:
    """The decision about these members now."""
    trials.begin()
    group = trials.cache.groups.get(key)
    return None if group is None else _planner(framework, trials.cache, group).plan(waiting)


def _node_of(decision: GangDecision | None, pod: PodInfo) -> str:
    """The node that the decision gives to this member."""
    if not isinstance(decision, GangPlacement):
        return ""
    return next((each.node_name for each in decision.placements if each.pod.uid == pod.uid), "")


def _for_too_few(trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo, lacking: int) -> Iterator[Change]:
    members = [replace(pod, name=f"{pod.name}-{i}", uid=f"{pod.uid}/{i}") for i in range(lacking)]
    for member in members:
        trials.cache.groups.add_waiting(member)
    try:
        waiting = trials.cache.groups.members(group.key).unplaced()
        node = _node_of(_plan(trials, framework, group.key, waiting), pod)
    finally:
        for member in members:
            trials.cache.groups.remove_waiting(member.uid)
    if node and pod.raw is not None:
        edits = tuple(
            Edit(verb="create", kind="Pod", name=m.name, namespace=m.namespace, object=_copy(pod.raw, m.name))
            for m in members
        )
        yield Change(
            of="cluster",
            text=f"{lacking} more {'member' if lacking == 1 else 'members'} like this pod",
            node=node,
            edits=edits,
        )
    yield from _smaller(trials, framework, group, pod)


def _copy(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    metadata = {key: raw["metadata"][key] for key in ("namespace", "labels") if key in raw["metadata"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "name": name},
        "spec": copy.deepcopy(raw["spec"]),
    }


def _changes(
    trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo, decision: GangRejection
) -> Iterator[Change]:
    yield from _less(trials, framework, group, pod, decision)
    yield from _smaller(trials, framework, group, pod)
    yield from _one_more_node(trials, framework, group, pod)


def _one_more_node(trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo) -> Iterator[Change]:
    waiting = trials.cache.groups.members(group.key).unplaced()
    nodes = (info.present for info in list(trials.cache.nodes.values()) if info.node is not None)
    for node in [*shapes(nodes, _SHAPES)]:
        with trials.one_more_node(node.name) as added:
            placed = _node_of(_plan(trials, framework, group.key, waiting), pod)
        if placed:
            edit = Edit(verb="create", kind="Node", name=added.name, object=manifest(added))
            yield Change(of="cluster", text=f"one more node like {node.name}", node=placed, edits=(edit,))
            return


def _smaller(trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo) -> Iterator[Change]:
    """A smaller minimum."""
    for fewer in range(1, min(_FEWER, group.min_count - 1) + 1):
        changed = copy.deepcopy(dict(group.raw))
        spec, minimum = changed["spec"], group.min_count - fewer
        if "minMember" in spec:
            spec["minMember"] = minimum
        else:
            spec["schedulingPolicy"]["gang"]["minCount"] = minimum
        with trials.with_objects([(_KINDS[group.api], changed)]):
            waiting = trials.cache.groups.members(group.key).unplaced()
            node = _node_of(_plan(trials, framework, group.key, waiting), pod) if waiting else ""
        if node:
            patch = difference(group.raw, changed)
            edit = Edit(verb="patch", kind="PodGroup", name=group.name, namespace=group.namespace, object=patch)
            text = f"a minimum of {minimum} instead of {group.min_count} in PodGroup {group.label}"
            yield Change(of="cluster", text=text, node=node, edits=(edit,))
            return


def _less(
    trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo, decision: GangRejection
) -> Iterator[Change]:
    """Smaller requests of all members: at most what the first one that fits nowhere lacks on the nearest node, at least a part of it."""
    waiting = trials.cache.groups.members(group.key).unplaced()
    if any(each.raw is None for each in waiting):
        return
    for less in _lacking(trials, framework, decision):
        best: tuple[GangDecision, Sequence[tuple[str, PodInfo]]] | None = None
        enough, too_little = _PARTS, 0
        while enough - too_little > (0 if best is None else 1):
            parts = enough if best is None else (enough + too_little) // 2
            members = _members_with_less(waiting, less, parts)
            planned = None if members is None else _plan(trials, framework, group.key, [each for _, each in members])
            if planned is not None and members is not None and _node_of(planned, pod):
                best, enough = (planned, members), parts
            elif best is None:
                break
            else:
                too_little = parts
        if best is not None:
            planned, members = best
            yield Change(
                of="pod",
                text=f"let each member {members[0][0]}",
                node=_node_of(planned, pod),
                edits=tuple(_recreated(before, after) for before, (_, after) in zip(waiting, members, strict=True)),
            )
            return


def _lacking(trials: Trials, framework: Framework, decision: GangRejection) -> Iterator[Mapping[str, int]]:
    """What the nearest nodes lack for the first member that fits nowhere, while those before it have their nodes."""
    rejected = next((each.pod for each in decision.attempts.values() if isinstance(each, Rejection)), None)
    if rejected is None or rejected.raw is None:
        return
    found = []
    with trials.placed([each for each in decision.attempts.values() if not isinstance(each, Rejection)]):
        verdicts = verdicts_of(framework, trials.cache, rejected)
        for row in verdicts.nearest(_SHAPES):
            less = lacking(Place(framework, trials.cache, rejected, dict(rejected.raw), trials.cache.node_at(row)))
            if less and less not in found:
                found.append(less)
    yield from found


def _members_with_less(
    waiting: Sequence[PodInfo], less: Mapping[str, int], parts: int
) -> Sequence[tuple[str, PodInfo]] | None:
    """The members with requests that are smaller by so many of the _PARTS of `less`; None if one does not request so much."""
    amounts = {resource: -(-amount * parts // _PARTS) for resource, amount in less.items()}
    found = []
    for pod in waiting:
        try:
            option = with_less(dict(pod.raw or {}), pod, amounts)
        except (InvalidObjectError, AttributeError, KeyError, TypeError):
            return None
        if option is None:
            return None
        found.append((option[0], parse_pod(option[1], keep_raw=True)))
    return found


def _recreated(before: PodInfo, after: PodInfo) -> Edit:
    patch = difference(before.raw or {}, after.raw or {})
    return Edit(verb="recreate", kind="Pod", name=before.name, namespace=before.namespace, object=patch)
