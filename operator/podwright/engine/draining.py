"""Evicts the pods of queues in state Drain, and of the queues below them, within PodDisruptionBudgets: the least
important first, as for claims of queues. A pod whose budgets allow no eviction now is skipped; one whose eviction was
refused, for some minutes. So neither delays others.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from itertools import islice
from math import inf
from typing import Final

from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.budgets import Budgets, StoredBudgets
from podwright.core.queues.least_first import Importance
from podwright.core.queues.queues import queues_of
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.ports import EvictionEvent, Ports, Regarding
from podwright.engine.process.steps import in_slices
from podwright.engine.rebalance.moves import REFUSED_SECONDS
from podwright.engine.state import EngineState

AT_ONCE: Final = 16
"""The most evictions in progress: half of what runs at a time, so that preemption never waits for them."""
PODS_PER_STEP: Final = 64


def may_be_evicted(pod: PodInfo, budgets: Budgets) -> bool:
    """Counts the pod as evicted, unless the Eviction API would certainly refuse that. Returns whether it counts."""
    # The Eviction API asks no budget about pods that are pending, and not always about those that are not ready.
    allowed = budgets.left(pod) if pod.phase == "Running" and pod.ready else None
    return allowed is None or (allowed[1] > 0 and budgets.spend([pod]))


class DrainedQueues:
    """See the module."""

    def __init__(self, state: EngineState, ports: Ports, *, assigned: AssignedPods) -> None:
        self._cache = state.cache
        self._queues = queues_of(state.cache)
        self._budgets = StoredBudgets(state.cache.store)
        self._wall = state.sources.wall
        self._evictor = ports.evictor
        self._assigned = assigned
        self._under_way = 0
        self._ended_at: dict[str, float] = {}
        """By uid of a pod: when its eviction was refused. By uid of a controller: when the first of its pods went."""

    async def evict(self) -> None:
        """Begins some evictions. Pods of other schedulers are left to these."""
        if self._queues.draining:
            await in_slices(self._begin())
        else:
            self._ended_at.clear()

    def _begin(self) -> Generator[None, None, None]:
        after_this = self._wall() - REFUSED_SECONDS
        self._ended_at = {uid: ended for uid, ended in self._ended_at.items() if ended > after_this}
        budgets, left = Budgets(self._budgets.rules(), by_eviction=True), AT_ONCE - self._under_way
        for name in sorted(self._queues.draining):
            last: Importance | None = None
            while page := [*islice(self._queues.least_important(name, after=last), PODS_PER_STEP)]:
                last = page[-1][0]
                for _, pod in page:
                    if left <= 0:
                        return
                    if self._may_go(pod, budgets):
                        left -= 1
                        self._evict(pod)
                        yield
                yield

    def _may_go(self, pod: PodInfo, budgets: Budgets) -> bool:
        info = self._cache.placement(pod.uid)
        if info is None or info.pods[pod.uid] is not pod or self._cache.is_assumed(pod.uid):
            return False
        # A pod that has come since others of its controller went was not placed by us, and would come again.
        came_again = pod.owner is not None and pod.creation > self._ended_at.get(pod.owner.uid, inf)
        if came_again or pod.uid in self._ended_at or not self._is_wanted(pod):
            return False
        return may_be_evicted(pod, budgets)

    def _evict(self, pod: PodInfo) -> None:
        path = self._queues.path(self._queues.queue_of(pod))
        above = next(name for name in path if (rules := self._queues.get(name)) and rules.state == "Drain")
        note = f"queue {above} is in state Drain"
        regarding = Regarding("", above, "", "", pod.scheduler_name, "SchedulingQueue", "podwright.dev/v1alpha1")
        self._under_way += 1
        self._assigned.eviction_started(pod.uid)
        self._evictor.evict(
            pod,
            regarding,
            pod.node_name,
            partial(self._ended, pod),
            within_budgets=True,
            event=EvictionEvent("Evicted", "Evicting", note),
            wanted=partial(self._is_wanted, pod),
        )

    def _is_wanted(self, pod: PodInfo) -> bool:
        return self._queues.queue_of(pod) in self._queues.draining and self._queues.is_ours(pod)

    def _ended(self, pod: PodInfo, deleted: bool) -> None:
        self._under_way -= 1
        if not deleted:
            self._ended_at[pod.uid] = self._wall()
        elif pod.owner is not None:
            self._ended_at.setdefault(pod.owner.uid, self._wall())
        self._assigned.eviction_ended(pod.uid, deleted=deleted)
