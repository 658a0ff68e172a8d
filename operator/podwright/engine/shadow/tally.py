"""The findings of each generation of a policy in shadow mode: counts, also in the metrics, and the last disagreements.
Bounded, whatever is compared.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, replace
from enum import Enum
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.records.metrics import Metrics
from podwright.engine.records.policy_metrics import SHADOW_COMPARISONS, SHADOW_SKIPPED
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
    """The findings of one generation. `since`: seconds since the epoch; `number`: unique among tallies."""

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
        """The share of agreements, from 0 to 1, among comparisons other than ties and failures; None without any."""
        decided = self.agreements + self.differences
        return self.agreements / decided if decided else None

    def add_group(self, key: str) -> None:
        """A pod of this group is not compared."""
        self.groups.pop(key, None)
        self.groups[key] = None
        if len(self.groups) > REMEMBERED:
            del self.groups[next(iter(self.groups))]

    def counts(self) -> Mapping[str, int]:
        """All outcomes by their names, also the ones that never occurred."""
        return {outcome.value: self.outcomes[outcome] for outcome in ComparisonOutcome}


class Tallies:
    """The tallies of all policies in shadow mode. `wall` gives seconds since the epoch."""

    def __init__(self, metrics: Metrics, wall: Callable[[], float]) -> None:
        self._metrics = metrics
        self._wall = wall
        self._by_name: dict[str, AgreementStats] = {}

    def __iter__(self) -> Iterator[AgreementStats]:
        return iter([*self._by_name.values()])

    def __len__(self) -> int:
        return len(self._by_name)

    def of(self, name: str) -> AgreementStats | None:
        """The tally of the policy of this name; None if it is not in shadow mode."""
        return self._by_name.get(name)

    def keep(self, active: Collection[ActivePolicy]) -> bool:
        """Begins a tally for each policy, or generation, that has none, and forgets those of all others. Returns
        whether that changed anything.
        """
        before = self._by_name
        known = {id(tally.policy): tally for tally in before.values()}
        after = {
            policy.compiled.name: known.get(id(policy)) or AgreementStats(policy=policy, since=self._wall())
            for policy in active
        }
        if before == after:
            return False
        self._by_name = after
        for counter in (SHADOW_COMPARISONS, SHADOW_SKIPPED):
            self._metrics.counter(counter).keep_only("policy", after.keys())
        return True

    def add(
        self,
        tally: AgreementStats,
        pod: PodInfo,
        theirs: str,
        comparison: ShadowComparison,
        *,
        message: str = "",
        changes: int = 0,
    ) -> None:
        """One comparison. `theirs`: the other scheduler's node; `message`: what it says about a pod that it does not
        place; `changes`: see Disagreement.
        """
        outcome = comparison.outcome
        tally.outcomes[outcome] += 1
        tally.changed += changes > 0
        tally.only_choice += outcome is ComparisonOutcome.AGREED and comparison.feasible == 1
        self._metrics.count(SHADOW_COMPARISONS, tally.name, outcome.value)
        if outcome.differs or outcome is ComparisonOutcome.FAILED:
            tally.disagreements.append(
                Disagreement(
                    pod=pod.key,
                    at=self._wall(),
                    scheduler=pod.scheduler_name,
                    theirs=theirs,
                    their_message=message[:LONGEST],
                    comparison=_shortened(comparison),
                    changes=changes,
                )
            )

    def skip(self, tally: AgreementStats, why: Skip) -> None:
        """A pod is not compared. A tally that is not kept any more counts nothing."""
        if self._by_name.get(tally.name) is not tally:
            return
        tally.skipped[why] += 1
        self._metrics.count(SHADOW_SKIPPED, tally.name, why.value)


def _shortened(comparison: ShadowComparison) -> ShadowComparison:
    return replace(
        comparison,
        why=comparison.why[:LONGEST],
        their_why=comparison.their_why[:LONGEST],
        plugins=comparison.plugins[:MOST_PLUGINS],
    )
