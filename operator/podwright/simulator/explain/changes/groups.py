"""Changes that would help a pod group: more members, a smaller minimum, smaller or other members, one more node. Each
is proved by a decision about all members.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from podwright.core.cycle import Rejection
from podwright.core.framework.explaining import PodChange
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangDecision, GangPlacement, GangRejection
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.pod_group import APIS, NAMED_OTHERWISE, PodGroup
from podwright.core.objects.resources import PODS
from podwright.core.objects.wording import counted, listed
from podwright.core.plugins.gang_scheduling import GangScheduling
from podwright.core.plugins.resources.explained import lacking, with_less
from podwright.core.plugins.resources.node_resources_fit import NodeResourcesFit
from podwright.core.queues.flavors import parts_of
from podwright.core.queues.queues import QUEUE_QUOTA
from podwright.core.state.cache import Cache
from podwright.simulator.explain.changes.node_edits import creation, shapes
from podwright.simulator.explain.changes.patches import difference
from podwright.simulator.explain.changes.pod_edits import combined
from podwright.simulator.explain.changes.queues import lifts, priorities_above, shorts
from podwright.simulator.explain.changes.trials import ClusterChange, Trials
from podwright.simulator.explain.results import Change, Edit, victims_of
from podwright.simulator.explain.verdicts import Verdicts, verdicts_of
from podwright.simulator.trial import Trial

_SHAPES: Final = 6
_MOST_NODES: Final = 64
"""How many further nodes are tried."""
_FEWER: Final = 3
_PARTS: Final = 16
"""The steps in which smaller requests are tried."""
_NODES_TRIED: Final = 3
_MEMBERS_EDITED: Final = 200
"""How many members may get the same change."""
_KINDS: Final[Mapping[str, str]] = {api: kind for kind, api in APIS.items()}


def planner_for(framework: Framework, cache: Cache, group: PodGroup) -> GangPlanner:
    """A planner that plans as the scheduler does, but always makes the same choice among equals."""
    args = framework.profile.args.get(GangScheduling.name)
    pack_by = "" if args is None else args.topology_key
    return GangPlanner(framework=framework, cache=cache, group=group, below=lambda _: 0, pack_by=pack_by)


def _plan(trials: Trials, framework: Framework, key: str, waiting: Sequence[PodInfo]) -> GangDecision | None:
    """The decision about these members."""
    trials.begin()
    group = trials.cache.groups.get(key)
    return None if group is None else planner_for(framework, trials.cache, group).plan(waiting)


def _node_of(decision: GangDecision | None, pod: PodInfo) -> str:
    """The node that the decision gives to this member."""
    if not isinstance(decision, GangPlacement):
        return ""
    return next((each.node_name for each in decision.placements if each.pod.uid == pod.uid), "")


def for_too_few(trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo, lacking: int) -> Iterator[Change]:
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


def for_rejected(
    trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo, decision: GangRejection
) -> Iterator[Change]:
    yield from _of_queue(trials, framework, group, pod, decision)
    yield from _less(trials, framework, group, pod, decision)
    yield from _alike(trials, framework, group, pod, decision)
    fit = len(decision.attempts) - sum(isinstance(each, Rejection) for each in decision.attempts.values())
    yield from _smaller(trials, framework, group, pod, fit + trials.cache.groups.placed(group.key))
    yield from _more_nodes(trials, framework, group, pod, max(1, group.min_count - fit))


def _of_queue(
    trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo, decision: GangRejection
) -> Iterator[Change]:
    """Changes that lift the bound of the members' queue, each kind once."""
    waiting = trials.cache.groups.members(group.key).unplaced()
    queues, cluster = trials.cluster.queues, trials.cluster
    if QUEUE_QUOTA not in decision.plugins or len({queues.queue_of(each) for each in waiting}) > 1:
        return
    needed = max(1, trials.cache.groups.lacking(group))
    found = shorts(queues, waiting, needed, nominated=False) if queues.queue_of(waiting[0]) else []
    less = {parts_of(each.resource)[0]: -(-(each.wanted - each.free) // needed) for each in reversed(found)}
    planned = _with_less(trials, framework, group, pod, less) if less and PODS not in less else None
    if planned is not None:
        yield planned
    yield from islice(
        _above_others(trials, framework, group, waiting, priorities_above(cluster, pod) if found else ()), 1
    )
    kinds: set[str] = set()
    for lift in lifts(cluster, waiting, found):
        kind = lift.text.partition(" ")[0]
        if kind not in kinds and (change := _lifted(trials, framework, group, pod, lift)) is not None:
            kinds.add(kind)
            yield change


def _lifted(trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo, lift: ClusterChange) -> Change | None:
    """The change of the cluster, if it places the group: at once, after preemption, or with a further change."""
    trials.tried[lift.text] = None
    waiting = trials.cache.groups.members(group.key).unplaced()
    with Trial(trials.cluster) as trial:
        try:
            lift.apply(trial)
        except InvalidObjectError:
            return None
        trials.begin()
        decision = decide(planner_for(framework, trials.cache, group), waiting, trials.cluster.world.now())
        if isinstance(decision, GangRejection) and decision.preemption is None and QUEUE_QUOTA not in decision.plugins:
            inner = next(for_rejected(trials, framework, group, pod, decision), None)
            if inner is not None:
                texts, edits = f"{lift.text} and {inner.text}", (*lift.edits, *inner.edits)
                return replace(inner, of="cluster", text=texts, edits=edits)
    if node := _node_of(decision, pod):
        return Change(of="cluster", text=lift.text, node=node, edits=lift.edits)
    return _after_preemption(decision, "cluster", lift.text, lift.edits)


def _above_others(
    trials: Trials, framework: Framework, group: PodGroup, waiting: Sequence[PodInfo], priorities: Sequence[int]
) -> Iterator[Change]:
    """The first of these priorities with which the group preempts. If it is that of a PriorityClass which the group names,
    it has to name another one.
    """
    groups = trials.cache.groups
    of_class = groups.class_priority(group.key) is not None
    for priority in priorities:
        found = groups.class_from(priority) if of_class else None
        if of_class and found is None:
            return
        theirs = priority if found is None else found[0]
        members = [replace(each, priority=theirs, own_priority=theirs) for each in waiting]
        trials.tried[f"have a priority of {priority}"] = None
        trials.begin()
        decision = decide(planner_for(framework, trials.cache, group), members, trials.cluster.world.now())
        if found is None:
            patch: dict[str, Any] = {"spec": {"priority": priority, "priorityClassName": None}}
            edits = tuple(
                Edit(verb="recreate", kind="Pod", name=each.name, namespace=each.namespace, object=patch)
                for each in waiting
            )
            text = f"let each member have a PriorityClass of at least {priority}"
        else:
            patch, kind = {"spec": {"priorityClassName": found[1]}}, NAMED_OTHERWISE.get(group.api, "PodGroup")
            edits = (Edit(verb="patch", kind=kind, name=group.name, namespace=group.namespace, object=patch),)
            text = f"let {kind} {group.label} name the PriorityClass {found[1]}"
        if (change := _after_preemption(decision, "pod" if found is None else "cluster", text, edits)) is not None:
            yield change


def _after_preemption(decision: GangDecision, of: str, text: str, edits: tuple[Edit, ...]) -> Change | None:
    """The change, if the group preempts with it."""
    found = decision.preemption if isinstance(decision, GangRejection) else None
    if found is None:
        return None
    names = listed([f"{each.key} (priority {each.priority})" for each in found.victims])
    return Change(
        of=of,
        text=f"{text}, to preempt {counted(len(found.victims), 'pod')}: {names}",
        node=next(iter(found.nominations.values()), ""),
        edits=edits,
        after_preemption=True,
        victims=victims_of(found.victims),
        violations=found.violations,
    )


def _with_less(
    trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo, less: Mapping[str, int]
) -> Change | None:
    """The group, if each member requests so much less, and if that places it."""
    waiting = trials.cache.groups.members(group.key).unplaced()
    members = None if any(each.raw is None for each in waiting) else _members_with_less(waiting, less, _PARTS)
    if members is None:
        return None
    node = _node_of(_plan(trials, framework, group.key, [each for _, each in members]), pod)
    if not node:
        return None
    edits = tuple(_recreated(before, after) for before, (_, after) in zip(waiting, members, strict=True))
    return Change(of="pod", text=f"let each member {members[0][0]}", node=node, edits=edits)


def _more_nodes(trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo, most: int) -> Iterator[Change]:
    """The fewest further nodes like one of those that exist, at most one for each member that lacks one."""
    waiting = trials.cache.groups.members(group.key).unplaced()
    most = min(most, _MOST_NODES)

    def with_nodes(count: int) -> tuple[str, tuple[Edit, ...]]:
        trials.tried[f"{counted(count, 'more node')} like {node.name}"] = None
        with trials.more_nodes(node.name, count) as added:
            placed = _node_of(_plan(trials, framework, group.key, waiting), pod)
            return placed, tuple(edit for each in added for edit in creation(trials.cache, each)) if placed else ()

    nodes = [info.present for info in list(trials.cache.nodes.values()) if info.node is not None]
    for node in [*shapes(iter(nodes), _SHAPES)]:
        too_few, enough, found = 0, most, with_nodes(most)
        while found[0] and enough - too_few > 1:
            middle = (too_few + enough) // 2
            fewer = with_nodes(middle)
            if fewer[0]:
                enough, found = middle, fewer
            else:
                too_few = middle
        if found[0]:
            text = f"{'one more node' if enough == 1 else f'{enough} more nodes'} like {node.name}"
            yield Change(of="cluster", text=text, node=found[0], edits=found[1])
            return


def _smaller(trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo, fit: int = 0) -> Iterator[Change]:
    """A smaller minimum. `fit`: how many members would fit."""
    if group.tree is not None or not group.raw["spec"].keys() & {"minMember", "schedulingPolicy"}:
        return
    few = range(group.min_count - 1, max(0, group.min_count - 1 - _FEWER), -1)
    for minimum in dict.fromkeys([*([fit] if 0 < fit < group.min_count else []), *few]):
        changed = copy.deepcopy(dict(group.raw))
        spec = changed["spec"]
        trials.tried[f"a minimum of {minimum} in PodGroup {group.label}"] = None
        if "minMember" in spec:
            spec["minMember"] = minimum
        else:
            spec["schedulingPolicy"]["gang"]["minCount"] = minimum
        with Trial(trials.cluster) as trial:
            trial.set_object(_KINDS[group.api], changed)
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
    """Smaller requests of all members, by a part or all of what the first member that fits nowhere lacks on the nearest
    node.
    """
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
    rejected, fit = _first_rejected(decision), framework.plugins.get(NodeResourcesFit.name)
    if rejected is None or not isinstance(fit, NodeResourcesFit):
        return
    found = []
    with _beside_others(trials, framework, decision, rejected) as verdicts:
        for row in verdicts.nearest(_SHAPES):
            less = lacking(fit.checked_requests(rejected.requests), trials.cache.node_at(row))
            if less and less not in found:
                found.append(less)
    yield from found


def _first_rejected(decision: GangRejection) -> PodInfo | None:
    """The first member that fits nowhere."""
    rejected = next((each.pod for each in decision.attempts.values() if isinstance(each, Rejection)), None)
    return None if rejected is None or rejected.raw is None else rejected


@contextmanager
def _beside_others(
    trials: Trials, framework: Framework, decision: GangRejection, rejected: PodInfo
) -> Iterator[Verdicts]:
    """The verdicts about this member while those before it have their nodes. Raises PluginError."""
    with trials.placed([each for each in decision.attempts.values() if not isinstance(each, Rejection)]):
        yield verdicts_of(framework, trials.cache, rejected)


def _alike(
    trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo, decision: GangRejection
) -> Iterator[Change]:
    """One change of the spec of all members, for what rejects the first one that fits nowhere."""
    waiting, rejected = trials.cache.groups.members(group.key).unplaced(), _first_rejected(decision)
    if rejected is None or len(waiting) > _MEMBERS_EDITED or any(each.raw is None for each in waiting):
        return
    for text, changed in _options(trials, framework, decision, rejected):
        members = [_with_spec_of(changed, each, rejected) for each in waiting]
        if None in members:
            continue
        made = [member for member in members if member is not None]
        node = _node_of(_plan(trials, framework, group.key, made), pod)
        if node:
            edits = tuple(_recreated(before, after) for before, after in zip(waiting, made, strict=True))
            yield Change(of="pod", text=f"let each member {_of_all(text)}", node=node, edits=edits)
            return


def _of_all(text: str) -> str:
    """The text of the change for each member: `not select` instead of `do not select`."""
    return " and ".join(
        part.replace("do not ", "not ", 1) if part.startswith("do not ") else part for part in text.split(" and ")
    )


def _options(trials: Trials, framework: Framework, decision: GangRejection, rejected: PodInfo) -> Sequence[PodChange]:
    """Changes of this member that are not of its requests alone, the nearest node first."""
    found: list[PodChange] = []
    with _beside_others(trials, framework, decision, rejected) as verdicts:
        for row in verdicts.nearest(_NODES_TRIED):
            plugins = [name for name, mask in verdicts.rejects.items() if mask[row]]
            if plugins and plugins != [NodeResourcesFit.name]:
                options = combined(framework, rejected, trials.cache.node_at(row), plugins)
                found += [option for option in options if option not in found]
    return found


def _with_spec_of(changed: Mapping[str, Any], member: PodInfo, model: PodInfo) -> PodInfo | None:
    """The member with the changed spec; None if its spec differed from the model's."""
    raw = dict(member.raw or {})
    if raw.get("spec") != (model.raw or {}).get("spec"):
        return None
    try:
        made = parse_pod({**raw, "spec": copy.deepcopy(changed["spec"])}, keep_raw=True)
        return replace(made, group=member.group, priority=member.priority)
    except InvalidObjectError:
        return None


def _members_with_less(
    waiting: Sequence[PodInfo], less: Mapping[str, int], parts: int
) -> Sequence[tuple[str, PodInfo]] | None:
    """The members with requests that are smaller by `parts` of the _PARTS of `less`; None if nothing would
    be left of a member's request.
    """
    amounts = {resource: -(-amount * parts // _PARTS) for resource, amount in less.items()}
    found = []
    for pod in waiting:
        try:
            change = with_less(pod, amounts)
        except (InvalidObjectError, AttributeError, KeyError, TypeError):
            return None
        if change is None:
            return None
        made = parse_pod(change.raw, keep_raw=True)
        found.append((change.text, replace(made, group=pod.group, priority=pod.priority)))
    return found


def _recreated(before: PodInfo, after: PodInfo) -> Edit:
    patch = difference(before.raw or {}, after.raw or {})
    return Edit(verb="recreate", kind="Pod", name=before.name, namespace=before.namespace, object=patch)
