"""Simulates the scheduling of a group's members: each is scheduled, assumed and reserved, and the next one sees it
there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Final

from podwright.core.cycle import Decision, Fault, Placement, RandomBelow, Rejection, schedule
from podwright.core.framework.diagnosis import NodeDiagnosis
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools, CycleState
from podwright.core.framework.measured import measured
from podwright.core.framework.observer import Observer
from podwright.core.framework.status import Code, Status, unschedulable
from podwright.core.objects.control_flow import ControlFlowError
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.gang_scheduling import WAITING, GangScheduling
from podwright.core.state.transaction import CacheTransaction, Checkpoint

WORK_OF_A_TRIAL: Final = 5_000
"""The cost of scheduling a member, besides looking at nodes, in nodes looked at."""


@dataclass(slots=True)
class Simulation:
    """Members scheduled in one transaction. The caller rolls the transaction back, which also runs Unreserve."""

    framework: Framework
    transaction: CacheTransaction
    below: RandomBelow
    within: Bools | None = None
    """bool[nodes]: the only nodes that may be taken; None: all."""
    observer: Observer | None = None
    """See CycleState."""
    attempts: dict[str, Placement | Rejection] = field(default_factory=dict)
    """By uid, in the order in which members were scheduled."""
    assumed: dict[str, None] = field(default_factory=dict)
    """The uids of the members that have a node, in the order in which they got it."""
    undone: dict[str, str] = field(default_factory=dict)
    """By uid of members that lost their node again, because the minimum of a part of the group was not reached: why."""

    rejecting: set[str] = field(default_factory=set)
    """The plugins that rejected members: their queueing hints say which events may help the group."""
    pending: set[str] = field(default_factory=set)
    """Likewise, those that returned Pending."""
    work: int = 0
    """The work so far, in nodes looked at."""

    @property
    def placed(self) -> int:
        """How many members have a node."""
        return len(self.assumed)

    @property
    def placements(self) -> tuple[Placement, ...]:
        return tuple(attempt for attempt in map(self.attempts.get, self.assumed) if isinstance(attempt, Placement))

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        return tuple(attempt for attempt in self.attempts.values() if isinstance(attempt, Rejection))

    def schedule(self, pod: PodInfo) -> Decision:
        """Schedules the next member. A Fault ends the simulation."""
        cache = self.transaction.cache
        self.work += WORK_OF_A_TRIAL + cache.table.count
        decision = schedule(
            self.framework, cache, pod, self.below, within=self.within, preempt=False, observer=self.observer
        )
        if isinstance(decision, Placement):
            decision = self._reserve(decision)
        if isinstance(decision, Rejection):
            self.rejecting |= decision.status_plugins
            self.pending |= decision.pending_plugins
        if not isinstance(decision, Fault):
            self.attempts[pod.uid] = decision
        return decision

    def _reserve(self, placement: Placement) -> Decision:
        pod = placement.pod
        try:
            refused = reserve(self.transaction, self.framework, placement.state, pod, placement.node_name)
        except PluginError as error:
            return Fault(pod, error.plugin, str(error))
        if refused is not None:
            return self._rejected(pod, refused)
        # The pod now counts on this node, so it must not count on its nominated node as well.
        self.transaction.clear_nomination(pod.uid)
        self.assumed[pod.uid] = None
        return placement

    def undo(self, to: Checkpoint, placed: int, why: str) -> None:
        """Members that got a node since then lose it again. `placed`: how many had one then."""
        self.transaction.rollback(to)
        for uid in list(self.assumed)[placed:]:
            del self.assumed[uid]
            if why:
                self.undone[uid] = why

    def reject_others(self, pods: Iterable[PodInfo]) -> None:
        """Members that have no node, and were not rejected themselves, are rejected with the parts to which they
        belong.
        """
        for pod in pods:
            if pod.uid not in self.assumed and not isinstance(self.attempts.get(pod.uid), Rejection):
                why = self.undone.get(pod.uid) or WAITING
                rejected = self._rejected(pod, unschedulable(why).by(GangScheduling.name))
                assert isinstance(rejected, Rejection)
                self.attempts[pod.uid] = rejected

    def _rejected(self, pod: PodInfo, status: Status) -> Rejection | Fault:
        if not status.rejected:
            return Fault(pod, status.plugin, status.message or status.code.text)
        by, diagnosis = frozenset((status.plugin,)), NodeDiagnosis(self.transaction.cache.table)
        pending = by if status.code is Code.PENDING else frozenset()
        return Rejection(
            pod=pod,
            message=status.message,
            filter_message=status.message,
            status_plugins=by,
            pending_plugins=pending,
            post_filter=None,
            diagnosis=diagnosis,
            post_filter_status=None,
        )


def reserve(
    transaction: CacheTransaction, framework: Framework, state: CycleState, pod: PodInfo, node_name: str
) -> Status | None:
    """Assumes the pod and runs the Reserve plugins. A rollback runs Unreserve and forgets the pod.

    Returns why a plugin refused the pod, which is then not assumed. Raises PluginError.
    """
    transaction.assume(pod, node_name)
    framework = measured(framework, state.observer)
    try:
        refused = framework.reserve(state, pod, node_name)
    except PluginError:
        transaction.forget(pod)
        raise
    except ControlFlowError:
        framework.unreserve(state, pod, node_name)  # the attempt ends here, perhaps between two plugins
        raise
    if refused is not None:
        transaction.forget(pod)
        return refused

    transaction.on_rollback(lambda: framework.unreserve(state, pod, node_name))
    return None
