"""NodeAffinity: nodeSelector, required and preferred node affinity, and the `addedAffinity` of the profile.

If a pod can only go to nodes that it names (metadata.name in matchFields, as in pods of DaemonSets), PreFilter returns
these names. So no column is built for a selector that only one pod has. Source: the Kubernetes documentation,
"Assigning Pods to Nodes".
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

import numpy as np

from podwright.core.framework.args import INT32, encode
from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.cost import Cost
from podwright.core.framework.explaining import (
    CLOSE,
    MOST_NAMED,
    REQUIRED,
    NodeChange,
    PodChange,
    Raw,
    Why,
    editable,
    some,
)
from podwright.core.framework.helpers import normalize_by_greatest, rejected_alike
from podwright.core.framework.interface import (
    CycleState,
    EnqueueExtensions,
    Feasible,
    FilterPlugin,
    FilterResult,
    Handle,
    Int64s,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from podwright.core.framework.status import SKIP, Code, Status, unresolvable
from podwright.core.objects.affinity import NO_NODE_AFFINITY, node_affinity_of
from podwright.core.objects.affinity import NodeAffinity as PodNodeAffinity
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import HOSTNAME, Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.selectors import NodeSelector, NodeSelectorTerm
from podwright.core.objects.similar_names import did_you_mean
from podwright.core.state.columns.matching import affinity_column, preference_column, preference_score_of
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

_MISMATCH: Final = unresolvable("node(s) didn't match Pod's node affinity/selector")
_ENFORCED: Final = unresolvable("node(s) didn't match scheduler-enforced node affinity")
_CONFLICT: Final = unresolvable("pod affinity terms conflict")


FEW_REQUIREMENTS: Final = 32
"""A greater node affinity is checked once for all nodes, also where the nodes are filtered one by one, as in a
preemption's dry run.
"""


# These types only check the field names of addedAffinity. `node_affinity_of` parses the values.


@dataclass(frozen=True)
class AddedRequirement:
    """A v1.NodeSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class AddedTerm:
    """A v1.NodeSelectorTerm."""

    match_expressions: tuple[AddedRequirement, ...] = ()
    match_fields: tuple[AddedRequirement, ...] = ()


@dataclass(frozen=True)
class AddedSelector:
    """A v1.NodeSelector."""

    node_selector_terms: tuple[AddedTerm, ...] = ()


@dataclass(frozen=True)
class AddedPreference:
    """A v1.PreferredSchedulingTerm."""

    weight: int = field(default=0, metadata=INT32)
    preference: AddedTerm = AddedTerm()


@dataclass(frozen=True)
class AddedAffinity:
    """A v1.NodeAffinity."""

    required_during_scheduling_ignored_during_execution: AddedSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[AddedPreference, ...] = ()


@dataclass(frozen=True)
class NodeAffinityArgs:
    """`addedAffinity`: a v1.NodeAffinity that applies to every pod of the profile, in addition to the pod's own."""

    added_affinity: AddedAffinity | None = None

    def validate(self, where: str) -> Iterator[tuple[str, str]]:
        try:
            self.parsed()
        except InvalidObjectError as error:
            yield error.where.replace("spec.affinity.nodeAffinity", f"{where}.addedAffinity", 1), error.problem

    def parsed(self) -> PodNodeAffinity:
        """Raises InvalidObjectError."""
        return node_affinity_of({"affinity": {"nodeAffinity": encode(self.added_affinity)}})


class NodeAffinity(Plugin, PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions):
    """See the module."""

    name = "NodeAffinity"
    reason = "NodeAffinity"
    scope = Scope.NODE
    normalizes_numbers = True
    zero_stays = True
    args_type = NodeAffinityArgs

    def __init__(self, args: NodeAffinityArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        added = NO_NODE_AFFINITY if args is None else args.parsed()
        self._enforced = added if added.required is not None else None
        self._added_preference = added if added.preferred else None

    def costs(self, pod: PodInfo) -> Iterable[Cost]:
        affinity = pod.node_affinity
        if affinity is NO_NODE_AFFINITY:
            return ()
        terms = [*(affinity.required.terms if affinity.required else ()), *(term for _, term in affinity.preferred)]
        requirements = [each for term in terms for each in (*term.expressions, *term.fields)]
        keys = len(affinity.node_selector) + len(requirements)
        return (
            Cost(keys, "node selector keys and node affinity requirements", 10e-6),
            Cost(sum(len(each.values) for each in requirements), "values of node affinity requirements", 0.5e-6),
        )

    def hints(self) -> Sequence[EventHint]:
        return (EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self._node_hint),)

    def pre_filter(self, _state: CycleState, pod: PodInfo) -> PreFilterResult | Status | None:
        affinity = pod.node_affinity
        if affinity.required is None:
            return SKIP if not affinity.node_selector and self._enforced is None else None
        names = _named_nodes(affinity.required.terms)
        if names is None:
            return None
        return PreFilterResult(names) if names else _CONFLICT

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        there = node.present
        if self._enforced is not None and not self._enforced.matches(there.labels, there.name):
            return _ENFORCED
        affinity = pod.node_affinity
        if affinity.size <= FEW_REQUIREMENTS:
            return None if affinity.matches(there.labels, there.name) else _MISMATCH
        return None if affinity_column(self.handle.cache.derived, affinity)[node.slot] else _MISMATCH

    def verdict_key(self, pod: PodInfo) -> Hashable:
        return pod.node_affinity

    def filter_all(self, _state: CycleState, pod: PodInfo, _table: NodeTable) -> FilterResult | None:
        derived = self.handle.cache.derived
        own = affinity_column(derived, pod.node_affinity)
        if self._enforced is None:
            return rejected_alike(own, _MISMATCH)
        enforced = affinity_column(derived, self._enforced)
        return FilterResult(own & enforced, lambda: (enforced.astype(np.int8), (_ENFORCED, _MISMATCH)))

    def pre_score(self, _state: CycleState, pod: PodInfo, _feasible: Feasible) -> Status | None:
        if pod.node_affinity.problem:
            return Status(Code.ERROR, (pod.node_affinity.problem,))
        return None if pod.node_affinity.preferred or self._added_preference is not None else SKIP

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        score = preference_score_of(node.present, pod.node_affinity)
        if self._added_preference is not None:
            score += preference_score_of(node.present, self._added_preference)
        return score

    def score_all(self, _state: CycleState, pod: PodInfo, feasible: Feasible) -> Int64s | int:
        derived = self.handle.cache.derived
        scores: Int64s | int = 0
        if pod.node_affinity.preferred:
            scores = feasible.take(preference_column(derived, pod.node_affinity))
        if self._added_preference is not None:
            scores = feasible.take(preference_column(derived, self._added_preference)) + scores
        return scores

    def normalize(self, _state: CycleState, _pod: PodInfo, scores: Int64s | int, _feasible: Feasible) -> Int64s | int:
        return normalize_by_greatest(scores)

    def why_not_here(self, pod: PodInfo, node: NodeInfo, _message: str) -> Why:
        labels, affinity = node.present.labels, pod.node_affinity
        found = [
            f"the pod wants {key}={value}, the node has {f'{key}={labels[key]}' if key in labels else 'no such label'}"
            for key, value in affinity.node_selector.items()
            if labels.get(key) != value
        ]
        required = affinity.required
        if required is not None and not required.matches(labels, node.name):
            if not any(term.expressions or term.fields for term in required.terms):
                found.append("its required terms are empty, and match no node")
            for term in required.terms:
                for each in term.expressions:
                    if not each.matches_value(labels.get(each.key)):
                        values = f" ({', '.join(sorted(each.values)[:MOST_NAMED])})" if each.values else ""
                        has = f"{each.key}={labels[each.key]}" if each.key in labels else "no such label"
                        found.append(f"the pod wants {each.key} {each.operator}{values}, the node has {has}")
                found += [
                    f"the pod wants the node {each.operator} {', '.join(sorted(each.values)[:MOST_NAMED])}"
                    for each in term.fields
                    if not each.matches_value(node.name)
                ]
        names = {node.name for node in self.handle.cache.table.nodes if node is not None}
        return Why(text=_missing_node(affinity, names), detail=some(found))

    def why_nowhere(self, pod: PodInfo, _message: str) -> Why:
        names = {node.name for node in self.handle.cache.table.nodes if node is not None}
        return Why(text=_missing_node(pod.node_affinity, names))

    def changes_of_pod(self, pod: PodInfo, node: NodeInfo) -> Iterable[PodChange]:
        labels, made, texts = node.present.labels, editable(pod), []
        selector = dict(made["spec"].get("nodeSelector") or {})
        for key, value in [*selector.items()]:
            if labels.get(key) != value:
                texts.append(_corrected(selector, key, value, labels))
        if texts:
            made["spec"]["nodeSelector"] = selector
        texts += _corrected_terms(made["spec"], pod.node_affinity.required, node)
        if texts:
            yield PodChange(" and ".join(texts), made)

    def change_of_node(self, pod: PodInfo, node: Node) -> NodeChange | None:
        """Labels that the pod selects. Host names are the kubelet's."""
        selected = pod.node_affinity.node_selector.items()
        labels = {key: value for key, value in selected if node.labels.get(key) != value}
        required = pod.node_affinity.required
        if required is not None and not required.matches(node.labels, node.name):
            for each in next((term.expressions for term in required.terms if not term.fields), ()):
                if each.matches_value(node.labels.get(each.key)):
                    continue
                if each.operator != "In":
                    return None
                labels[each.key] = min(each.values)
        if not labels or HOSTNAME in labels:
            return None
        written = ", ".join(f"{key}={value}" for key, value in labels.items())
        return NodeChange(f"label node {node.name} with {written}", replace(node, labels={**node.labels, **labels}))

    def _node_hint(self, pod: PodInfo, before: Node | None, after: Node) -> Hint:
        if self._enforced is not None and not self._enforced.matches(after.labels, after.name):
            return Hint.SKIP
        if not pod.node_affinity.matches(after.labels, after.name):
            return Hint.SKIP
        if before is not None and pod.node_affinity.matches(before.labels, before.name):
            return Hint.SKIP
        return Hint.QUEUE


def _named_nodes(terms: Sequence[NodeSelectorTerm]) -> frozenset[str] | None:
    """The only nodes that the terms can match, by their metadata.name fields. None if a term does not restrict the
    name.
    """
    names: set[str] = set()
    for term in terms:
        wanted = [requirement.values for requirement in term.fields if requirement.operator == "In"]
        if not wanted:
            return None
        names.update(wanted[0].intersection(*wanted[1:]))
    return frozenset(names) if terms else None


def _missing_node(affinity: PodNodeAffinity, names: Collection[str]) -> str:
    """The only node that the pod accepts, if no node has that name."""
    terms = () if affinity.required is None else affinity.required.terms
    wanted = {affinity.node_selector[HOSTNAME]} if HOSTNAME in affinity.node_selector else set()
    if len(terms) == 1:
        for each in (*terms[0].expressions, *terms[0].fields):
            if each.operator == "In" and each.key in (HOSTNAME, "metadata.name"):
                wanted |= each.values
    if not wanted or wanted & {*names}:
        return ""
    close = did_you_mean(min(wanted), names) if len(wanted) == 1 else ""
    return f"the pod wants a node named {' or '.join(sorted(wanted)[:MOST_NAMED])}, and there is none{close}"


# Changes of a pod


def _corrected(selector: Raw, key: str, value: str, labels: Mapping[str, str]) -> str:
    if key in labels:
        selector[key] = labels[key]
        return f"select {key}={labels[key]} instead of {value}"
    del selector[key]
    close = difflib.get_close_matches(key, labels, n=1, cutoff=CLOSE)
    if close and labels[close[0]] == value:
        selector[close[0]] = value
        return f"select {close[0]}={value} instead of {key}={value}"
    return f"do not select {key}={value}"


def _corrected_terms(spec: Raw, required: NodeSelector | None, node: NodeInfo) -> list[str]:
    """Corrects the required term that comes nearest to matching the node."""
    labels, name = node.present.labels, node.name
    if required is None or required.matches(labels, name):
        return []
    if all(not term.expressions and not term.fields for term in required.terms):
        del spec["affinity"]["nodeAffinity"][REQUIRED]
        return ["do not require empty terms, which match no node"]
    wrong = [
        [i for i, each in enumerate(term.expressions) if not each.matches_value(labels.get(each.key))]
        for term in required.terms
    ]
    fields = [[i for i, each in enumerate(term.fields) if not each.matches_value(name)] for term in required.terms]
    usable = [index for index, term in enumerate(required.terms) if term.expressions or term.fields]
    best = min(usable, key=lambda index: len(wrong[index]) + len(fields[index]))
    affinity = spec["affinity"]["nodeAffinity"]
    term = affinity[REQUIRED]["nodeSelectorTerms"][best]
    expressions = list(term.get("matchExpressions") or ())
    texts = [_corrected_expression(expressions, index, labels) for index in wrong[best]]
    if wrong[best]:
        term["matchExpressions"] = [each for each in expressions if each is not None]
    if fields[best]:
        left = [each for i, each in enumerate(term.get("matchFields") or ()) if i not in fields[best]]
        term["matchFields"] = left
        texts.append("do not name the node in matchFields")
    if not term.get("matchExpressions") and not term.get("matchFields"):
        del affinity[REQUIRED]
    return texts


def _corrected_expression(expressions: list[Any], index: int, labels: Mapping[str, str]) -> str:
    each = expressions[index]
    key, operator, values = each.get("key"), each.get("operator"), list(each.get("values") or ())
    if operator == "In" and key in labels:
        expressions[index] = {**each, "values": [*values, labels[key]]}
        return f"allow {key}={labels[key]}, too, beside {', '.join(values[:3])}"
    close = difflib.get_close_matches(str(key), labels, n=1, cutoff=CLOSE)
    if operator == "In" and close and labels[close[0]] in values:
        expressions[index] = {**each, "key": close[0]}
        return f"name the label {close[0]} instead of {key}"
    expressions[index] = None
    return f"do not require {key} {operator} {', '.join(values[:3])}".rstrip()
