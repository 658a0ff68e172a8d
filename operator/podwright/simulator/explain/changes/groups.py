"""Changes that would help a pod group: more members, a smaller minimum, smaller or other members, one more node. Each
is proved by a decision about all members.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final

from podwright.core.cycle import Rejection, always_first
from podwright.core.framework.explaining import PodChange
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangDecision, GangPlacement, GangRejection
from podwright.core.gangs.gang_preemption import priority_of
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import Node
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
from podwright.simulator.explain.changes.queues import held_back, least_guarantees, lifts, priorities_above
from podwright.simulator.explain.changes.trials import ClusterChange, Trials, least_that_helps, of_each_kind
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
    return GangPlanner(framework=framework, cache=cache, group=group, below=always_first, pack_by=pack_by)


class GroupChanges:
    """See the module. `pod`: the member that is explained."""

    def __init__(self, trials: Trials, framework: Framework, group: PodGroup, pod: PodInfo) -> None:
        self._trials = trials
        self._framework = framework
        self._group = group
        self._pod = pod

    @property
    def _waiting(self) -> Sequence[PodInfo]:
        return [each for each in self._trials.cache.groups.members(self._group.key).unplaced() if not each.gates]

    def _plan(self, members: Sequence[PodInfo]) -> GangDecision | None:
        """The decision about these members."""
        self._trials.begin()
        group = self._trials.cache.groups.get(self._group.key)
        return None if group is None else planner_for(self._framework, self._trials.cache, group).plan(members)

    def _decide(self, members: Sequence[PodInfo]) -> GangDecision:
        """The same, also about preemption."""
        trials = self._trials
        trials.begin()
        return decide(planner_for(self._framework, trials.cache, self._group), members, trials.cluster.world.now())

    def _of_members(self, text: str, before: Sequence[PodInfo], after: Sequence[PodInfo]) -> Change | None:
        """The change of all members, if it places the group."""
        node = _node_of(self._plan(after), self._pod)
        if not node:
            return None
        edits = tuple(map(_recreated, before, after))
        return Change(of="pod", text=f"let each member {text}", node=node, edits=edits)

    def for_too_few(self, lacking: int) -> Iterator[Change]:
        members = [replace(self._pod, name=f"{self._pod.name}-{i}", uid=f"{self._pod.uid}/{i}") for i in range(lacking)]
        for member in members:
            self._trials.cache.groups.add_waiting(member)
        try:
            node = _node_of(self._plan(self._waiting), self._pod)
        finally:
            for member in members:
                self._trials.cache.groups.remove_waiting(member.uid)
        if node and self._pod.raw is not None:
            edits = tuple(
                Edit(verb="create", kind="Pod", name=m.name, namespace=m.namespace, object=_copy(self._pod.raw, m.name))
                for m in members
            )
            yield Change(
                of="cluster",
                text=f"{lacking} more {'member' if lacking == 1 else 'members'} like this pod",
                node=node,
                edits=edits,
            )
        yield from self._smaller()

    def for_rejected(self, decision: GangRejection) -> Iterator[Change]:
        yield from self._of_queue(decision)
        yield from islice(self._of_share(decision), 1)
        yield from self._less(decision)
        yield from self._alike(decision)
        fit = len(decision.attempts) - sum(isinstance(each, Rejection) for each in decision.attempts.values())
        yield from self._smaller(fit + self._trials.cache.groups.placed(self._group.key))
        yield from self._more_nodes(max(1, self._group.min_count - fit))

    def _of_queue(self, decision: GangRejection) -> Iterator[Change]:
        """Changes that lift the bound of the members' queue, each kind once."""
        waiting, cluster = self._waiting, self._trials.cluster
        queues = cluster.queues
        if len({queues.queue_of(each) for each in waiting}) > 1:
            return
        needed = max(1, self._trials.cache.groups.lacking(self._group))
        bounds, raised = held_back(cluster, waiting, needed)
        if not bounds and QUEUE_QUOTA not in decision.plugins:
            return
        less = {parts_of(each.resource)[0]: -(-min(each.requested, each.over) // needed) for each in reversed(bounds)}
        planned = self._with_less(less) if less and PODS not in less else None
        if planned is not None:
            yield planned
        limited = bounds and bounds[0].kind == "limit"
        yield from islice(self._above_others(priorities_above(cluster, self._pod) if limited else ()), 1)
        yield from of_each_kind(lifts(cluster, waiting, needed, bounds, raised), self._lifted)

    def _of_share(self, decision: GangRejection) -> Iterator[Change]:
        """The least guarantee with which the group may have pods of other queues evicted, if it may not now."""
        waiting, cluster, cache = self._waiting, self._trials.cluster, self._trials.cache
        if decision.preemption is not None or QUEUE_QUOTA in decision.plugins or not cluster.queues.active:
            return
        needed = waiting[: max(1, cache.groups.lacking(self._group))]
        priority = priority_of(self._group, needed)
        yield from least_guarantees(cluster, needed, priority, partial(self._lifted, further=False))

    def _lifted(self, lift: ClusterChange, *, further: bool = True) -> Change | None:
        """The change of the cluster, if it places the group: at once, after preemption, or with a `further` change."""
        self._trials.tried[lift.text] = None
        waiting = self._waiting  # before the change
        with Trial(self._trials.cluster) as trial:
            try:
                lift.apply(trial)
            except InvalidObjectError:
                return None
            decision = self._decide(waiting)
            if (
                further
                and isinstance(decision, GangRejection)
                and decision.preemption is None
                and QUEUE_QUOTA not in decision.plugins
            ):
                inner = next(self.for_rejected(decision), None)
                if inner is not None:
                    texts, edits = f"{lift.text} and {inner.text}", (*lift.edits, *inner.edits)
                    return replace(inner, of="cluster", text=texts, edits=edits)
        if node := _node_of(decision, self._pod):
            return Change(of="cluster", text=lift.text, node=node, edits=lift.edits)
        return _after_preemption(decision, "cluster", lift.text, lift.edits)

    def _above_others(self, priorities: Sequence[int]) -> Iterator[Change]:
        """The first of these priorities with which the group preempts. If it is that of a PriorityClass which the group
        names, it has to name another one.
        """
        group, groups, waiting = self._group, self._trials.cache.groups, self._waiting
        of_class = groups.class_priority(group.key) is not None
        for priority in priorities:
            found = groups.class_from(priority) if of_class else None
            if of_class and found is None:
                return
            theirs = priority if found is None else found[0]
            members = [replace(each, priority=theirs, own_priority=theirs) for each in waiting]
            self._trials.tried[f"have a priority of {priority}"] = None
            decision = self._decide(members)
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

    def _with_less(self, less: Mapping[str, int], parts: int = _PARTS) -> Change | None:
        """The group, if each member requests less by `parts` of the _PARTS of `less`, and if that places it."""
        waiting = self._waiting
        members = None if any(each.raw is None for each in waiting) else _members_with_less(waiting, less, parts)
        return self._of_members(members[0][0], waiting, [each for _, each in members]) if members else None

    def _more_nodes(self, most: int) -> Iterator[Change]:
        """The fewest further nodes like one of those that exist, at most one for each member that lacks one."""
        waiting, most = self._waiting, min(most, _MOST_NODES)

        def with_nodes(node: Node, count: int) -> Change | None:
            self._trials.tried[f"{counted(count, 'more node')} like {node.name}"] = None
            with self._trials.more_nodes(node.name, count) as added:
                placed = _node_of(self._plan(waiting), self._pod)
                edits = tuple(edit for each in added for edit in creation(self._trials.cache, each)) if placed else ()
            text = f"{'one more node' if count == 1 else f'{count} more nodes'} like {node.name}"
            return Change(of="cluster", text=text, node=placed, edits=edits) if placed else None

        nodes = [info.present for info in list(self._trials.cache.nodes.values()) if info.node is not None]
        for node in [*shapes(iter(nodes), _SHAPES)]:
            if (found := least_that_helps(most, partial(with_nodes, node))) is not None:
                yield found
                return

    def _smaller(self, fit: int = 0) -> Iterator[Change]:
        """A smaller minimum. `fit`: how many members would fit."""
        group = self._group
        if group.tree is not None or not group.raw["spec"].keys() & {"minMember", "schedulingPolicy"}:
            return
        few = range(group.min_count - 1, max(0, group.min_count - 1 - _FEWER), -1)
        for minimum in dict.fromkeys([*([fit] if 0 < fit < group.min_count else []), *few]):
            changed = copy.deepcopy(dict(group.raw))
            spec = changed["spec"]
            self._trials.tried[f"a minimum of {minimum} in PodGroup {group.label}"] = None
            if "minMember" in spec:
                spec["minMember"] = minimum
            else:
                spec["schedulingPolicy"]["gang"]["minCount"] = minimum
            with Trial(self._trials.cluster) as trial:
                trial.set_object(_KINDS[group.api], changed)
                node = _node_of(self._plan(waiting), self._pod) if (waiting := self._waiting) else ""
            if node:
                patch = difference(group.raw, changed)
                edit = Edit(verb="patch", kind="PodGroup", name=group.name, namespace=group.namespace, object=patch)
                text = f"a minimum of {minimum} instead of {group.min_count} in PodGroup {group.label}"
                yield Change(of="cluster", text=text, node=node, edits=(edit,))
                return

    def _less(self, decision: GangRejection) -> Iterator[Change]:
        """Smaller requests of all members, by a part or all of what the first member that fits nowhere lacks on the
        nearest node.
        """
        for less in self._lacking(decision):
            if (found := least_that_helps(_PARTS, partial(self._with_less, less))) is not None:
                yield found
                return

    def _lacking(self, decision: GangRejection) -> Iterator[Mapping[str, int]]:
        """Yields the nearest nodes' lacks for the first member that fits nowhere, once those before it have nodes."""
        rejected, fit = _first_rejected(decision), self._framework.plugins.get(NodeResourcesFit.name)
        if rejected is None or not isinstance(fit, NodeResourcesFit):
            return
        found = []
        with self._beside_others(decision, rejected) as verdicts:
            for row in verdicts.nearest(_SHAPES):
                less = lacking(fit.checked_requests(rejected.requests), self._trials.cache.node_at(row))
                if less and less not in found:
                    found.append(less)
        yield from found

    @contextmanager
    def _beside_others(self, decision: GangRejection, rejected: PodInfo) -> Iterator[Verdicts]:
        """The verdicts about this member while those before it have their nodes. Raises PluginError."""
        with self._trials.placed([each for each in decision.attempts.values() if not isinstance(each, Rejection)]):
            yield verdicts_of(self._framework, self._trials.cache, rejected)

    def _alike(self, decision: GangRejection) -> Iterator[Change]:
        """One change of the spec of all members, for what rejects the first one that fits nowhere."""
        waiting, rejected = self._waiting, _first_rejected(decision)
        if rejected is None or len(waiting) > _MEMBERS_EDITED or any(each.raw is None for each in waiting):
            return
        for text, changed in self._options(decision, rejected):
            members = [_with_spec_of(changed, each, rejected) for each in waiting]
            if None in members:
                continue
            made = [member for member in members if member is not None]
            if (change := self._of_members(_of_all(text), waiting, made)) is not None:
                yield change
                return

    def _options(self, decision: GangRejection, rejected: PodInfo) -> Sequence[PodChange]:
        """Changes of this member that are not of its requests alone, the nearest node first."""
        found: list[PodChange] = []
        with self._beside_others(decision, rejected) as verdicts:
            for row in verdicts.nearest(_NODES_TRIED):
                plugins = [name for name, mask in verdicts.rejects.items() if mask[row]]
                if plugins and plugins != [NodeResourcesFit.name]:
                    options = combined(self._framework, rejected, self._trials.cache.node_at(row), plugins)
                    found += [option for option in options if option not in found]
        return found


def _node_of(decision: GangDecision | None, pod: PodInfo) -> str:
    """The node that the decision gives to this member."""
    if not isinstance(decision, GangPlacement):
        return ""
    return next((each.node_name for each in decision.placements if each.pod.uid == pod.uid), "")


def _copy(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    metadata = {key: raw["metadata"][key] for key in ("namespace", "labels") if key in raw["metadata"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "name": name},
        "spec": copy.deepcopy(raw["spec"]),
    }


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


def _first_rejected(decision: GangRejection) -> PodInfo | None:
    """The first member that fits nowhere."""
    rejected = next((each.pod for each in decision.attempts.values() if isinstance(each, Rejection)), None)
    return None if rejected is None or rejected.raw is None else rejected


def _of_all(text: str) -> str:
    """The text of the change for each member: `not select` instead of `do not select`."""
    return " and ".join(
        part.replace("do not ", "not ", 1) if part.startswith("do not ") else part for part in text.split(" and ")
    )


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
