"""Feature gates, with kube-scheduler's names and the defaults of Kubernetes 1.37."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Gate:
    """A feature gate of kube-scheduler. `default`: whether it is on in Kubernetes 1.37."""

    default: bool
    has_effect: bool = True
    """False: Podwright accepts the gate and ignores it. It behaves as the default says."""
    automatic: bool = False
    """On if the API server serves what the gate needs, unless the user turns it off."""
    needs_minor: int = 0
    """The first minor version of Kubernetes 1 whose API server has, by default, what the gate needs.

    0: 1.34, the oldest supported version, has it. Source: the Kubernetes documentation, "Feature Gates".
    """


GATES: Final[Mapping[str, Gate]] = {
    "NodeInclusionPolicyInPodTopologySpread": Gate(True),
    "MatchLabelKeysInPodTopologySpread": Gate(True),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": Gate(True, has_effect=False),
    "MatchLabelKeysInPodAffinity": Gate(True, has_effect=False),
    "PodLevelResources": Gate(True, has_effect=False),
    "InPlacePodVerticalScaling": Gate(True),
    "InPlacePodLevelResourcesVerticalScaling": Gate(True, has_effect=False, needs_minor=36),
    "ImageVolume": Gate(True, has_effect=False, needs_minor=35),
    "DynamicResourceAllocation": Gate(True),
    "NodeDeclaredFeatures": Gate(True, needs_minor=36),
    "SchedulerAsyncPreemption": Gate(True),
    "OpportunisticBatching": Gate(True, has_effect=False),
    "NominatedNodeNameForExpectation": Gate(True, needs_minor=35),
    "StorageCapacityScoring": Gate(True),
    "VolumeLimitScaling": Gate(True, needs_minor=37),
    "TaintTolerationComparisonOperators": Gate(False),
    "GenericWorkload": Gate(False, automatic=True),
    "TopologyAwareWorkloadScheduling": Gate(False, automatic=True),
    "DRANodeAllocatableResources": Gate(False, has_effect=False),
    "SchedulerAsyncAPICalls": Gate(False, has_effect=False),
    "SchedulerPreQueueingHints": Gate(False, has_effect=False),
    "InPlacePodVerticalScalingSchedulerPreemption": Gate(False, has_effect=False),
    "DRAExtendedResource": Gate(True, has_effect=False),
    "InterPodAffinityHostnameFastPath": Gate(False, has_effect=False),
}

AUTOMATIC: Final[Mapping[str, bool]] = {name: True for name, gate in GATES.items() if gate.automatic}
"""Overrides that turn on the automatic gates; put the user's overrides after them."""


class Features:
    """Which gates are on.

    `overrides` are the user's; an unknown gate among them raises KeyError. `server_minor` is the minor version of the API
    server (None: 1.37 or later): gates that need a newer one are off unless overridden.
    """

    def __init__(self, overrides: Mapping[str, bool] | None = None, server_minor: int | None = None) -> None:
        overrides = overrides or {}
        unknown = sorted(set(overrides) - set(GATES))
        if unknown:
            raise KeyError(f"unknown feature gate: {', '.join(unknown)}")
        self.lacking: tuple[str, ...] = tuple(
            name
            for name, gate in GATES.items()
            if server_minor is not None and server_minor < gate.needs_minor and name not in overrides
        )
        """The gates that are off because the API server is too old for them."""
        self.without_effect: tuple[str, ...] = tuple(
            name for name, on in overrides.items() if not GATES[name].has_effect and on != GATES[name].default
        )
        """Overrides that change nothing because Podwright ignores the gate."""
        defaults = {name: gate.default for name, gate in GATES.items()}
        self._on = defaults | dict.fromkeys(self.lacking, False) | dict(overrides)

    def enabled(self, name: str) -> bool:
        """Raises KeyError for an unknown gate."""
        return self._on[name]
