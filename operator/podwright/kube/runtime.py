"""The runtime: everything of a running scheduler except Kopf, with its start and its stop.

    start:  check access ─► build parts ─► apply policies ─► start watches and background tasks
    then:   first lists complete ─► pending pods listed ─► the engine decides
    stop:   no more decisions ─► bindings and evictions finish ─► statuses are written ─► the Lease is released
            ─► events are written
            ─► connections close

Pending pods come in through `pending` and policies through `policies`. Kopf's handlers call them (`controllers/`); with
`--pod-intake=watch` a reflector feeds `pending` instead. The parts are in `kube/parts.py`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from podwright.core.framework.features import Features, missing_api
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import value_at
from podwright.engine.engine import Engine
from podwright.engine.intake.pending_pods import PendingPods
from podwright.engine.ports import Extender
from podwright.engine.process.instance import new_instance
from podwright.engine.process.interruption import cancel
from podwright.engine.process.memory import configure_memory, freeze_objects
from podwright.engine.process.steps import Steps
from podwright.engine.records.log_fields import fields
from podwright.engine.records.metrics import HEALTHCHECK, TASK_RESTARTS, Metrics
from podwright.engine.shadow.report import reports
from podwright.engine.view.pod_answers import PodAnswers
from podwright.engine.view.waiting import queued_pods
from podwright.kube.background import BackgroundTasks, Work
from podwright.kube.client import access
from podwright.kube.client.credentials import credentials
from podwright.kube.client.http import Http, import_streams
from podwright.kube.client.retry import retry_until_answered
from podwright.kube.descriptors import raise_descriptor_limit
from podwright.kube.election.leadership import Leadership
from podwright.kube.kinds import CRD, GROUPING, NODE, POD, REQUIRED, STORED, Resource, params_in
from podwright.kube.options.options import Options
from podwright.kube.parts import Base, Parts, check_profiles
from podwright.kube.plugins.third_party import ThirdPartyPlugins
from podwright.kube.policies.controller import PolicyController
from podwright.kube.rights import (
    NODE_LOADS,
    SCHEDULING,
    SHADOWING,
    Right,
    RightsCheck,
    election,
    params,
    refuse_writes,
    reviews,
)
from podwright.kube.serve.access.delegation import AccessDelegation
from podwright.kube.serve.access.review_clients import review_clients
from podwright.kube.serve.answers.checks import Note, Problems
from podwright.kube.serve.answers.configz import configuration
from podwright.kube.serve.answers.pod_resources import known_pods
from podwright.kube.serve.answers.readiness import ApiServerContact, Clocks, Readiness
from podwright.kube.serve.content import Content
from podwright.kube.serve.page.shown import Shown
from podwright.kube.serve.server import Server
from podwright.kube.watch.reflector import Sink
from podwright.kube.watch.selectors import ASSIGNED_PODS, pods_that_may_ask_for
from podwright.kube.watch.watches import ASSIGNED_PODS_WATCH, PARAMS_WATCH, Watches

log = logging.getLogger(__name__)

_NO_EXTENDERS: Final[Mapping[str, Extender]] = {}
FLUSH_SECONDS: Final = 3.0
"""How much of the grace period is kept for events and statuses, after bindings and evictions."""
FLUSH_SHARE: Final = 0.5
"""The most that is kept of a short grace period."""
STATUS_SECONDS: Final = 0.5
"""How long the last statuses may delay the next leader, which finds out the same about their pods."""


def binding_seconds(grace: float) -> float:
    """How many seconds of the grace period bindings and evictions may take."""
    return grace - min(FLUSH_SECONDS, FLUSH_SHARE * grace)


class Runtime:
    """See the module. A process has one, created in its event loop."""

    collections: ClassVar[Sequence[str]] = ()
    """The URL paths of what Kopf watches besides pods and policies."""
    scheduling: ClassVar[Sequence[Right]] = SCHEDULING
    """The rights that the process uses besides those of its options."""

    def __init__(self, options: Options, extenders: Mapping[str, Extender] = _NO_EXTENDERS) -> None:
        """`extenders`: by name; it closes them at the end. Raises ConfigError for unusable credentials and
        RegistryError for plugins that cannot be loaded.
        """
        self.options = options
        for warning in options.warnings:
            log.warning("%s", warning)
        self.source = credentials.load(
            options.kubeconfig_file,
            options.context,
            time.time,
            time.monotonic,
            server=options.master,
            named_by=options.kubeconfig_named_by,
        )
        metrics = Metrics(time.monotonic)
        instance = new_instance(socket.gethostname(), options.pod_uid)
        self.leadership = Leadership(options.leader_election, self.source, identity=instance.id, metrics=metrics)
        before_write = self.leadership.before_write
        self._http = Http(
            self.source, metrics, before_write=refuse_writes(before_write) if options.shadow_only else before_write
        )
        self.leadership.protect(self._http)
        self._tasks = BackgroundTasks(restarted=self.task_restarted)
        self.watches = Watches(self._http, self._tasks.start)
        self._plugins = ThirdPartyPlugins(options.plugin_dirs, options.plugin_state_dir)
        classes = self._plugins.classes
        check_profiles(options, classes)
        self._base = Base(
            options=options,
            classes=classes,
            disabled_plugins=self._plugins.disabled(),
            http=self._http,
            metrics=metrics,
            tasks=self._tasks,
            watches=self.watches,
            instance=replace(instance, leads=lambda: self.leadership.may_write),
            extenders=extenders,
        )
        self._contact = ApiServerContact(self._http, time.monotonic)
        self._readiness = Readiness(
            self._contact,
            self.watches,
            source=self.source,
            missing=self.missing,
            tasks=self._tasks,
            clocks=Clocks(steady=time.monotonic, wall=time.time),
        )
        self._readiness.register(metrics)
        metrics.compute(HEALTHCHECK, self._passing)
        self.content = self._content()
        self._clients = review_clients(options, self._http, metrics)
        self.delegation = AccessDelegation(*self._clients)
        self.server = Server(self.content, metrics, options=options, delegation=self.delegation)
        self._rights: RightsCheck | None = None
        self._parts: Parts | None = None
        self._crds_watchable = False
        self._params = params_in(options.policies.namespace)
        self._writing = False
        """True if the background tasks that write run."""
        self._started = False
        self._pending_complete = asyncio.Event()
        """Set when all pods that were pending at the start are known."""
        self._deciding: asyncio.Task[None] | None = None
        self._electing: asyncio.Task[None] | None = None
        self._stopped = False

    # For Kopf's handlers and `cli/processes/scheduler.py`

    @property
    def parts(self) -> Parts:
        """The parts, which `start` builds."""
        assert self._parts is not None, "the runtime has not started"
        return self._parts

    @property
    def engine(self) -> Engine:
        """The engine, which `start` builds."""
        return self.parts.engine

    @property
    def pending(self) -> PendingPods:
        """The intake of pending pods."""
        return self.engine.pending

    @property
    def policies(self) -> PolicyController:
        """The controller of SchedulerPolicies."""
        return self.parts.policies

    @property
    def local_policies(self) -> PolicyController:
        """The controller of LocalSchedulerPolicies."""
        return self.parts.local_policies

    @property
    def kopf_watches_pods(self) -> bool:
        """True if pending pods come in through Kopf."""
        return self.options.pod_intake == "kopf" and not self.options.shadow_only

    @property
    def kopf_has_work(self) -> bool:
        """True if Kopf has anything to watch."""
        return self.kopf_watches_pods or self.policies.readable or self.local_policies.readable

    @property
    def crds_watchable(self) -> bool:
        """True if RBAC allows us to watch CustomResourceDefinitions."""
        return self._crds_watchable

    @property
    def pending_selector(self) -> str:
        """The field selector of the watch of pending pods. It leaves out pods of the default scheduler unless they are
        ours.
        """
        return pods_that_may_ask_for(self.engine.policies.policy_set.scheduler_names)

    def serves(self, pod: Mapping[str, Any]) -> bool:
        """True if a policy serves the scheduler name that the raw pod asks for."""
        name = value_at(pod, "spec", "schedulerName")
        return isinstance(name, str) and self.engine.policies.serves(name)

    def task_restarted(self, name: str) -> None:
        """Counts the restart of a background task."""
        self._base.metrics.count(TASK_RESTARTS, name)

    # For the server of health and metrics

    def missing(self) -> list[str]:
        """Returns the inputs that the scheduler still waits for before its first decision."""
        missing = self.watches.missing()
        if not self._started:
            return [*missing, "start"]
        return missing or ([] if self._pending_complete.is_set() else ["pending pods"])

    def _content(self) -> Content:
        return Content(
            checks=self._checks,
            metrics=self._base.metrics.snapshots,
            pods=self._known_pods,
            configuration=self._configuration,
            about_pod=self._about_pod,
            shown=self._shown if self.options.page else None,
            shadow=self._shadow_reports,
        )

    def _checks(self) -> Problems:
        problems = self._readiness.problems()
        if not self._started:
            return problems
        return {
            **problems,
            "other-instances": Note(self.engine.other_instances.problem()),
            "scheduler-names": Note(self._unseen_names()),
            "leader-election": Note(self.leadership.state()),
            "permissions": Note("" if self._rights is None else self._rights.problem()),
            **({} if self.options.signals is None else {"signals": Note(self.parts.signals.problem())}),
        }

    def _passing(self) -> Mapping[tuple[str, str], float]:
        """For each check of /readyz, 1 if it passes, else 0."""
        return {(name, "readyz"): not problem or isinstance(problem, Note) for name, problem in self._checks().items()}

    def _unseen_names(self) -> str:
        unlisted = [f"{name} not listed" for name in self.watches.missing(required=False)]
        return "; ".join(filter(None, [*unlisted, self.parts.unseen_names.problem()]))

    def _known_pods(self) -> Iterable[PodInfo]:
        return known_pods(self.engine.cache, self.engine.queue) if self._started else ()

    def _about_pod(self, namespace: str, name: str) -> Steps[Mapping[str, Any]]:
        if not self._started:
            return {}
        engine = self.engine
        answers = PodAnswers(
            engine.queue,
            engine.cache,
            policies=engine.policies,
            decisions=engine.decisions,
            clock=time.monotonic,
            waits=self.options.waits,
        )
        return (yield from answers.about(namespace, name))

    def _shown(self) -> Shown | None:
        if not self._started:
            return None
        engine = self.engine
        return Shown(
            cache=engine.cache,
            pods=lambda: queued_pods(engine.queue),
            policies=engine.policies,
            clock=time.monotonic,
            decisions=engine.decisions,
            history=engine.history,
            rebalancing=engine.rebalancing,
            stale=self._readiness.stale,
        )

    def _shadow_reports(self, policy: str) -> Steps[Mapping[str, Any]]:
        return (yield from reports(self.engine.shadow, policy)) if self._started else {}

    def _configuration(self) -> Callable[[], Mapping[str, Any]]:
        if not self._started:
            return dict
        policies = self.engine.policies.policy_set
        return partial(configuration, self.options, policies.built_in, policies.active)

    # Start

    async def start(self) -> None:
        """Starts everything; decisions begin once the caches are complete.

        Raises AccessError, ConfigError, OSError, and RegistryError if the built-in policy cannot be built.
        """
        configure_memory()
        raise_descriptor_limit()
        self._tasks.start("API server contact", self._contact.run)
        self._electing = self._tasks.start("leader election", self.leadership.run)
        serving = asyncio.create_task(self._serve(), name="podwright server")
        building = asyncio.create_task(self._build(), name="podwright parts")
        try:
            _, (parts, kinds) = await asyncio.gather(serving, building)
        finally:  # if one fails, the other must not go on while `stop` runs
            await cancel([serving, building])
        if not self.options.shadow_only:
            await retry_until_answered("owners of pods", partial(parts.owner_kinds.start, GROUPING.kind))
        await self.server.require_authentication()
        self._rights = RightsCheck(self._needed_rights(parts.features))
        parts.plugin_switches.tell_of_disabled()
        self._start_watches(parts, kinds)
        self._start_readers(parts, self._rights)
        if not self.leadership.elected:
            self._start_writers(parts)
        self._started = True
        self._deciding = self._tasks.start("decisions", lambda: self._decide(parts))

    async def _serve(self) -> None:
        """The watches need aiohttp, too. It is imported while the API server answers."""
        await import_streams()
        await self.server.start()

    async def _build(self) -> tuple[Parts, Sequence[Resource]]:
        """Builds the parts, and applies the policies. Also returns the kinds to watch besides nodes and pods."""
        minor, problems = await retry_until_answered("the API server", self._ask)
        self._crds_watchable = problems[CRD] is None
        parts = self._parts = Parts(self._base, minor)
        self._built(parts)
        self._plugins.start(self._tasks, parts.engine, metrics=self._base.metrics, events=parts.policy_events)
        discovery = retry_until_answered("optional kinds", parts.served_kinds.discover)
        await asyncio.gather(start_policies(parts, local=not self.options.shadow_only), discovery)
        return parts, self._watched_kinds(problems, minor)

    async def _ask(self) -> tuple[int | None, access.Problems]:
        """Returns the API server's minor version, and the problems of kinds that cannot be read. Raises AccessError and
        ClusterError.
        """
        kinds = {*REQUIRED, *STORED, CRD, self._params}
        minor, problems = await asyncio.gather(
            access.server_minor(self._http), access.access_problems(self._http, kinds)
        )
        access.require_of(REQUIRED, problems)
        return minor, problems

    def _watched_kinds(self, problems: access.Problems, minor: int | None) -> Sequence[Resource]:
        """The kinds to watch besides nodes and pods: those that can be read. What is off is logged."""
        kinds = access.readable_of(STORED, problems, missing_api(minor))
        problem = problems[self._params]
        if problem is None:
            return [*kinds, self._params]
        log.info("policies take no params from ConfigMaps: %s: %s", self._params.collection, problem)
        return kinds

    def _start_watches(self, parts: Parts, kinds: Iterable[Resource]) -> None:
        engine = parts.engine
        self._watch_cluster(parts, kinds, engine.nodes, parts.group_phases.counting(engine.assigned))
        if not self.kopf_watches_pods and not self.options.shadow_only:
            self.watches.start("pending pods", POD, engine.pending, self.pending_selector)
        # The first list of pending pods has the pods of all names that are served by now.
        parts.newly_served.clear()

    def _watch_cluster(self, parts: Parts, kinds: Iterable[Resource], nodes: Sink, assigned: Sink) -> None:
        """Watches nodes, the pods that have one, and these kinds."""
        self.watches.start("nodes", NODE, nodes)
        self.watches.include(lambda: parts.served_kinds.reflectors)
        self.watches.start(ASSIGNED_PODS_WATCH, POD, assigned, ASSIGNED_PODS)
        for resource in kinds:
            name = PARAMS_WATCH if resource is self._params else resource.plural
            self.watches.start(name, resource, parts.engine.objects(resource.kind))

    def _start_readers(self, parts: Parts, rights: RightsCheck) -> None:
        """The background tasks that only read. Standbys run them too."""
        self._start_tasks(
            ("policies", parts.policies.run_relists),
            ("policy changes", parts.policies.run_changes),
            ("housekeeping", parts.engine.run_housekeeping),
            ("watches for shadow", parts.shadow_watches.run),
            ("optional kinds", parts.served_kinds.run),
            ("permissions", lambda: self._check_rights(rights)),
        )
        if not self.options.shadow_only:
            self._start_tasks(
                ("owners of pods", parts.owner_kinds.run),
                ("local policies", parts.local_policies.run_relists),
                ("local policy changes", parts.local_policies.run_changes),
                ("newly served names", parts.newly_served.run),
                ("audit of pending pods", parts.pending_audit.run),
                ("foreign pods", parts.foreign_pods.run),
                ("params of local policies", parts.config_maps.run),
            )
        if self._crds_watchable:
            self._start_tasks(("CRDs", lambda: self._watch_crds(parts)))
        if parts.signal_reload is not None:
            self._start_tasks(
                ("signals", lambda: self._read_signals(parts)), ("definitions of signals", parts.signal_reload.run)
            )

    async def _read_signals(self, parts: Parts) -> None:
        """Only after the first list of nodes, because sources report numbers of nodes."""
        await self.watches.wait_until_synced()
        await parts.signals.run()

    async def _watch_crds(self, parts: Parts) -> None:
        """Only once the caches are complete: which kinds are served was just asked."""
        await self.watches.wait_until_synced()
        await parts.served_kinds.watch_crds()

    def _start_tasks(self, *tasks: tuple[str, Work]) -> None:
        for name, work in tasks:
            self._tasks.start(name, work)

    async def _check_rights(self, rights: RightsCheck) -> None:
        """Only once the caches are complete: nothing is to be delayed by these questions."""
        await self.watches.wait_until_synced()
        await rights.run()

    def _needed_rights(self, features: Features) -> list[tuple[Http, Sequence[Right]]]:
        """The rights that this process uses, with the API client that uses them."""
        lease = self.leadership.lease
        own = (*(SHADOWING if self.options.shadow_only else self.scheduling),)
        if self.options.in_cluster:
            own += params(self.options.policies.namespace)
        if any(signal.metrics_api is not None for signal in self.options.policies.signals.values()):
            own += NODE_LOADS
        if lease is not None:
            own += election(lease.namespace, lease.name)
        own = tuple(right for right in own if right.used_with(features))
        return [(self._http, own), *zip(self._clients, reviews(self.options), strict=True)]

    def _start_writers(self, parts: Parts) -> None:
        """The background tasks that write."""
        self._writing = True
        self._start_tasks(("policy statuses", parts.policies.run_status_writes))
        if self.options.shadow_only:
            return
        parts.events.muted = False
        self._start_tasks(
            ("events", parts.events.run),
            ("pod statuses", parts.pod_status.run),
            ("pod group statuses", parts.group_status.run),
            ("pod group phases", lambda: parts.group_phases.run(self._pending_complete)),
            ("local policy statuses", parts.local_policies.run_status_writes),
            *(
                (f"statuses of {door.crd}", partial(door.run_after, self._pending_complete, parts.engine.first_idle))
                for door in (*parts.queue_doors, parts.queue_views)
            ),
            *((f"statuses of {door.crd}", door.run) for door in parts.checked_doors),
        )

    async def _decide(self, parts: Parts) -> None:
        await asyncio.gather(self.watches.wait_until_synced(), self._list_pending(parts))
        self._pending_complete.set()
        freeze_objects()
        await parts.signals.first_answers()
        if self.leadership.elected:
            await self._take_over(parts)
        cache = parts.engine.cache
        log.info("caches are complete", extra=fields(nodes=cache.table.count, pods=cache.pod_count))
        await self._run_decisions(parts)

    def _built(self, parts: Parts) -> None:
        """Called once the parts are built, before anything fills them."""

    async def _run_decisions(self, parts: Parts) -> None:
        """Decides until it is cancelled. This instance leads, and its caches are current."""
        await parts.engine.run()

    async def _list_pending(self, parts: Parts) -> None:
        """Kopf does not report when it has shown all pending pods, and may show the most important one last."""
        if self.kopf_watches_pods and not self._pending_complete.is_set():
            await parts.pending_audit.audit_at_start()

    async def _take_over(self, parts: Parts) -> None:
        """Returns when this instance leads and its caches are current."""
        await self.leadership.wait_until_leading()
        if not self._writing:
            self._start_writers(parts)
        current: list[Awaitable[object]] = [self.leadership.wait_until_current(self.watches)]
        if self.kopf_watches_pods:
            current.append(retry_until_answered("pending pods", parts.pending_audit.audit))
        await asyncio.gather(*current)

    # Stop

    async def stop(self) -> None:
        """Ends decisions, lets bindings and evictions finish, writes the last events and statuses, and closes all
        connections.

        It takes at most the grace period. A second call does nothing. After the Lease is lost, nothing is written.
        """
        if self._stopped:
            return
        self._stopped = self._readiness.stopping = True
        loop = asyncio.get_running_loop()
        ends = loop.time() + self.options.grace
        if self._deciding is not None:
            await cancel([self._deciding])
        leading_until_now = self._parts is not None and not self.leadership.lost.is_set()
        finished = not leading_until_now or await self._finish(self.parts, ends)
        if self._electing is not None:
            await cancel([self._electing])
        if finished:
            await self.leadership.release()
        if leading_until_now and self._writing:
            await self.parts.events.flush(max(0.1, ends - loop.time()))  # the next leader need not wait for them
        await self.leadership.close()
        await self._tasks.stop()
        self._plugins.stop()
        await self.server.stop()
        for extender in self._base.extenders.values():
            await extender.close()
        if self._parts is not None:
            await self._parts.signals.close()
        for http in {self._http, *self._clients}:
            await http.close()

    async def _finish(self, parts: Parts, ends: float) -> bool:
        """True if all Bindings have ended: the API server might still carry out a Binding that was broken off."""
        bound = True
        if self._started:
            seconds = binding_seconds(self.options.grace)
            bound, _ = await asyncio.gather(parts.engine.stop(seconds), parts.evictor.finish(seconds))
            parts.group_phases.finish()
        loop = asyncio.get_running_loop()
        if self._writing:
            if self.leadership.elected:
                ends = min(ends, loop.time() + STATUS_SECONDS)
            for flush in (parts.pod_status.flush, parts.group_status.flush):
                await flush(max(0.1, ends - loop.time()))
        return bound


async def start_policies(parts: Parts, *, local: bool = True) -> None:
    """SchedulerPolicies first: they bound the `local` ones. Raises ClusterError."""
    await retry_until_answered("policies", parts.policies.start)
    if local:
        await retry_until_answered("local policies", parts.local_policies.start)
