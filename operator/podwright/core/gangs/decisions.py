"""The results of planning a pod group, or pods that are packed together. The caller carries them out.

The loop gets them from a child process, so this imports nothing that only the child needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from podwright.core.cycle import Decision, Placement, Rejection
from podwright.core.framework.interface import FollowUp
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup


@dataclass(frozen=True, slots=True)
class GangPlacement:
    """Enough members have a node. They were planned in this order. `rejections`: members that did not fit beside
    them.
    """

    group: PodGroup
    placements: tuple[Placement, ...]
    rejections: tuple[Rejection, ...]
    parts: Mapping[str, str] = field(default_factory=dict)
    """For a composite group, by key of the groups that pods name: why their minimum is not placed; "" if it is."""


@dataclass(frozen=True, slots=True)
class GangPreemption:
    """The victims to evict for the group, and the node to which each member is then nominated, by uid."""

    nominations: Mapping[str, str]
    victims: tuple[PodInfo, ...]
    message: str
    disrupted: tuple[PodGroup, ...] = ()
    """Groups that are evicted as a whole."""
    violations: int = 0
    """How many evictions violate a PodDisruptionBudget."""


@dataclass(frozen=True, slots=True)
class GangRejection:
    """Too few members fit, so none is placed. `attempts`: the outcome for each member that was tried, by uid."""

    group: PodGroup
    message: str
    attempts: Mapping[str, Placement | Rejection] = field(default_factory=dict)
    plugins: frozenset[str] = frozenset()
    """The plugins that rejected members: their queueing hints say which events may help the group."""
    pending_plugins: frozenset[str] = frozenset()
    preemption: GangPreemption | None = None
    follow_ups: Mapping[str, Sequence[FollowUp]] = field(default_factory=dict)
    """The follow-ups of members that were tried, by uid. See CycleState."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """See GangPlacement."""


@dataclass(frozen=True, slots=True)
class GangFault:
    """Planning failed with an error. `plugin` is empty if the group's members are at fault, not a plugin."""

    group: PodGroup
    plugin: str
    message: str


GangDecision = GangPlacement | GangRejection | GangFault
Certificate = Literal["Optimal", "Bound", "TimedOut"]


@dataclass(frozen=True, slots=True)
class Packed:
    """The decisions, in an order in which each holds if those before it are carried out. Pods without one come after a
    preemption, or after some seconds.

    `certificate`: Optimal: no placement is better. Bound: at most `more` pods of some priority could be placed in
    addition. TimedOut: nothing is known. `problem`: why nothing was searched for.
    """

    decisions: Sequence[Decision]
    placed: int
    certificate: Certificate
    more: int = 0
    problem: str = ""

    @property
    def message(self) -> str:
        """How far this may be from the best, or the problem."""
        bound = f"at most {self.more} more pods of some priority could be placed" if self.more else ""
        return self.problem or bound
