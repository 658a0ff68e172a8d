"""Plugin classes with names, extension points and args only: enough to merge, expand and compile profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from podwright.core.framework.interface import Plugin
from podwright.core.framework.profile import Point

POINTS: Final[Mapping[str, Point]] = {point.key: point for point in Point}


def stand_in(name: str, *points: str, args_type: type[Any] | None = None, **more: Any) -> type[Any]:
    """A plugin class with these extension points (by key) that cannot run."""
    bases = (Plugin, *(POINTS[key].value[1] for key in points))
    return type(name, bases, {"name": name, "args_type": args_type, "__slots__": (), **more})


@dataclass(frozen=True)
class Resource:
    name: str
    weight: int = 1


@dataclass(frozen=True)
class ShapePoint:
    utilization: int
    score: int


@dataclass(frozen=True)
class Ratio:
    shape: tuple[ShapePoint, ...] = ()


@dataclass(frozen=True)
class ScoringStrategy:
    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: tuple[Resource, ...] = (Resource("cpu"), Resource("memory"))
    requested_to_capacity_ratio: Ratio | None = None


@dataclass(frozen=True)
class NodeResourcesFitArgs:
    ignored_resources: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()

    def validate(self, where: str) -> Iterator[tuple[str, str]]:
        for i, resource in enumerate(self.scoring_strategy.resources):
            if resource.name == "forbidden":
                yield f"{where}.scoringStrategy.resources[{i}].name", "is forbidden here"


@dataclass(frozen=True)
class NodeResourcesBalancedAllocationArgs:
    resources: tuple[Resource, ...] = (Resource("cpu"), Resource("memory"))


@dataclass(frozen=True)
class InterPodAffinityArgs:
    hard_pod_affinity_weight: int = 1


STAND_INS: Final[Mapping[str, type[Any]]] = {
    plugin.name: plugin
    for plugin in (
        stand_in("SchedulingGates", "preEnqueue"),
        stand_in("PrioritySort", "queueSort"),
        stand_in("NodeName", "filter"),
        stand_in("NodeUnschedulable", "filter"),
        stand_in("TaintToleration", "filter", "preScore", "score"),
        stand_in("NodeAffinity", "preFilter", "filter", "preScore", "score"),
        stand_in("NodePorts", "preFilter", "filter"),
        stand_in(
            "NodeResourcesFit", "preFilter", "filter", "preScore", "score", args_type=NodeResourcesFitArgs
        ),
        stand_in("VolumeRestrictions", "preFilter", "filter"),
        stand_in("NodeVolumeLimits", "preFilter", "filter"),
        stand_in("VolumeBinding", "preFilter", "filter", "reserve", "preBind", "preScore", "score"),
        stand_in("VolumeZone", "preFilter", "filter"),
        stand_in("PodTopologySpread", "preFilter", "filter", "preScore", "score"),
        stand_in(
            "InterPodAffinity", "preFilter", "filter", "preScore", "score", args_type=InterPodAffinityArgs
        ),
        stand_in("DynamicResources", "preFilter", "filter", "score", feature_gate="DynamicResourceAllocation"),
        stand_in("DefaultPreemption", "postFilter"),
        stand_in(
            "NodeResourcesBalancedAllocation", "preScore", "score", args_type=NodeResourcesBalancedAllocationArgs
        ),
        stand_in("ImageLocality", "score"),
        stand_in("DefaultBinder", "bind"),
        stand_in("NodeDeclaredFeatures", "preFilter", "filter", feature_gate="NodeDeclaredFeatures"),
        stand_in("RandomScore", "score"),
        stand_in("NodeNameScore", "score"),
        stand_in("OtherSort", "queueSort"),
        stand_in("GangScheduling", "preEnqueue", "permit"),
        stand_in("DeferredPodScheduling", not_supported="resizes come later"),
    )
}  # fmt: skip
"""The default plugins and a few others, by name."""
