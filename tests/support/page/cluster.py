"""A page about a cache that a test changes, without an operator: for clusters that are large or hostile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import web

from podwright.core.state.cache import Cache
from podwright.engine.process.steps import Steps, in_slices
from podwright.engine.records.recent_decisions import RecentDecisions
from podwright.engine.view.waiting import PendingPod
from podwright.kube.serve.page.routes import Page
from podwright.kube.serve.page.shown import Shown
from podwright.kube.serve.page.sight import EVERYTHING, SIGHT
from support.engine.kit import Rig

T = TypeVar("T")


@dataclass
class Backstage:
    """The data that the page shows. It belongs to the thread that serves it: change it with `call`."""

    rig: Rig = field(default_factory=Rig)
    pods: Sequence[PendingPod] = ()
    url: str = ""
    explanation: Any = None
    stale: tuple[float, str] = (0.0, "")
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    @property
    def cache(self) -> Cache:
        return self.rig.engine.cache

    @property
    def decisions(self) -> RecentDecisions:
        return self.rig.engine.decisions

    def call(self, function: Callable[[], T]) -> T:
        """Runs the function in the thread that serves the page."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(30)


@contextmanager
def backstage() -> Iterator[Backstage]:
    stage = Backstage()
    thread = threading.Thread(target=stage.loop.run_forever, daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(_serve(stage), stage.loop).result(30)
    try:
        yield stage
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), stage.loop).result(30)
        stage.loop.call_soon_threadsafe(stage.loop.stop)
        thread.join()
        stage.loop.close()


class _Here:
    """The scheduler's thread is that of the server."""

    async def call(self, function: Callable[[], T], seconds: float) -> T:
        await asyncio.sleep(0)
        return function()

    async def compute(self, begin: Callable[[], Steps[T]], seconds: float) -> T:
        return await in_slices(begin())


async def _serve(stage: Backstage) -> web.AppRunner:
    engine = stage.rig.engine
    shown = Shown(
        cache=engine.cache,
        pods=lambda: stage.pods,
        policies=engine.policies,
        clock=lambda: 0.0,
        decisions=engine.decisions,
        history=engine.history,
        rebalancing=engine.rebalancing,
        stale=lambda: stage.stale,
    )

    @web.middleware
    async def sees_everything(request: web.Request, handler: Any) -> web.StreamResponse:
        request[SIGHT] = EVERYTHING
        response: web.StreamResponse = await handler(request)
        return response

    async def explain(_request: web.Request) -> web.Response:
        return web.json_response(stage.explanation)

    app = web.Application(middlewares=[sees_everything])
    page = Page(lambda: shown, _Here())
    app.add_routes([*page.routes(), web.get("/debug/explain", explain)])
    app.on_cleanup.append(lambda _app: page.close())
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    stage.url = f"http://127.0.0.1:{runner.addresses[0][1]}/page/"
    return runner
