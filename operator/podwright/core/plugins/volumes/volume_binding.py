"""VolumeBinding: chooses nodes that can reach the pod's volumes, and binds or provisions the volumes of waiting claims.

PreFilter sorts the claims. Filter checks the node affinity of bound volumes and plans the others (`matching`). Reserve
assumes the plan of the chosen node; PreBind writes it and waits (`assumed_plan`). Source: the Kubernetes documentation,
"Storage Classes" (volume binding mode) and "Storage Capacity".
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final

import numpy as np

from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint
from podwright.core.framework.cost import Cost
from podwright.core.framework.explaining import Why
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
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    Scope,
    ScorePlugin,
)
from podwright.core.framework.profile import ProfileError
from podwright.core.framework.shape import MAX_SHAPE_SCORE, UtilizationShapePoint, curve_of, shape_problems
from podwright.core.framework.status import SKIP, Code, Status, unresolvable
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.volumes import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    claims_of,
    share_claim,
)
from podwright.core.plugins.volumes import hints as _volume_hints
from podwright.core.plugins.volumes.assumed_plan import AssumedPlan, BindingError
from podwright.core.plugins.volumes.explained import why_not_here, why_nowhere
from podwright.core.plugins.volumes.matching import NO_MATCH, NO_SPACE, MatchOutcome, UnboundClaims, VolumePlan
from podwright.core.plugins.volumes.volume_node_affinity import affinity_mask, affinity_on
from podwright.core.state.columns.table import ABSENT, NodeTable
from podwright.core.state.deadline import Deadline
from podwright.core.state.nodeinfo import NodeInfo

_DEFAULT_SHAPE: Final = (UtilizationShapePoint(0, MAX_SHAPE_SCORE), UtilizationShapePoint(100, 0))
_OUT_OF_REACH: Final = "node(s) didn't match PersistentVolume's node affinity"
_GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

_FEW_CLAIMS: Final = 8
_FEW_VALUES: Final = 16
"""Nodes are not grouped by the values that matter of a label with so few values."""
_BOUND_REASONS: Final = ((), (_OUT_OF_REACH,), (_GONE,))
_PLAN_REASONS: Final = ((), (NO_MATCH,), (NO_SPACE,))
_ORDER: Final = (_OUT_OF_REACH, NO_MATCH, NO_SPACE, _GONE)


def _verdict(bound: tuple[str, ...], planned: tuple[str, ...]) -> Status:
    return unresolvable(*sorted(bound + planned, key=_ORDER.index))


_VERDICTS: Final = tuple(_verdict(bound, planned) for bound in _BOUND_REASONS for planned in _PLAN_REASONS)
"""Indexed by 3 · (index in _BOUND_REASONS) + (index in _PLAN_REASONS). The first entry means success and is not used.
"""
_PLAN_CODES: Final = {"": 0, NO_MATCH: 1, NO_SPACE: 2}


@dataclass(frozen=True)
class VolumeBindingArgs:
    """`bindTimeoutSeconds`: how long PreBind waits for volumes to be bound. `shape`: maps the utilisation of storage to
    a score.
    """

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] = _DEFAULT_SHAPE

    def __post_init__(self) -> None:
        if not self.shape:
            object.__setattr__(self, "shape", _DEFAULT_SHAPE)

    def validate(self, where: str) -> Iterable[tuple[str, str]]:
        if self.bind_timeout_seconds < 0:
            yield (
                f"{where}.bindTimeoutSeconds",
                (
                    f"Invalid value: {self.bind_timeout_seconds}: invalid BindTimeoutSeconds, should not be a negative "
                    "value"
                ),
            )
        yield from shape_problems(self.shape, f"{where}.shape")


@dataclass(slots=True, eq=False)
class _Claims:
    """The pod's claims and their plans in this scheduling cycle. Clones of the cycle state share it."""

    bound: tuple[PersistentVolumeClaim, ...]
    unbound: UnboundClaims | None
    """None: all claims were bound in PreFilter."""
    grouping: _Grouping | None = None
    all_bound: bool = False
    assumed: AssumedPlan | None = None
    bound_codes: np.ndarray[tuple[int], np.dtype[np.int8]] | None = None
    """3 · the index in _BOUND_REASONS for each row, of a pod with many bound claims. Their volumes do not change in a
    scheduling cycle.
    """
    scores: dict[int, int] = field(default_factory=dict)
    """Scores by `id` of an outcome. `unbound` keeps the outcomes alive."""


@dataclass(frozen=True, slots=True)
class _Grouping:
    """The outcome of each row: `outcomes[group_of[slot]]`. Valid for one `epoch` of the table."""

    epoch: int
    group_of: np.ndarray[tuple[int], np.dtype[np.intp]]
    outcomes: Sequence[MatchOutcome]


class VolumeBinding(
    Plugin,
    DomainPlugin,
    PreFilterPlugin,
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    EnqueueExtensions,
):
    """See the module."""

    name = "VolumeBinding"
    reason = "NoStorage"
    scope = Scope.DOMAIN
    args_type = VolumeBindingArgs

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._scoring = handle.features.enabled("StorageCapacityScoring")
        if not self._scoring and args.shape != _DEFAULT_SHAPE:
            problem = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
            raise ProfileError("pluginConfig[VolumeBinding].args.shape", problem)
        self._curve = curve_of(args.shape)

    def costs(self, pod: PodInfo) -> Iterable[Cost]:
        return (Cost(len(pod.volumes), "volumes", 200e-6),) if pod.volumes else ()

    def why_not_here(self, pod: PodInfo, node: NodeInfo, message: str) -> Why:
        return why_not_here(self.handle.cache, pod, node, message)

    def why_nowhere(self, pod: PodInfo, message: str) -> Why:
        return why_nowhere(self.handle.cache, pod, message)

    def hints(self) -> Sequence[EventHint]:
        changed = Action.ADD | Action.UPDATE
        return (
            EventHint(ClusterEvent("StorageClass", changed), _volume_hints.after_class_changed),
            EventHint(ClusterEvent("PersistentVolumeClaim", changed), _volume_hints.after_claim_changed),
            EventHint(ClusterEvent("PersistentVolume", changed)),
            EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            EventHint(ClusterEvent("CSINode", changed), _volume_hints.after_csi_node_changed),
            EventHint(ClusterEvent("CSIDriver", Action.UPDATE), _volume_hints.after_csi_driver_changed),
            EventHint(ClusterEvent("CSIStorageCapacity", changed), _volume_hints.after_capacity_changed),
        )

    # Scope

    def looks_beyond_node(self, pod: PodInfo) -> bool:
        return bool(pod.volumes)

    def influence(self, pod: PodInfo, other: PodInfo) -> frozenset[str] | None:
        return None if share_claim(pod, other) else frozenset()

    def influence_key(self, pod: PodInfo) -> Hashable:
        return tuple(claims_of(pod))

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        if not pod.volumes:
            return SKIP
        names = [name for name, _ in claims_of(pod)]
        if not names:
            return SKIP
        problem = self._unusable(pod)
        if problem:
            return unresolvable(problem)
        cache = self.handle.cache
        index = cache.volumes.index
        bound, waiting = [], []
        for name in names:
            cache.deadline.point()  # classes are parsed here, and may have thousands of topology terms
            claim = index.claim(pod.namespace, name)
            assert claim is not None, "_unusable has seen it"
            if claim.bound:
                bound.append(claim)
                continue
            waits = self._waits_for_consumer(claim)
            if isinstance(waits, Status):
                return waits
            if waits and not claim.volume_name:
                waiting.append(claim)
            else:
                return unresolvable("pod has unbound immediate PersistentVolumeClaims")
        unbound = UnboundClaims(waiting, index, cache.store, cache.deadline.point) if waiting else None
        state.data[self.name] = _Claims(tuple(bound), unbound)
        return None

    def filter(self, state: CycleState, _pod: PodInfo, node: NodeInfo) -> Status | None:
        claims: _Claims = state.data[self.name]
        code = self._bound_code(claims, node)
        if claims.unbound is not None:
            code += _PLAN_CODES[claims.unbound.outcome(node.name, node.present.labels).reason]
        return _VERDICTS[code] if code else None

    def filter_all(self, state: CycleState, _pod: PodInfo, table: NodeTable) -> FilterResult | None:
        claims: _Claims = state.data[self.name]
        codes = self._bound_codes(claims.bound, table)
        if claims.unbound is not None:
            claims.grouping = _group(claims.unbound, table, self.handle.cache.deadline)
            planned = np.array([_PLAN_CODES[outcome.reason] for outcome in claims.grouping.outcomes], np.int8)
            codes += planned[claims.grouping.group_of]
        return FilterResult(codes == 0, lambda: (codes, _VERDICTS))

    def _unusable(self, pod: PodInfo) -> str:
        """Why one of the pod's claims cannot be used; empty if all can."""
        index = self.handle.cache.volumes.index
        for name, ephemeral in claims_of(pod):
            claim = index.stored_claim(pod.namespace, name)
            if claim is None:
                if ephemeral:
                    return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
                return f'persistentvolumeclaim "{name}" not found'
            if claim.lost:
                return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume_name}"'
            if claim.terminating:
                return f'persistentvolumeclaim "{name}" is being deleted'
            if ephemeral and claim.owner_uid != pod.uid:
                return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
        return ""

    def _waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool | Status:
        """True if the claim's class binds volumes only for a pod, or the error that this is not known."""
        name = claim.storage_class
        found = self.handle.cache.volumes.index.storage_class(name) if name else None
        if found is None:
            return False
        if found.binding_mode is None:
            return Status(Code.ERROR, (f'VolumeBindingMode not set for StorageClass "{name}"',))
        return found.binding_mode == WAIT_FOR_FIRST_CONSUMER

    def _bound_volumes(self, claims: Sequence[PersistentVolumeClaim]) -> Iterator[PersistentVolume | None]:
        index = self.handle.cache.volumes.index
        return (index.volume(claim.volume_name) for claim in claims)

    def _bound_code(self, claims: _Claims, node: NodeInfo) -> int:
        """3 · the index in _BOUND_REASONS of the first claim that fails; 0 if none does."""
        if len(claims.bound) > _FEW_CLAIMS:
            if claims.bound_codes is None:
                claims.bound_codes = self._bound_codes(claims.bound, self.handle.cache.table)
            return int(claims.bound_codes[node.slot])
        there = node.present
        for volume in self._bound_volumes(claims.bound):
            if volume is None:
                return 6
            affinity = affinity_on(volume, there.name, self.handle.cache.store)
            if affinity is not None and not affinity.matches(there.labels):
                return 3
        return 0

    def _bound_codes(
        self, claims: Sequence[PersistentVolumeClaim], table: NodeTable
    ) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
        """int8[nodes]: `_bound_code` of each node."""
        codes = np.zeros(table.size, np.int8)
        for volume in self._bound_volumes(claims):
            if volume is None:
                codes[codes == 0] = 6
                break
            mask = affinity_mask(volume, table, self.handle.cache.store)
            if mask is not None:
                codes[~mask & (codes == 0)] = 3
        return codes

    # Score

    def pre_score(self, _state: CycleState, _pod: PodInfo, _feasible: Feasible) -> Status | None:
        return None if self._scoring else SKIP

    def score(self, state: CycleState, _pod: PodInfo, node: NodeInfo) -> int:
        claims: _Claims | None = state.data.get(self.name)
        if claims is None or claims.unbound is None:
            return 0
        return self._score_of(claims, claims.unbound.outcome(node.name, node.present.labels))

    def score_all(self, state: CycleState, _pod: PodInfo, feasible: Feasible) -> Int64s | int:
        claims: _Claims | None = state.data.get(self.name)
        if claims is None or claims.unbound is None:
            return 0
        grouping = claims.grouping
        if grouping is None or grouping.epoch != feasible.table.epoch:
            outcomes = (claims.unbound.outcome(node.name, node.labels) for node in feasible.nodes())
            return np.fromiter((self._score_of(claims, outcome) for outcome in outcomes), np.int64, len(feasible))
        scores = np.array([self._score_of(claims, outcome) for outcome in grouping.outcomes], np.int64)
        return scores[feasible.take(grouping.group_of)]

    def _score_of(self, claims: _Claims, outcome: MatchOutcome) -> int:
        score = claims.scores.get(id(outcome))
        if score is None:
            score = claims.scores[id(outcome)] = _utilization_score(outcome, self._curve)
        return score

    # Reserve and PreBind

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        claims: _Claims | None = state.data.get(self.name)
        if claims is None:
            return None
        claims.all_bound = claims.unbound is None or self._all_bound(pod)
        if claims.all_bound or claims.unbound is None:
            return None
        node = self.handle.cache.present(node_name)
        plan = None if node is None else claims.unbound.plan(node_name, node.present.labels)
        if plan is None or plan.reason:
            return Status(Code.ERROR, (f'no pod volume found for node "{node_name}"',))
        try:
            claims.assumed = AssumedPlan(plan, node_name, self.handle)
        except BindingError as error:
            return Status(Code.ERROR, (str(error),))
        return None

    def unreserve(self, state: CycleState, _pod: PodInfo, _node_name: str) -> None:
        claims: _Claims | None = state.data.get(self.name)
        if claims is not None and claims.assumed is not None:
            claims.assumed.revert()

    def pre_bind_pre_flight(self, state: CycleState, _pod: PodInfo, node_name: str) -> Status | None:
        claims: _Claims | None = state.data.get(self.name)
        if claims is None or claims.all_bound:
            return SKIP
        if claims.assumed is None:
            return Status(Code.ERROR, (f'no pod volume found for node "{node_name}"',))
        return None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        status = self.pre_bind_pre_flight(state, pod, node_name)
        if status is not None:
            return None if status.code is Code.SKIP else status
        try:
            await state.data[self.name].assumed.write(pod, self.args.bind_timeout_seconds)
        except BindingError as error:
            return Status(Code.ERROR, (str(error),))
        return None

    def _all_bound(self, pod: PodInfo) -> bool:
        index = self.handle.cache.volumes.index
        claims = (index.claim(pod.namespace, name) for name, _ in claims_of(pod))
        return all(claim is not None and claim.bound for claim in claims)


def _group(unbound: UnboundClaims, table: NodeTable, deadline: Deadline) -> _Grouping:
    """Groups nodes that share an outcome, because they do not differ in the label values that matter. With selected
    nodes, only these get a plan.
    """
    outcomes: list[MatchOutcome] = []
    slots = np.zeros(table.size, np.intp)
    if unbound.selected_nodes:
        outcomes.append(unbound.outcome("", {}))
        for slot, node in enumerate(table.nodes):
            if node is not None and node.name in unbound.selected_nodes:
                slots[slot] = len(outcomes)
                outcomes.append(unbound.outcome(node.name, node.labels))
        return _Grouping(table.epoch, slots, outcomes)
    codes = np.zeros(table.size, np.int64)
    for key in unbound.mentioned.keys:
        if key not in table.label_keys:
            continue
        labels, values, mentioned = table.labels(key), table.label_values(key), unbound.mentioned.of(key)
        if mentioned is None or len(values) <= _FEW_VALUES:
            combined = codes * (len(values) + 1) + (labels + 1)
        else:
            matter = mentioned & values.keys()
            code_of = np.ones(len(values) + 1, np.int64)  # 1: a value that does not matter
            code_of[ABSENT] = 0
            code_of[[values[value] for value in matter]] = np.arange(2, 2 + len(matter))
            combined = codes * (len(matter) + 2) + code_of[labels]
        _, codes = np.unique(combined, return_inverse=True)
    _, first, group_of = np.unique(codes * 2 + table.valid, return_index=True, return_inverse=True)
    for node in [table.nodes[slot] for slot in first]:
        deadline.point()
        outcomes.append(VolumePlan() if node is None else unbound.outcome(node.name, node.labels))
    return _Grouping(table.epoch, group_of, outcomes)


def _utilization_score(outcome: MatchOutcome, curve: Sequence[int]) -> int:
    """The mean score over the storage classes, rounded half up. `curve`: the score by percent of utilisation."""
    usage = outcome.usage()
    if not usage:
        return 0
    total = sum(
        curve[100 if not there or requested > there else requested * 100 // there]
        for requested, there in usage.values()
    )
    return math.floor(total / len(usage) + 0.5)
