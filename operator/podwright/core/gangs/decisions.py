"""What comes out of planning a pod group, to be carried out by whoever asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podwright.core.cycle import Placement, Rejection
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup


@dataclass(frozen=True, slots=True)
class GangPlacement:
    """Enough members have a node. They are placed in this order; `rejections`: members that did not fit beside them."""

    group: PodGroup
    placements: tuple[Placement, ...]
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True, slots=True)
class GangPreemption:
    """Who must go for the group to fit, and where its members would be then: node names by uid."""

    nominations: Mapping[str, str]
    victims: tuple[PodInfo, ...]
    message: str
    disrupted: tuple[PodGroup, ...] = ()
    """Groups that go as a whole."""
    violations: int = 0
    """Victims whose eviction overdraws a PodDisruptionBudget."""


@dataclass(frozen=True, slots=True)
class GangRejection:
    """Too few members fit, so none is placed. `attempts`: what became of those that were tried, by uid."""

    group: PodGroup
    message: str
    attempts: Mapping[str, Placement | Rejection] = field(default_factory=dict)
    plugins: frozenset[str] = frozenset()
    """Who rejected members: their hints say which events may help the group."""
    pending_plugins: frozenset[str] = frozenset()
    preemption: GangPreemption | None = None


@dataclass(frozen=True, slots=True)
class GangFault:
    """Planning failed with an error, which is nobody's verdict on the group."""

    group: PodGroup
    plugin: str
    message: str


GangDecision = GangPlacement | GangRejection | GangFault
