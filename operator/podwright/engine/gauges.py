"""The gauges of the engine: metrics that are computed when they are read."""

from __future__ import annotations

from podwright.core.queue import SchedulingQueue
from podwright.core.queues.queues import queues_of
from podwright.core.state.cache import Cache
from podwright.engine.outcomes.binding.cycle import BindingCycles
from podwright.engine.outcomes.binding.executor import BindingExecutor
from podwright.engine.records.local_budgets import LocalBudgets
from podwright.engine.records.metrics import (
    CACHE_SIZE,
    COSTLY_PODS,
    GOROUTINES,
    INFLIGHT_EVENTS,
    PENDING_PODS,
    UNSCHEDULABLE_PODS,
    Metrics,
)
from podwright.engine.records.policy_activity import pending_by_policy
from podwright.engine.records.policy_metrics import OVER_BUDGET, POLICY_PENDING
from podwright.engine.records.queue_gauges import compute_queue_gauges


def compute_gauges(
    metrics: Metrics,
    *,
    queue: SchedulingQueue,
    cache: Cache,
    cycles: BindingCycles,
    executor: BindingExecutor,
    budgets: LocalBudgets,
) -> None:
    """Registers the gauges. They are computed from these parts whenever metrics are read."""
    compute = metrics.compute
    compute(PENDING_PODS, lambda: {(place,): count for place, count in queue.counts().items()})
    compute(COSTLY_PODS, lambda: {(): queue.costly})
    compute(INFLIGHT_EVENTS, lambda: {(event,): count for event, count in queue.in_flight_events().items()})
    compute(UNSCHEDULABLE_PODS, queue.rejected_by)
    compute(POLICY_PENDING, lambda: pending_by_policy(queue))
    compute(OVER_BUDGET, budgets.counts)
    compute_queue_gauges(metrics, queues_of(cache))
    compute(GOROUTINES, lambda: {("binding",): len(cycles)})
    compute(
        CACHE_SIZE,
        lambda: {("nodes",): cache.table.count, ("pods",): cache.pod_count, ("assumed_pods",): executor.assumed},
    )
