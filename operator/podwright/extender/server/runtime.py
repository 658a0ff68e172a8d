"""The process of `podwright extender`, from its start to its stop.

    start:  check access ─► build the parts that decide ─► apply policies ─► start watches ─► listen
    stop:   listen no more ─► requests in progress end ─► connections to the API server close

It has the caches, policies and plugins of a scheduler, and no queue and no loop that decides: kube-scheduler has these.
The only thing that it writes is the Binding of a pod for which kube-scheduler calls `bind`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from podwright.core.framework.features import missing_api
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import Raw
from podwright.engine.process.instance import new_instance
from podwright.engine.process.memory import configure_memory, freeze_objects
from podwright.engine.records.metrics import (
    CERTIFICATE_RELOADS,
    EXTENDER_BODY_BYTES,
    SERVER_DROPPED,
    TASK_RESTARTS,
    Metrics,
)
from podwright.extender.server.bindings import Bindings
from podwright.extender.server.endpoints import Decisions, ExtenderEndpoints
from podwright.extender.server.gate import ExtenderGate
from podwright.extender.server.options import ExtenderOptions
from podwright.extender.server.sent_nodes import NodeVersions, differing
from podwright.extender.server.verdicts import ExtenderVerdicts
from podwright.kube.api_cluster import ApiCluster
from podwright.kube.background import BackgroundTasks
from podwright.kube.client import access
from podwright.kube.client.credentials import credentials
from podwright.kube.client.http import Http
from podwright.kube.client.retry import retry_until_answered
from podwright.kube.descriptors import raise_descriptor_limit
from podwright.kube.kinds import LOCAL_POLICY, NODE, POD, POLICY, REQUIRED, STORED, params_in
from podwright.kube.parts import Base, Parts, check_profiles
from podwright.kube.plugins.third_party import ThirdPartyPlugins
from podwright.kube.policies.controller import PolicyController
from podwright.kube.runtime import start_policies
from podwright.kube.serve.access.delegation import AccessDelegation
from podwright.kube.serve.access.review_clients import review_clients
from podwright.kube.serve.answers.checks import Note, Problems
from podwright.kube.serve.answers.configz import configuration
from podwright.kube.serve.answers.readiness import ApiServerContact, Clocks, Readiness
from podwright.kube.serve.connections.connection import ClientLimits
from podwright.kube.serve.endpoints import Content, Endpoints
from podwright.kube.serve.event_loops import SchedulerLoop
from podwright.kube.serve.port import Address, Port, open_port, written
from podwright.kube.serve.server import Server
from podwright.kube.serve.tls.secure_port import Tls
from podwright.kube.watch.selectors import ASSIGNED_PODS
from podwright.kube.watch.watches import PARAMS_WATCH, Watches

log = logging.getLogger(__name__)

LIMITS: Final = ClientLimits(
    connections=64,
    request_bytes=1 << 62,  # bodies have bounds of their own
    mean_bytes=1 << 50,
    total_seconds=120.0,
    idle_seconds=90.0,  # kube-scheduler closes idle connections after 90 s
)
RELOAD_SECONDS: Final = 10.0
"""How often the file of the token is read again."""


class ExtenderRuntime:
    """See the module. A process has one, created in its event loop."""

    def __init__(self, options: ExtenderOptions) -> None:
        """Raises ConfigError for unusable credentials or files, and RegistryError for plugins that cannot be loaded."""
        self._options = options
        common = options.common
        source = credentials.load(
            common.kubeconfig_file,
            common.context,
            time.time,
            time.monotonic,
            server=common.master,
            named_by=common.kubeconfig_named_by,
        )
        metrics = self._metrics = Metrics(time.monotonic)
        self._http = Http(source, metrics)
        self._tasks = BackgroundTasks(restarted=lambda name: metrics.count(TASK_RESTARTS, name))
        self.watches = Watches(self._http, self._tasks.start)
        self._plugins = ThirdPartyPlugins(common.plugin_dirs, common.plugin_state_dir)
        classes = self._plugins.classes
        check_profiles(common, classes)
        self._base = Base(
            options=common,
            classes=classes,
            disabled_plugins=self._plugins.disabled(),
            http=self._http,
            metrics=metrics,
            tasks=self._tasks,
            watches=self.watches,
            instance=new_instance(socket.gethostname(), common.pod_uid),
        )
        self._contact = ApiServerContact(self._http, time.monotonic)
        clocks = Clocks(steady=time.monotonic, wall=time.time)
        self._readiness = Readiness(
            self._contact, self.watches, source=source, missing=self.missing, tasks=self._tasks, clocks=clocks
        )
        self._readiness.register(metrics)
        self._content = Content(
            checks=self._checks, metrics=metrics.snapshots, pods=self._known_pods, configuration=self._configuration
        )
        self._clients = review_clients(common, self._http, metrics)
        self._delegation = AccessDelegation(*self._clients)
        self._server = Server(self._content, metrics, options=common, delegation=self._delegation)
        self._gate = ExtenderGate(
            certificates=options.verifies_certificates,
            names=options.allowed_client_names,
            token_file=options.token_path,
        )
        self._parts: Parts | None = None
        self._port: Port | None = None
        self._started = False
        self._signals_asked = False

    @property
    def port(self) -> int:
        """The port for kube-scheduler, once it is open."""
        assert self._port is not None, "the extender has not started"
        return self._port.number

    def missing(self) -> list[str]:
        """What the caches still lack."""
        if not self._started:
            return ["start"]
        return self.watches.missing() or ([] if self._signals_asked else ["signals"])

    def _checks(self) -> Problems:
        problems = self._readiness.problems()
        if self._parts is None or self._options.common.signals is None:
            return problems
        return {**problems, "signals": Note(self._parts.signals.problem())}

    def _known_pods(self) -> Iterable[PodInfo]:
        if self._parts is None:
            return ()
        return [pod for node in list(self._parts.engine.cache.nodes.values()) for pod in node.pods.values()]

    def _configuration(self) -> Callable[[], Mapping[str, Any]]:
        if self._parts is None:
            return dict
        policies = self._parts.engine.policies.policy_set
        return partial(configuration, self._options.common, policies.built_in, policies.active)

    async def start(self) -> None:
        """Listens at once; requests are answered once the caches are complete.

        Raises AccessError, ConfigError, OSError, and RegistryError if the built-in policy cannot be built.
        """
        configure_memory()
        raise_descriptor_limit()
        await self._server.start()
        self._tasks.start("API server contact", self._contact.run)
        await retry_until_answered("the API server", lambda: access.require(self._http, REQUIRED))
        await self._server.require_authentication()
        minor = await retry_until_answered("the API server", lambda: access.server_minor(self._http))
        params = params_in(self._options.common.policies.namespace)
        readable = await retry_until_answered(
            "the API server", lambda: access.readable(self._http, (*STORED, params), missing_api(minor))
        )
        parts = self._parts = Parts(self._base, minor)
        parts.events.muted = True
        self._plugins.start(self._tasks, parts.engine, metrics=self._metrics, events=parts.policy_events)
        await start_policies(parts)
        engine = parts.engine
        nodes = NodeVersions(engine.nodes)
        self.watches.start("nodes", NODE, nodes)
        await retry_until_answered("optional kinds", parts.served_kinds.discover)
        self.watches.include(lambda: parts.served_kinds.reflectors)
        self.watches.start("assigned pods", POD, engine.assigned, ASSIGNED_PODS)
        for resource in readable:
            name = PARAMS_WATCH if resource is params else resource.plural
            self.watches.start(name, resource, engine.objects(resource.kind))
        if parts.policies.readable and await access.is_served(self._http, POLICY):
            self.watches.start("policies", POLICY, PolicySink(parts.policies))
        if parts.local_policies.readable and await access.is_served(self._http, LOCAL_POLICY):
            self.watches.start("local policies", LOCAL_POLICY, PolicySink(parts.local_policies))
        for name, work in (
            ("optional kinds", parts.served_kinds.run),
            ("policies", parts.policies.run_relists),
            ("policy changes", parts.policies.run_changes),
            ("local policies", parts.local_policies.run_relists),
            ("local policy changes", parts.local_policies.run_changes),
            ("params of local policies", parts.config_maps.run),
            ("housekeeping", engine.run_housekeeping),
        ):
            self._tasks.start(name, work)
        await self._listen(parts, nodes)
        self._started = True
        await self.watches.wait_until_synced()
        if parts.signal_reload is not None:  # only now are the nodes known that sources say something about
            self._tasks.start("signals", parts.signals.run)
            self._tasks.start("definitions of signals", parts.signal_reload.run)
            await parts.signals.first_answers()
        self._signals_asked = True
        freeze_objects()
        cache = engine.cache
        log.info("caches are complete: %d nodes, %d placed pods", cache.table.count, cache.pod_count)

    async def _listen(self, parts: Parts, nodes: NodeVersions) -> None:
        engine, options = parts.engine, self._options
        verdicts = ExtenderVerdicts(engine.cache, engine.policies, engine.budgets)
        bindings = Bindings(
            engine.cache,
            verdicts,
            assigned=engine.assigned,
            cluster=ApiCluster(self._http),
            clock=time.monotonic,
        )
        self._tasks.start("unconfirmed bindings", bindings.run)
        decisions = Decisions(
            cache=engine.cache,
            verdicts=verdicts,
            elsewhere=engine.elsewhere,
            bindings=bindings,
            read_node=partial(differing, engine.cache, nodes),
            now=time.time,
            missing=self.missing,
        )
        endpoints = ExtenderEndpoints(decisions, self._metrics, options.max_body_bytes)
        self._metrics.compute(EXTENDER_BODY_BYTES, lambda: {(): endpoints.body_bytes})
        loop = SchedulerLoop(asyncio.get_running_loop())
        context = None
        if options.serves_https:
            # Neither the cluster's users nor its front proxies may bind pods.
            tls = Tls(
                replace(options.common, authentication_skip_lookup=True, requestheader_client_ca_file=None),
                self._delegation,
                loop=loop,
                reloaded=lambda result: self._metrics.count(CERTIFICATE_RELOADS, result),
            )
            self._tasks.start("certificate", tls.run)
            context = tls.context
        if options.token_file is not None:
            self._tasks.start("token file", self._reload_token)
        self._port = await open_port(
            [*endpoints.routes(), *Endpoints(self._content, loop).routes()],
            self._gate,
            Address("--address", *options.address, context),
            LIMITS,
            lambda reason: self._metrics.count(SERVER_DROPPED, reason),
        )
        scheme = "https" if options.serves_https else "http"
        log.info("serving kube-scheduler on %s://%s", scheme, written(options.address[0], self.port))

    async def _reload_token(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            self._gate.reload()

    async def stop(self) -> None:
        """Closes all connections. kube-scheduler takes requests in progress for failed, and tries their pods again."""
        self._readiness.stopping = True
        if self._port is not None:
            await self._port.close()
        await self._tasks.stop()
        self._plugins.stop()
        await self._server.stop()
        if self._parts is not None:
            await self._parts.signals.close()
        for http in {self._http, *self._clients}:
            await http.close()


class PolicySink:
    """Passes watched policies on to their controller. In the operator, Kopf watches them."""

    def __init__(self, controller: PolicyController) -> None:
        self._controller = controller

    def key(self, raw: Raw) -> str:
        return self._controller.key_of(raw)

    def put(self, raw: Raw) -> None:
        self._controller.take_event({"type": "MODIFIED", "object": raw})

    def drop(self, key: str, raw: Raw | None) -> None:
        if raw is None:
            self._controller.remove(key)
        else:
            self._controller.take_event({"type": "DELETED", "object": raw})
