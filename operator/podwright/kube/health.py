"""/healthz, /livez, /readyz and /metrics over plain HTTP."""

from __future__ import annotations

import logging
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

log = logging.getLogger(__name__)


class HealthServer:
    """Answers as long as the event loop turns; ready when `missing()` names nothing any more."""

    def __init__(self, registry: CollectorRegistry, missing: Callable[[], list[str]]) -> None:
        self._registry = registry
        self._missing = missing
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listens, on all addresses if `host` is empty; port 0 takes a free one. Raises OSError if it cannot."""
        app = web.Application()
        for path in ("/healthz", "/livez"):
            app.router.add_get(path, self._alive)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host or None, port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        log.info("health and metrics on http://%s:%d", host, self.port)

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
