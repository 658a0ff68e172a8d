"""Metrics by kube-scheduler's names, labels and buckets. Source: the Kubernetes documentation, "Kubernetes Metrics Reference".

What can be asked for (queue lengths, cache sizes) is computed when somebody scrapes; what happens is counted as it happens.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from podwright import __version__
from podwright.engine.memory import memory_in_use
from podwright.engine.metrics.collectors import OnDemand, Read, Tallies, Tally, exponential
from podwright.engine.metrics.plugins import PluginMetrics

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"

_ATTEMPTS: Final = (*map(str, range(15)), "15+")


class Attempts:
    """The metrics of one profile's attempts with one result, looked up once."""

    __slots__ = ("_count", "_duration")

    def __init__(self, count: Counter, duration: Histogram | Tally) -> None:
        self._count = count
        self._duration = duration

    def observe(self, seconds: float) -> None:
        self._count.inc()
        self._duration.observe(seconds)


class Metrics:
    """One registry; `text()` of kube/serve/health.py shows it."""

    def __init__(self) -> None:
        # When a series began is nothing that kube-scheduler tells; it would double the number of series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self._on_demand = OnDemand()
        registry.register(self._on_demand)
        self.plugins = PluginMetrics(registry)
        self._attempts = Counter(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods, by result.",
            ["result", "profile"],
            registry=registry,
        )
        self._attempt_seconds = Tallies(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of an attempt, algorithm and binding.",
            ["result", "profile"],
            exponential(0.001, 2, 15),
            registry,
        )
        self.algorithm_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Duration of the scheduling algorithm.",
            buckets=exponential(0.001, 2, 15),
            registry=registry,
        )
        self._group_attempts = Counter(
            "scheduler_podgroup_schedule_attempts",
            "Attempts to schedule pod groups, by result.",
            ["result", "profile"],
            registry=registry,
        )
        self._group_attempt_seconds = Histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Duration of an attempt at a pod group.",
            ["result", "profile"],
            buckets=exponential(0.001, 2, 15),
            registry=registry,
        )
        self.group_algorithm_seconds = Histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Duration of the scheduling algorithm for a pod group.",
            buckets=exponential(0.001, 2, 15),
            registry=registry,
        )
        self._sli_seconds = Tallies(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From a pod's entry into the queue until it was bound, all attempts included.",
            ["attempts"],
            exponential(0.01, 2, 20),
            registry,
        )
        self.pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that a bound pod took.",
            buckets=exponential(1, 2, 5),
            registry=registry,
        )
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts", "Attempts at preemption, successful or not.", registry=registry
        )
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims",
            "Victims of a preemption.",
            buckets=exponential(1, 2, 7),
            registry=registry,
        )
        self._preemption_seconds = Histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "From the choice of the victims until the deletion of the last one had begun.",
            ["result"],
            buckets=exponential(0.01, 2, 20),
            registry=registry,
        )
        self._preemptions = Counter(
            "scheduler_preemption_goroutines_execution", "Preemptions carried out.", ["result"], registry=registry
        )
        self.permit_wait_seconds = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "Duration of waiting in Permit.",
            ["result"],
            buckets=exponential(0.001, 2, 15),
            registry=registry,
        )
        self.after_flush = Counter(
            "scheduler_pod_scheduled_after_flush",
            "Pods that were bound in an attempt that no event had led to, only the time that they had waited.",
            registry=registry,
        )
        self._incoming = Counter(
            "scheduler_queue_incoming_pods", "Pods added to queues, by event.", ["queue", "event"], registry=registry
        )
        self._incoming_known: dict[tuple[str, str], Counter] = {}
        self._profiles: dict[tuple[str, str], Attempts] = {}
        self.events_dropped = Counter(
            "podwright_events_dropped", "Events that were not posted: too many waited.", registry=registry
        )
        self.bad_objects = Counter(
            "podwright_bad_objects", "Objects that could not be understood.", ["kind"], registry=registry
        )
        # Not kubernetes_build_info: whoever watches over clusters is alerted by that if its versions differ.
        build = Gauge(
            "podwright_build_info", "Which version this is.", ["version", "python_version"], registry=registry
        )
        build.labels(__version__, platform.python_version()).set(1)
        in_use = Gauge(
            "podwright_memory_in_use_bytes",
            "Memory in use, without what the C library keeps for later.",
            registry=registry,
        )
        in_use.set_function(memory_in_use)

    def attempts(self, result: str, profile: str) -> Attempts:
        """Counter and histogram of attempts with this result."""
        key = (result, profile)
        known = self._profiles.get(key)
        if known is None:
            known = Attempts(self._attempts.labels(*key), self._attempt_seconds.of(*key))
            self._profiles[key] = known
        return known

    def group_attempts(self, result: str, profile: str) -> Attempts:
        """Counter and histogram of attempts at pod groups with this result."""
        return Attempts(
            self._group_attempts.labels(result, profile), self._group_attempt_seconds.labels(result, profile)
        )

    def incoming(self, queue: str, event: str) -> None:
        key = (queue, event)
        known = self._incoming_known.get(key)
        if known is None:
            known = self._incoming_known[key] = self._incoming.labels(*key)
        known.inc()

    def preempted(self, result: str, seconds: float) -> None:
        """The victims of one preemption were evicted, or could not be."""
        self._preemption_seconds.labels(result).observe(seconds)
        self._preemptions.labels(result).inc()

    def bound(self, seconds: float, attempts: int) -> None:
        """A pod was bound that long after it entered the queue."""
        self._sli_seconds.of(_ATTEMPTS[min(attempts, 15)]).observe(seconds)
        self.pod_attempts.observe(attempts)

    def on_demand(self, name: str, text: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """A gauge with one label that is computed when it is scraped."""
        self.on_demand_by(name, text, (label,), lambda: {(value,): number for value, number in read().items()})

    def on_demand_by(self, name: str, text: str, labels: tuple[str, ...], read: Read) -> None:
        """A gauge with labels that is computed when it is scraped."""
        self._on_demand.offer(name, text, labels, read)
