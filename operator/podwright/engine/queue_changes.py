"""Applies changes of queues. Active pods are ordered by queues while any exist. Waiting pods that a change may help are
retried, once for all changes of one turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from podwright.core.framework.cluster_events import QUEUE, Action, ClusterEvent
from podwright.core.queues.queues import Queues, queues_of
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.process.steps import in_slices
from podwright.engine.state import EngineState


class QueueChanges:
    """See the module."""

    def __init__(self, state: EngineState, policies: ActivePolicies, *, wall: Callable[[], float]) -> None:
        """`wall` gives seconds since the epoch."""
        self._wall = wall
        self._policies = policies
        self._queue = state.queue
        self._ordered = False
        self._queues = queues_of(state.cache)
        self._wake = state.wake
        self._due = False
        self._queues.pending = lambda: [queued.pod for queued in map(state.queue.get, state.queue.uids()) if queued]
        self._queues.serves = policies.serves
        self._queues.listen(self._changed)

    def policies_changed(self) -> None:
        """Other policies may choose the queues of pods now."""
        let_policies_choose(self._queues, self._policies)

    async def sample_usage(self) -> None:
        """Counts what queues and their users have as used since the last call."""
        if self._queues.active:
            await in_slices(self._queues.sample_usage(self._wall()))

    def _changed(self) -> None:
        if self._queues.active is not self._ordered:
            self._ordered = self._queues.active
            self._queue.order_by(self._queues.turns if self._ordered else None)
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._retry)

    def _retry(self) -> None:
        self._due = False
        self._queue.move(ClusterEvent(QUEUE, Action.UPDATE_OTHER))
        self._wake()


def let_policies_choose(queues: Queues, policies: ActivePolicies) -> None:
    """Policies that choose queues, or who may be evicted, do so from now on, after any of them has changed."""
    if queues.membership.choice_by_policy is not None or policies.choose_queues:
        queues.membership.choice_by_policy = policies.queue_of if policies.choose_queues else None
        queues.membership.policy_of = policies.chooser_of
        queues.preemptible_by_policy = policies.preemptible if policies.choose_preemptible else None
        queues.regroup()
