"""PodTopologySpread: spreads the pods that match a selector over topology domains.

Hard constraints (DoNotSchedule) filter, soft ones (ScheduleAnyway) score. Pods without constraints get the profile's
defaults. `cache.pods_index` counts matching pods and updates the counts as pods change. Next: `constraints`,
`filtering`, `scoring`. Source: the Kubernetes documentation, "Pod Topology Spread Constraints".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, cast

from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, POD, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.cost import Cost
from podwright.core.framework.explaining import PodChange, Why
from podwright.core.framework.interface import (
    CycleState,
    DomainPlugin,
    EnqueueExtensions,
    Feasible,
    FilterPlugin,
    FilterResult,
    Handle,
    Int64s,
    Plugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from podwright.core.framework.joint_rules import JointFilter, JointRule
from podwright.core.framework.status import SKIP, Status
from podwright.core.objects.affinity import NO_SPREAD
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.selectors import value_count
from podwright.core.plugins.spread.args import PodTopologySpreadArgs
from podwright.core.plugins.spread.constraints import Constraints, Resolver
from podwright.core.plugins.spread.explained import changes_of_pod, why_not_here
from podwright.core.plugins.spread.filtering import SpreadCounts, SpreadPreFilterState
from podwright.core.plugins.spread.joint import joint_rules
from podwright.core.plugins.spread.scoring import SpreadPreScoreState
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

_FILTER: Final = "PreFilterPodTopologySpread"
_SCORE: Final = "PreScorePodTopologySpread"


class PodTopologySpread(
    Plugin,
    DomainPlugin,
    JointFilter,
    PreFilterPlugin,
    PreFilterExtensions,
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    EnqueueExtensions,
):
    """See the module."""

    name = "PodTopologySpread"
    reason = "Spread"
    remoteness = 1.7
    optional = True
    scope = Scope.DOMAIN
    args_type = PodTopologySpreadArgs

    def __init__(self, args: PodTopologySpreadArgs | None, handle: Handle) -> None:
        args = args or PodTopologySpreadArgs()
        super().__init__(args, handle)
        self._system_defaults = args.defaulting_type == "System"
        self._compare = handle.features.enabled("TaintTolerationComparisonOperators")
        handle.cache.pods_index.follow()
        self._resolver = Resolver(args, handle.features, handle.cache.store, handle.cache.services)
        self._hard_default_keys = frozenset(
            c.topology_key for c in args.constraints if c.when_unsatisfiable == "DoNotSchedule"
        )

    # Scope

    def looks_beyond_node(self, pod: PodInfo) -> bool:
        """True if the pod has constraints, hard or soft, its own or default ones."""
        return bool(self._resolver.hard(pod) or self._resolver.soft(pod))

    def influence(self, pod: PodInfo, other: PodInfo) -> frozenset[str] | None:
        """One more pod in a domain increases only the skew of that domain.

        Ignores the selectors of default constraints, so it may name too many domains.
        """
        if pod.namespace != other.namespace:
            return frozenset()
        if pod.spread is NO_SPREAD:
            return self._hard_default_keys
        constraints = self._resolver.hard(pod)
        return frozenset([constraints.items[i].topology_key for i in constraints.matching(other.labels)])

    def influence_key(self, pod: PodInfo) -> Hashable:
        return pod.namespace, pod.labels, pod.spread

    def own_keys(self, pod: PodInfo) -> frozenset[str] | None:
        """None for a pod with hard constraints: one more pod in the domain with the fewest makes room in the others."""
        if self._resolver.hard(pod):
            return None
        return self._hard_default_keys if pod.spread is NO_SPREAD else frozenset()

    def joint_rules(self, members: Sequence[PodInfo]) -> Iterable[JointRule]:
        found = [(pod, self._resolver.hard(pod)) for pod in members]
        index, compare = self.handle.cache.pods_index, self._compare
        return joint_rules(
            [SpreadCounts(index, pod, hard, compare=compare) if hard else None for pod, hard in found], members
        )

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        constraints = self._resolver.hard(pod)
        if not constraints:
            return SKIP
        counted = SpreadCounts(self.handle.cache.pods_index, pod, constraints, compare=self._compare)
        state.data[_FILTER] = SpreadPreFilterState(counted)
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        _filtering(state).update(pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        _filtering(state).update(pod, removed, node, -1)

    def filter(self, state: CycleState, _pod: PodInfo, node: NodeInfo) -> Status | None:
        return _filtering(state).filter(node)

    def filter_all(self, state: CycleState, _pod: PodInfo, _table: NodeTable) -> FilterResult | None:
        return _filtering(state).filter_all()

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, feasible: Feasible) -> Status | None:
        constraints = self._resolver.soft(pod)
        if not constraints:
            return SKIP
        state.data[_SCORE] = SpreadPreScoreState(
            self.handle.cache.pods_index,
            pod,
            feasible,
            constraints,
            all_keys=constraints.own or not self._system_defaults,
            compare=self._compare,
        )
        return None

    def score(self, state: CycleState, _pod: PodInfo, node: NodeInfo) -> int:
        return _scoring(state).score(node)

    def score_all(self, state: CycleState, _pod: PodInfo, _feasible: Feasible) -> Int64s | int:
        return _scoring(state).score_all(self.handle.cache.deadline.point)

    def normalize(self, state: CycleState, _pod: PodInfo, scores: Int64s, _feasible: Feasible) -> Int64s | int:
        return _scoring(state).normalize(scores)

    # Hints

    def costs(self, pod: PodInfo) -> Iterable[Cost]:
        if pod.spread is NO_SPREAD:
            return ()
        selectors = [each.selector for each in pod.spread.items]
        requirements = sum(len(each.requirements) for each in selectors)
        return (
            Cost(len(selectors), "topology spread constraints", 100e-6, 3.0),
            Cost(requirements, "label requirements of topology spread constraints", 5e-6, 3.0),
            Cost(sum(map(value_count, selectors)), "label values of topology spread constraints", 0.5e-6, 3.0),
        )

    def why_not_here(self, pod: PodInfo, node: NodeInfo, _message: str) -> Why:
        return why_not_here(pod, node)

    def changes_of_pod(self, pod: PodInfo, _node: NodeInfo) -> Iterable[PodChange]:
        return changes_of_pod(pod)

    def hints(self) -> Sequence[EventHint]:
        changed = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        own = Action.UPDATE_POD_TOLERATION | Action.UPDATE_POD_LABEL
        return (
            EventHint(ClusterEvent(ASSIGNED_POD, changed), self._assigned_pod_hint),
            EventHint(ClusterEvent(POD, own), self._own_change_hint),
            EventHint(ClusterEvent(NODE, nodes), self._node_hint),
        )

    def _assigned_pod_hint(self, pod: PodInfo, before: PodInfo | None, after: PodInfo | None) -> Hint:
        """Helps if a pod that counts came or left, or a pod of the namespace started or ceased to match."""
        for other in (before, after):
            if other is not None and not (_on_a_node(other) and other.namespace == pod.namespace):
                return Hint.SKIP
        constraints = self._resolver.hard(pod)
        if before is not None and after is not None:
            return _label_hint(constraints, before.labels, after.labels)
        other = after or before
        assert other is not None
        return Hint.QUEUE if constraints.matching(other.labels) else Hint.SKIP

    def _own_change_hint(self, pod: PodInfo, before: PodInfo, after: PodInfo) -> Hint:
        constraints = self._resolver.hard(pod)
        if before.tolerations.items != after.tolerations.items and any(c.honor_taints for c in constraints.items):
            return Hint.QUEUE
        return _label_hint(constraints, before.labels, after.labels)

    def _node_hint(self, pod: PodInfo, before: Node | None, after: Node | None) -> Hint:
        """Helps if the node gained or lost a topology key, changed its domain or its taints, came or left."""
        keys = self._resolver.hard(pod).keys
        had = before is not None and all(key in before.labels for key in keys)
        has = after is not None and all(key in after.labels for key in keys)
        if before is None or after is None:
            return Hint.QUEUE if had or has else Hint.SKIP
        if had != has:
            return Hint.QUEUE
        moved = any(before.labels.get(key) != after.labels.get(key) for key in keys)
        return Hint.QUEUE if has and (moved or before.taints != after.taints) else Hint.SKIP


def _filtering(state: CycleState) -> SpreadPreFilterState:
    return cast("SpreadPreFilterState", state.data[_FILTER])


def _scoring(state: CycleState) -> SpreadPreScoreState:
    return cast("SpreadPreScoreState", state.data[_SCORE])


def _on_a_node(pod: PodInfo) -> bool:
    return bool(pod.node_name or pod.nominated_node_name)


def _label_hint(constraints: Constraints, before: Mapping[str, str], after: Mapping[str, str]) -> Hint:
    if before is after:
        return Hint.SKIP
    return Hint.QUEUE if constraints.matching(before) != constraints.matching(after) else Hint.SKIP
