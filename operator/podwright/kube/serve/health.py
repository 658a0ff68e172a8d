"""Serves /healthz, /livez, /readyz, /metrics and /metrics/resources over plain HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from podwright.kube.serve.pod_resources import CONTENT_TYPE, Pods, pages

log = logging.getLogger(__name__)


class HealthServer:
    """Live as long as the event loop runs; ready once `missing()` is empty."""

    def __init__(self, registry: CollectorRegistry, missing: Callable[[], list[str]], pods: Pods) -> None:
        """`missing` names what the operator still waits for; `pods` lists the pods for /metrics/resources."""
        self._registry = registry
        self._missing = missing
        self._pods = pods
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listens: on all addresses if `host` is empty, on a free port if `port` is 0. Raises OSError if that fails."""
        app = web.Application()
        for path in ("/healthz", "/livez"):
            app.router.add_get(path, self._alive)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/metrics/resources", self._resources)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host or None, port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        log.info("serving health and metrics on http://%s:%d", host, self.port)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _alive(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _ready(self, _request: web.Request) -> web.Response:
        missing = self._missing()
        if not missing:
            return web.Response(text="ok")
        return web.Response(status=503, text="".join(f"[-] {name} is not complete\n" for name in missing))

    async def _metrics(self, _request: web.Request) -> web.Response:
        body = generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _resources(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
        await response.prepare(request)
        for page in pages(self._pods):
            await response.write(page)
            await asyncio.sleep(0)  # `write` does not yield to other tasks while the reader keeps up
        await response.write_eof()
        return response
