"""`spec.strategy` of a SchedulerPolicy: the name of a way to score nodes, with the resources that it scores by."""

from __future__ import annotations

from typing import Final, Literal

from podwright.api.spec.match import QUALIFIED_NAME
from podwright.api.spec.signals import MAX_SIGNALS, SIGNAL_NAME
from podwright.core.framework.validation import ATOMIC, Rule, declared, unique_by, whole_number
from podwright.core.objects.dataclass import dataclass
from podwright.core.plugins.load_aware import MAX_WEIGHT
from podwright.core.plugins.shares.device_shares import TypicalPod

DelegatedStrategy = Literal[
    "Default",
    "LeastAllocated",
    "MostAllocated",
    "BalancedAllocation",
    "RequestedToCapacityRatio",
    "Random",
    "NodeName",
    "LoadAware",
]
"""The strategy types that can be delegated by name. Custom is not one: `delegation.plugins` allows it."""
StrategyType = Literal[DelegatedStrategy, "BestFit", "LeastFragmentation", "Custom"]
_STRATEGIES_WITH_RESOURCES: Final = (
    "LeastAllocated",
    "MostAllocated",
    "BalancedAllocation",
    "RequestedToCapacityRatio",
)


@dataclass(frozen=True, slots=True)
class Resource:
    name: str = declared(
        "A resource as in a container's requests, for example cpu, memory or nvidia.com/gpu.",
        minLength=1,
        maxLength=253,
        pattern=QUALIFIED_NAME,
    )
    weight: int = whole_number(
        "The weight of this resource relative to the others. BalancedAllocation accepts only 1.", 1, 100, default=1
    )


@dataclass(frozen=True, slots=True)
class LoadSignal:
    name: str = declared("One of the signals in spec.signals.", minLength=1, maxLength=63, pattern=SIGNAL_NAME)
    weight: int = whole_number("The weight of this signal relative to the others.", 1, MAX_WEIGHT, default=1)


@dataclass(frozen=True, slots=True)
class ShapePoint:
    utilization: int = whole_number("Requested percentage of the node's resource.", 0, 100)
    score: int = whole_number("The score at that utilization, from 0 to 10.", 0, 10)


@dataclass(frozen=True, slots=True)
class RequestedToCapacityRatio:
    shape: tuple[ShapePoint, ...] = declared(
        "Points of the scoring function, ordered by utilization. The function is linear between two points.",
        rules=[
            Rule(
                cel="self.all(p, self.exists_one(q, q.utilization == p.utilization))"
                " && self.map(p, p.utilization).isSorted()",
                violations=lambda self: (
                    f"[{i}].utilization" for i in range(1, len(self)) if self[i].utilization <= self[i - 1].utilization
                ),
                message="utilization must rise from point to point",
            )
        ],
        minItems=1,
        maxItems=32,
        **ATOMIC,
    )


@dataclass(frozen=True, slots=True)
class Strategy:
    type: StrategyType = declared(
        "Which nodes score best. The strategy changes scoring only: a node that a filter rejects is never selected. "
        "Default: kube-scheduler's default profile, with LeastAllocated and BalancedAllocation together. "
        "LeastAllocated, MostAllocated, RequestedToCapacityRatio: the scoring strategy of NodeResourcesFit; everything "
        "else as in Default. BalancedAllocation: scores the balance between resources only, not how much of them is "
        "allocated. Random: any feasible node. NodeName: the feasible node whose name is first in byte order. "
        "LoadAware: the measured use of CPU or memory by `signals`, and what was placed since, instead of what pods "
        "request; everything else as in Default. Custom: the plugins in `plugins`.",
        default="Default",
    )
    resources: tuple[Resource, ...] = declared(
        "The resources to score. Default: cpu and memory with weight 1. For LeastAllocated, MostAllocated, "
        "BalancedAllocation and RequestedToCapacityRatio.",
        default=(),
        maxItems=32,
        **unique_by("name"),
    )
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = declared(
        "Required for type RequestedToCapacityRatio, not allowed for other types.", default=None
    )
    signals: tuple[LoadSignal, ...] = declared(
        "For LoadAware: the signals that measure the load. Default: all of spec.signals with weight 1.",
        default=(),
        maxItems=MAX_SIGNALS,
        **unique_by("name"),
    )

    workload: tuple[TypicalPod, ...] = declared(
        "For LeastFragmentation: the pods that typically come. Default: the pods that run.",
        default=(),
        maxItems=64,
        **ATOMIC,
    )

    RULES = (
        Rule(
            cel="self.type == 'LeastFragmentation' || !has(self.workload) || size(self.workload) == 0",
            holds=lambda self: self.type == "LeastFragmentation" or not self.workload,
            message="is not used by strategy type {self.type}",
            fallback="is not used by this strategy type",
            path=".workload",
            reason="FieldValueForbidden",
        ),
        Rule(
            cel="self.type == 'LoadAware' || !has(self.signals) || size(self.signals) == 0",
            holds=lambda self: self.type == "LoadAware" or not self.signals,
            message="is not used by strategy type {self.type}",
            fallback="is not used by this strategy type",
            path=".signals",
            reason="FieldValueForbidden",
        ),
        Rule(
            cel=f"self.type in {list(_STRATEGIES_WITH_RESOURCES)} || !has(self.resources) || size(self.resources) == 0",
            holds=lambda self: self.type in _STRATEGIES_WITH_RESOURCES or not self.resources,
            message="is not used by strategy type {self.type}",
            fallback="is not used by this strategy type",
            path=".resources",
            reason="FieldValueForbidden",
        ),
        Rule(
            cel="self.type != 'BalancedAllocation' || !has(self.resources) || self.resources.all(r, r.weight == 1)",
            violations=lambda self: (
                f".resources[{i}].weight"
                for i, resource in enumerate(self.resources)
                if self.type == "BalancedAllocation" and resource.weight != 1
            ),
            message="strategy type BalancedAllocation accepts only weight 1",
            path=".resources",
        ),
        Rule(
            cel="self.type != 'RequestedToCapacityRatio' || has(self.requestedToCapacityRatio)",
            holds=lambda self: self.type != "RequestedToCapacityRatio" or self.requested_to_capacity_ratio is not None,
            message="is required with strategy type RequestedToCapacityRatio",
            path=".requestedToCapacityRatio",
            reason="FieldValueRequired",
        ),
        Rule(
            cel="self.type == 'RequestedToCapacityRatio' || !has(self.requestedToCapacityRatio)",
            holds=lambda self: self.type == "RequestedToCapacityRatio" or self.requested_to_capacity_ratio is None,
            message="is not used by strategy type {self.type}",
            fallback="is not used by this strategy type",
            path=".requestedToCapacityRatio",
            reason="FieldValueForbidden",
        ),
    )
