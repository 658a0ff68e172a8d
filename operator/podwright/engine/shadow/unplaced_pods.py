"""Compares pods that wait. Would the policies place a pod that the other scheduler cannot place? If that scheduler
binds volumes or devices together with a pod, the policies decide early, before the volumes and devices reveal its
choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import PodInfo
from podwright.engine.process.steps import Steps
from podwright.engine.shadow.answers import ShadowAnswers
from podwright.engine.shadow.awaited_claims import AwaitedClaims
from podwright.engine.shadow.comparison import ComparisonOutcome, Outlook, ShadowComparison, compare_unplaced
from podwright.engine.shadow.shadow_pods import Seen, ShadowPods, WatchedPod
from podwright.engine.shadow.tally import AgreementStats, Tallies
from podwright.engine.state import EngineState

PODS_AT_ONCE: Final = 1_000


class UnplacedPods:
    """See the module."""

    def __init__(
        self,
        state: EngineState,
        pods: ShadowPods,
        tallies: Tallies,
        answers: ShadowAnswers,
        again: Callable[[str], None],
    ) -> None:
        """`again` is called with the uid of a pod about which the policies are to decide again, because a claim of it
        has changed.
        """
        self._cache = state.cache
        self.claims = AwaitedClaims(state.cache, changed=again)
        self._answers = answers
        self._arrivals = state.arrivals
        self._pods = pods
        self._tallies = tallies

    def is_subject(self, watched: WatchedPod) -> bool:
        """True if the policies have to decide about the pod before it has a node."""
        pod = watched.pod
        if pod.group or pod.gates or self._cache.placement(pod.uid) is not None:
            return False
        if watched.seen.message is not None:
            return True
        return any(is_decided_early(pod, tally.policy.framework) for tally in self._tallies)

    def check(self, watched: WatchedPod, tally: AgreementStats) -> None:
        """Lets the policy decide. Raises TookLongError: see ShadowAnswers.

        Finding no node does not count while claims of the pod are missing: `claims` tells when to ask again.
        """
        pod, seen = watched.pod, watched.seen
        framework = tally.policy.framework
        early = is_decided_early(pod, framework)
        if seen.message is None and (not early or tally.number in seen.outlooks):
            return
        tally.policy.activity.decisions[0] += 1

        def decide() -> ShadowComparison | Outlook:
            if (gate := framework.pre_enqueue(pod)) is not None:
                return ShadowComparison(outcome=ComparisonOutcome.WAITS_TOO, why=gate.message)
            return (Outlook.of if early else compare_unplaced)(framework, self._cache, pod)

        found = self._answers.to((pod.uid, tally.number), decide)
        answer = found.found if isinstance(found, Outlook) else found
        waits = early and not answer.node and self.claims.note(pod)
        if isinstance(found, Outlook) and not waits:
            self._forget_old(seen)
            seen.changes, seen.membership = self._arrivals.changes, self._cache.table.membership
            seen.outlooks[tally.number] = found
        if seen.message is not None:
            self._count(watched, tally, answer)

    def _count(self, watched: WatchedPod, tally: AgreementStats, found: ShadowComparison) -> None:
        """Counts the policy's answer about a pod that the other scheduler cannot place, if the answer has changed."""
        seen = watched.seen
        fits = found.outcome is ComparisonOutcome.PLACEABLE
        if found.outcome is not ComparisonOutcome.FAILED and seen.fits.get(tally.number) is fits:
            return
        self._forget_old(seen)
        seen.fits[tally.number] = fits
        self._tallies.add(tally, watched.pod, "", found, message=seen.message or "")

    def _forget_old(self, seen: Seen) -> None:
        """Forgets what former generations of policies, and policies that are gone, have said."""
        if len(seen.outlooks) + len(seen.fits) >= 2 * len(self._tallies):
            numbers = {tally.number for tally in self._tallies}
            seen.outlooks = {number: each for number, each in seen.outlooks.items() if number in numbers}
            seen.fits = {number: each for number, each in seen.fits.items() if number in numbers}

    def counts(self) -> Steps[Counter[tuple[str, str]]]:
        """Counts the waiting pods that the other scheduler cannot place, by policy and whether the policy would place
        them.
        """
        total = Counter[tuple[str, str]]()
        uids, names = self._pods.uids, {tally.number: tally.name for tally in self._tallies}
        for start in range(0, len(uids), PODS_AT_ONCE):
            for uid in uids[start : start + PODS_AT_ONCE]:
                watched = self._pods.get(uid)
                for number, fits in watched.seen.fits.items() if watched is not None else ():
                    if number in names:
                        total[names[number], "fits" if fits else "waits"] += 1
            yield
        return total


def is_decided_early(pod: PodInfo, framework: Framework) -> bool:
    """True if the policy of this framework decides about the pod when it appears.

    The volumes and devices of a pod with claims would tell the other scheduler's choice later, and an attempt at a
    costly pod could not pause in a transaction.
    """
    if pod.resource_claims or any("persistentVolumeClaim" in each or "ephemeral" in each for each in pod.volumes):
        return True
    return framework.estimate(pod) is not None
