"""Pods that wait: whether the policies would place those that the other scheduler cannot place; and of those whose volumes or devices the other
scheduler will bind together with them, what the policies would do, before these tell its choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from podwright.core.objects.pod import PodInfo
from podwright.core.queue.cost import estimate
from podwright.engine.shadow.comparison import Comparison, Outcome, Outlook, compare_unplaced
from podwright.engine.shadow.shadow_pods import Seen, ShadowPods, WatchedPod
from podwright.engine.shadow.tallies import Tallies
from podwright.engine.shadow.tally import Tally
from podwright.engine.slices import Undecided
from podwright.engine.state import EngineState

PODS_AT_ONCE: Final = 1_000


class UnplacedPods:
    """See the module."""

    def __init__(self, state: EngineState, pods: ShadowPods, tallies: Tallies) -> None:
        self._cache = state.cache
        self._slices = state.slices
        self._arrivals = state.arrivals
        self._pods = pods
        self._tallies = tallies

    def is_subject(self, watched: WatchedPod) -> bool:
        """Whether the policies have to decide about the pod before it has a node."""
        pod = watched.pod
        return not pod.group and not pod.gates and (watched.seen.message is not None or is_decided_early(pod))

    def check(self, watched: WatchedPod, tally: Tally) -> bool:
        """Has the policy decide. Returns False if the cluster has changed meanwhile."""
        pod, seen, label = watched.pod, watched.seen, tally.policy.label
        framework, early = tally.policy.framework, is_decided_early(watched.pod)
        if seen.message is None and label in seen.outlooks:
            return True
        tally.policy.activity.decisions[0] += 1

        def decide() -> Comparison | Outlook:
            if (gate := framework.pre_enqueue(pod)) is not None:
                return Comparison(outcome=Outcome.WAITS_TOO, why=gate.message)
            return (Outlook.of if early else compare_unplaced)(framework, self._cache, pod)

        found = self._slices.decide(
            decide,
            wanted=lambda: self._pods.get(pod.uid) is watched and self._tallies.of(tally.name) is tally,
            in_lane=False,
        )
        if isinstance(found, Undecided):
            return False
        if isinstance(found, Outlook):
            self._forget_old(seen)
            seen.changes, seen.membership = self._arrivals.changes, self._cache.table.membership
            seen.outlooks[label] = found
            found = found.found
        if seen.message is not None:
            self._count(watched, tally, found)
        return True

    def _count(self, watched: WatchedPod, tally: Tally, found: Comparison) -> None:
        """Counts what the policy says about a pod that the other scheduler cannot place, if it is not what it said before."""
        seen, label = watched.seen, tally.policy.label
        fits = found.outcome is Outcome.PLACEABLE
        if found.outcome is not Outcome.FAILED and seen.fits.get(label) is fits:
            return
        self._forget_old(seen)
        seen.fits[label] = fits
        self._tallies.add(tally, watched.pod, "", found, message=seen.message or "")

    def _forget_old(self, seen: Seen) -> None:
        """Forgets what former generations of policies have said."""
        if len(seen.outlooks) + len(seen.fits) >= 2 * len(self._tallies):
            labels = {tally.policy.label for tally in self._tallies}
            seen.outlooks = {label: each for label, each in seen.outlooks.items() if label in labels}
            seen.fits = {label: each for label, each in seen.fits.items() if label in labels}

    def counts(self) -> Iterator[Counter[tuple[str, str]]]:
        """How many pods wait that the other scheduler cannot place, by policy and whether the policy would place them; in parts."""
        uids = self._pods.uids
        for start in range(0, len(uids), PODS_AT_ONCE):
            part: Counter[tuple[str, str]] = Counter()
            for uid in uids[start : start + PODS_AT_ONCE]:
                watched = self._pods.get(uid)
                for label, fits in watched.seen.fits.items() if watched is not None else ():
                    part[label.rpartition("@")[0], "fits" if fits else "waits"] += 1
            yield part


def is_decided_early(pod: PodInfo) -> bool:
    """Whether the pod is to be decided about when it appears.

    The volumes and devices of a pod with claims would tell the other scheduler's choice later, and an attempt at a costly pod could not pause
    in a transaction.
    """
    if pod.resource_claims or any("persistentVolumeClaim" in each or "ephemeral" in each for each in pod.volumes):
        return True
    return estimate(pod) is not None
