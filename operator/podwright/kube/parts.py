"""The parts of a runtime that need the API server's version, built in one place.

The engine decides; around it are the controllers that feed it and the writers that carry out its decisions. `Runtime`
connects before it builds them, and starts and stops them.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from resource import RUSAGE_THREAD, getrusage

from podwright.api.compile import Classes
from podwright.api.configuration.load import Configuration
from podwright.core.framework.errors import PluginError
from podwright.core.framework.features import AUTOMATIC, NEWEST_MINOR, OLDEST_MINOR, Features
from podwright.core.framework.profile import ProfileError
from podwright.core.framework.registry import RegistryError
from podwright.core.objects.pod import PodInfo
from podwright.core.queues.queues import queues_of
from podwright.engine.engine import Engine
from podwright.engine.engine_options import EngineOptions
from podwright.engine.policies.plugin_switches import PluginSwitches
from podwright.engine.policies.policy_events import PolicyEvents
from podwright.engine.ports import Extender, Ports
from podwright.engine.process.forks import Forks
from podwright.engine.process.instance import Instance
from podwright.engine.process.solving import solve
from podwright.engine.records.metrics import EVENTS_DROPPED, EVENTS_LEFT_OUT, Metrics
from podwright.engine.records.policy_metrics import LOCAL_POLICIES, POLICIES
from podwright.engine.records.queue_metrics import QUEUES
from podwright.engine.state import Sources
from podwright.kube.api_cluster import ApiCluster, RetryingPodReader
from podwright.kube.background import BackgroundTasks
from podwright.kube.client.http import Http
from podwright.kube.groupings.door import GroupingStatuses, grouping_door
from podwright.kube.groupings.owners import OwnerKinds
from podwright.kube.node_signals.feeds import SignalFeeds
from podwright.kube.node_signals.reload import SignalReload
from podwright.kube.options.options import Options
from podwright.kube.pod_groups.door import pod_group_doors
from podwright.kube.pod_groups.foreign_pod_lister import ForeignPodLister
from podwright.kube.pod_groups.group_status import PodGroupStatusWriter
from podwright.kube.pod_groups.phases import PodGroupPhases
from podwright.kube.policies.config_maps import ConfigMapReader
from podwright.kube.policies.controller import PolicyController
from podwright.kube.policies.kinds import PolicyKind
from podwright.kube.queues.door import queue_doors
from podwright.kube.queues.statuses import QueueStatuses, counts_of
from podwright.kube.queues.views import QueueViewDoor, QueueViews
from podwright.kube.rebalance.door import RebalanceStatuses, rebalance_door
from podwright.kube.reservations.door import ReservationDoor, ReservationStatuses
from podwright.kube.topologies.door import TopologyStatuses, topology_doors
from podwright.kube.watch.newly_served import NewlyServedNames
from podwright.kube.watch.pending_audit import PendingAudit
from podwright.kube.watch.served_kinds import Door, ServedKinds
from podwright.kube.watch.shadow_watches import ShadowWatches
from podwright.kube.watch.unseen_names import UnseenNames
from podwright.kube.watch.watches import ASSIGNED_PODS_WATCH, PARAMS_WATCH, Watches
from podwright.kube.write.events import EventRecorder
from podwright.kube.write.eviction import PodEvictor
from podwright.kube.write.pod_status import PodStatusWriter
from podwright.kube.write.write_limit import WriteLimit

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What the parts are built on: it does not need the API server's version."""

    options: Options
    classes: Classes
    """The plugins."""
    disabled_plugins: Mapping[str, str] = field(default_factory=dict)
    """By name, why plugins are off from the start."""
    http: Http
    metrics: Metrics
    tasks: BackgroundTasks
    watches: Watches
    instance: Instance
    """What this process is called, also in the Lease."""
    extenders: Mapping[str, Extender] = field(default_factory=dict)
    """By name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """See the module."""

    engine: Engine
    features: Features
    events: EventRecorder
    policy_events: PolicyEvents
    plugin_switches: PluginSwitches
    pod_status: PodStatusWriter
    group_status: PodGroupStatusWriter
    evictor: PodEvictor
    policies: PolicyController
    local_policies: PolicyController
    newly_served: NewlyServedNames
    unseen_names: UnseenNames
    served_kinds: ServedKinds
    queue_statuses: Sequence[QueueStatuses]
    queue_views: QueueViews
    reservation_statuses: ReservationStatuses
    rebalance_statuses: RebalanceStatuses
    grouping_statuses: GroupingStatuses
    topology_statuses: TopologyStatuses
    owner_kinds: OwnerKinds
    group_phases: PodGroupPhases
    pending_audit: PendingAudit
    foreign_pods: ForeignPodLister
    shadow_watches: ShadowWatches
    config_maps: ConfigMapReader
    signals: SignalFeeds
    signal_reload: SignalReload | None
    """None without a file of signals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writers:
    """What posts to the API server beside the loop."""

    events: EventRecorder
    pod_status: PodStatusWriter
    group_status: PodGroupStatusWriter
    evictor: PodEvictor


def build_parts(base: Base, server_minor: int | None) -> Parts:
    """`server_minor`: the API server's minor version. Raises RegistryError if the built-in policy cannot be built."""
    http, metrics, wall = base.http, base.metrics, time.time
    features = enabled_features(base.options, server_minor)
    log_configuration(base.options.config, base.classes)
    writers = _writers(base)
    engine = _engine(base, features, writers)
    unseen_names = UnseenNames(time.monotonic)
    newly_served = NewlyServedNames(
        http, base.watches, pending=engine.pending, serves=engine.policies.serves, unseen=unseen_names
    )
    policy_events = PolicyEvents(
        engine.policies,
        writers.events,
        scheduler_name=base.options.scheduler_name,
        own=engine.other_instances.own_deployment,
    )
    policies, local_policies = _policy_controllers(base, engine, newly_served, policy_events)
    status_options = {"recorder": writers.events, "scheduler_name": base.options.scheduler_name, "clock": wall}
    doors_of_queues = queue_doors(http, engine, **status_options)
    queue_statuses = [door.statuses for door in doors_of_queues]
    metrics.compute(QUEUES, partial(counts_of, queue_statuses))
    queue_views = QueueViews(http, queues_of(engine.cache), **status_options)
    reservation_statuses = ReservationStatuses(http, engine, **status_options)
    rebalance_statuses = RebalanceStatuses(http, engine, **status_options)
    grouping_statuses = GroupingStatuses(http, engine, **status_options)
    topology_statuses = TopologyStatuses(http, engine, **status_options)
    engine.workloads.relist = partial(base.watches.relist, ASSIGNED_PODS_WATCH)
    doors: list[Door] = [
        *pod_group_doors(engine, writers.group_status, features),
        *doors_of_queues,
        QueueViewDoor(queue_views),
        ReservationDoor(engine, reservation_statuses),
        rebalance_door(engine, rebalance_statuses),
        grouping_door(engine, grouping_statuses),
        *topology_doors(engine, topology_statuses, recorder=writers.events, scheduler_name=base.options.scheduler_name),
    ]
    served_kinds = ServedKinds(http, doors, start=lambda name, reflector: base.tasks.start(name, reflector.run))
    signals = SignalFeeds(base.options.policies.signals, http, intake=engine.node_signals, metrics=metrics, wall=wall)
    return Parts(
        engine=engine,
        features=features,
        events=writers.events,
        policy_events=policy_events,
        plugin_switches=PluginSwitches(
            engine.policies,
            engine.policies_changed,
            guard=engine.plugin_guard,
            metrics=metrics,
            events=policy_events,
        ),
        pod_status=writers.pod_status,
        group_status=writers.group_status,
        evictor=writers.evictor,
        policies=policies,
        local_policies=local_policies,
        newly_served=newly_served,
        unseen_names=unseen_names,
        served_kinds=served_kinds,
        queue_statuses=queue_statuses,
        queue_views=queue_views,
        reservation_statuses=reservation_statuses,
        rebalance_statuses=rebalance_statuses,
        grouping_statuses=grouping_statuses,
        topology_statuses=topology_statuses,
        owner_kinds=OwnerKinds(http, engine, served=served_kinds),
        group_phases=PodGroupPhases(engine, writers.group_status, clock=wall),
        pending_audit=PendingAudit(
            http,
            engine.pending,
            scheduler_names=lambda: engine.policies.policy_set.scheduler_names,
            unseen=unseen_names,
        ),
        foreign_pods=ForeignPodLister(http, engine),
        shadow_watches=ShadowWatches(engine.shadow, base.watches),
        config_maps=ConfigMapReader(http, engine, is_watched=lambda name: _watches_params(base, name)),
        signals=signals,
        signal_reload=None
        if base.options.signals is None
        else SignalReload(base.options.signals, engine=engine, feeds=signals, metrics=metrics),
    )


def _writers(base: Base) -> _Writers:
    http, wall = base.http, time.time
    dropped = partial(base.metrics.count, EVENTS_DROPPED)
    muted = base.options.leader_election.leader_elect or base.options.shadow_only
    events = EventRecorder(
        http,
        clock=wall,
        dropped=dropped,
        steady=time.monotonic,
        muted=muted,
        scheduled_per_second=base.options.scheduled_events_per_second,
        left_out=partial(base.metrics.count, EVENTS_LEFT_OUT),
    )
    return _Writers(
        events=events,
        pod_status=PodStatusWriter(http, wall),
        group_status=PodGroupStatusWriter(http, wall),
        evictor=PodEvictor(http, events, clock=wall),
    )


def _engine(base: Base, features: Features, writers: _Writers) -> Engine:
    """Raises RegistryError if the built-in policy cannot be built."""
    sources = Sources(
        clock=time.monotonic,
        wall=time.time,
        cpu=time.thread_time,
        below=_random_below(random.Random()),
        waits=lambda: getrusage(RUSAGE_THREAD).ru_nvcsw,
    )

    def reason_not_to_bind(pod: PodInfo, node_name: str) -> str:
        return engine.reason_not_to_bind(pod, node_name)

    def throttled() -> None:
        engine.bindings_throttled()

    cluster = ApiCluster(base.http, reason_not_to_bind, throttled=throttled)
    ports = Ports(
        cluster=cluster,
        pods=RetryingPodReader(cluster),
        recorder=writers.events,
        status=writers.pod_status,
        evictor=writers.evictor,
        groups=writers.group_status,
        metrics=base.metrics,
        intake=base.watches,
        children=Forks(),
        solve=solve,
        extenders=base.extenders,
    )
    options = EngineOptions(
        policies=base.options.policies,
        waits=base.options.waits,
        attempts_at_extenders=base.options.extender_attempts,
        instance=base.instance,
        plugin_budget=base.options.plugin_budget,
        disabled_plugins=base.disabled_plugins,
    )
    try:
        engine = Engine(base.classes, features, ports=ports, sources=sources, options=options)
    except (PluginError, ProfileError) as error:
        raise RegistryError([f"the built-in policy cannot be built: {error}"]) from error
    return engine


def _policy_controllers(
    base: Base, engine: Engine, newly_served: NewlyServedNames, events: PolicyEvents
) -> tuple[PolicyController, PolicyController]:
    """The controllers of SchedulerPolicies and of LocalSchedulerPolicies."""
    limit = WriteLimit()
    build = partial(
        PolicyController, base.http, engine, time.time, on_names_served=newly_served.add, events=events, limit=limit
    )
    policies = build()
    local_policies = build(kind=PolicyKind(engine, local=True), appeared=policies.appeared)
    base.metrics.compute(POLICIES, policies.counts)
    base.metrics.compute(LOCAL_POLICIES, local_policies.counts)
    return policies, local_policies


def _watches_params(base: Base, namespace: str) -> bool:
    return namespace == base.options.policies.namespace and PARAMS_WATCH in base.watches


def check_profiles(options: Options, classes: Classes) -> None:
    """Raises RegistryError for a profile of the configuration file that these plugins cannot be: before the Lease is
    taken.
    """
    if options.config is not None:
        try:
            options.config.profiles(classes, Features({**AUTOMATIC, **options.feature_gates}))
        except ProfileError as error:
            path = f"{options.config.path}: " if options.config.path else ""
            raise RegistryError([f"--config: {path}{error}"]) from error


def enabled_features(options: Options, server_minor: int | None) -> Features:
    """The feature gates that are on. Logs those that are set but have no effect, and what the API server's version
    lacks.
    """
    minors = [minor for minor in (server_minor, options.emulated_version) if minor is not None]
    features = Features({**AUTOMATIC, **options.feature_gates}, min(minors, default=None))
    if features.without_effect:
        log.warning("these feature gates have no effect in this version: %s", ", ".join(features.without_effect))
    if minors:
        _log_version(min(minors), features)
    return features


def _log_version(minor: int, features: Features) -> None:
    """Logs what differs from Kubernetes 1.37, in one line."""
    if not OLDEST_MINOR <= minor <= NEWEST_MINOR:
        log.warning(
            "Podwright is not tested with Kubernetes 1.%d, but with 1.%d to 1.%d", minor, OLDEST_MINOR, NEWEST_MINOR
        )
    differences = []
    if features.off_by_version:
        differences.append(
            f"these feature gates are off, as in its kube-scheduler: {', '.join(features.off_by_version)}"
        )
    if features.missing_api:
        differences.append(f"its API does not have: {', '.join(features.missing_api)}")
    if differences:
        log.info("Kubernetes 1.%d: %s", minor, "; ".join(differences))


def log_configuration(config: Configuration | None, classes: Classes) -> None:
    """Logs what in the configuration file has no effect, once."""
    if config is not None:
        for warning in (*config.warnings, *config.unused_args(classes)):
            log.warning("--config: %s", warning)


def _random_below(source: random.Random) -> Callable[[int], int]:
    """A random number from 0 to n - 1, faster than `randrange`."""
    draw = source.random
    return lambda n: int(draw() * n)
