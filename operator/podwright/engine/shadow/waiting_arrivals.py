"""The pods with nodes that wait for the decisions of policies in shadow mode, in the order in which they came. Bounded:
MOST_WAITING of them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from podwright.core.objects.compaction import compact_regularly
from podwright.engine.shadow.placed_pods import ObservedPlacement
from podwright.engine.shadow.shadow_pods import Seen
from podwright.engine.shadow.tally import AgreementStats, Skip, Tallies
from podwright.engine.state import EngineState

MOST_WAITING: Final = 10_000
"""How many pods with nodes may wait for their turn. If there are more, the oldest are not compared."""
UNSEEN_SECONDS: Final = 60.0
"""How long the watch of pending pods may be behind the watch of pods with nodes. After that, the pod counts as created
with its node.
"""


class WaitingArrivals:
    """See the module."""

    def __init__(self, state: EngineState, tallies: Tallies) -> None:
        self._cache = state.cache
        self._clock = state.clock
        self._tallies = tallies
        self._arrived: deque[ObservedPlacement] = deque()
        self._unseen: OrderedDict[str, tuple[float, ObservedPlacement]] = OrderedDict()
        """Pods with nodes that the watch of pending pods has not shown, by uid, with the time: they may have been
        created with their nodes.
        """
        compact_regularly(self)

    def compact(self) -> None:
        """Frees the capacity that the list needed when it was longer, and forgets pods that are gone."""
        self._arrived = deque(arrival for arrival in self._arrived if self._is_there(arrival))
        self._forget_unseen()

    def __len__(self) -> int:
        return len(self._arrived)

    def put(self, arrival: ObservedPlacement) -> None:
        """Adds a pod that a scheduler has placed."""
        if len(self._arrived) >= MOST_WAITING:
            self._skip(self._arrived.popleft(), Skip.LATE)
        self._arrived.append(arrival)

    def put_unseen(self, arrival: ObservedPlacement) -> None:
        """Adds a pod with a node that no watch has shown pending: it waits for `pop_unseen`."""
        self._unseen[arrival.uid] = (self._clock(), arrival)
        self._forget_unseen()

    def pop_unseen(self, uid: str, seen: Seen) -> ObservedPlacement | None:
        """Call it when the watch of pending pods shows this pod. Returns its arrival if it was put as unseen."""
        _, arrival = self._unseen.pop(uid, (0.0, None))
        return None if arrival is None else replace(arrival, seen=seen)

    def pop(self) -> ObservedPlacement | None:
        """The next pod that still exists."""
        while self._arrived:
            arrival = self._arrived.popleft()
            if self._is_there(arrival):
                return arrival
        return None

    def keep(self, tallies: Collection[AgreementStats]) -> None:
        """Forgets the pods about which none of these policies has to decide."""
        self._arrived = deque(_kept(self._arrived, tallies))
        times = {uid: at for uid, (at, _) in self._unseen.items()}
        unseen = _kept((arrival for _, arrival in self._unseen.values()), tallies)
        self._unseen = OrderedDict((arrival.uid, (times[arrival.uid], arrival)) for arrival in unseen)

    def _forget_unseen(self) -> None:
        """Drops unseen pods that are too old or too many: they count as created with their nodes."""
        oldest = self._clock() - UNSEEN_SECONDS
        while self._unseen and (len(self._unseen) > MOST_WAITING or next(iter(self._unseen.values()))[0] < oldest):
            self._unseen.popitem(last=False)

    def _is_there(self, arrival: ObservedPlacement) -> bool:
        """True if the pod still exists. Counts it as skipped otherwise."""
        if self._cache.placement(arrival.uid) is not None:
            return True
        self._skip(arrival, Skip.GONE)
        return False

    def _skip(self, arrival: ObservedPlacement, why: Skip) -> None:
        for tally in arrival.tallies:
            self._tallies.skip(tally, why)


def _kept(arrivals: Iterable[ObservedPlacement], tallies: Collection[AgreementStats]) -> Iterator[ObservedPlacement]:
    for arrival in arrivals:
        if left := tuple(tally for tally in arrival.tallies if tally in tallies):
            yield replace(arrival, tallies=left)
