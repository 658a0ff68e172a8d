"""InterPodAffinity: places pods near other pods or away from them, as their own terms and those of placed pods demand.

Required terms filter, preferred terms score. `cache.pods_index` knows which placed pods match and which terms they
have; it updates its counts as pods change. Next: `filtering`, `scoring`. Source: the Kubernetes documentation,
"Assigning Pods to Nodes", "Inter-pod affinity and anti-affinity".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, cast

from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, POD, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.cost import Cost
from podwright.core.framework.crowded_nodes import CrowdedFilter
from podwright.core.framework.explaining import PodChange, Why
from podwright.core.framework.interface import (
    CycleState,
    DomainPlugin,
    EnqueueExtensions,
    Feasible,
    FilterResult,
    Handle,
    Int16s,
    Plugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    Scope,
    ScorePlugin,
    WholeNumbers,
)
from podwright.core.framework.joint_rules import JointFilter, JointRule
from podwright.core.framework.status import SKIP, Status
from podwright.core.objects.affinity import NO_POD_AFFINITY
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.selectors import value_count
from podwright.core.plugins.affinity.explained import changes_of_pod, why_not_here
from podwright.core.plugins.affinity.filtering import AffinityCounts, AffinityPreFilterState
from podwright.core.plugins.affinity.joint import joint_rules
from podwright.core.plugins.affinity.scoring import AffinityPreScoreState, normalize, weighted_sums
from podwright.core.plugins.affinity.terms import own_terms
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.podindex.terms import NO_TERMS

_FILTER: Final = "PreFilterInterPodAffinity"
_SCORE: Final = "PreScoreInterPodAffinity"


@dataclass(frozen=True)
class InterPodAffinityArgs:
    """The args of InterPodAffinity.

    `hardPodAffinityWeight`: the weight of a placed pod's required affinity term in scores.
    `ignorePreferredTermsOfExistingPods`: do not score pods that have no preferred terms themselves.
    """

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def validate(self, where: str) -> Iterator[tuple[str, str]]:
        weight = self.hard_pod_affinity_weight
        if not 0 <= weight <= 100:
            yield f"{where}.hardPodAffinityWeight", f"Invalid value: {weight}: not in valid range [0, 100]"


class InterPodAffinity(
    Plugin,
    DomainPlugin,
    JointFilter,
    PreFilterPlugin,
    PreFilterExtensions,
    CrowdedFilter,
    PreScorePlugin,
    ScorePlugin,
    EnqueueExtensions,
):
    """See the module."""

    name = "InterPodAffinity"
    remoteness = 1.8
    optional = True
    scope = Scope.DOMAIN
    args_type = InterPodAffinityArgs

    def __init__(self, args: InterPodAffinityArgs | None, handle: Handle) -> None:
        args = args or InterPodAffinityArgs()
        super().__init__(args, handle)
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_existing = args.ignore_preferred_terms_of_existing_pods
        self._index = handle.cache.pods_index
        self._index.follow()

    # Scope

    def looks_beyond_node(self, pod: PodInfo) -> bool:
        return pod.pod_affinity is not NO_POD_AFFINITY

    def reaches_beyond_node(self, placed: PodInfo) -> bool:
        return placed.pod_affinity is not NO_POD_AFFINITY

    def influence(self, pod: PodInfo, other: PodInfo) -> frozenset[str] | None:
        """Does not compare namespaces, so it may name too many domains.

        A pod that matches the required affinity terms matters everywhere to one that matches them itself: as long as
        no pod matches, that one passes as the first of its group. Any other pod it can only help.
        """
        own, theirs = own_terms(pod.pod_affinity), own_terms(other.pod_affinity)
        if own.affinity.all_select(other.labels) and own.affinity.all_select(pod.labels):
            return None
        repelling = (*own.anti_affinity.selecting(other.labels), *theirs.anti_affinity.selecting(pod.labels))
        return frozenset([term.topology_key for term in repelling])

    def influence_key(self, pod: PodInfo) -> Hashable:
        return pod.labels, pod.pod_affinity

    def own_keys(self, pod: PodInfo) -> frozenset[str] | None:
        own = own_terms(pod.pod_affinity)
        return None if own.affinity.items else frozenset(own.anti_affinity.keys)

    def joint_rules(self, members: Sequence[PodInfo]) -> Iterable[JointRule]:
        return joint_rules(self._index, members)

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        existing = self._index.matching_terms(pod).anti_required
        own = pod.pod_affinity
        alone = not own.required and not own.anti_required
        if alone and not existing:
            return SKIP
        counted = AffinityCounts(self._index, pod, existing)
        if alone and not counted.existing:
            return SKIP
        state.data[_FILTER] = AffinityPreFilterState(counted)
        return None

    def add_pod(self, state: CycleState, _pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        _filtering(state).update(added, node, 1)

    def remove_pod(self, state: CycleState, _pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        _filtering(state).update(removed, node, -1)

    def filter(self, state: CycleState, _pod: PodInfo, node: NodeInfo) -> Status | None:
        return _filtering(state).filter(node)

    def filter_crowded(
        self, state: CycleState, _pod: PodInfo, node: NodeInfo, others: Sequence[PodInfo]
    ) -> Status | None:
        return _filtering(state).filter_with(others, node)

    def filter_all(self, state: CycleState, _pod: PodInfo, _table: NodeTable) -> FilterResult | None:
        return _filtering(state).filter_all()

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, _feasible: Feasible) -> Status | None:
        own = pod.pod_affinity
        if self._ignore_existing and not own.preferred and not own.anti_preferred:
            return SKIP
        matched = self._index.matching_terms(pod)
        if matched is NO_TERMS and own is NO_POD_AFFINITY:
            return SKIP
        sums = weighted_sums(self._index, pod, matched, self._hard_weight)
        if not sums:
            return SKIP
        state.data[_SCORE] = AffinityPreScoreState(self._index, sums)
        return None

    def score(self, state: CycleState, _pod: PodInfo, node: NodeInfo) -> int:
        return cast("AffinityPreScoreState", state.data[_SCORE]).score(node)

    def score_all(self, state: CycleState, _pod: PodInfo, feasible: Feasible) -> WholeNumbers:
        return cast("AffinityPreScoreState", state.data[_SCORE]).score_all(feasible)

    def normalize(self, _state: CycleState, _pod: PodInfo, scores: WholeNumbers, _feasible: Feasible) -> Int16s | int:
        return normalize(scores)

    # Hints

    def costs(self, pod: PodInfo) -> Iterable[Cost]:
        affinity = pod.pod_affinity
        if affinity is NO_POD_AFFINITY:
            return ()
        terms = [*affinity.required, *affinity.preferred, *affinity.anti_required, *affinity.anti_preferred]
        selectors = [selector for term in terms for selector in (term.selector, term.namespace_selector)]
        requirements = sum(len(each.requirements) for each in selectors)
        values = sum(map(value_count, selectors)) + sum(len(term.namespaces) for term in terms)
        return (
            Cost(len(terms), "pod affinity and anti-affinity terms", 100e-6, 3.0),
            Cost(requirements, "label requirements of pod affinity terms", 5e-6, 3.0),
            Cost(values, "label values and namespaces of pod affinity terms", 0.5e-6, 3.0),
        )

    def why_not_here(self, pod: PodInfo, node: NodeInfo, message: str) -> Why:
        return why_not_here(self.handle.cache, pod, node, message)

    def changes_of_pod(self, pod: PodInfo, node: NodeInfo) -> Iterable[PodChange]:
        return changes_of_pod(self.handle.cache, pod, node)

    def hints(self) -> Sequence[EventHint]:
        changed = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        return (
            EventHint(ClusterEvent(ASSIGNED_POD, changed), self._assigned_pod_hint),
            EventHint(ClusterEvent(POD, Action.UPDATE_POD_LABEL)),
            EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self._node_hint),
        )

    def _assigned_pod_hint(self, pod: PodInfo, before: PodInfo | None, after: PodInfo | None) -> Hint:
        """Helps if a pod came that matches the affinity, or a pod left with which anti-affinity conflicted.

        Unlike kube-scheduler's hint, this also evaluates namespace selectors by the labels of namespaces.
        """
        if not all(other is None or other.node_name or other.nominated_node_name for other in (before, after)):
            return Hint.SKIP
        own, index = own_terms(pod.pod_affinity), self._index
        if after is not None:
            attracts = own.affinity.all_match(index, after)
            if before is not None:
                attracts = attracts and not own.affinity.all_match(index, before)
                repelled = own.anti_affinity
                freed = repelled.any_match(index, before) and not repelled.any_match(index, after)
                return Hint.QUEUE if attracts or freed else Hint.SKIP
            return Hint.QUEUE if attracts else Hint.SKIP
        assert before is not None
        theirs = own_terms(before.pod_affinity).anti_affinity
        freed = own.anti_affinity.any_match(index, before) or theirs.any_match(index, pod)
        return Hint.QUEUE if freed else Hint.SKIP

    def _node_hint(self, pod: PodInfo, before: Node | None, after: Node) -> Hint:
        """Helps if a node was added or changed its domain of a term; for anti-affinity also if it left all domains."""
        own = own_terms(pod.pod_affinity)
        for key in own.affinity.keys:
            value = after.labels.get(key)
            if value is not None and (before is None or before.labels.get(key) != value):
                return Hint.QUEUE
        for key in own.anti_affinity.keys:
            if before is None:
                return Hint.QUEUE
            value = before.labels.get(key)
            if value is not None and after.labels.get(key) != value:
                return Hint.QUEUE
        return Hint.SKIP


def _filtering(state: CycleState) -> AffinityPreFilterState:
    return cast("AffinityPreFilterState", state.data[_FILTER])
