"""Feature gates, by kube-scheduler's names, with the defaults of Kubernetes 1.37."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DEFAULTS: Final[Mapping[str, bool]] = {
    "NodeInclusionPolicyInPodTopologySpread": True,
    "MatchLabelKeysInPodTopologySpread": True,
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": True,
    "MatchLabelKeysInPodAffinity": True,
    "PodLevelResources": True,
    "InPlacePodVerticalScaling": True,
    "InPlacePodLevelResourcesVerticalScaling": True,
    "ImageVolume": True,
    "DynamicResourceAllocation": True,
    "NodeDeclaredFeatures": True,
    "SchedulerAsyncPreemption": True,
    "OpportunisticBatching": True,
    "NominatedNodeNameForExpectation": True,
    "StorageCapacityScoring": True,
    "VolumeLimitScaling": True,
    "TaintTolerationComparisonOperators": False,
    "GenericWorkload": False,
    "TopologyAwareWorkloadScheduling": False,
    "DRANodeAllocatableResources": False,
    "SchedulerAsyncAPICalls": False,
    "SchedulerPreQueueingHints": False,
    "InPlacePodVerticalScalingSchedulerPreemption": False,
}


class Features:
    """Which gates are on. Raises KeyError for a gate that is not in `DEFAULTS`."""

    def __init__(self, overrides: Mapping[str, bool] | None = None) -> None:
        unknown = sorted(set(overrides or {}) - set(DEFAULTS))
        if unknown:
            raise KeyError(f"unknown feature gate: {', '.join(unknown)}")
        self._on = {**DEFAULTS, **(overrides or {})}

    def enabled(self, name: str) -> bool:
        return self._on[name]
