"""The HTTP API of `podwright simulate --serve`: many hypotheses in one request, on one loaded cluster, each rolled
back.

    GET  /healthz        ok
    GET  /v1/cluster     the cluster in numbers
    POST /v1/simulate    {"hypotheses": [{…}, …], "seed": 0, "emptyNodes": 0, "summary": false}
        ─► {"results": [{…} | {"error"}, …]}
    POST /v1/each-node   {"action": "drain", "nodes": […]} ─► {"results": [{…}, …], "complete": true}
    POST /v1/reload      reads the cluster again
    GET  /page/          the page: see page.py

Simulations run one at a time in one thread, because they share the cluster; the event loop only waits. Sizes, counts
and times are bounded. If the client gives up a request, its simulation stops.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, TypeVar

import orjson
from aiohttp import web

from podwright.core.framework.args import ArgsError, decode
from podwright.core.framework.validation import declared
from podwright.core.objects.dataclass import dataclass
from podwright.kube.serve.access.gates import is_own_name
from podwright.kube.serve.page.sight import is_foreign
from podwright.simulator.hypotheses.hypothesis import TIME_IS_UP, HypothesisError, hypothesis_of
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.page import POD, SimulationPage, prepare
from podwright.simulator.results import SimulationResult, as_json
from podwright.simulator.simulation import EachNode, notes, simulate, simulate_each_node, totals

log = logging.getLogger(__name__)
T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Bounds of one request, and of the number of open requests. `body_seconds`: how long a body may take to arrive;
    `listed`: how many pods all results of a request list; further ones are summaries.
    """

    request_bytes: int = 16 << 20
    hypotheses: int = 2_000
    seconds: float = 30.0
    body_seconds: float = 30.0
    waiting: int = 8
    listed: int = 200_000


@dataclass(frozen=True, slots=True)
class _Simulate:
    hypotheses: Sequence[Any]
    seed: int = declared("As --seed.", default=0, minimum=0)
    empty_nodes: int = declared("As --empty.", default=0, minimum=0)
    summary: bool = False


@dataclass(frozen=True, slots=True)
class _EachNode:
    action: EachNode
    nodes: Sequence[str] | None = None
    seed: int = declared("As --seed.", default=0, minimum=0)


class RequestError(Exception):
    """A request is invalid. The message names the field."""


class SimulationServer:
    """See the module. `read` reads the cluster; it may take long, and raise. `token`: what requests must contain;
    empty: no token is needed.
    """

    def __init__(
        self,
        read: Callable[[], LoadedCluster],
        *,
        limits: RequestLimits | None = None,
        token: str = "",
        local: bool = True,
    ) -> None:
        """`local`: the server listens on loopback only, so a browser must not reach it under another name."""
        self._read = read
        self._cluster = read()
        self._limits = limits or RequestLimits()
        self._token = token
        self._local = local
        self._worker = ThreadPoolExecutor(1, "podwright simulations")
        self._waiting = 0

    def application(self) -> web.Application:
        """The server's application. Its owner runs it."""
        app = web.Application(client_max_size=self._limits.request_bytes, middlewares=[self._guard])
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/v1/cluster", self._counted(self._show_cluster))
        app.router.add_post("/v1/simulate", self._counted(self._simulate))
        app.router.add_post("/v1/each-node", self._counted(self._each_node))
        app.router.add_post("/v1/reload", self._counted(self._reload))
        page = SimulationPage(lambda: self._cluster, self._run)
        app.router.add_get(POD, self._counted(page.explain))
        app.router.add_routes(page.page.routes())
        app.on_cleanup.append(lambda _app: page.page.close())
        app.on_cleanup.append(self._close)
        return app

    async def _close(self, _app: web.Application) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)

    # Requests

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._check(request)
            return await handler(request)
        except RequestError as error:
            return _answer({"error": str(error)}, 400)
        except HypothesisError as error:
            return _answer({"error": str(error)}, 422)
        except ConnectionError:
            raise
        except web.HTTPException as error:
            return _answer({"error": error.reason or str(error)}, error.status)
        except Exception as error:
            log.exception("a simulation failed")
            return _answer({"error": f"{type(error).__name__}: {error}"}, 500)

    def _check(self, request: web.Request) -> None:
        about_cluster = prepare(request)
        if about_cluster and is_foreign(request):
            raise web.HTTPForbidden(reason="this server is not for other websites")
        if about_cluster and self._token:
            given = request.headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), f"Bearer {self._token}".encode()):
                raise web.HTTPUnauthorized(reason="the token is missing or wrong")
        if self._local and not is_own_name(request.host):
            raise web.HTTPForbidden(reason="this server is only for this machine")
        if request.method == "POST" and request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(reason="the content type must be application/json")

    def _counted(self, handler: Handler) -> Handler:
        """The handler, bounded to the number of requests that may be open. A request counts before its body is read,
        because bodies take memory.
        """

        async def handle(request: web.Request) -> web.StreamResponse:
            if self._waiting >= self._limits.waiting:
                raise web.HTTPTooManyRequests(reason="too many requests wait")
            self._waiting += 1
            try:
                return await handler(request)
            finally:
                self._waiting -= 1

        return handle

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _show_cluster(self, _request: web.Request) -> web.Response:
        def read(_stopped: Callable[[], bool]) -> dict[str, Any]:
            cluster = self._cluster
            return {
                **as_json(totals(cluster)),
                "pending": len(cluster.pending),
                "problems": cluster.problems[:100],
                "notes": notes(cluster),
            }

        return _answer(await self._run(read))

    async def _simulate(self, request: web.Request) -> web.Response:
        body = await self._body(request, _Simulate)
        if len(body.hypotheses) > self._limits.hypotheses:
            raise RequestError(f"hypotheses: {len(body.hypotheses):,} are more than {self._limits.hypotheses:,}")

        def work(stopped: Callable[[], bool]) -> dict[str, Any]:
            left, results = 0 if body.summary else self._limits.listed, []
            for index, item in enumerate(body.hypotheses):
                answer, listed = self._try(item, f"hypotheses[{index}]", body, stopped, left)
                left -= listed
                results.append(answer)
            return {"results": results}

        return _answer(await self._run(work))

    def _try(
        self, raw: object, where: str, asked: _Simulate, stopped: Callable[[], bool], left: int
    ) -> tuple[dict[str, Any], int]:
        """One result, or an error, and how many pods it lists."""
        if stopped():
            return {"error": f"{where}: {TIME_IS_UP}"}, 0
        try:
            hypothesis = hypothesis_of(raw, where)
            result = simulate(
                self._cluster, hypothesis, seed=asked.seed, try_to_empty=asked.empty_nodes, stopped=stopped
            )
        except HypothesisError as error:
            text = str(error)
            return {"error": text if text.startswith(where) else f"{where}: {text}"}, 0
        listed = len(result.landed) + len(result.pending)
        return (result.as_dict(), listed) if listed <= left else (_summary(result), 0)

    async def _each_node(self, request: web.Request) -> web.Response:
        body = await self._body(request, _EachNode)

        def work(stopped: Callable[[], bool]) -> dict[str, Any]:
            wanted = self._cluster.cache.table.count if body.nodes is None else len(body.nodes)
            results = simulate_each_node(self._cluster, body.action, body.nodes, seed=body.seed, stopped=stopped)
            found = [each.as_dict() for each in results]
            return {"results": found, "complete": len(found) == wanted}

        return _answer(await self._run(work))

    async def _reload(self, _request: web.Request) -> web.Response:
        def work(_stopped: Callable[[], bool]) -> dict[str, Any]:
            self._cluster = self._read()
            return {"nodes": self._cluster.cache.table.count, "problems": self._cluster.problems[:100]}

        return _answer(await self._run(work))

    async def _body(self, request: web.Request, form: type[T]) -> T:
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                content = await request.read()
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(reason="the body did not arrive in time") from error
        try:
            return decode(form, orjson.loads(content), "")
        except orjson.JSONDecodeError as error:
            raise RequestError(f"the body is not JSON: {error}") from error
        except ArgsError as error:
            raise RequestError(f"the body{error}" if str(error).startswith(":") else str(error)) from error

    # The worker

    async def _run(self, work: Callable[[Callable[[], bool]], T]) -> T:
        """Runs the work in the worker's thread, in turn. The time limit begins when the work begins."""
        given_up = Event()

        def run() -> T:
            ends = time.monotonic() + self._limits.seconds
            return work(lambda: given_up.is_set() or time.monotonic() > ends)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, run)
        finally:
            given_up.set()


def _summary(result: SimulationResult) -> dict[str, Any]:
    """The result with counts instead of lists."""
    full = SimulationResult.as_dict(result)
    for key in ("landed", "pending", "preempted", "blockers", "gone"):
        full[key] = len(full[key])
    del full["changes"]
    return full


def _answer(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")
