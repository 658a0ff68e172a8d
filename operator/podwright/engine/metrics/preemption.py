"""Metrics of preemptions by whoever preempts, `pod` or `podgroup`: kube-scheduler's, by its names and buckets."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_UNITS: Final = [2.0**n for n in range(11)]
_SECONDS: Final = [0.001 * 2**n for n in range(16)]


class PreemptionMetrics:
    """Labelled by `preemptor`, but for the victims of pod groups, which are counted by themselves."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._execution = Histogram(
            "scheduler_preemption_execution_duration_seconds",
            "From the choice of the victims until the deletion of the last one had begun.",
            ["preemptor", "result"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.group_victims = Histogram(
            "scheduler_workload_preemption_victims",
            "Victims of a preemption by a pod group.",
            buckets=_UNITS,
            registry=registry,
        )
        self._disruptions = Histogram(
            "scheduler_preemption_workload_disruptions",
            "Groups that go as a whole, and other pods of groups, among the victims of a preemption.",
            ["preemptor"],
            buckets=_UNITS,
            registry=registry,
        )
        self._violations = Counter(
            "scheduler_preemption_pdb_violations",
            "Victims whose eviction overdraws a PodDisruptionBudget.",
            ["preemptor"],
            registry=registry,
        )

    def executed(self, preemptor: str, result: str, seconds: float) -> None:
        """The victims of one preemption were evicted, or could not be."""
        self._execution.labels(preemptor, result).observe(seconds)

    def disrupted(self, preemptor: str, units: int) -> None:
        """So many units of pod groups go in one preemption."""
        if units:
            self._disruptions.labels(preemptor).observe(units)

    def violated(self, preemptor: str, count: int) -> None:
        """So many victims of one preemption overdraw a budget."""
        if count:
            self._violations.labels(preemptor).inc(count)
