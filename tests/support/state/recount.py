"""Verdicts and scores of spread constraints and pod affinity, counted from all pods each time: slow, simple, and
independent of the plugins.

The rules are those of the Kubernetes documentation and of kube-scheduler 1.37. Verdicts are reasons by node name, ""
for a node that passes. Scores are normalised.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from podwright.core.objects.affinity import PodAffinityTerm
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache

HOSTNAME = "kubernetes.io/hostname"
SKEWED = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{SKEWED} (missing required label)"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass
class World:
    """Nodes with the pods on them, and the labels of known namespaces."""

    nodes: dict[str, tuple[Node, list[PodInfo]]]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def without(self, pod: PodInfo) -> World:
        nodes = {name: (node, [p for p in pods if p is not pod]) for name, (node, pods) in self.nodes.items()}
        return World(nodes, self.namespaces)

    def having(self, pod: PodInfo, node_name: str) -> World:
        nodes = {n: (node, [*pods, pod] if n == node_name else pods) for n, (node, pods) in self.nodes.items()}
        return World(nodes, self.namespaces)


def world_of(cache: Cache) -> World:
    nodes = {n: (info.node, list(info.pods.values())) for n, info in cache.nodes.items() if info.node is not None}
    known = {raw["metadata"]["name"]: raw["metadata"].get("labels") or {} for raw in cache.store.list("Namespace")}
    return World(nodes, known)


# Spread


@dataclass
class Rule:
    """A spread constraint. `matches`: whether the selector matches a pod's labels. `counts_none`: the selector is
    empty.
    """

    key: str
    skew: int
    matches: Callable[[Mapping[str, str]], bool]
    counts_none: bool = False
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


def rules_of(pod: PodInfo, *, hard: bool) -> list[Rule]:
    """The pod's own constraints of one kind."""
    rules = []
    for constraint in pod.spread.items:
        if constraint.hard is not hard:
            continue
        further = {key: pod.labels[key] for key in constraint.match_label_keys if key in pod.labels}

        def matches(labels, selector=constraint.selector, further=further):
            return selector.matches(labels) and all(labels.get(key) == value for key, value in further.items())

        rules.append(
            Rule(
                constraint.topology_key,
                constraint.max_skew,
                matches,
                constraint.selector.empty and not further,
                constraint.min_domains,
                constraint.honor_affinity,
                constraint.honor_taints,
            )
        )
    return rules


def spread_verdicts(world: World, pod: PodInfo, rules: list[Rule]) -> dict[str, str]:
    domains = [_domains(world, pod, rule, [r.key for r in rules]) for rule in rules]
    return {name: _spread_verdict(node, pod, rules, domains) for name, (node, _) in world.nodes.items()}


def _spread_verdict(node: Node, pod: PodInfo, rules: list[Rule], domains: list[Counter[str]]) -> str:
    for rule, counts in zip(rules, domains, strict=True):
        if rule.key not in node.labels:
            return NO_LABEL
        least = min(counts.values(), default=0) if len(counts) >= rule.min_domains else 0
        if counts.get(node.labels[rule.key], 0) + rule.matches(pod.labels) - least > rule.skew:
            return SKEWED
    return ""


def _domains(world: World, pod: PodInfo, rule: Rule, keys: Iterable[str]) -> Counter[str]:
    """Matching pods by domain, over the eligible nodes that have all keys."""
    counts: Counter[str] = Counter()
    for node, pods in world.nodes.values():
        if all(key in node.labels for key in keys) and _included(node, pod, rule):
            counts[node.labels.get(rule.key, "")] += _matching(pods, pod, rule)
    return counts


def _included(node: Node, pod: PodInfo, rule: Rule) -> bool:
    if rule.honor_affinity and not pod.node_affinity.matches(node.labels, node.name):
        return False
    taints = [taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute")]
    return not rule.honor_taints or all(pod.tolerations.tolerate(taint) for taint in taints)


def _matching(pods: Iterable[PodInfo], pod: PodInfo, rule: Rule) -> int:
    if rule.counts_none:
        return 0
    return sum(not p.terminating and p.namespace == pod.namespace and rule.matches(p.labels) for p in pods)


def spread_scores(
    world: World, pod: PodInfo, rules: list[Rule], feasible: list[str], *, all_keys: bool = True
) -> dict[str, int]:
    keys = [rule.key for rule in rules] if all_keys else []
    scored = [name for name in feasible if all(key in world.nodes[name][0].labels for key in keys)]
    raw = dict.fromkeys(scored, 0.0)
    for rule in rules:
        values = {world.nodes[name][0].labels.get(rule.key, "") for name in scored}
        weight = math.log((len(scored) if rule.key == HOSTNAME else len(values)) + 2)
        counts = _domains(world, pod, rule, keys)
        for name in scored:
            node, pods = world.nodes[name]
            if rule.key in node.labels:
                count = _matching(pods, pod, rule) if rule.key == HOSTNAME else counts.get(node.labels[rule.key], 0)
                raw[name] += count * weight + (rule.skew - 1)
    whole = {name: math.floor(score + 0.5) for name, score in raw.items()}
    greatest, least = max(whole.values(), default=0), min(whole.values(), default=0)
    normal = {n: 100 * (greatest + least - score) // greatest if greatest else 100 for n, score in whole.items()}
    return {name: normal.get(name, 0) for name in feasible}


# Affinity


def matched_by_pending(world: World, term: PodAffinityTerm, pod: PodInfo) -> bool:
    """True if a pending pod's term matches a pod. A namespace selector matches only known namespaces, unless it is
    empty.
    """
    labels = world.namespaces.get(pod.namespace)
    selector = term.namespace_selector
    within = pod.namespace in term.namespaces or selector.empty or (labels is not None and selector.matches(labels))
    return within and term.selector.matches(pod.labels)


def matched_by_placed(world: World, term: PodAffinityTerm, pod: PodInfo) -> bool:
    """True if a placed pod's term matches a pod. An unknown namespace has no labels."""
    return term.matches(pod.namespace, world.namespaces.get(pod.namespace, {}), pod.labels)


def affinity_verdicts(world: World, pod: PodInfo) -> dict[str, str]:
    own = pod.pod_affinity
    wanted: Counter[tuple[str, str]] = Counter()
    hated: Counter[tuple[str, str]] = Counter()
    closed: Counter[tuple[str, str]] = Counter()
    for node, pods in world.nodes.values():
        for other in pods:
            if own.required and all(matched_by_pending(world, term, other) for term in own.required):
                _note(wanted, node, own.required)
            _note(hated, node, [term for term in own.anti_required if matched_by_pending(world, term, other)])
            anti = other.pod_affinity.anti_required
            _note(closed, node, [term for term in anti if matched_by_placed(world, term, pod)])
    first = not wanted and all(matched_by_pending(world, term, pod) for term in own.required)
    found = {}
    for name, (node, _) in world.nodes.items():
        keys = [term.topology_key for term in own.required]
        attracted = all(key in node.labels and (first or (key, node.labels[key]) in wanted) for key in keys)
        pairs = set(node.labels.items())
        found[name] = (
            AFFINITY
            if not attracted
            else ANTI_AFFINITY
            if pairs & set(hated)
            else EXISTING
            if pairs & set(closed)
            else ""
        )
    return found


def _note(counts: Counter[tuple[str, str]], node: Node, terms: Iterable[PodAffinityTerm], weight: int = 1) -> None:
    for term in terms:
        if term.topology_key in node.labels:
            counts[term.topology_key, node.labels[term.topology_key]] += weight * (term.weight or 1)


def affinity_scores(
    world: World, pod: PodInfo, feasible: list[str], *, hard_weight: int = 1, ignore: bool = False
) -> dict[str, int] | None:
    """None if no term applies."""
    own = pod.pod_affinity
    if ignore and not own.preferred and not own.anti_preferred:
        return None
    pairs: Counter[tuple[str, str]] = Counter()
    for node, pods in world.nodes.values():
        for other in pods:
            theirs = other.pod_affinity
            _note(pairs, node, [t for t in own.preferred if matched_by_pending(world, t, other)])
            _note(pairs, node, [t for t in own.anti_preferred if matched_by_pending(world, t, other)], -1)
            _note(pairs, node, [t for t in theirs.preferred if matched_by_placed(world, t, pod)])
            _note(pairs, node, [t for t in theirs.anti_preferred if matched_by_placed(world, t, pod)], -1)
            if hard_weight:
                _note(pairs, node, [t for t in theirs.required if matched_by_placed(world, t, pod)], hard_weight)
    if not pairs:
        return None
    raw = {name: sum(pairs.get(pair, 0) for pair in world.nodes[name][0].labels.items()) for name in feasible}
    least, greatest = min(raw.values(), default=0), max(raw.values(), default=0)
    return {n: int(100 * ((s - least) / (greatest - least))) if greatest > least else 0 for n, s in raw.items()}
