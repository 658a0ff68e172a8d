"""Searches the least change of a pod, and of the cluster, that places it. Each was proved by a decision before it is
returned.

The nearest nodes are tried first, and the search ends after MOST_TRIALS decisions, so that it takes a bounded time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, takewhile
from typing import Any, Final

from podwright.core.framework.explaining import NodeChange, PodChange
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import PostFilterResult
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo, belongs_to_node
from podwright.core.objects.resources import PODS
from podwright.core.objects.wording import counted, listed
from podwright.core.plugins.devices.dynamic_resources import DynamicResources
from podwright.core.plugins.devices.explained import open_claims
from podwright.core.plugins.resources.explained import with_less
from podwright.core.plugins.rules.policy_rules import PolicyRules
from podwright.core.plugins.volumes.explained import claim_users
from podwright.core.queues.bound import Bound
from podwright.core.queues.flavors import parts_of
from podwright.core.queues.queues import QUEUE_QUOTA
from podwright.core.state.nodeinfo import NodeInfo
from podwright.simulator.explain.changes.claims import claim_options, having_devices
from podwright.simulator.explain.changes.device_repairs import with_missing_classes, with_other_classes
from podwright.simulator.explain.changes.moves import Moves, moves_from
from podwright.simulator.explain.changes.node_edits import creation, edit_for, patch_of, shapes
from podwright.simulator.explain.changes.patches import difference, merged
from podwright.simulator.explain.changes.pod_edits import OPTIONS, combined
from podwright.simulator.explain.changes.queues import (
    held_back,
    least_guarantees,
    lifts,
    other_queues,
    priorities_above,
)
from podwright.simulator.explain.changes.rules import without_rule
from podwright.simulator.explain.changes.trials import ClusterChange, Trials, of_each_kind, without_pods
from podwright.simulator.explain.changes.volumes import emptied, labels_reaching, lacking, remounted
from podwright.simulator.explain.results import Change, Edit, victims_of
from podwright.simulator.explain.verdicts import Verdicts, verdicts_of
from podwright.simulator.trial import Trial

MOST_TRIALS: Final = 60
"""Decisions for one explanation."""
NODES_TRIED: Final = 6
SHAPES_TRIED: Final = 6
MOVES_TRIED: Final = 3
CLAIMS_TRIED: Final = 8
USERS_TRIED: Final = 4
_RULES: Final = PolicyRules.name
DEVICES: Final = DynamicResources.name
_LIVE: Final = frozenset(("tolerations", "schedulingGates"))
"""Fields of a pod's spec that may be changed while it is pending. With any other, the pod has to be recreated."""
_FAR_ABOVE: Final = 2_000_000_000


class ChangeSearch:
    """See the module. `pod` has its raw object, and `verdicts` rejects it."""

    def __init__(self, trials: Trials, framework: Framework, pod: PodInfo, verdicts: Verdicts) -> None:
        self._trials = trials
        self._cache = trials.cache
        self._framework = framework
        self._pod = pod
        self._verdicts = verdicts
        self._rows = verdicts.nearest(NODES_TRIED)

    def changes(self) -> tuple[Change, ...]:
        """The changes that are found in time, each kind once, changes of the pod first. Raises PluginError."""
        return tuple(self._trials.in_time(self._found()))

    def first(self) -> Change | None:
        """The first of these changes that needs no preemption. Raises PluginError, and TimeIsUpError."""
        return next((change for change in self._all() if not change.after_preemption), None)

    def _found(self) -> Iterator[Change]:
        any_found = False
        for change in self._all():
            any_found = True
            yield change
        if not any_found:
            yield from islice(self._of_empty_volumes(), 1)

    def _all(self) -> Iterator[Change]:
        yield from islice(self._of_pod(), 2)
        yield from islice(self._of_share(), 1)
        # Sources that change nodes come last, because a diagnosis belongs to the node table as it was.
        for source in (
            self._of_mounts,
            self._of_priority,
            self._of_moves,
            self._of_endings,
            self._of_volumes,
            self._of_claims,
            self._of_devices,
            self._of_rules,
            self._of_node,
            self._of_new_node,
        ):
            yield from islice(source(), 1)
        yield from self._of_classes()
        yield from self._of_queue()

    @property
    def _spent(self) -> bool:
        return self._trials.count >= MOST_TRIALS

    def _helping(self, changes: Iterable[ClusterChange]) -> Iterator[Change]:
        return self._trials.helping(self._pod, takewhile(lambda _: not self._spent, changes))

    def _plugins(self, row: int) -> Sequence[str]:
        names = [name for name, mask in self._verdicts.rejects.items() if mask[row]]
        explicit = self._verdicts.diagnosis.explicit.get(row)
        return names or ([explicit.plugin] if explicit is not None else [])

    def _node(self, row: int) -> NodeInfo:
        """The node. Where only nominated pods are in the way, the text names them."""
        node = self._cache.node_at(row)
        if any(mask[row] for mask in self._verdicts.rejects.values()):
            return node
        crowded = node.clone()
        for other in self._framework.nominated_before(self._pod, node.name):
            crowded.add(other)
        return crowded

    # The pod

    def _of_pod(self) -> Iterator[Change]:
        known: list[PodChange] = []
        helped: list[set[str]] = []
        """The plugins for which a change was found. A farther node that they and others reject needs a greater one."""
        for row in self._rows:
            plugins = self._plugins(row)
            if any(each <= {*plugins} for each in helped):
                continue
            for option in combined(self._framework, self._pod, self._node(row), plugins):
                if option in known or self._spent:
                    continue
                known.append(option)
                change = tried(self._trials, self._pod, option.text, option.raw)
                if change is not None:
                    helped.append({*plugins})
                    yield change
                    break

    # Its queue

    def _of_queue(self) -> Iterator[Change]:
        """Changes that lift the bound of the pod's queue, each kind once."""
        status, cluster, pod = self._verdicts.diagnosis.pre_filter, self._trials.cluster, self._pod
        if status is None or status.plugin != QUEUE_QUOTA:
            return
        bounds, raised = held_back(cluster, [pod], 1)
        yield from islice(self._of_less(bounds), 1)
        limited = bounds and bounds[0].kind == "limit"
        yield from islice(self._above_others(priorities_above(cluster, pod)) if limited else (), 1)
        further = takewhile(lambda _: not self._spent, lifts(cluster, [pod], 1, bounds, raised))
        yield from of_each_kind(further, self._lifted)

    def _of_share(self) -> Iterator[Change]:
        """The least guarantee with which the pod may have pods of other queues evicted, if it may not now."""
        cluster, pod, pre_filter = self._trials.cluster, self._pod, self._verdicts.diagnosis.pre_filter
        if pre_filter is not None or not cluster.queues.active or not cluster.queues.queue_of(pod):
            return
        if not self._spent and self._trials.preempts(pod) is None:
            yield from least_guarantees(cluster, (pod,), pod.priority, partial(self._lifted, further=False))

    def _of_less(self, found: Sequence[Bound]) -> Iterator[Change]:
        """The pod with the requests for which the limits leave enough, or in another queue."""
        less: dict[str, int] = {}
        for each in found:
            resource, _ = parts_of(each.resource)
            less[resource] = max(less.get(resource, 0), min(each.requested, each.over))
        if less and PODS not in less and (option := with_less(self._pod, less)) is not None:
            change = tried(self._trials, self._pod, option.text, option.raw)
            if change is not None:
                yield change
        for text, raw in () if found else other_queues(self._trials.cluster, self._pod):
            other = {**raw, "metadata": {**raw["metadata"], "uid": f"{self._pod.uid}/elsewhere"}}
            change = tried(self._trials, self._pod, text, raw, other)
            if change is not None:
                yield change

    def _lifted(self, lift: ClusterChange, *, further: bool = True) -> Change | None:
        """The change of the cluster, if it places the pod: at once, after preemption, or with a `further` change."""
        self._trials.tried[lift.text] = None
        with Trial(self._trials.cluster) as trial:
            try:
                lift.apply(trial)
            except InvalidObjectError:
                return None
            if placed := self._trials.place(self._pod):
                return Change(of="cluster", text=lift.text, node=placed, edits=lift.edits)
            if (found := self._trials.preempts(self._pod)) is not None:
                text = f"{lift.text}, to preempt {_victims(found)}"
                return _after_preemption("cluster", text, found, lift.edits)
            verdicts = verdicts_of(self._framework, self._cache, self._pod)
            if not further or verdicts.diagnosis.pre_filter is not None:
                return None
            inner = ChangeSearch(self._trials, self._framework, self._pod, verdicts).first()
        if inner is None:
            return None
        return replace(inner, of="cluster", text=f"{lift.text} and {inner.text}", edits=(*lift.edits, *inner.edits))

    # One node

    def _of_node(self) -> Iterator[Change]:
        for row in self._rows:
            node = self._cache.node_at(row).present
            edits: list[NodeChange] = []
            for name in self._plugins(row):
                plugin = self._framework.plugins.get(name)
                edit = edit_for(plugin, self._pod, edits[-1].node if edits else node)
                if edit is not None:
                    edits.append(edit)
            if not edits or self._spent:
                continue
            self._trials.tried[" and ".join(edit.text for edit in edits)] = None
            with Trial(self._trials.cluster) as trial:
                trial.set_node(edits[-1].node)
                placed = self._trials.place(self._pod)
                moves = None if placed else self._moves(node.name)
            if placed or moves is not None:
                yield _of_edits(node, edits, moves, placed)

    def _moves(self, name: str) -> Moves | None:
        """Pods to move off a node that has been changed."""
        node = self._cache.present(name)
        if node is None or self._spent:
            return None
        verdicts = verdicts_of(self._framework, self._cache, self._pod)
        if verdicts.diagnosis.pre_filter is not None:
            return None
        return moves_from(self._trials, self._framework, verdicts.state, self._pod, node)

    def _of_moves(self) -> Iterator[Change]:
        if self._verdicts.diagnosis.pre_filter is not None:
            return
        for row in self._rows[:MOVES_TRIED]:
            if self._spent:
                return
            node = self._cache.node_at(row)
            if node.pods:
                self._trials.tried[f"move pods from node {node.name} to others"] = None
            moves = moves_from(self._trials, self._framework, self._verdicts.state, self._pod, node)
            if moves is not None:
                yield _of_edits(node.present, (), moves, "")

    def _of_new_node(self) -> Iterator[Change]:
        rows = self._verdicts.nearest(self._cache.table.count)
        found = [*shapes((self._cache.node_at(row).present for row in rows), SHAPES_TRIED)]
        elsewhere = labels_reaching(self._cache, self._pod)
        for labels in ({}, elsewhere) if elsewhere else ({},):
            for node in found:
                if self._spent:
                    return
                self._trials.tried[f"one more node like {node.name}"] = None
                with self._trials.more_nodes(node.name, labels=labels) as added:
                    placed = self._trials.place(self._pod)
                    edits = tuple(edit for each in added for edit in creation(self._cache, each))
                if placed:
                    but = ", ".join(f"{key}={value}" for key, value in labels.items())
                    text = f"one more node like {node.name}{f', but with {but}' if but else ''}"
                    yield Change(of="cluster", text=text, node=placed, edits=edits)

    # Other objects

    def _of_volumes(self) -> Iterator[Change]:
        nodes = [self._cache.node_at(row).present for row in self._rows] or [
            info.present for info in islice(self._cache.nodes.values(), NODES_TRIED) if info.node is not None
        ]
        yield from self._helping(filter(None, (lacking(self._cache, self._pod, node) for node in nodes)))

    def _of_empty_volumes(self) -> Iterator[Change]:
        """Claims that give up their volumes, which are elsewhere."""
        yield from self._helping(emptied(self._cache, self._pod))

    def _of_mounts(self) -> Iterator[Change]:
        """Claims of which the pod misspells the names."""
        for text, raw in remounted(self._cache, self._pod):
            change = tried(self._trials, self._pod, text, raw)
            if change is not None:
                yield change

    def _of_rules(self) -> Iterator[Change]:
        """The policy without the rule that rejects the nearest nodes."""
        if any(_RULES in self._plugins(row) for row in self._rows):
            yield from self._helping(without_rule(self._trials.cluster, self._pod))

    def _of_claims(self) -> Iterator[Change]:
        """Claims that ask for less."""
        rows = [row for row in self._rows if DEVICES in self._plugins(row)]
        for claim in open_claims(self._cache, self._pod) if rows else ():
            yield from self._helping(islice(claim_options(self._cache, claim, rows), CLAIMS_TRIED))

    def _of_classes(self) -> Iterator[Change]:
        """The device classes that claims name and that do not exist."""
        status = self._verdicts.diagnosis.pre_filter
        if status is not None and status.plugin == DEVICES:
            for source in (with_other_classes, with_missing_classes):
                yield from islice(self._helping(source(self._cache, self._pod)), 1)

    def _of_devices(self) -> Iterator[Change]:
        """A pod whose end frees the devices."""
        for row in self._rows:
            if DEVICES in self._plugins(row):
                users = islice(having_devices(self._cache, self._cache.node_at(row)), USERS_TRIED)
                yield from self._helping(without_pods(f"{pod.key} ends, which has devices", [pod]) for pod in users)

    def _of_endings(self) -> Iterator[Change]:
        """Pods that would have to end, because they use something that only one pod may use."""
        if not self._pod.volumes:
            return
        users = [other for other in claim_users(self._cache, self._pod) if self._cache.placement(other.uid)]
        if users and len(users) <= OPTIONS:
            text = f"{listed([other.key for other in users])} {'ends' if len(users) == 1 else 'end'}"
            yield from self._helping([without_pods(text, users)])

    def _of_priority(self) -> Iterator[Change]:
        """A priority with which the pod preempts the pods that are in its way."""
        if self._spent or self._pod.preemption_policy == "Never" or not self._verdicts.diagnosis.resolvable().size:
            return
        here = (
            other
            for row in self._rows
            for other in self._cache.node_at(row).pods.values()
            if not belongs_to_node(other)
        )
        above = sorted({other.priority + 1 for other in here if self._pod.priority <= other.priority < _FAR_ABOVE})
        yield from self._above_others(above[:2])

    def _above_others(self, priorities: Sequence[int]) -> Iterator[Change]:
        """The first of these priorities with which the pod preempts."""
        of_group = self._cache.groups.class_priority(self._pod.group) is not None
        for priority in () if of_group or self._pod.preemption_policy == "Never" else priorities:
            if self._spent:
                return
            self._trials.tried[f"have a priority of {priority}"] = None
            found = self._trials.preempts(replace(self._pod, priority=priority))
            if found is not None:
                patch = {"spec": {"priority": priority, "priorityClassName": None}}
                edit = Edit(
                    verb="recreate", kind="Pod", name=self._pod.name, namespace=self._pod.namespace, object=patch
                )
                text = f"have a PriorityClass of at least {priority}, to preempt {_victims(found)}"
                yield _after_preemption("pod", text, found, (edit,))
                return


def _after_preemption(of: str, text: str, found: PostFilterResult, edits: tuple[Edit, ...]) -> Change:
    return Change(
        of=of,
        text=text,
        node=found.nominated_node,
        edits=edits,
        after_preemption=True,
        victims=victims_of(found.victims),
        violations=found.violations,
    )


def _victims(found: PostFilterResult) -> str:
    """Names the pods that are evicted, and says if a budget is broken."""
    names = listed([f"{each.key} (priority {each.priority})" for each in found.victims])
    broken = f"; {counted(found.violations, 'eviction')} would break a PodDisruptionBudget" if found.violations else ""
    return f"{counted(len(found.victims), 'pod')}: {names}{broken}"


def tried(
    trials: Trials, pod: PodInfo, text: str, raw: dict[str, Any], stand_in: dict[str, Any] | None = None
) -> Change | None:
    """The change of the pod, if it places the pod, or a pod that stands in for it. Raises PluginError."""
    try:
        changed = trials.cluster.parsed(stand_in or raw)
    except InvalidObjectError:
        return None
    trials.tried[text] = None
    placed = trials.place(changed)
    if not placed or pod.raw is None:
        return None
    patch = difference(pod.raw, raw)
    edit = Edit(verb=_verb(patch), kind="Pod", name=pod.name, namespace=pod.namespace, object=patch)
    return Change(of="pod", text=text, node=placed, edits=(edit,))


def after(change: Change, pod: PodInfo, text: str, raw: Mapping[str, Any]) -> Change:
    """A further change of the pod `raw`, combined with the earlier changes that `text` names."""
    own = [edit for edit in change.edits if (edit.kind, edit.namespace, edit.name) == ("Pod", pod.namespace, pod.name)]
    both = merged(difference(pod.raw or {}, raw), own[0].object or {}) if own else difference(pod.raw or {}, raw)
    edit = Edit(verb=_verb(both), kind="Pod", name=pod.name, namespace=pod.namespace, object=both)
    others = tuple(each for each in change.edits if each not in own)
    return replace(change, text=f"{text} and {change.text}", edits=(edit, *others))


def _verb(patch: Mapping[str, Any]) -> str:
    """How a pending pod gets the patch."""
    live = set(patch) <= {"spec", "metadata"} and set(patch.get("spec", ())) <= _LIVE
    return "patch" if live else "recreate"


def _of_edits(node: Node, edits: Sequence[NodeChange], moves: Moves | None, placed: str) -> Change:
    texts = [edit.text for edit in edits]
    before = (node, *(edit.node for edit in edits))
    made = [
        Edit(verb="patch", kind="Node", name=node.name, object=patch_of(was, edit.node))
        for was, edit in zip(before, edits, strict=False)
    ]
    if moves is not None:
        going = [(pod, node) for pod, node in moves.pods if node]
        stay = [pod.key for pod, node in moves.pods if not node]
        if going:
            names = listed([f"{pod.key} to {node}" for pod, node in going])
            texts.append(f"move {counted(len(going), 'pod')} elsewhere: {names}")
        if stay:
            texts.append(f"wait until {listed(stay)} {'has' if len(stay) == 1 else 'have'} ended")
        made += [
            Edit(verb="move" if node else "delete", kind="Pod", name=pod.name, namespace=pod.namespace, node=node)
            for pod, node in moves.pods
        ]
        placed = moves.node
    return Change(of="cluster", text=" and ".join(texts), node=placed, edits=tuple(made))
