"""The tallies of all policies in shadow mode, and their counters in the metrics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from podwright.core.objects.pod import PodInfo
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.records.metrics import Metrics
from podwright.engine.records.policy_metrics import SHADOW_COMPARISONS, SHADOW_SKIPPED
from podwright.engine.shadow.comparison import ShadowComparison
from podwright.engine.shadow.tally import AgreementStats, Skip

_COUNTERS: Final = (SHADOW_COMPARISONS, SHADOW_SKIPPED)


class Tallies:
    """See the module. `wall` gives seconds since the epoch."""

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
        for counter in _COUNTERS:
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
        """See `AgreementStats.add`."""
        tally.add(pod, theirs, comparison, at=self._wall(), message=message, changes=changes)
        self._metrics.count(SHADOW_COMPARISONS, tally.name, comparison.outcome.value)

    def skip(self, tally: AgreementStats, why: Skip) -> None:
        """A pod is not compared. Of a tally that is not kept any more, nothing is counted."""
        if self._by_name.get(tally.name) is not tally:
            return
        tally.skipped[why] += 1
        self._metrics.count(SHADOW_SKIPPED, tally.name, why.value)
