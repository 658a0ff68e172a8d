"""Estimates from a pod's size, before any attempt at it, whether attempts at it are far more costly than ordinary ones.

Any user may create a pod with thousands of terms. Plugins need time in proportion to these, and all pods share one thread. So such
a pod waits in a lane of its own (see `active_pods`). The lane's share of the time is measured, so the estimate may be rough: a pod that
turns out to be cheap hardly waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from podwright.core.objects.affinity import (
    NO_NODE_AFFINITY,
    NO_POD_AFFINITY,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
)
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.selectors import LabelSelector, Requirement, value_count

ORDINARY: Final = 32
"""A pod with at most this many items of each kind is never costly."""
COSTLY_SECONDS: Final = 0.01
"""An attempt is costly from here on. Ordinary ones take about a millisecond."""
COSTLY_GROUP_SECONDS: Final = 0.3
"""An attempt at a pod group is costly from here on. With 5,000 full nodes, a gang of 20 to 100 members that may preempt takes 0.1 to 0.25
seconds, also if each member has six pod affinity terms of its own; 1,000 such members take 1.9 seconds."""
NODES: Final = 5_000
"""The number of nodes that the estimates are made for."""


@dataclass(frozen=True, slots=True)
class AttemptCost:
    """What makes attempts at a pod costly: `count` items, for example "pod affinity terms", of which `plugin` checks each.

    `seconds`: the estimated time of an attempt on NODES nodes. `elsewhere`: the estimated time that binding such a pod takes in the API server,
    which reads, checks, stores and sends the object, and in our own watches: about as long as an attempt that does not preempt.
    """

    seconds: float
    elsewhere: float
    plugin: str
    count: int
    items: str


@dataclass(frozen=True, slots=True)
class _Kind:
    """`seconds`: the time for one item in an attempt that does not preempt. `dry_run`: the factor for an attempt that may preempt."""

    plugin: str
    items: str
    seconds: float
    dry_run: float = 1.0


_KINDS: Final = (
    _Kind("InterPodAffinity", "pod affinity and anti-affinity terms", 100e-6, 3.0),
    _Kind("InterPodAffinity", "label requirements of pod affinity terms", 5e-6, 3.0),
    _Kind("InterPodAffinity", "label values and namespaces of pod affinity terms", 0.5e-6, 3.0),
    _Kind("PodTopologySpread", "topology spread constraints", 100e-6, 3.0),
    _Kind("PodTopologySpread", "label requirements of topology spread constraints", 5e-6, 3.0),
    _Kind("PodTopologySpread", "label values of topology spread constraints", 0.5e-6, 3.0),
    _Kind("NodeAffinity", "node selector keys and node affinity requirements", 10e-6),
    _Kind("NodeAffinity", "values of node affinity requirements", 0.5e-6),
    _Kind("TaintToleration", "tolerations", 5e-6),
    _Kind("NodeResourcesFit", "requested resources", 5e-6),
    _Kind("NodePorts", "host ports", 5e-6),
    _Kind("ImageLocality", "images", 5e-6),
    _Kind("VolumeBinding", "volumes", 200e-6),
    _Kind("DynamicResources", "resource claims", 20e-6),
)
"""In the order of `_counts`. Times as `make hostile` measures them on NODES nodes with twice as many placed pods, rounded up."""

_MEMBER_SECONDS: Final = 50e-6
"""For each member of a pod group that differs from the others, without its terms."""
_PREEMPTING_MEMBER_SECONDS: Final = 500e-6
"""The same if the member may preempt."""


def estimate(pod: PodInfo) -> AttemptCost | None:
    """The cost of an attempt at the pod; None if it is ordinary."""
    counts = _counts(pod)
    if max(counts) <= ORDINARY:
        return None
    preempts = _preempts(pod)
    parts = [
        AttemptCost(
            seconds=count * kind.seconds * (kind.dry_run if preempts else 1.0),
            elsewhere=count * kind.seconds,
            plugin=kind.plugin,
            count=count,
            items=kind.items,
        )
        for kind, count in zip(_KINDS, counts, strict=True)
        if count > ORDINARY
    ]
    seconds = sum(part.seconds for part in parts)
    if seconds < COSTLY_SECONDS:
        return None
    most = max(parts, key=lambda part: part.seconds)
    return replace(most, seconds=seconds, elsewhere=sum(part.elsewhere for part in parts))


def is_costly_group(members: Iterable[PodInfo]) -> bool:
    """Whether an attempt at these members of a pod group is estimated to take COSTLY_GROUP_SECONDS. Members with equal specs count once."""
    differing = {
        tuple(map(id, (pod.requests, pod.node_affinity, pod.pod_affinity, pod.spread, pod.tolerations))): pod
        for pod in members
    }
    seconds = 0.0
    for pod in differing.values():
        seconds += _member_seconds(pod)
        if seconds >= COSTLY_GROUP_SECONDS:
            return True
    return False


def _member_seconds(pod: PodInfo) -> float:
    preempts = _preempts(pod)
    items = (
        count * kind.seconds * (kind.dry_run if preempts else 1.0)
        for kind, count in zip(_KINDS, _counts(pod), strict=True)
    )
    return (_PREEMPTING_MEMBER_SECONDS if preempts else _MEMBER_SECONDS) + sum(items)


def _preempts(pod: PodInfo) -> bool:
    return pod.priority > 0 and pod.preemption_policy != "Never"


def _counts(pod: PodInfo) -> tuple[int, ...]:
    affinity, nodes, spread = pod.pod_affinity, pod.node_affinity, pod.spread.items
    terms = 0 if affinity is NO_POD_AFFINITY else sum(map(len, _terms(affinity)))
    return (
        terms,
        sum(_requirement_count(term.selector, term.namespace_selector) for group in _terms(affinity) for term in group)
        if terms
        else 0,
        sum(map(_value_and_namespace_count, chain.from_iterable(_terms(affinity)))) if terms else 0,
        len(spread),
        sum(_requirement_count(constraint.selector) for constraint in spread),
        sum(value_count(constraint.selector) for constraint in spread),
        0 if nodes is NO_NODE_AFFINITY else len(nodes.node_selector) + sum(1 for _ in _node_requirements(nodes)),
        0 if nodes is NO_NODE_AFFINITY else sum(len(each.values) for each in _node_requirements(nodes)),
        len(pod.tolerations.items),
        len(pod.requests.amounts),
        len(pod.ports),
        pod.images.count,
        len(pod.volumes),
        len(pod.resource_claims),
    )


def _terms(affinity: PodAffinity) -> tuple[Sequence[PodAffinityTerm], ...]:
    return affinity.required, affinity.preferred, affinity.anti_required, affinity.anti_preferred


def _requirement_count(*selectors: LabelSelector) -> int:
    return sum(len(selector.requirements) for selector in selectors)


def _value_and_namespace_count(term: PodAffinityTerm) -> int:
    return value_count(term.selector) + value_count(term.namespace_selector) + len(term.namespaces)


def _node_requirements(affinity: NodeAffinity) -> Iterator[Requirement]:
    terms = () if affinity.required is None else affinity.required.terms
    both = (*terms, *(term for _, term in affinity.preferred))
    return chain.from_iterable((*term.expressions, *term.fields) for term in both)
