"""Feature gates, with kube-scheduler's names and the defaults of Kubernetes 1.37 or of an older API server.

Source: `pkg/features/kube_features.go` of each minor version. docs/kubernetes-versions.md has what else differs between
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podwright.core.framework.known_gates import GROUPS, KNOWN_GATES
from podwright.core.objects.dataclass import dataclass

NEWEST_MINOR: Final = 37
OLDEST_MINOR: Final = 34
"""The minor versions of Kubernetes 1 whose defaults are known."""


@dataclass(frozen=True, slots=True)
class FeatureGate:
    """A feature gate of kube-scheduler. `default`: whether it is on in Kubernetes 1.37."""

    default: bool
    has_effect: bool = True
    """False: Podwright accepts the gate and ignores it. It behaves as the default says."""
    automatic: bool = False
    """On if the API server serves what the gate needs, unless the user turns it off."""
    since: int = OLDEST_MINOR
    """The first minor version of Kubernetes 1, from 1.34, that has the gate on by default, or has it at all if it is
    off in 1.37.
    """


GATES: Final[Mapping[str, FeatureGate]] = {
    "NodeInclusionPolicyInPodTopologySpread": FeatureGate(True),
    "MatchLabelKeysInPodTopologySpread": FeatureGate(True),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": FeatureGate(True, has_effect=False),
    "MatchLabelKeysInPodAffinity": FeatureGate(True, has_effect=False),
    "PodLevelResources": FeatureGate(True, has_effect=False),
    "InPlacePodVerticalScaling": FeatureGate(True),
    "InPlacePodLevelResourcesVerticalScaling": FeatureGate(True, has_effect=False, since=36),
    "ImageVolume": FeatureGate(True, has_effect=False, since=35),
    "DynamicResourceAllocation": FeatureGate(True),
    "NodeDeclaredFeatures": FeatureGate(True, since=36),
    "SchedulerAsyncPreemption": FeatureGate(True),
    "OpportunisticBatching": FeatureGate(True, has_effect=False, since=35),
    "NominatedNodeNameForExpectation": FeatureGate(True, since=35),
    "StorageCapacityScoring": FeatureGate(True, since=37),
    "VolumeLimitScaling": FeatureGate(True, since=37),
    "TaintTolerationComparisonOperators": FeatureGate(False, since=35),
    "GenericWorkload": FeatureGate(False, automatic=True, since=36),
    "TopologyAwareWorkloadScheduling": FeatureGate(False, automatic=True, since=36),
    "CompositePodGroup": FeatureGate(False, automatic=True, since=37),
    "DRAWorkloadResourceClaims": FeatureGate(False, automatic=True, since=36),
    "DRANodeAllocatableResources": FeatureGate(False, has_effect=False),
    "SchedulerAsyncAPICalls": FeatureGate(False, has_effect=False),
    "SchedulerPreQueueingHints": FeatureGate(False, has_effect=False),
    "InPlacePodVerticalScalingSchedulerPreemption": FeatureGate(False, has_effect=False),
    "DRAExtendedResource": FeatureGate(True, since=36),
    "DRASchedulerFilterTimeout": FeatureGate(True),
    "InterPodAffinityHostnameFastPath": FeatureGate(False, has_effect=False),
}

API_SINCE: Final[Mapping[str, int]] = {
    "CSIDriver.spec.preventPodSchedulingIfMissing": 37,
    "DeviceClass.spec.extendedResourceName": 36,
    "DeviceTaintRule": 37,
    "Node.status.declaredFeatures": 35,
    "Pod.spec.schedulingGroup": 36,
    "Pod.spec.volumes.image": 35,
    "Pod.status.allocatedResources": 36,
    "Pod.status.resources": 36,
    "PodGroup": 36,
}
"""The kinds, and fields as Kind.path, that Podwright reads and 1.34 does not have: the first minor version of
Kubernetes 1 that has them.

Fields: the first that keeps them by default. PodGroups are off by default in all versions.
"""

AUTOMATIC: Final[Mapping[str, bool]] = {name: True for name, gate in GATES.items() if gate.automatic}
"""Overrides that turn on the automatic gates; put the user's overrides after them."""


def missing_api(minor: int | None) -> tuple[str, ...]:
    """The kinds and fields in API_SINCE that this minor version of Kubernetes 1 does not have. None: 1.37."""
    return tuple(item for item, since in API_SINCE.items() if (NEWEST_MINOR if minor is None else minor) < since)


def expand_groups(overrides: Mapping[str, bool]) -> Mapping[str, bool]:
    """The overrides with the gates that `AllAlpha` and `AllBeta` among them stand for, unless they are overridden by
    name.
    """
    expanded: dict[str, bool] = {}
    for group, stage in GROUPS.items():
        if group in overrides:
            members = [name for name in GATES if name in KNOWN_GATES and KNOWN_GATES[name].stage == stage]
            expanded |= dict.fromkeys(members, overrides[group])
    return expanded | {name: on for name, on in overrides.items() if name not in GROUPS}


def _has_effect(name: str) -> bool:
    return name in GATES and GATES[name].has_effect


def _default(name: str) -> bool:
    return GATES[name].default if name in GATES else KNOWN_GATES[name].default


class Features:
    """Which gates are on.

    `overrides` are the user's; an unknown gate among them raises KeyError. The others have the defaults of the minor
    version `server_minor` of Kubernetes 1; None: 1.37.
    """

    def __init__(self, overrides: Mapping[str, bool] | None = None, server_minor: int | None = None) -> None:
        overrides = overrides or {}
        unknown = sorted(set(overrides) - GATES.keys() - KNOWN_GATES.keys())
        if unknown:
            raise KeyError(f"unknown feature gate: {', '.join(unknown)}")
        self.minor = minor = NEWEST_MINOR if server_minor is None else server_minor
        """The minor version of Kubernetes 1 whose defaults these are."""
        later = {name: gate for name, gate in GATES.items() if minor < gate.since}
        self.off_by_version: tuple[str, ...] = tuple(
            name for name, gate in later.items() if gate.default and gate.has_effect and name not in overrides
        )
        """The gates that are on in 1.37, and off because they are off by default in this version."""
        self.missing_api: tuple[str, ...] = missing_api(minor)
        """The kinds and fields in API_SINCE that this version does not have."""
        self.without_effect: tuple[str, ...] = tuple(
            name for name, on in overrides.items() if not _has_effect(name) and on != _default(name)
        )
        """Overrides that change nothing because Podwright ignores the gate."""
        defaults = {name: gate.default and name not in later for name, gate in GATES.items()}
        self._on = defaults | dict(overrides)

    def enabled(self, name: str) -> bool:
        """Raises KeyError for an unknown gate."""
        return self._on[name]
