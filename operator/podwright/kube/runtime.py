"""Everything of a running scheduler but Kopf: sessions, reflectors, engine and writers, put together.

    start ─► access checked ─► policies loaded ─► reflectors list ─► (all complete) ─► the engine decides ─► stop: drain, flush

Pending pods and policies are handed in by whoever watches them: `pending` and `policies` are the port, Kopf's handlers or the
reflectors started here (`pod_intake`) the two adapters. A task that fails is started again; the state lives on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Final

from podwright.core.framework.errors import PluginError
from podwright.core.framework.features import AUTOMATIC, Features
from podwright.core.framework.interface import ClusterError
from podwright.core.framework.profile import ProfileError
from podwright.core.framework.registry import RegistryError
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME, PodInfo
from podwright.engine import memory
from podwright.engine.engine import Engine, EngineOptions
from podwright.engine.intake.pending_pods import PendingPods
from podwright.engine.metrics.metrics import EVENTS_DROPPED, Metrics
from podwright.engine.plugin_loading import load_plugins
from podwright.engine.ports import Ports
from podwright.engine.state import Sources
from podwright.kube.api_cluster import ApiCluster
from podwright.kube.client import access, credentials
from podwright.kube.client.http import Http
from podwright.kube.client.pages import list_objects
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.kinds import CRD, NODE, POD, POLICY, REQUIRED, STORED
from podwright.kube.options import Options
from podwright.kube.pod_groups.foreign_pods import ForeignPodLister
from podwright.kube.pod_groups.phases import PodGroupPhases
from podwright.kube.pod_groups.served_apis import ServedPodGroupApis
from podwright.kube.pod_groups.status import PodGroupStatusWriter
from podwright.kube.policies import PolicyKeeper
from podwright.kube.serve.health import HealthServer
from podwright.kube.serve.pod_resources import known_pods
from podwright.kube.watch.pending_audit import PendingAudit
from podwright.kube.watch.reflector import Reflector, Sink
from podwright.kube.write.events import EventRecorder
from podwright.kube.write.eviction import PodEvictor
from podwright.kube.write.pod_status import PodStatusWriter

log = logging.getLogger(__name__)

ASSIGNED: Final = "spec.nodeName!="
PENDING: Final = "spec.nodeName="
RESTART_SECONDS: Final = 1.0
START_RETRY: Final = RetryPolicy(
    shortest=0.2, longest=5.0, longest_retry_after=5.0, retries=lambda error: isinstance(error, ClusterError)
)
FLUSH_SECONDS: Final = 3.0
"""What is left of the grace period for statuses and events when bindings have taken the rest."""
FLUSH_SHARE: Final = 0.5
"""Of a short grace period no more than this part is left for them."""


def for_bindings(grace: float) -> float:
    """How many seconds of the grace period bindings and evictions under way may take."""
    return grace - min(FLUSH_SECONDS, FLUSH_SHARE * grace)


class Runtime:
    """See the module. One for each process; it must be made inside the event loop that it is to run in."""

    def __init__(self, options: Options) -> None:
        """Raises ConfigError for credentials that make no sense, RegistryError for plugins that cannot be loaded."""
        self.options = options
        self.source = credentials.load(options.kubeconfig, options.context, time.time, time.monotonic)
        self.metrics = Metrics(time.monotonic)
        self.http = Http(self.source, self.metrics)
        recorder = self._recorder = EventRecorder(
            self.http,
            clock=time.time,
            dropped=lambda: self.metrics.count(EVENTS_DROPPED),
            steady=time.monotonic,
        )
        self._status = PodStatusWriter(self.http, time.time)
        self._group_status = PodGroupStatusWriter(self.http, time.time)
        self._evictor = PodEvictor(self.http, recorder, time.time)
        self._ports = Ports(
            cluster=ApiCluster(self.http, self._obstacle),
            recorder=recorder,
            status=self._status,
            evictor=self._evictor,
            groups=self._group_status,
            metrics=self.metrics,
        )
        self._classes = load_plugins(tuple(map(Path, options.plugin_dirs)))
        self.engine: Engine
        """There once `start` knows the API server's version."""
        self.policies: PolicyKeeper
        self.pod_groups: ServedPodGroupApis
        self._phases: PodGroupPhases
        self._complete = asyncio.Event()
        self.policies_allowed = False
        """Whether policies may be watched, now or once their kind is there."""
        self.crds_watchable = False
        self._health = HealthServer(self.metrics.registry, self.missing, self._pods)
        self._reflectors: dict[str, Reflector] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._deciding: asyncio.Task[None] | None = None
        self._started = False
        self._stopped = False
        self._names_to_list: asyncio.Queue[str] = asyncio.Queue()

    @property
    def pending(self) -> PendingPods:
        """Who takes pending pods in."""
        return self.engine.pending

    @property
    def pending_selector(self) -> str:
        """The field selector of pending pods that may be ours."""
        if self.engine.policies.serves(KUBERNETES_DEFAULT_SCHEDULER_NAME):
            return PENDING
        return f"{PENDING},spec.schedulerName!={KUBERNETES_DEFAULT_SCHEDULER_NAME}"

    def _obstacle(self, pod: PodInfo, node_name: str) -> str:
        return self.engine.reason_not_to_bind(pod, node_name)

    def missing(self) -> list[str]:
        """What keeps us from deciding yet."""
        missing = [name for name, reflector in self._reflectors.items() if not reflector.synced.is_set()]
        if not self._started:
            return [*missing, "start"]
        return missing or ([] if self._complete.is_set() else ["pending pods"])

    def _pods(self) -> Iterable[PodInfo]:
        return known_pods(self.engine.cache, self.engine.queue) if self._started else ()

    # Start

    async def start(self) -> None:
        """Starts everything; decisions follow when the caches are complete. Raises AccessError, ConfigError and OSError."""
        memory.configure_memory()
        if self.options.health_address is not None:
            await self._health.start(*self.options.health_address)
        await self._persist("the API server", lambda: access.require(self.http, REQUIRED))
        stored = await self._persist("the API server", lambda: access.readable(self.http, STORED))
        self._build(await self._persist("the API server", lambda: access.server_minor(self.http)))
        await self._persist("policies", self._load_policies)
        self._reflect("nodes", Reflector(self.http, NODE, self.engine.nodes))
        await self._persist("pod groups", self.pod_groups.discover)
        self._reflectors.update(self.pod_groups.reflectors)
        assigned = self._phases.counting(self.engine.assigned)
        self._reflect("assigned pods", Reflector(self.http, POD, assigned, field_selector=ASSIGNED))
        for resource in stored:
            self._reflect(resource.plural, Reflector(self.http, resource, self.engine.objects(resource.kind)))
        if self.options.pod_intake == "watch":
            self._reflect_pending(self.pending_selector)
        self._spawn("events", self._recorder.run)
        self._spawn("statuses", self._status.run)
        self._spawn("pod group statuses", self._group_status.run)
        self._spawn("pod group phases", lambda: self._phases.run(self._complete))
        self._spawn("pod groups", lambda: self.pod_groups.run(crds_watchable=self.crds_watchable))
        self._spawn("policy statuses", self.policies.run)
        self._spawn("policies", self._keep_policies)
        self._spawn("housekeeping", self.engine.run_housekeeping)
        self._spawn("newly served names", self._list_newly_served)
        audit = PendingAudit(self.http, self.engine.pending, lambda: self.engine.policies.policy_set.scheduler_names)
        self._spawn("audit of pending pods", audit.run)
        self._spawn("look for pods of other schedulers", ForeignPodLister(self.http, self.engine).run)
        self._started = True
        self._deciding = self._spawn("decisions", lambda: self._decide(audit))

    def _build(self, server_minor: int | None) -> None:
        options = self.options
        features = Features({**AUTOMATIC, **options.feature_gates}, server_minor)
        if features.without_effect:
            log.warning(
                "this version does not know what these feature gates do: %s", ", ".join(features.without_effect)
            )
        if features.lacking:
            log.info(
                "Kubernetes 1.%s lacks what these rely on; they are off: %s", server_minor, ", ".join(features.lacking)
            )
        sources = Sources(time.monotonic, time.time, _below(random.Random()))
        engine_options = EngineOptions(options.scheduler_name, options.queue_sort, options.waits)
        try:
            self.engine = Engine(self._classes, features, self._ports, sources, engine_options)
        except (PluginError, ProfileError) as error:
            raise RegistryError([f"the built-in policy cannot be built: {error}"]) from error
        self.policies = PolicyKeeper(self.http, self.engine, time.time, self._now_served)
        self._phases = PodGroupPhases(self.engine, self._group_status, time.time)
        self.pod_groups = ServedPodGroupApis(
            self.http,
            self.engine,
            writer=self._group_status,
            start=self._start_reflector,
            gates=features,
        )

    async def _load_policies(self) -> None:
        self.crds_watchable = await access.access_problem(self.http, CRD) is None
        self.policies_allowed = await self.policies.allowed()
        problem = await access.access_problem(self.http, POLICY)
        if problem is not None:
            log.warning("SchedulerPolicies are off (%s): the built-in default policy decides", problem)
        if self.policies_allowed:
            await self.policies.load()

    async def _keep_policies(self) -> None:
        if not self.policies_allowed:
            await self.policies.until_allowed()
            await self._persist("policies", self.policies.load)
            log.info("SchedulerPolicies may be read now")
            self.policies_allowed = True
            self.policies.appeared.set()
        await self.policies.reconcile()

    async def _decide(self, audit: PendingAudit) -> None:
        """Kopf does not say when it has shown all pending pods, and the most important one may come last: they are listed before."""
        await asyncio.gather(*(reflector.synced.wait() for reflector in self._reflectors.values()))
        memory.freeze_objects()
        if self.options.pod_intake == "kopf" and not self._complete.is_set():
            await self._persist("pending pods", audit.audit)
        self._complete.set()
        cache = self.engine.cache
        log.info("caches are complete: %d nodes, %d placed pods", cache.table.count, cache.pod_count)
        await self.engine.run()

    def _reflect(self, name: str, reflector: Reflector) -> None:
        self._reflectors[name] = reflector
        self._start_reflector(name, reflector)

    def _start_reflector(self, name: str, reflector: Reflector) -> asyncio.Task[None]:
        return self._spawn(name, reflector.run)

    def _reflect_pending(self, selector: str, name: str = "pending pods") -> None:
        sink: Sink = self.engine.pending
        self._reflect(name, Reflector(self.http, POD, sink, field_selector=selector))

    # Names that policies bring

    def _now_served(self, names: frozenset[str]) -> None:
        if self._started:
            for name in names:
                self._names_to_list.put_nowait(name)

    async def _list_newly_served(self) -> None:
        """Pods of a name that nobody served until now were passed over: they are looked for again."""
        while True:
            name = await self._names_to_list.get()
            selector = f"{PENDING},spec.schedulerName={name}"
            if name == KUBERNETES_DEFAULT_SCHEDULER_NAME and "pods of the default scheduler" not in self._reflectors:
                # These are left out of the watch until we serve them.
                self._reflect_pending(selector, "pods of the default scheduler")
                continue
            await self._persist(f"pods of scheduler {name}", lambda s=selector: self._pick_up(s))  # type: ignore[misc]

    async def _pick_up(self, selector: str) -> None:
        async for raw in list_objects(self.http, POD.collection, {"fieldSelector": selector}):
            self.engine.pending.put(raw)

    # Tasks

    def _spawn(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        task = asyncio.create_task(run_forever(name, work), name=f"podwright {name}")
        self._tasks.append(task)
        return task

    @staticmethod
    async def _persist(what: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Tries until the API server has answered."""
        return await START_RETRY.run(work, on_retry=lambda error: log.warning("%s: %s; trying again", what, error))

    # Stop

    async def stop(self) -> None:
        """Decides nothing more, waits for bindings and evictions under way, posts what is left to say, and closes everything.

        A second call does nothing.
        """
        if self._stopped:
            return
        self._stopped = True
        loop = asyncio.get_running_loop()
        ends = loop.time() + self.options.grace
        if self._deciding is not None:
            await _cancelled([self._deciding])
        if self._started:
            seconds = for_bindings(self.options.grace)
            await asyncio.gather(self.engine.stop(seconds), self._evictor.finish(seconds))
            self._phases.finish()
        for flush in (self._status.flush, self._group_status.flush, self._recorder.flush):
            await flush(max(0.1, ends - loop.time()))
        await _cancelled(self._tasks)
        await self._health.stop()
        await self.http.close()


async def run_forever(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while True:
        try:
            await work()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Kopf, when it ends, cancels tasks that it takes for its own, so some part of the work was.
            log.warning("%s was cut off; starting it again", name)
        except Exception:
            log.exception("%s failed; starting it again", name)
        await asyncio.sleep(RESTART_SECONDS)


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)


def _below(chance: random.Random) -> Callable[[int], int]:
    """A random number below n, faster than `randrange`."""
    draw = chance.random
    return lambda n: int(draw() * n)
