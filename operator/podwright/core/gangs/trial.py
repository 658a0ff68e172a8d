"""A trial on the cache itself: members are assumed and reserved one after the other, then everything is taken back.

After `undo` the cache, the nominations and what Reserve plugins keep are as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from podwright.core.cycle import Decision, Fault, Placement, RandomBelow, Rejection, schedule
from podwright.core.framework.diagnosis import NodeDiagnosis
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools
from podwright.core.framework.status import Code, Status
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache


@dataclass(slots=True)
class Trial:
    """One attempt to place members. `attempts`: what became of each, in the order in which they were tried."""

    framework: Framework
    cache: Cache
    below: RandomBelow
    within: Bools | None = None
    """bool[nodes]: the only nodes that may be taken; None: all."""
    attempts: dict[str, Placement | Rejection] = field(default_factory=dict)
    made: int = 0
    """How many members have got a node."""
    _nominations: dict[str, tuple[PodInfo, str]] = field(default_factory=dict)

    @property
    def placements(self) -> tuple[Placement, ...]:
        return tuple(attempt for attempt in self.attempts.values() if isinstance(attempt, Placement))

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        return tuple(attempt for attempt in self.attempts.values() if isinstance(attempt, Rejection))

    def place(self, pod: PodInfo) -> Decision:
        """Tries the next member. With a Placement it has a node until `undo`; a Fault ends the trial."""
        decision = schedule(self.framework, self.cache, pod, self.below, within=self.within, preempt=False)
        if isinstance(decision, Placement):
            decision = self._reserve(decision)
        if not isinstance(decision, Fault):
            self.attempts[pod.uid] = decision
        return decision

    def _reserve(self, placement: Placement) -> Decision:
        pod, node_name = placement.pod, placement.node_name
        self.cache.assume(pod, node_name)
        try:
            refused = self.framework.reserve(placement.state, pod, node_name)
        except PluginError as error:
            self.cache.forget(pod.uid)
            return Fault(pod, error.plugin, str(error))
        if refused is not None:
            self.cache.forget(pod.uid)
            return self._refused(pod, refused)
        promised = self.cache.nominator.node_of(pod.uid)
        if promised:
            # It counts where it is now, not once more where it was promised a place.
            self._nominations[pod.uid] = (pod, promised)
            self.cache.nominator.remove(pod.uid)
        self.made += 1
        return placement

    def _refused(self, pod: PodInfo, status: Status) -> Rejection | Fault:
        if not status.rejected:
            return Fault(pod, status.plugin, status.message or status.code.text)
        by, diagnosis = frozenset((status.plugin,)), NodeDiagnosis(self.cache.table)
        pending = by if status.code is Code.PENDING else frozenset()
        return Rejection(pod, status.message, status.message, by, pending, None, diagnosis, None)

    def undo(self) -> Sequence[PluginError]:
        """Takes everything back, last first. Returns the faults of Unreserve plugins."""
        faults: list[PluginError] = []
        for placement in reversed(self.placements):
            faults += self.framework.unreserve(placement.state, placement.pod, placement.node_name)
            self.cache.forget(placement.pod.uid)
        for pod, node_name in self._nominations.values():
            self.cache.nominator.add(pod, node_name)
        self._nominations.clear()
        return faults
