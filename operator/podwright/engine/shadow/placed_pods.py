"""Compares each pod that has got a node with the policies' choices on the state of the cluster just before.

That state is known, because the pod itself and those that came after it are left out in a transaction. What else has
changed since is counted. A pod's object is not kept while it waits to be compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.engine.shadow.answers import ShadowAnswers
from podwright.engine.shadow.comparison import ShadowComparison, on_former_state
from podwright.engine.shadow.shadow_pods import Seen
from podwright.engine.shadow.tally import AgreementStats, Skip, Tallies
from podwright.engine.shadow.unplaced_pods import is_decided_early
from podwright.engine.state import EngineState

MOST_LATER: Final = 256
"""How many pods that came after the compared one are left out of the state. If more came, they all count as changes."""


@dataclass(frozen=True, slots=True)
class ObservedPlacement:
    """A pod that has got its node. `seen`: what was known of it then, None if the watch of pending pods had not shown
    it.

    `number`: of all arrivals; `changes`: see Arrivals, at that time. `tallies`: of the policies that look at the pod.
    """

    uid: str
    node: str
    seen: Seen | None
    tallies: tuple[AgreementStats, ...]
    number: int
    changes: int


class ShadowPlacedPods:
    """See the module."""

    def __init__(self, state: EngineState, tallies: Tallies, answers: ShadowAnswers) -> None:
        self._cache = state.cache
        self._answers = answers
        self._arrivals = state.arrivals
        self._tallies = tallies
        self._recent: deque[tuple[int, str]] = deque(maxlen=MOST_LATER)
        """The last arrivals, by number and uid, of all schedulers."""
        self._number = 0

    def clear(self) -> None:
        """Forgets all pods."""
        self._recent.clear()

    def arrived(
        self, uid: str, node: str, *, seen: Seen | None, tallies: Iterable[AgreementStats]
    ) -> ObservedPlacement:
        """Notes that a pod has just got its node. Call it for all pods, also for those that no policy selects."""
        self._number += 1
        self._recent.append((self._number, uid))
        return ObservedPlacement(uid, node, seen, tuple(tallies), self._number, self._arrivals.changes)

    def compare(self, arrival: ObservedPlacement, tally: AgreementStats) -> None:
        """Lets the policy decide. Raises TookLongError: see ShadowAnswers."""
        there, seen = self._cache.placement(arrival.uid), arrival.seen
        if there is None:
            self._tallies.skip(tally, Skip.GONE)
            return
        pod = there.pods[arrival.uid]
        if pod.group:
            tally.add_group(self._cache.groups.key_of(pod))
        skip = Skip.GROUP if pod.group else self._reason_to_skip(arrival, seen)
        if skip is not None:
            self._tallies.skip(tally, skip)
            return
        early = None if seen is None else self._early(arrival, tally, seen)
        if early is None and is_decided_early(pod, tally.policy.framework):
            self._tallies.skip(tally, Skip.UNSEEN)
            return
        found = early or self._on_former_state(arrival, tally)
        comparison, changes = found
        self._tallies.add(tally, pod, arrival.node, comparison, changes=changes)

    def _reason_to_skip(self, arrival: ObservedPlacement, seen: Seen | None) -> Skip | None:
        if self._cache.present(arrival.node) is None:
            return Skip.NODE_GONE
        if seen is not None and seen.message is not None and seen.nominated == arrival.node:
            return Skip.PREEMPTION
        return None

    def _early(
        self, arrival: ObservedPlacement, tally: AgreementStats, seen: Seen
    ) -> tuple[ShadowComparison, int] | None:
        """The comparison with what the policy decided when the pod appeared; None if it did not, or the nodes are
        others now.
        """
        outlook = seen.outlooks.get(tally.number)
        node = self._cache.present(arrival.node)
        if outlook is None or node is None or seen.membership != self._cache.table.membership:
            return None
        return outlook.against(node.slot), max(0, arrival.changes - seen.changes)

    def _on_former_state(self, arrival: ObservedPlacement, tally: AgreementStats) -> tuple[ShadowComparison, int]:
        """The comparison, and how many other changes it does not leave out."""
        cache, uid = self._cache, arrival.uid
        later = [other for number, other in self._recent if number > arrival.number]
        since = self._number - arrival.number
        if since > len(later):
            later = []
        changes = self._arrivals.changes - arrival.changes + since - len(later)
        tally.policy.activity.decisions[0] += 1

        def decide() -> ShadowComparison:
            there = cache.placement(uid)
            assert there is not None, "a decision about a pod that is gone is not wanted"
            return on_former_state(tally.policy.framework, cache, there.pods[uid], arrival.node, later)

        return self._answers.to((uid, tally.number), decide), changes
