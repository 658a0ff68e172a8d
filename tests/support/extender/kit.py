"""The extender's endpoints on the cache of an engine with fakes, behind a real port."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import aiohttp
import orjson

from podwright.extender.server.bindings import Bindings
from podwright.extender.server.endpoints import Decisions, ExtenderEndpoints
from podwright.extender.server.gate import ExtenderGate
from podwright.extender.server.runtime import LIMITS
from podwright.extender.server.sent_nodes import NodeVersions, differing
from podwright.extender.server.verdicts import ExtenderVerdicts
from podwright.kube.serve.connections.connection import ClientLimits
from podwright.kube.serve.port import Address, Port, open_port
from support.engine.kit import Rig
from support.waiting import patience

T = TypeVar("T")

OPEN = ExtenderGate(certificates=False, names=(), token_file=None)


class ExtenderRig:
    """An engine that decides nothing by itself, and what answers kube-scheduler with its cache."""

    def __init__(self, *nodes: str, body_bytes: int = 1 << 24, **options: Any) -> None:
        self.rig = Rig(**options)
        engine = self.rig.engine
        self.cache, self.policies = engine.cache, engine.policies
        self.verdicts = ExtenderVerdicts(engine.cache, engine.policies, engine.budgets)
        self.bindings = Bindings(
            engine.cache,
            self.verdicts,
            assigned=engine.assigned,
            cluster=self.rig.cluster,
            clock=self.rig.steady,
        )
        self.nodes = NodeVersions(engine.nodes)
        self.missing: list[str] = []
        decisions = Decisions(
            cache=engine.cache,
            verdicts=self.verdicts,
            elsewhere=engine.elsewhere,
            bindings=self.bindings,
            read_node=partial(differing, engine.cache, self.nodes),
            now=self.rig.steady,
            missing=lambda: self.missing,
        )
        self.metrics = self.rig.ports.metrics
        self.endpoints = ExtenderEndpoints(decisions, self.metrics, body_bytes)
        for name in nodes:
            self.rig.node(name)

    def policy(self, name: str, **spec: Any) -> None:
        """Applies a policy for all pods of the built-in scheduler name."""
        raw = {"metadata": {"name": name, "uid": name, "generation": 1}, "spec": spec}
        self.policies.apply(raw)

    @asynccontextmanager
    async def serving(self, gate: ExtenderGate = OPEN, limits: ClientLimits = LIMITS) -> AsyncIterator[Caller]:
        """A port on loopback, and who calls it."""
        address = Address("--address", "127.0.0.1", 0)
        self.dropped: list[str] = []
        port = await open_port(self.endpoints.routes(), gate, address, limits, self.dropped.append)
        async with aiohttp.ClientSession() as session:
            try:
                yield Caller(session, port)
            finally:
                await port.close()


class Caller:
    """Calls the extender as kube-scheduler does."""

    def __init__(self, session: aiohttp.ClientSession, port: Port) -> None:
        self._session = session
        self.port = port

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        """Status, and the answer: parsed if it is JSON."""
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        sent = {"Content-Type": "application/json", **headers}
        return await self.request("POST", path, data=io.BytesIO(data), headers=sent)

    async def request(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.port.number}{path}"
        async with patience(), self._session.request(method, url, **options) as response:
            text = await response.read()
            is_json = response.content_type == "application/json"
            return response.status, orjson.loads(text) if is_json else text.decode()
