"""NodeResourcesFit: rejects nodes without enough free resources, and scores nodes by their utilisation with the pod.

Filtering compares the pod's requests with the free amount of each resource, and the number of pods with its limit.
Scoring assumes defaults for containers that request no CPU or memory, and uses one of three strategies: see
`strategies`. Source: the Kubernetes documentation, "Scheduler Configuration" and "Resource Bin Packing".

An extended resource for which a DeviceClass stands is compared only on nodes that offer it; on the others
DynamicResources provides devices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import takewhile
from operator import sub
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.cluster_events import (
    ASSIGNED_POD,
    NODE,
    POD,
    Action,
    ClusterEvent,
    EventHint,
    Hint,
    HintKeys,
)
from podwright.core.framework.cost import ORDINARY, Cost
from podwright.core.framework.crowded_nodes import FITS, UNKNOWN, CrowdFilter
from podwright.core.framework.explaining import PodChange, Why
from podwright.core.framework.interface import (
    Bools,
    CycleState,
    EnqueueExtensions,
    Feasible,
    FilterResult,
    Handle,
    Int16s,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    ResourceFilter,
    Scope,
    ScorePlugin,
    Slots,
)
from podwright.core.framework.shape import UtilizationShapePoint, curve_of, shape_problems
from podwright.core.framework.status import Status, unresolvable, unschedulable
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.classes import IMPLICIT_RESOURCE
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU, MEMORY, PODS, Requests, is_extended_resource, is_qualified_name
from podwright.core.plugins.resources.args import DEFAULT_RESOURCES, ResourceSpec
from podwright.core.plugins.resources.demand import Demand
from podwright.core.plugins.resources.explained import changes_of_pod, remoteness, why_not_here
from podwright.core.plugins.resources.row_cache import RowCache
from podwright.core.plugins.resources.rows import Column, Floats, ResourceRows, Rows
from podwright.core.plugins.resources.score_formula import ScoreFormula
from podwright.core.plugins.resources.shared import Shared, shared
from podwright.core.plugins.resources.strategies import SIMPLE, AllocationStrategy, RequestedToCapacityRatio
from podwright.core.preemption.units import victims_are_going
from podwright.core.state.cache import Cache
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.crowds import LARGEST, Crowd
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.nominator import SYSTEM_CRITICAL

_TOO_MANY_PODS: Final = "Too many pods"
_RATIO: Final = "RequestedToCapacityRatio"
_STRATEGIES: Final = (*SIMPLE, _RATIO)
_NAME_RULE: Final = (
    "must be a qualified name: letters, digits, '-', '_' and '.', at most 63, with an optional DNS domain and '/' "
    "before"
)
CheckedRequests = Sequence[tuple[str, int]]
_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class RequestedToCapacityRatioParam:
    """The curve that maps utilisation to score."""

    shape: tuple[UtilizationShapePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoringStrategy:
    """`type`: LeastAllocated, MostAllocated or RequestedToCapacityRatio. Empty `resources` mean CPU and memory."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    def __post_init__(self) -> None:
        if not self.resources:
            object.__setattr__(self, "resources", DEFAULT_RESOURCES)

    def problems(self, where: str) -> Iterable[tuple[str, str]]:
        """The problems, as (field path, problem)."""
        if self.type not in _STRATEGIES:
            listed = ", ".join(f'"{name}"' for name in sorted(_STRATEGIES))
            yield f"{where}.type", f'Unsupported value: "{self.type}": supported values: {listed}'
        for i, resource in enumerate(self.resources):
            if not 0 < resource.weight <= 100:
                problem = f"resource weight of {resource.name} not in valid range (0, 100]"
                yield f"{where}.resources[{i}].weight", f"Invalid value: {resource.weight}: {problem}"
        where = f"{where}.requestedToCapacityRatio"
        if self.type == _RATIO:
            if self.requested_to_capacity_ratio is None:
                yield where, f"Required value: must be specified when type is {_RATIO}"
            else:
                yield from shape_problems(self.requested_to_capacity_ratio.shape, f"{where}.shape")
        elif self.requested_to_capacity_ratio is not None:
            yield where, f"Forbidden: must be nil when type is not {_RATIO}"


@dataclass(frozen=True, slots=True)
class NodeResourcesFitArgs:
    """`ignored_resources` and `ignored_resource_groups` (the part before the slash) are extended resources that the
    filter ignores.
    """

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = field(default=ScoringStrategy("LeastAllocated"))

    def validate(self, where: str) -> Iterable[tuple[str, str]]:
        """The problems that kube-scheduler would report, as (field path, problem)."""
        for i, name in enumerate(self.ignored_resources):
            if not is_qualified_name(name):
                yield f"{where}.ignoredResources[{i}]", f'Invalid value: "{name}": {_NAME_RULE}'
        for i, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                problem = "resource group name can't contain '/'"
                yield f"{where}.ignoredResourceGroups[{i}]", f'Invalid value: "{group}": {problem}'
            if not is_qualified_name(group):
                yield f"{where}.ignoredResourceGroups[{i}]", f'Invalid value: "{group}": {_NAME_RULE}'
        yield from self.scoring_strategy.problems(f"{where}.scoringStrategy")


def strategy_of(args: ScoringStrategy) -> AllocationStrategy:
    """The strategy for valid args."""
    if args.requested_to_capacity_ratio is not None:
        return RequestedToCapacityRatio(args.resources, curve_of(args.requested_to_capacity_ratio.shape))
    return SIMPLE[args.type](args.resources)


class _Kept(Shared):
    """The rows of all nodes, and the arrays made of them: which nodes have room for a pod, and their scores."""

    def __init__(self, args: NodeResourcesFitArgs, cache: Cache) -> None:
        super().__init__()
        self.strategy = strategy = strategy_of(args.scoring_strategy)
        self.columns = ResourceRows(cache, strategy.resources.names, strategy.base, defaults=True)
        self.free = ResourceRows(cache, (PODS, CPU, MEMORY), sub, defaults=False)
        self.fitting = RowCache(cache, np.bool_, self.users)
        self.scores = RowCache(cache, np.int16, self.users)


class NodeResourcesFit(
    Plugin, PreFilterPlugin, ResourceFilter, CrowdFilter, PreScorePlugin, ScorePlugin, EnqueueExtensions
):
    """See the module."""

    name = "NodeResourcesFit"
    reason = "InsufficientResources"
    scoring_args = ("scoringStrategy",)
    unsafe_args: ClassVar = dict.fromkeys(
        ("ignoredResources", "ignoredResourceGroups"), "pods could be bound to nodes without room for these resources"
    )
    scope = Scope.NODE_PODS
    keeps_scores = True
    args_type = NodeResourcesFitArgs

    def __init__(self, args: NodeResourcesFitArgs | None, handle: Handle) -> None:
        args = args or NodeResourcesFitArgs()
        super().__init__(args, handle)
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._classes_stand = handle.features.enabled("DRAExtendedResource")
        self._kept = kept = shared(handle.cache, self, args, lambda: _Kept(args, handle.cache))
        self._strategy = kept.strategy

    def why_not_here(self, pod: PodInfo, node: NodeInfo, message: str) -> Why:
        checked = self.checked_requests(pod.requests)
        return why_not_here(checked, pod, node, self.handle.cache.table, message)

    def remoteness_of(self, pod: PodInfo, table: NodeTable) -> NDArray[np.float64]:
        return remoteness(self.checked_requests(pod.requests), table)

    def changes_of_pod(self, pod: PodInfo, node: NodeInfo) -> Iterable[PodChange]:
        return changes_of_pod(self.checked_requests(pod.requests), pod, node)

    def costs(self, pod: PodInfo) -> Iterable[Cost]:
        return (Cost(number, "requested resources", 5e-6),) if (number := len(pod.requests.amounts)) > ORDINARY else ()

    def hints(self) -> Sequence[EventHint]:
        keys = HintKeys(self._freed_for, self._freed_by)
        hints = [
            EventHint(ClusterEvent(ASSIGNED_POD, Action.DELETE), self._pod_deleted, keys=keys),
            EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE), self._node_changed),
        ]
        if self._classes_stand:
            hints.append(EventHint(ClusterEvent("DeviceClass", Action.ADD | Action.UPDATE), _class_changed))
        if self.handle.features.enabled("InPlacePodVerticalScaling"):
            hints += [
                EventHint(ClusterEvent(ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN), _pod_scaled_down),
                EventHint(ClusterEvent(POD, Action.UPDATE_POD_SCALE_DOWN)),
            ]
        return hints

    def _pod_deleted(self, pod: PodInfo, before: PodInfo, _after: None) -> Hint:
        node_name = before.node_name or before.nominated_node_name
        return Hint.QUEUE if node_name and not self._is_for_others(pod, node_name) else Hint.SKIP

    def _freed_for(self, before: PodInfo, _after: None) -> Callable[[Hashable], bool] | None:
        """If room is held on the node for those who have had others evicted: helps these, and pods that fit beside
        them. Without this, each of many victims would have all retried that wait.
        """
        node = self.handle.cache.present(before.node_name)
        held = [each.requests.amounts for each in self.handle.cache.nominator.holding_on(before.node_name)]
        if node is None or not held:
            return None

        def helps(key: Hashable) -> bool:
            return key in (node.name, "") or (
                isinstance(key, Requests)
                and all(
                    amount
                    <= node.allocatable(name) - node.requested.get(name, 0) - sum(each.get(name, 0) for each in held)
                    for name, amount in self.checked_requests(key)
                )
            )

        return helps

    def _freed_by(self, pod: PodInfo) -> Iterable[Hashable]:
        """Yields the pod's requests, unless it takes held room, and the node where it may hold some itself."""
        yield "" if pod.priority >= SYSTEM_CRITICAL else pod.requests
        if own := self.handle.cache.nominator.node_of(pod.uid):
            yield own

    def _is_for_others(self, pod: PodInfo, node_name: str) -> bool:
        """True if the pod waits for victims, and what is free on this node does not suffice for it, or is for the pods
        that are nominated to it. Without this, each victim of many preemptors would retry all of them.

        Of those that need not wait for each other's victims, as many are retried as find room.
        """
        cache = self.handle.cache
        nominator, node = cache.nominator, cache.present(node_name)
        own = cache.present(nominator.node_of(pod.uid))
        if node is None or own is None or not victims_are_going(pod, pod.priority, own, cache):
            return False
        others = nominator.before(pod, node_name)
        if nominator.leaving_for(pod, node, others):
            earlier = takewhile(lambda other: other.uid != pod.uid, nominator.on(node_name))
            others = [other for other in earlier if other.priority >= pod.priority]
        first = [other.requests.amounts for other in others]
        return any(
            amount > node.allocatable(name) - node.requested.get(name, 0) - sum(each.get(name, 0) for each in first)
            for name, amount in pod.requests.spec_requests
        )

    # Filtering

    def pre_filter(self, _state: CycleState, _pod: PodInfo) -> None:
        return None

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return _verdict(self._not_ignored(pod.requests), node, self._delegated(pod.requests))

    def verdict_key(self, pod: PodInfo) -> Hashable:
        return pod.requests, self._delegated(pod.requests)

    def filter_all(self, _state: CycleState, pod: PodInfo, table: NodeTable) -> FilterResult:
        requests = pod.requests
        checked = self._not_ignored(requests)
        delegated = self._delegated(requests) if requests.qualified else _NONE
        if not delegated:
            ok = self._kept.fitting.get(requests, lambda: _FitFormula(self.handle.cache, self._kept.free, checked))
            return FilterResult(ok, _Explanation(self.handle.cache, checked))
        ok = np.empty(table.size, np.bool_)
        _FitFormula(self.handle.cache, self._kept.free, [pair for pair in checked if pair[0] not in delegated]).all(ok)
        for resource, amount in checked:
            if resource in delegated:
                offered = table.allocatable(resource)
                ok &= (offered == 0) | (offered - table.requested(resource) >= amount)
        return FilterResult(ok, _Explanation(self.handle.cache, checked, delegated))

    def filter_crowd(
        self, pod: PodInfo, table: NodeTable, crowd: Crowd
    ) -> tuple[NDArray[np.int64], Sequence[Status]] | None:
        checked, slots = self._not_ignored(pod.requests), crowd.slots
        if len(checked) > ORDINARY or self._delegated(pod.requests):
            return None
        lacking = [(_TOO_MANY_PODS, table.pods[slots] + crowd.pods >= table.allowed_pods[slots])]
        beyond = unknown = np.zeros(len(slots), np.bool_)
        for resource, amount in checked:
            offered, used, more = (
                table.allocatable(resource)[slots],
                table.requested(resource)[slots],
                crowd.requested(resource),
            )
            lacking.append((f"Insufficient {resource}", amount > offered - used - more))
            beyond = beyond | (amount > offered)
            unknown = unknown | (used > LARGEST) | (more >= LARGEST)
        bits = sum(np.int64(1 << bit) * missing for bit, (_, missing) in enumerate((*lacking, ("", beyond))))
        kinds, codes = np.unique(bits, return_inverse=True)
        statuses = []
        for kind in kinds.tolist():
            reasons = [reason for bit, (reason, _) in enumerate(lacking) if kind >> bit & 1]
            status = unresolvable(*reasons) if kind >> len(lacking) else unschedulable(*reasons)
            statuses.append(status.by(self.name))
        codes[bits == 0] = FITS
        codes[unknown] = UNKNOWN
        return codes, statuses

    def checked_requests(self, requests: Requests) -> CheckedRequests:
        """The requested amount of each resource, without ignored resources and those for which a DeviceClass stands."""
        delegated = self._delegated(requests)
        checked = self._not_ignored(requests)
        return [pair for pair in checked if pair[0] not in delegated] if delegated else checked

    def _delegated(self, requests: Requests) -> frozenset[str]:
        """The requested resources for which a DeviceClass stands: nodes that do not offer them may have devices."""
        named = requests.qualified
        if not named or not self._classes_stand:
            return _NONE
        devices = self.handle.cache.devices
        return frozenset(name for name in named if devices.class_of_resource(name)) if devices.any_class else _NONE

    def _not_ignored(self, requests: Requests) -> CheckedRequests:
        if not self._ignored and not self._ignored_groups:
            return requests.spec_requests
        return [pair for pair in requests.spec_requests if not self._ignores(pair[0])]

    def _ignores(self, resource: str) -> bool:
        if not is_extended_resource(resource):
            return False
        return resource in self._ignored or resource.split("/", maxsplit=1)[0] in self._ignored_groups

    def _node_changed(self, pod: PodInfo, before: Node | None, after: Node) -> Hint:
        """Helps if the empty node would have room for the pod, and has more of a resource that the pod needs than
        before.
        """
        delegated = self._delegated(pod.requests)
        checked = [
            (name, amount)
            for name, amount in pod.requests.spec_requests
            if name not in delegated or after.allocatable.get(name, 0)
        ]
        if after.allocatable.get(PODS, 0) < 1 or _lacks(after.allocatable, checked):
            return Hint.SKIP
        if before is None or after.allocatable.get(PODS, 0) > before.allocatable.get(PODS, 0) or delegated:
            return Hint.QUEUE
        more = any(after.allocatable.get(name, 0) > before.allocatable.get(name, 0) for name, _ in checked)
        return Hint.QUEUE if more else Hint.SKIP

    # Scoring

    def pre_score(self, _state: CycleState, _pod: PodInfo, _feasible: Feasible) -> None:
        return None

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return self._strategy.of_node(self._demand(pod.requests), node)

    def score_all(self, _state: CycleState, pod: PodInfo, feasible: Feasible) -> Int16s:
        requests = pod.requests
        return feasible.take(self._kept.scores.get(requests, lambda: self._formula(requests)))

    def _demand(self, requests: Requests) -> Demand:
        return self._strategy.resources.demand(requests.spec_scoring)

    def _formula(self, requests: Requests) -> ScoreFormula:
        return _FitScore(self.handle.cache, self._kept.columns, self._strategy, self._demand(requests))


# One node


def _verdict(checked: CheckedRequests, node: NodeInfo, delegated: frozenset[str] = _NONE) -> Status | None:
    reasons = []
    beyond_capacity = False
    if len(node.pods) + 1 > node.allocatable(PODS):
        reasons.append(_TOO_MANY_PODS)
    requested = node.requested
    for resource, amount in checked:
        capacity = node.allocatable(resource)
        if not capacity and resource in delegated:
            continue
        if amount > capacity - requested.get(resource, 0):
            reasons.append(f"Insufficient {resource}")
            beyond_capacity = beyond_capacity or amount > capacity
    if not reasons:
        return None
    return unresolvable(*reasons) if beyond_capacity else unschedulable(*reasons)


# All nodes


class _FitScore(ScoreFormula):
    __slots__ = ("_demand", "_strategy")

    def __init__(self, cache: Cache, columns: ResourceRows, strategy: AllocationStrategy, demand: Demand) -> None:
        super().__init__(cache, columns)
        self._strategy = strategy
        self._demand = demand

    def one(self, node: NodeInfo) -> int:
        return self._strategy.of_node(self._demand, node)

    def many(self, rows: Rows, _slots: Slots | None) -> Floats:
        return self._strategy.of_rows(self._demand, rows)


class _FitFormula:
    """Which nodes have room, as a formula for `RowCache`. `columns` are the free pods, CPU and memory of all nodes."""

    __slots__ = ("_cache", "_checked", "_columns", "_others", "_table", "_wanted")

    def __init__(self, cache: Cache, columns: ResourceRows, checked: CheckedRequests) -> None:
        self._cache = cache
        self._table = cache.table
        self._columns = columns
        self._checked = checked
        amounts = dict(checked)
        self._wanted = Column((1.0, amounts.pop(CPU, -np.inf), amounts.pop(MEMORY, -np.inf)))
        self._others = amounts

    def all(self, out: Bools) -> None:
        few = self._few_offering() if self._others else None
        if few is not None:
            out[:] = False
            out[self._among(few)] = True
            return
        self._enough(self._columns.all_rows().base, out)
        table = self._table
        for resource, amount in self._others.items():
            out &= table.allocatable(resource) - table.requested(resource) >= amount
        for slot in self._columns.oversized:
            out[slot] = self.one(self._cache.node_at(slot))

    def some(self, slots: Slots) -> Bools:
        few = self._few_offering() if self._others else None
        if few is not None:
            out = np.zeros(len(slots), np.bool_)
            for position, slot in enumerate(slots.tolist()):
                if slot in few:
                    out[position] = self.one(self._cache.node_at(slot))
            return out
        out = self._enough(self._columns.some_bases(slots))
        table = self._table
        for resource, amount in self._others.items():
            out &= table.allocatable(resource)[slots] - table.requested(resource)[slots] >= amount
        if self._columns.oversized:
            for position, slot in enumerate(slots.tolist()):
                if slot in self._columns.oversized:
                    out[position] = self.one(self._cache.node_at(slot))
        return out

    def _among(self, few: Collection[int]) -> list[int]:
        """Returns those of the rows that have room."""
        if self._columns.oversized:
            return [slot for slot in few if self.one(self._cache.node_at(slot))]
        slots = np.fromiter(few, np.intp, len(few))
        fitting: list[int] = slots[self._enough(self._columns.some_bases(slots))].tolist()
        for resource, amount in self._others.items():
            if not fitting:
                break
            fitting = self._table.with_free(resource, amount, fitting)
        return fitting

    def _few_offering(self) -> Collection[int] | None:
        """The rows that offer one of the resources, if they are few. No other rows have room."""
        least: Collection[int] | None = None
        for resource in self._others:
            slots = self._table.few_offering(resource)
            if slots is not None and (least is None or len(slots) < len(least)):
                least = slots
                if not least:
                    break
        return least

    def one(self, node: NodeInfo) -> bool:
        offered, requested = node.present.allocatable, node.requested
        if len(node.pods) >= offered.get(PODS, 0):
            return False
        for resource, amount in self._checked:
            if amount > offered.get(resource, 0) - requested.get(resource, 0):
                return False
        return True

    def _enough(self, free: Floats, out: Bools | None = None) -> Bools:
        pods, cpu, memory = free >= self._wanted.of(free.shape[1])
        enough: Bools = np.logical_and(pods, cpu, out)
        enough &= memory
        return enough


class _Explanation:
    """Why nodes are rejected: int[nodes] codes and the statuses that they index. Computed on the first call."""

    def __init__(self, cache: Cache, checked: CheckedRequests, delegated: frozenset[str] = _NONE) -> None:
        self._cache = cache
        self._checked = checked
        self._delegated = delegated
        self._known: tuple[NDArray[Any], Sequence[Status]] | None = None

    def __call__(self) -> tuple[NDArray[Any], Sequence[Status]]:
        if self._known is None:
            self._known = self._explain()
        return self._known

    def _explain(self) -> tuple[NDArray[Any], Sequence[Status]]:
        """Gives each node a code of two bits per resource, and takes the status of one node for all nodes with the same
        code.

        A node that offers a resource that few nodes offer has a code of its own.
        """
        table = self._cache.table
        codes = (table.pods >= table.allowed_pods).astype(np.int64)
        single: set[int] = set()
        bits = 1
        for resource, amount in self._checked:
            few = table.few_offering(resource)
            if few is not None:
                single.update(few)
                continue
            if bits > 60:
                codes = np.unique(codes, return_inverse=True)[1]
                bits = table.size.bit_length()
            capacity = table.allocatable(resource)
            codes = codes * 4 + 2 * (amount > capacity - table.requested(resource)) + (amount > capacity)
            bits += 2
        codes[~table.valid] = -1
        codes[list(single)] = np.arange(-2, -2 - len(single), -1)
        kinds, examples, found = np.unique(codes, return_index=True, return_inverse=True)
        statuses = [
            None if kind == -1 else _verdict(self._checked, self._cache.node_at(int(slot)), self._delegated)
            for kind, slot in zip(kinds, examples, strict=True)
        ]
        return found, [unschedulable() if status is None else status for status in statuses]


# Hints


def _pod_scaled_down(pod: PodInfo, before: PodInfo, after: PodInfo) -> Hint:
    """Helps if a placed pod now requests less of a resource that the waiting pod requests."""
    was, now = before.requests.amounts, after.requests.amounts
    wanted = [name for name, amount in pod.requests.amounts.items() if amount]
    less = after.node_name and any(was.get(name, 0) > now.get(name, 0) for name in wanted)
    return Hint.QUEUE if less else Hint.SKIP


def _class_changed(pod: PodInfo, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Hint:
    """Helps if the class now stands for a resource that the pod requests."""
    resource = (after.get("spec") or {}).get("extendedResourceName")
    if before is not None and (before.get("spec") or {}).get("extendedResourceName") == resource:
        return Hint.SKIP
    wanted = {resource, IMPLICIT_RESOURCE + str(after["metadata"]["name"])}
    return Hint.QUEUE if any(name in wanted for name, _ in pod.requests.spec_requests) else Hint.SKIP


def _lacks(allocatable: Mapping[str, int], checked: CheckedRequests) -> bool:
    return any(amount > allocatable.get(name, 0) for name, amount in checked)
