"""The catalogue of metrics, and `Metrics`, which holds their numbers.

To add a metric, declare it here (those about devices, policies, queues, admission checks and rebalancing: in files
beside it),
then call `count` or `observe` where it happens, or `compute` once for a gauge. The core knows no metrics: it reports to
`core.framework.observer.Observer`, whose methods `Metrics` overrides. Names, labels and buckets are kube-scheduler's
and client-go's where these have the metric. docs/metrics.md explains each one. Sources: the Kubernetes documentation,
"Kubernetes Metrics Reference"; k8s.io/component-base, metrics/prometheus/restclient.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric

from podwright import __version__
from podwright.core.framework.observer import Observer
from podwright.engine.process.memory import memory_in_use
from podwright.engine.process.steps import Steps
from podwright.engine.records import admission_check_metrics as admission_checks
from podwright.engine.records import device_metrics as devices
from podwright.engine.records import policy_metrics as policies
from podwright.engine.records import queue_metrics as queues
from podwright.engine.records import rebalance_metrics as rebalance
from podwright.engine.records.families import (
    OTHER_PROFILES,
    PROFILE,
    Counter,
    CounterFamily,
    Declaration,
    Family,
    Gauge,
    GaugeFamily,
    Histogram,
    HistogramFamily,
    Profiles,
    Read,
    Snapshot,
    exponential,
)
from podwright.engine.records.plugin_evaluations import PluginEvaluations

ATTEMPTS_PER_MEASURED: Final = 50
"""One attempt in fifty has its plugins measured. kube-scheduler times the plugins of one attempt in ten, and the points
of all.
"""

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
"""How an attempt ended: the label `result`."""

Numbers = Mapping[tuple[int, tuple[str, ...]], Sequence[float]]
"""By the number of the family and the values of the labels."""
_POD_ATTEMPTS: Final = (*map(str, range(15)), "15+")

# Queue

PENDING_PODS: Final = Gauge("scheduler_pending_pods", "Pending pods by queue.", ("queue",))
COSTLY_PODS: Final = Gauge("podwright_costly_pods", "Active pods in the lane of costly pods.")
UNSCHEDULABLE_PODS: Final = Gauge(
    "scheduler_unschedulable_pods", "Waiting pods by the plugins that rejected them.", ("plugin", "profile")
)
INFLIGHT_EVENTS: Final = Gauge("scheduler_inflight_events", "Events recorded for pods in flight.", ("event",))
QUEUE_INCOMING_PODS: Final = Counter(
    "scheduler_queue_incoming_pods", "Pods added to queues, by event.", ("queue", "event")
)
HINT_SECONDS: Final = Histogram(
    "scheduler_queueing_hint_execution_duration_seconds",
    "Duration for running a queueing hint of a plugin, of one call in sixteen.",
    ("plugin", "event", "hint"),
    exponential(0.00001, 1.5, 20),
)
EVENT_SECONDS: Final = Histogram(
    "scheduler_event_handling_duration_seconds",
    "Duration for handling an event of the cluster.",
    ("event",),
    exponential(0.0001, 2, 12),
)
CACHE_SIZE: Final = Gauge("scheduler_cache_size", "Nodes and pods in the cache.", ("type",))

# Attempts

SCHEDULE_ATTEMPTS: Final = Counter(
    "scheduler_schedule_attempts", "Attempts to schedule pods, by result.", ("result", "profile")
)
ATTEMPT_SECONDS: Final = Histogram(
    "scheduler_scheduling_attempt_duration_seconds",
    "Duration of an attempt: algorithm and binding.",
    ("result", "profile"),
    exponential(0.001, 2, 15),
)
ALGORITHM_SECONDS: Final = Histogram(
    "scheduler_scheduling_algorithm_duration_seconds",
    "Duration of the scheduling algorithm.",
    (),
    exponential(0.001, 2, 15),
)
POINT_SECONDS: Final = Histogram(
    "scheduler_framework_extension_point_duration_seconds",
    "Duration for running all plugins of an extension point, of one attempt in fifty.",
    ("extension_point", "status", "profile"),
    exponential(0.0001, 2, 12),
)
PLUGIN_SECONDS: Final = Histogram(
    "scheduler_plugin_execution_duration_seconds",
    "Duration for running a plugin at an extension point, of one attempt in fifty.",
    ("plugin", "extension_point", "status"),
    exponential(0.00001, 1.5, 20),
)
PLUGIN_EVALUATIONS: Final = Counter(
    "scheduler_plugin_evaluation",
    "Calls of a plugin: per pod in PreFilter and PreScore, per node in Filter and Score.",
    ("plugin", "extension_point", "profile"),
)
SLI_SECONDS: Final = Histogram(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "From a pod's entry into the queue until it was bound, all attempts included.",
    ("attempts",),
    exponential(0.01, 2, 20),
)
POD_ATTEMPTS: Final = Histogram(
    "scheduler_pod_scheduling_attempts", "Attempts until a pod was bound.", (), exponential(1, 2, 5)
)
SCHEDULED_AFTER_FLUSH: Final = Counter(
    "scheduler_pod_scheduled_after_flush",
    "Pods that were bound in an attempt that a timeout had caused, not an event.",
)
PERMIT_WAIT_SECONDS: Final = Histogram(
    "scheduler_permit_wait_duration_seconds",
    "Duration of waiting in Permit.",
    ("result",),
    exponential(0.001, 2, 15),
)
GOROUTINES: Final = Gauge("scheduler_goroutines", "Binding cycles in progress.", ("operation",))

# Pod groups

GROUP_ATTEMPTS: Final = Counter(
    "scheduler_podgroup_schedule_attempts", "Attempts to schedule pod groups, by result.", ("result", "profile")
)
GROUP_ATTEMPT_SECONDS: Final = Histogram(
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    "Duration of an attempt at a pod group.",
    ("result", "profile"),
    exponential(0.001, 2, 15),
)
GROUP_ALGORITHM_SECONDS: Final = Histogram(
    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
    "Duration of the scheduling algorithm for a pod group.",
    (),
    exponential(0.001, 2, 15),
)

# Preemption

PREEMPTION_ATTEMPTS: Final = Counter("scheduler_preemption_attempts", "Attempts at preemption, successful or not.")
PREEMPTION_EVALUATION_SECONDS: Final = Histogram(
    "scheduler_preemption_evaluation_duration_seconds",
    "Duration of the search for victims.",
    ("preemptor", "result"),
    exponential(0.001, 2, 16),
)
PREEMPTION_VICTIMS: Final = Histogram(
    "scheduler_preemption_victims", "Victims of a preemption.", (), exponential(1, 2, 7)
)
PREEMPTION_PDB_VIOLATIONS: Final = Counter(
    "scheduler_preemption_pdb_violations",
    "Victims whose eviction violates a PodDisruptionBudget.",
    ("preemptor",),
)
PREEMPTION_DISRUPTIONS: Final = Histogram(
    "scheduler_preemption_workload_disruptions",
    "Among the victims of a preemption: pod groups evicted as a whole, plus other members of groups.",
    ("preemptor",),
    exponential(1, 2, 11),
)
PREEMPTION_SECONDS: Final = Histogram(
    "scheduler_preemption_execution_duration_seconds",
    "From the choice of the victims until the API server accepted the last deletion.",
    ("preemptor", "result"),
    exponential(0.001, 2, 16),
)
PREEMPTION_GOROUTINE_SECONDS: Final = Histogram(
    "scheduler_preemption_goroutines_duration_seconds",
    "From the choice of the victims until the API server accepted the last deletion.",
    ("result",),
    exponential(0.01, 2, 20),
)
PREEMPTION_GOROUTINES: Final = Counter(
    "scheduler_preemption_goroutines_execution", "Executed preemptions.", ("result",)
)
GROUP_PREEMPTION_ATTEMPTS: Final = Counter(
    "scheduler_workload_preemption_attempts",
    "Preemption attempts of pod groups, by the code that ended them.",
    ("result",),
)
GROUP_PREEMPTION_VICTIMS: Final = Histogram(
    "scheduler_workload_preemption_victims", "Victims of a preemption by a pod group.", (), exponential(1, 2, 11)
)

# Requests to the API server

CLIENT_REQUESTS: Final = Counter(
    "rest_client_requests", "HTTP requests by status code, method and host.", ("code", "method", "host")
)
CLIENT_REQUEST_SECONDS: Final = Histogram(
    "rest_client_request_duration_seconds",
    "From a request until its answer was read, by method and host. Watches are left out.",
    ("verb", "host"),
    (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
)

# Calls of extenders

EXTENDER_CALL_SECONDS: Final = Histogram(
    "podwright_extender_call_duration_seconds",
    "From a call of an extender until its answer was decoded or given up.",
    ("extender", "verb", "result"),
    exponential(0.001, 2, 15),
)

# Leader election

LEADER_ELECTION_STATUS: Final = Gauge(
    "leader_election_master_status",
    "1 while this instance leads by the Lease of this name, 0 while it stands by.",
    ("name",),
)
LEADER_ELECTION_SLOW_PATH: Final = Counter(
    "leader_election_slowpath", "Renewals of the Lease of this name that had to read it first.", ("name",)
)

# The process

HEALTHCHECK: Final = Gauge(
    "kubernetes_healthcheck", "1 if the check of this name passes, 0 if it fails.", ("name", "type")
)
EVENTS_DROPPED: Final = Counter("podwright_events_dropped", "Events that were not posted: too many waited.")
EVENTS_LEFT_OUT: Final = Counter(
    "podwright_events_left_out", "Events Scheduled that were not posted: --scheduled-events-per-second bounds them."
)
INVALID_OBJECTS: Final = Counter("podwright_bad_objects", "Objects that could not be understood.", ("kind",))
PLUGIN_EXCEPTIONS: Final = Counter(
    "podwright_plugin_exceptions", "Exceptions that plugins raised.", ("plugin", "extension_point")
)
PLUGIN_RELOADS: Final = Counter(
    "podwright_plugin_reloads", "Changes of plugin directories: loaded (success) or refused (error).", ("result",)
)
PLUGIN_OVERRUNS: Final = Counter(
    "podwright_plugin_overruns", "Decisions in which a plugin took longer than its budget.", ("plugin",)
)
PLUGIN_STOPS: Final = Counter(
    "podwright_plugin_stops", "Calls of plugins that did not return and were stopped.", ("plugin",)
)
PLUGINS_OFF: Final = Gauge("podwright_plugins_switched_off", "Plugins that are switched off, each for a policy.")
SLOW_PLUGIN_CALLS: Final = Counter(
    "podwright_slow_plugin_calls", "Calls of plugins that took 100 ms or more.", ("plugin", "extension_point")
)
TASK_RESTARTS: Final = Counter(
    "podwright_background_task_restarts", "Restarts of background tasks that ended or failed.", ("task",)
)
WATCH_BLIND_SECONDS: Final = Gauge(
    "podwright_watch_blind_seconds", "For how long a watch has not been open; 0 while it is.", ("watch",)
)
API_SERVER_SILENT_SECONDS: Final = Gauge(
    "podwright_api_server_silent_seconds", "For how long the API server has answered nothing."
)
CREDENTIALS_REFUSED_SECONDS: Final = Gauge(
    "podwright_credentials_refused_seconds",
    "For how long the API server has refused our credentials; 0 if it accepts them.",
)
SERVER_CONNECTIONS: Final = Gauge(
    "podwright_server_connections", "Open connections of the server of health and metrics."
)
PAGE_VIEWERS: Final = Gauge("podwright_page_viewers", "Open streams of the page: how many people look at it.")
SERVER_DROPPED: Final = Counter(
    "podwright_server_dropped_connections", "Connections that the server of health and metrics dropped.", ("reason",)
)
OTHER_INSTANCES_BINDINGS: Final = Counter(
    "podwright_other_instances_bindings", "Pods that another instance of Podwright has bound."
)
SIGNAL_RELOADS: Final = Counter(
    "podwright_signal_reloads",
    "Changes of the file of --signals: taken (success) or refused (error).",
    ("result",),
)
CERTIFICATE_RELOADS: Final = Counter(
    "podwright_certificate_reloads",
    "Changes of the server's certificate files that were found, by result.",
    ("result",),
)
CERTIFICATE_EXPIRES: Final = Gauge(
    "podwright_certificate_expiration_timestamp_seconds", "When the server's certificate expires."
)
SIGNAL_AGE: Final = Gauge("podwright_signal_age_seconds", "How old the newest sample of each signal is.", ("signal",))
SIGNAL_NODES: Final = Gauge(
    "podwright_signal_nodes", "Nodes with a sample of each signal that is not too old.", ("signal",)
)
SIGNAL_ERRORS: Final = Counter(
    "podwright_signal_errors", "Questions to the source of each signal whose answer had something wrong.", ("signal",)
)
EXTENDER_REQUESTS: Final = Counter(
    "podwright_extender_requests", "Requests to `podwright extender`, by verb and result.", ("verb", "result")
)
EXTENDER_REQUEST_SECONDS: Final = Histogram(
    "podwright_extender_request_duration_seconds",
    "From the head of a request to `podwright extender` until its answer was made, by verb.",
    ("verb",),
    exponential(0.001, 2, 15),
)
EXTENDER_BODY_BYTES: Final = Gauge(
    "podwright_extender_body_bytes", "Bytes of the large bodies that `podwright extender` has in memory."
)
BUILD_INFO: Final = Gauge("podwright_build_info", "Which version this is.", ("version", "python_version"))
"""Not kubernetes_build_info: alerts compare that one's versions across the cluster."""
MEMORY_IN_USE: Final = Gauge(
    "podwright_memory_in_use_bytes", "Memory in use, without free memory that the C library keeps."
)

CATALOGUE: Final = (
    *(each for each in list(globals().values()) if isinstance(each, Declaration)),
    *(
        each
        for module in (devices, policies, queues, admission_checks, rebalance)
        for each in vars(module).values()
        if isinstance(each, Declaration)
    ),
)


class Metrics(PluginEvaluations):
    """The numbers of one process, and the observer that the core reports to. `clock` gives seconds and never steps
    back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._profiles = profiles = Profiles()
        self._counters = {each: CounterFamily(each, profiles) for each in CATALOGUE if isinstance(each, Counter)}
        self._histograms = {each: HistogramFamily(each, profiles) for each in CATALOGUE if isinstance(each, Histogram)}
        self._counting: Sequence[Family[Any, Any]] = (*self._counters.values(), *self._histograms.values())
        self._gauges = {each: GaugeFamily(each, profiles) for each in CATALOGUE if isinstance(each, Gauge)}
        super().__init__(self._counters[PLUGIN_EVALUATIONS])
        self._attempts = 0
        self.compute(BUILD_INFO, lambda: {(__version__, platform.python_version()): 1})
        self.compute(MEMORY_IN_USE, lambda: {(): memory_in_use()})
        self.registry = registry = CollectorRegistry()
        self._process = (
            ProcessCollector(registry=registry),
            PlatformCollector(registry=registry),
            GCCollector(registry=registry),
        )
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """All families, for the registry."""
        self.fold()
        families: Iterable[Family[Any, Any] | GaugeFamily] = (*self._counting, *self._gauges.values())
        for family in families:
            yield from family.snapshot()()

    def snapshots(self) -> Steps[Sequence[Snapshot]]:
        """All that `registry` has.

        Only the numbers are copied: another thread may make the metrics of them.
        """
        self.fold()
        counted = (family.snapshot() for family in self._counting)
        found = [*counted, *(collector.collect for collector in self._process)]
        for gauge in self._gauges.values():
            snapshot = yield from gauge.snapshot_in_steps()
            found.append(snapshot)
        return found

    # From another process

    def numbers(self) -> Numbers:
        """Returns all counts and observations so far."""
        self.fold()
        return {(at, labels): each for at, family in enumerate(self._counting) for labels, each in family.numbers()}

    def numbers_since(self, before: Numbers) -> Numbers:
        """Returns the growth of `numbers`, without unchanged ones."""
        now = self.numbers()
        return {
            key: [new - old for new, old in zip(each, before.get(key, (0,) * len(each)), strict=True)]
            for key, each in now.items()
            if each != before.get(key)
        }

    def add(self, more: Numbers) -> None:
        """Adds what was counted and observed in another process."""
        for (at, labels), each in more.items():
            self._counting[at].add(labels, each)

    # For every metric

    def count(self, counter: Counter, *labels: str, by: int = 1) -> None:
        family = self._counters[counter]
        (family.series.get(labels) or family.of(*labels))[0] += by

    def observe(self, histogram: Histogram, value: float, *labels: str) -> None:
        family = self._histograms[histogram]
        (family.series.get(labels) or family.of(*labels)).observe(value)

    def compute(self, gauge: Gauge, read: Read) -> None:
        """`read` computes the gauge whenever the metrics are scraped."""
        self._gauges[gauge].computed_by(read)

    def counter(self, counter: Counter) -> CounterFamily:
        """For callers that keep a series to save the look-up."""
        return self._counters[counter]

    def histogram(self, histogram: Histogram) -> HistogramFamily:
        """For callers that keep a series to save the look-up."""
        return self._histograms[histogram]

    def keep_profiles(self, served: Collection[str]) -> None:
        """Drops the series of profiles (scheduler names) that no policy serves any more."""
        self.fold()
        for family in self._counting:
            family.keep_only(PROFILE, {*served, OTHER_PROFILES})
        self._profiles.keep_only(served)

    # Several metrics at once

    def sampled(self) -> Observer | None:
        """The observer for the next attempt, or None if its plugins are not to be measured."""
        self._attempts += 1
        return self if self._attempts % ATTEMPTS_PER_MEASURED == 1 else None

    def attempt_took(self, result: str, profile: str, seconds: float) -> None:
        self.count(SCHEDULE_ATTEMPTS, result, profile)
        self.observe(ATTEMPT_SECONDS, seconds, result, profile)

    def group_attempt_took(self, result: str, profile: str, seconds: float) -> None:
        self.count(GROUP_ATTEMPTS, result, profile)
        self.observe(GROUP_ATTEMPT_SECONDS, seconds, result, profile)

    def pod_bound(self, seconds: float, attempts: int) -> None:
        """A pod was bound `seconds` after it entered the queue."""
        self.observe(SLI_SECONDS, seconds, _POD_ATTEMPTS[min(attempts, 15)])
        self.observe(POD_ATTEMPTS, attempts)

    def preemption_took(self, preemptor: str, result: str, seconds: float) -> None:
        """The last eviction of a preemption was answered."""
        self.observe(PREEMPTION_SECONDS, seconds, preemptor, result)
        self.observe(PREEMPTION_GOROUTINE_SECONDS, seconds, result)
        self.count(PREEMPTION_GOROUTINES, result)

    # What the core and the intake report: see Observer

    def start(self) -> float:
        return self._clock()

    def victims_searched(self, started: float, preemptor: str, result: str) -> None:
        self.observe(PREEMPTION_EVALUATION_SECONDS, self._clock() - started, preemptor, result)

    def group_preemption_ended(self, result: str) -> None:
        self.count(GROUP_PREEMPTION_ATTEMPTS, result)

    def plugin_ended(self, started: float, plugin: str, point: str, status: str) -> None:
        self.observe(PLUGIN_SECONDS, self._clock() - started, plugin, point, status)

    def point_ended(self, started: float, profile: str, point: str, status: str) -> None:
        self.observe(POINT_SECONDS, self._clock() - started, point, status, profile)

    def claim_created(self, *, created: bool) -> None:
        self.count(devices.CLAIM_CREATIONS, "success" if created else "failure", "false", "", "Pod")

    def binding_conditions_ended(
        self, started: float, profile: str, status: str, drivers: Iterable[str], waited_for: Iterable[str]
    ) -> None:
        seconds = self._clock() - started
        for driver in drivers:
            self.observe(devices.BINDING_CONDITION_SECONDS, seconds, profile, driver, status)
        for driver in waited_for:
            self.count(devices.BINDING_CONDITIONS, profile, driver, status)

    def pod_queued(self, queue: str, event: str) -> None:
        self.count(QUEUE_INCOMING_PODS, queue, event)

    def hint_ended(self, started: float, plugin: str, event: str, result: str) -> None:
        self.observe(HINT_SECONDS, self._clock() - started, plugin, event, result)

    def event_ended(self, started: float, event: str) -> None:
        """The intake handled an event of the cluster."""
        self.observe(EVENT_SECONDS, self._clock() - started, event)
