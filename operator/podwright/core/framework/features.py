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
    "DRAExtendedResource": True,
    "InterPodAffinityHostnameFastPath": False,
}

WITHOUT_EFFECT: Final = frozenset(
    {
        "MatchLabelKeysInPodTopologySpreadSelectorMerge",
        "MatchLabelKeysInPodAffinity",
        "PodLevelResources",
        "InPlacePodLevelResourcesVerticalScaling",
        "ImageVolume",
        "OpportunisticBatching",
        "DRANodeAllocatableResources",
        "SchedulerAsyncAPICalls",
        "SchedulerPreQueueingHints",
        "InPlacePodVerticalScalingSchedulerPreemption",
        "DRAExtendedResource",
        "InterPodAffinityHostnameFastPath",
    }
)
"""Gates of kube-scheduler that this version takes without doing anything about them: it behaves as their defaults say."""

AUTOMATIC: Final[Mapping[str, bool]] = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
"""Gates that are on where the API server has what they are about, unless somebody turns them off."""

NEEDED_MINOR: Final[Mapping[str, int]] = {
    "ImageVolume": 35,
    "NominatedNodeNameForExpectation": 35,
    "NodeDeclaredFeatures": 36,
    "InPlacePodLevelResourcesVerticalScaling": 36,
    "VolumeLimitScaling": 37,
}
"""The minor version of Kubernetes 1 from which on the API server has, by default, what a gate relies on.

Only those newer than 1.34, the oldest that is supported. Source: the Kubernetes documentation, "Feature Gates".
"""


class Features:
    """Which gates are on. Raises KeyError for a gate that is not in `DEFAULTS`.

    `server_minor`: the API server's minor version; what it lacks is off unless `overrides` says otherwise, and named in
    `lacking`. None: 1.37 or later. `without_effect`: overrides that would have to do something, and do nothing.
    """

    def __init__(self, overrides: Mapping[str, bool] | None = None, server_minor: int | None = None) -> None:
        unknown = sorted(set(overrides or {}) - set(DEFAULTS))
        if unknown:
            raise KeyError(f"unknown feature gate: {', '.join(unknown)}")
        self.lacking: tuple[str, ...] = tuple(
            name
            for name, minor in NEEDED_MINOR.items()
            if server_minor is not None and server_minor < minor and name not in (overrides or {})
        )
        self.without_effect: tuple[str, ...] = tuple(
            name for name, on in (overrides or {}).items() if name in WITHOUT_EFFECT and on != DEFAULTS[name]
        )
        self._on = {**DEFAULTS, **dict.fromkeys(self.lacking, False), **(overrides or {})}

    def enabled(self, name: str) -> bool:
        return self._on[name]
