"""Which pods may move, and which nodes may be emptied or take them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from typing import Final

from podwright.core.framework.framework import Framework
from podwright.core.framework.program import Solver
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo, belongs_to_node
from podwright.core.preemption.budgets import BudgetRules
from podwright.core.queues.queues import queues_of
from podwright.core.rebalance.rules import RebalanceRules
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.nominator import SYSTEM_CRITICAL

NOT_PROVABLE: Final = "is of another scheduler, or of a policy with extenders, rules or plugins of others"
SYSTEM_NAMESPACES: Final = frozenset({"kube-system", "kube-public", "kube-node-lease"})
_LEAVING: Final = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
    }
)
"""The keys of taints of nodes that an autoscaler is about to remove. Sources: cluster-autoscaler/utils/taints,
Karpenter's pkg/apis/v1/taints.go.
"""


@dataclass(frozen=True, slots=True)
class View:
    """The inputs of a planner beside the cache. `framework_of`: the plugins that decide about a pod; None if a pod
    created in its place would not be placed as planned. `now`: seconds since the epoch.
    """

    framework_of: Callable[[PodInfo], Framework | None]
    is_exempt: Callable[[PodInfo], bool]
    """True if a policy of the pod's namespace keeps it where it is."""
    now: float
    waiting: Sequence[PodInfo] = ()
    """The pods that wait for a node."""
    spared: Collection[str] = ()
    """The uids of controllers that did not create a moved pod again, and of pods whose move was refused."""
    namespaces: Collection[str] = field(default=SYSTEM_NAMESPACES)
    """The namespaces whose pods never move."""
    solve: Solver | None = None
    """See ExactSearch."""
    elapsed: Callable[[], float] = lambda: 0.0
    """The seconds since the planner was made, if its time is bounded."""


class Movable:
    """See the module."""

    def __init__(self, cache: Cache, rules: RebalanceRules, view: View, budgets: BudgetRules) -> None:
        self._cache = cache
        self._rules = rules
        self._view = view
        self._budgets = budgets
        self._queues = queues_of(cache)
        self._owners_waiting = {pod.owner.uid for pod in view.waiting if pod.owner is not None}
        queues = self._queues
        self._queues_wait = queues.active and any(queues.queue_of(pod) for pod in view.waiting)
        self.without_budget: set[str] = set()
        """The uids of the pods that were asked about and might move if their budget allowed any disruption."""

    def is_of_system(self, pod: PodInfo) -> bool:
        return pod.namespace in self._view.namespaces or pod.priority >= SYSTEM_CRITICAL

    def why_not(self, pod: PodInfo) -> str:
        """Why the pod stays on its node; "" if it may move."""
        rules, view, owner = self._rules, self._view, pod.owner
        if pod.terminating or self._cache.is_assumed(pod.uid):
            return "is on its way"
        if self.is_of_system(pod):
            return "belongs to the system"
        if not rules.matches(pod, self._cache.namespace_labels(pod.namespace)):
            return "is not selected"
        if owner is None or owner.kind not in rules.owners:
            return "has no controller of the given kinds, which would create it again"
        if view.is_exempt(pod):
            return "is exempted by a LocalSchedulerPolicy"
        if pod.stays:
            return "has an annotation that forbids autoscalers to move it"
        if pod.local_storage and not rules.local_storage:
            return "has an emptyDir or hostPath volume, whose content would stay behind"
        if view.now - pod.creation < rules.cooldown:
            return "is younger than the cooldown"
        if owner.uid in view.spared:
            return "its controller did not create a moved pod again in time"
        if pod.uid in view.spared:
            return "was refused an eviction, or its place could not be written"
        if owner.uid in self._owners_waiting:
            return "its controller has a pod that waits"
        return self._why_not_proved(pod)

    def _why_not_proved(self, pod: PodInfo) -> str:
        """Why it could not be proved that a pod created in its place goes where it is planned."""
        if pod.group:
            return "is a member of a pod group"
        if pod.resource_claims:
            return "has resource claims"
        if pod.ports:
            return "has host ports"
        if self._queues_wait and self._queues.queue_of(pod):
            return "has a queue, and pods of queues wait"
        budgets = self._budgets.of(pod.namespace) if pod.labels else None
        applying = None if budgets is None else budgets.selected.by(pod.labels)
        if applying is not None and applying[1].sum() > 1:
            return "is selected by several PodDisruptionBudgets, so the Eviction API refuses it"
        if self._view.framework_of(pod) is None:
            return NOT_PROVABLE
        if budgets is not None and applying is not None and budgets.allowed[applying[0]] <= 0:
            self.without_budget.add(pod.uid)
            return "is selected by a PodDisruptionBudget that allows no disruption"
        return ""


def may_be_emptied(node: Node) -> bool:
    """False for nodes that somebody else takes care of."""
    return not any(taint.managed for taint in node.taints) and may_take(node)


def may_take(node: Node) -> bool:
    """False for nodes that are cordoned or about to be removed. Filters decide about all else."""
    return not node.unschedulable and not node.terminating and not any(taint.key in _LEAVING for taint in node.taints)


def to_move(info: NodeInfo) -> Sequence[PodInfo]:
    """The pods that must leave the node to empty it: not those of the node itself, and not those that leave anyway."""
    return [pod for pod in info.pods.values() if not pod.terminating and not belongs_to_node(pod)]
