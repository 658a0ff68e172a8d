"""What one generation of a policy in shadow mode has found: counts, and the last disagreements. Bounded, whatever is
compared.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.shadow.comparison import ComparisonOutcome, ShadowComparison

REMEMBERED: Final = 200
"""How many disagreements of a policy, and how many groups, are remembered."""
LONGEST: Final = 1024
"""Characters of each text, as in an event."""
MOST_PLUGINS: Final = 16
"""How many plugins a disagreement names: those that make the greatest difference."""


class Skip(Enum):
    """Why a pod was not compared."""

    GROUP = "podGroup"
    """It belongs to a pod group, which is placed as a whole."""
    PREEMPTION = "preemption"
    """The other scheduler made room on this node for the pod, and then considered no other node."""
    NODE_GONE = "nodeGone"
    """Its node was deleted before the policy had its turn."""
    UNSEEN = "unseen"
    """It has claims or is costly, and the policy had not decided about it when it got its node."""
    LATE = "late"
    """Too many others waited for their turn."""
    GONE = "gone"
    """It was deleted before the policy had its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """`pod`: namespace/name; `scheduler`: who placed it, or could not; `theirs`: its node, "" if it has none.

    `their_message`: why the other scheduler finds no node. `changes`: how much else has changed in the cluster between
    the two decisions, as far as it could not be left out. `at`: seconds since the epoch.
    """

    pod: str
    at: float
    scheduler: str
    theirs: str
    their_message: str
    comparison: ShadowComparison
    changes: int


@dataclass(slots=True, eq=False)
class AgreementStats:
    """See the module. `since`: seconds since the epoch; `number`: no other tally has it."""

    policy: ActivePolicy
    since: float
    outcomes: Counter[ComparisonOutcome] = field(default_factory=Counter)
    skipped: Counter[Skip] = field(default_factory=Counter)
    only_choice: int = 0
    """How many agreements were about pods for which the policy had one feasible node only."""
    changed: int = 0
    """In how many comparisons something else had changed between the two decisions."""
    disagreements: deque[Disagreement] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    groups: dict[str, None] = field(default_factory=dict)
    """The keys of the groups whose pods were not compared: the last REMEMBERED."""
    number: int = field(default_factory=itertools.count(1).__next__)

    @property
    def name(self) -> str:
        return self.policy.compiled.name

    @property
    def agreements(self) -> int:
        return sum(count for outcome, count in self.outcomes.items() if outcome.agrees)

    @property
    def differences(self) -> int:
        return sum(count for outcome, count in self.outcomes.items() if outcome.differs)

    @property
    def compared(self) -> int:
        return self.outcomes.total()

    @property
    def agreement(self) -> float | None:
        """The share of agreements, from 0 to 1, among the comparisons that are neither ties nor failures; None if there
        are none.
        """
        decided = self.agreements + self.differences
        return self.agreements / decided if decided else None

    def add(
        self, pod: PodInfo, theirs: str, comparison: ShadowComparison, *, at: float, message: str, changes: int
    ) -> None:
        """One comparison. `message`: what the other scheduler says about a pod that it does not place."""
        self.outcomes[comparison.outcome] += 1
        self.changed += changes > 0
        self.only_choice += comparison.outcome is ComparisonOutcome.AGREED and comparison.feasible == 1
        if comparison.outcome.differs or comparison.outcome is ComparisonOutcome.FAILED:
            self.disagreements.append(
                Disagreement(
                    pod=pod.key,
                    at=at,
                    scheduler=pod.scheduler_name,
                    theirs=theirs,
                    their_message=message[:LONGEST],
                    comparison=_shortened(comparison),
                    changes=changes,
                )
            )

    def add_group(self, key: str) -> None:
        """A pod of this group is not compared."""
        self.groups.pop(key, None)
        self.groups[key] = None
        if len(self.groups) > REMEMBERED:
            del self.groups[next(iter(self.groups))]

    def counts(self) -> Mapping[str, int]:
        """All outcomes by their names, those that never were too."""
        return {outcome.value: self.outcomes[outcome] for outcome in ComparisonOutcome}


def _shortened(comparison: ShadowComparison) -> ShadowComparison:
    return replace(
        comparison,
        why=comparison.why[:LONGEST],
        their_why=comparison.their_why[:LONGEST],
        plugins=comparison.plugins[:MOST_PLUGINS],
    )
