"""The parts of a runtime that need the API server's version, built in one place.

The engine decides; around it are the controllers that feed it and the writers that carry out its decisions. `Runtime`
connects before it builds them, and starts and stops them.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from resource import RUSAGE_THREAD, getrusage
from typing import Any

from podwright.api.configuration.load import Configuration
from podwright.core.framework.errors import PluginError
from podwright.core.framework.features import AUTOMATIC, NEWEST_MINOR, OLDEST_MINOR, Features
from podwright.core.framework.profile import Classes, ProfileError
from podwright.core.framework.registry import RegistryError
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
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
from podwright.kube.groupings.door import GroupingDoor
from podwright.kube.groupings.owners import OwnerKinds
from podwright.kube.kinds import KAI_TOPOLOGY, KUEUE_TOPOLOGY
from podwright.kube.node_signals.feeds import SignalFeeds
from podwright.kube.node_signals.reload import SignalReload
from podwright.kube.options.options import Options
from podwright.kube.pod_groups.door import pod_group_doors
from podwright.kube.pod_groups.foreign_pod_lister import ForeignPodLister
from podwright.kube.pod_groups.group_status import PodGroupStatusWriter
from podwright.kube.pod_groups.phases import PodGroupPhases
from podwright.kube.pod_groups.priority_classes import PriorityClassDoor
from podwright.kube.policies.config_maps import ConfigMapReader
from podwright.kube.policies.controller import PolicyController
from podwright.kube.policies.kinds import PolicyKind
from podwright.kube.queues.door import counts_of, queue_doors
from podwright.kube.queues.views import QueueViewDoor
from podwright.kube.rebalance.door import RebalanceDoor
from podwright.kube.reservations.door import ReservationDoor
from podwright.kube.topologies.door import OtherTopologyDoor, TopologyDoor
from podwright.kube.topologies.hyper_nodes import HyperNodeDoor
from podwright.kube.watch.checked_door import CheckedDoor
from podwright.kube.watch.newly_served import NewlyServedNames
from podwright.kube.watch.pending_audit import PendingAudit
from podwright.kube.watch.served_kinds import ServedKinds
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
    """The inputs of the parts that do not need the API server's version."""

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
    """The name of this process, also in the Lease."""
    extenders: Mapping[str, Extender] = field(default_factory=dict)
    """By name."""


class Parts:
    """See the module."""

    def __init__(self, base: Base, server_minor: int | None) -> None:
        """`server_minor`: the API server's minor version. Raises RegistryError if the built-in policy cannot be
        built.
        """
        http, metrics, options, wall = base.http, base.metrics, base.options, time.time
        self.features = enabled_features(options, server_minor)
        log_configuration(options.config, base.classes)
        self.events = EventRecorder(
            http,
            clock=wall,
            dropped=partial(metrics.count, EVENTS_DROPPED),
            steady=time.monotonic,
            muted=options.leader_election.leader_elect or options.shadow_only,
            scheduled_per_second=options.scheduled_events_per_second,
            left_out=partial(metrics.count, EVENTS_LEFT_OUT),
        )
        self.pod_status = PodStatusWriter(http, wall)
        self.group_status = PodGroupStatusWriter(http, wall)
        self.evictor = PodEvictor(http, self.events, clock=wall)
        engine = self.engine = self._engine(base)
        self.unseen_names = UnseenNames(time.monotonic)
        self.newly_served = NewlyServedNames(
            http, base.watches, pending=engine.pending, serves=engine.policies.serves, unseen=self.unseen_names
        )
        self.policy_events = PolicyEvents(
            engine.policies,
            self.events,
            scheduler_name=options.scheduler_name,
            own=engine.other_instances.own_deployment,
        )
        self.plugin_switches = PluginSwitches(
            engine.policies,
            engine.policies_changed,
            guard=engine.plugin_guard,
            metrics=metrics,
            events=self.policy_events,
        )
        policies = partial(
            PolicyController,
            http,
            engine,
            wall,
            on_names_served=self.newly_served.add,
            events=self.policy_events,
            limit=WriteLimit(),
        )
        self.policies = policies()
        self.local_policies = policies(kind=PolicyKind(engine, local=True), appeared=self.policies.appeared)
        metrics.compute(POLICIES, self.policies.counts)
        metrics.compute(LOCAL_POLICIES, self.local_policies.counts)
        self._open_doors(base)
        self.group_phases = PodGroupPhases(engine, self.group_status, clock=wall)
        self.pending_audit = PendingAudit(
            http,
            engine.pending,
            scheduler_names=lambda: engine.policies.policy_set.scheduler_names,
            unseen=self.unseen_names,
        )
        self.foreign_pods = ForeignPodLister(http, engine)
        self.shadow_watches = ShadowWatches(engine.shadow, base.watches)
        self.config_maps = ConfigMapReader(http, engine, is_watched=lambda name: _watches_params(base, name))
        self.signals = SignalFeeds(
            options.policies.signals, http, intake=engine.node_signals, metrics=metrics, wall=wall
        )
        self.signal_reload: SignalReload | None = None
        """None without a file of signals."""
        if options.signals is not None:
            self.signal_reload = SignalReload(options.signals, engine=engine, feeds=self.signals, metrics=metrics)

    def _open_doors(self, base: Base) -> None:
        http, engine, scheduler_name = base.http, self.engine, base.options.scheduler_name
        status_options: dict[str, Any] = {"recorder": self.events, "scheduler_name": scheduler_name, "clock": time.time}
        shadow_only = base.options.shadow_only
        self.queue_doors = queue_doors(http, engine, shadow_only=shadow_only, **status_options)
        base.metrics.compute(QUEUES, partial(counts_of, self.queue_doors))
        engine.workloads.relist = partial(base.watches.relist, ASSIGNED_PODS_WATCH)
        self.queue_views = QueueViewDoor(http, engine, **status_options)
        checked = (ReservationDoor, RebalanceDoor, GroupingDoor, TopologyDoor)
        self.checked_doors: Sequence[CheckedDoor] = [door(http, engine, **status_options) for door in checked]
        """The doors whose statuses do not wait for pods."""
        doors = [
            *pod_group_doors(engine, self.group_status, self.features),
            PriorityClassDoor(engine),
            *self.queue_doors,
            *self.checked_doors,
            self.queue_views,
            *(OtherTopologyDoor(engine, each) for each in (KUEUE_TOPOLOGY, KAI_TOPOLOGY)),
            HyperNodeDoor(engine, recorder=self.events, scheduler_name=scheduler_name),
        ]
        self.served_kinds = ServedKinds(
            http,
            self.queue_doors if shadow_only else doors,
            start=lambda name, reflector: base.tasks.start(name, reflector.run),
        )
        self.owner_kinds = OwnerKinds(http, engine, served=self.served_kinds)

    def _engine(self, base: Base) -> Engine:
        """Raises RegistryError if the built-in policy cannot be built."""
        sources = Sources(
            clock=time.monotonic,
            wall=time.time,
            cpu=time.thread_time,
            below=_random_below(random.Random()),
            waits=lambda: getrusage(RUSAGE_THREAD).ru_nvcsw,
        )

        def reason_not_to_bind(pod: PodInfo, node_name: str) -> str:
            return engine.binding_executor.reason_not_to_bind(pod, node_name)

        def throttled() -> None:
            engine.binding_executor.limiter.throttled()

        cluster = ApiCluster(base.http, reason_not_to_bind, throttled=throttled)
        ports = Ports(
            cluster=cluster,
            pods=RetryingPodReader(cluster),
            recorder=self.events,
            status=self.pod_status,
            evictor=self.evictor,
            groups=self.group_status,
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
            gather_after=base.options.gather_after,
        )
        try:
            engine = Engine(base.classes, self.features, ports=ports, sources=sources, options=options)
        except (PluginError, ProfileError) as error:
            raise RegistryError([f"the built-in policy cannot be built: {error}"]) from error
        return engine


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
