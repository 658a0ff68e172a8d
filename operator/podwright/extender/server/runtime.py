"""The process of `podwright extender`, from its start to its stop.

    start:  check access ─► build the parts that decide ─► apply policies ─► start watches ─► listen
    stop:   listen no more ─► requests in progress end ─► connections to the API server close

It has the caches, policies and plugins of a scheduler, and no queue and no loop that decides: kube-scheduler has these.
The only thing that it writes is the Binding of a pod for which kube-scheduler calls `bind`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from functools import partial
from typing import Final

from podwright.core.objects.raw import Raw
from podwright.engine.process.memory import configure_memory, freeze_objects
from podwright.engine.records.metrics import CERTIFICATE_RELOADS, EXTENDER_BODY_BYTES, SERVER_DROPPED
from podwright.extender.server.bindings import Bindings
from podwright.extender.server.endpoints import Decisions, ExtenderEndpoints
from podwright.extender.server.gate import ExtenderGate
from podwright.extender.server.options import ExtenderOptions
from podwright.extender.server.sent_nodes import NodeVersions, differing
from podwright.extender.server.verdicts import ExtenderVerdicts
from podwright.kube.api_cluster import ApiCluster
from podwright.kube.client import access
from podwright.kube.descriptors import raise_descriptor_limit
from podwright.kube.kinds import LOCAL_POLICY, POLICY
from podwright.kube.parts import Parts
from podwright.kube.policies.controller import PolicyController
from podwright.kube.runtime import Runtime
from podwright.kube.serve.answers.checks import Note, Problems
from podwright.kube.serve.connections.connection import ClientLimits
from podwright.kube.serve.content import Content
from podwright.kube.serve.endpoints import Endpoints
from podwright.kube.serve.event_loops import SchedulerLoop
from podwright.kube.serve.port import Address, Port, open_port, written
from podwright.kube.serve.tls.secure_port import Tls

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


class ExtenderRuntime(Runtime):
    """See the module. A process has one, created in its event loop."""

    def __init__(self, options: ExtenderOptions) -> None:
        """Raises ConfigError for unusable credentials or files, and RegistryError for plugins that cannot be loaded."""
        super().__init__(replace(options.common, leader_elect=False))
        self._own = options
        self._gate = ExtenderGate(
            certificates=options.verifies_certificates,
            names=options.allowed_client_names,
            token_file=options.token_path,
        )
        self._port: Port | None = None
        self._signals_asked = False

    @property
    def port(self) -> int:
        """The port for kube-scheduler, once it is open."""
        assert self._port is not None, "the extender has not started"
        return self._port.number

    def missing(self) -> list[str]:
        """Returns the inputs that the caches still lack."""
        if not self._started:
            return ["start"]
        return self.watches.missing() or ([] if self._signals_asked else ["signals"])

    def _content(self) -> Content:
        """It explains no pods, and has no page."""
        return replace(super()._content(), about_pod=None, shown=None, shadow=None)

    def _checks(self) -> Problems:
        problems = self._readiness.problems()
        if not self._started or self.options.signals is None:
            return problems
        return {**problems, "signals": Note(self.parts.signals.problem())}

    async def start(self) -> None:
        """Listens at once; requests are answered once the caches are complete.

        Raises AccessError, ConfigError, OSError, and RegistryError if the built-in policy cannot be built.
        """
        configure_memory()
        raise_descriptor_limit()
        await self._serve()
        self._tasks.start("API server contact", self._contact.run)
        parts, kinds = await self._build()
        await self.server.require_authentication()
        engine = parts.engine
        nodes = NodeVersions(engine.nodes)
        self._watch_cluster(parts, kinds, nodes, engine.assigned)
        if parts.policies.readable and await access.is_served(self._http, POLICY):
            self.watches.start("policies", POLICY, PolicySink(parts.policies))
        if parts.local_policies.readable and await access.is_served(self._http, LOCAL_POLICY):
            self.watches.start("local policies", LOCAL_POLICY, PolicySink(parts.local_policies))
        self._start_tasks(
            ("optional kinds", parts.served_kinds.run),
            ("policies", parts.policies.run_relists),
            ("policy changes", parts.policies.run_changes),
            ("local policies", parts.local_policies.run_relists),
            ("local policy changes", parts.local_policies.run_changes),
            ("params of local policies", parts.config_maps.run),
            ("housekeeping", engine.run_housekeeping),
        )
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

    def _built(self, parts: Parts) -> None:
        parts.events.muted = True

    async def _listen(self, parts: Parts, nodes: NodeVersions) -> None:
        engine, options, metrics = parts.engine, self._own, self._base.metrics
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
        endpoints = ExtenderEndpoints(decisions, metrics, options.max_body_bytes)
        metrics.compute(EXTENDER_BODY_BYTES, lambda: {(): endpoints.body_bytes})
        loop = SchedulerLoop(asyncio.get_running_loop())
        context = None
        if options.serves_https:
            # Neither the cluster's users nor its front proxies may bind pods.
            tls = Tls(
                replace(options.common, authentication_skip_lookup=True, requestheader_client_ca_file=None),
                self.delegation,
                loop=loop,
                reloaded=lambda result: metrics.count(CERTIFICATE_RELOADS, result),
            )
            self._tasks.start("certificate", tls.run)
            context = tls.context
        if options.token_file is not None:
            self._tasks.start("token file", self._reload_token)
        self._port = await open_port(
            [*endpoints.routes(), *Endpoints(self.content, loop).routes()],
            self._gate,
            Address("--address", *options.address, context),
            LIMITS,
            lambda reason: metrics.count(SERVER_DROPPED, reason),
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
        await super().stop()


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
