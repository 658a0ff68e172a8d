"""A proxy between the operator and the API server that injects the faults of bad networks and overloaded servers, at
given rates.

    with FaultProxy(cluster) as proxy:
        proxy.faults = [Faults(only=is_binding, rates={"500": 0.1, "response lost": 0.1})]
        operator_kit.start(cluster, kubeconfig=proxy.kubeconfig(admin))
        proxy.close_watches()

It speaks plain HTTP to the operator, and TLS to the API server. Credentials are not sent over plain HTTP, so it adds
the token of the service account to each request. `injected` counts the injected faults. The proxy runs in its own
thread, and tests may call its methods from theirs.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from podwright.testing import ControlPlane
from podwright.testing.processes import free_port
from support.faults.sockets import Sockets

CUT, RESPONSE_LOST = "cut", "response lost"
_TEXTS = {
    "409": "Conflict",
    "410": "Expired",
    "429": "TooManyRequests",
    "500": "InternalError",
    "503": "ServiceUnavailable",
    "504": "Timeout",
}
_HOP_BY_HOP = {"connection", "host", "keep-alive", "transfer-encoding", "content-length"}

RequestFilter = Callable[[str, str], bool]
"""True if a fault applies to a request, by its method and its path with query."""


def everything(method: str, path: str) -> bool:
    return True


def is_binding(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/binding")


def is_write(method: str, path: str) -> bool:
    return method != "GET"


def is_watch(method: str, path: str) -> bool:
    return method == "GET" and _query(path).get("watch") in ("1", "true")


def is_list_of_assigned_pods(method: str, path: str) -> bool:
    query = _query(path)
    return path.startswith("/api/v1/pods?") and "watch" not in query and "spec.nodeName!=" in query["fieldSelector"]


def is_later_page(method: str, path: str) -> bool:
    """A page of a list after the first."""
    return method == "GET" and "continue" in _query(path)


def _query(path: str) -> Mapping[str, str]:
    return dict(parse_qsl(path.partition("?")[2]))


@dataclass(frozen=True)
class Faults:
    """Faults for the requests that match `only`. `rates` maps `cut`, `response lost` or a status code to its share,
    from 0 to 1.

    `cut` closes the connection before the request reaches the API server, `response lost` after the API server has
    executed it. `delay` is the longest random delay of a request, `response_delay` that of a response, in seconds.
    `retry_after`: the seconds in the Retry-After header of a 429.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    only: RequestFilter = everything
    delay: float = 0.0
    retry_after: int = 1
    response_delay: float = 0.0


@dataclass(eq=False)
class PendingRequest:
    """A request without a response yet. `forwarded`: the API server may have it."""

    method: str
    path: str
    forwarded: bool = False


class Watch:
    """A watch through the proxy."""

    def __init__(self, path: str, transport: asyncio.Transport) -> None:
        self.path = path
        self.transport = transport
        self.stalled = False
        self.final_line: bytes | None = None
        self.ended = asyncio.Event()


Tamper = Callable[[Watch, bytes], Iterable[bytes]]
"""Maps a watch and a line from the API server to the lines to forward."""


def _unchanged(_watch: Watch, line: bytes) -> Iterable[bytes]:
    return (line,)


class FaultProxy:
    """Runs in its own thread while it is entered as a context manager."""

    def __init__(self, cluster: ControlPlane, seed: int = 1) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._port = free_port()
        self._token = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._watches: set[Watch] = set()
        self._sockets = Sockets()
        self._session: aiohttp.ClientSession
        self._runner: web.AppRunner
        self._held = Counter[RequestFilter]()
        self._released = asyncio.Event()
        self._pending: set[PendingRequest] = set()
        self._not_before: dict[tuple[str, str], float] = {}
        self._early_retries: list[tuple[str, str]] = []
        self.faults: Sequence[Faults] = ()
        self.tamper: Tamper = _unchanged
        self.rewind_to = ""
        """If set, all watches start from this resource version instead of the requested one."""
        self.injected: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.faults = ()
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def kubeconfig(self, direct: Path) -> Path:
        """A copy of a service account's kubeconfig that connects through this proxy."""
        config = yaml.safe_load(direct.read_text())
        self._token = config["users"][0]["user"]["token"]
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self._port}"}
        path = direct.with_name(f"through-{self._port}-{direct.name}")
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        return path

    # Watches

    def close_watches(self, part: str = "") -> int:
        """Abort the connections of all watches whose path contains `part`. Returns their number."""
        return self._each_watch("watch closed", part, lambda watch: watch.transport.abort())

    def stall_watches(self, part: str = "") -> int:
        """Silently stop forwarding events of these watches. New watches work."""

        def stall(watch: Watch) -> None:
            watch.stalled = True

        return self._each_watch("watch stalled", part, stall)

    def expire_watches(self, part: str = "", code: int = 410, reason: str = "Expired") -> int:
        """End these watches with an ERROR event."""

        def expire(watch: Watch) -> None:
            watch.final_line = json.dumps({"type": "ERROR", "object": _status(code, reason)}).encode() + b"\n"
            watch.ended.set()

        return self._each_watch(f"watch ended by an error ({code})", part, expire)

    def _each_watch(self, what: str, part: str, work: Callable[[Watch], None]) -> int:
        async def each() -> int:
            found = [watch for watch in self._watches if part in watch.path]
            for watch in found:
                work(watch)
            return len(found)

        count: int = self._run(each())
        self.injected[what] += count
        return count

    # Requests

    def in_flight(self, only: RequestFilter, *, forwarded: bool = False) -> int:
        """The number of requests without a response; with `forwarded`, of those that the API server may have."""

        async def count() -> int:
            return sum(one.forwarded >= forwarded and only(one.method, one.path) for one in self._pending)

        return int(self._run(count()))

    def early_retries(self, only: RequestFilter) -> list[str]:
        """Paths of requests that were retried before Retry-After. Meaningful only if a path has one such request at a
        time.
        """
        return [path for method, path in self._early_retries if only(method, path)]

    # Held requests

    def hold(self, only: RequestFilter) -> None:
        """Hold these requests from now on, until `release`."""
        self._held[only] = 0

    def held(self) -> int:
        """The number of requests held now."""
        return self._held.total()

    def release(self) -> None:
        """Forward all held requests."""

        async def release() -> None:
            self._held.clear()
            self._released.set()
            self._released = asyncio.Event()

        self._run(release())

    async def _wait_held(self, method: str, path: str) -> None:
        for only in [only for only in self._held if only(method, path)]:
            self._held[only] += 1
            self.injected["held"] += 1
            try:
                await self._released.wait()
            finally:
                if only in self._held:
                    self._held[only] -= 1

    # The server

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        context = ssl.create_default_context(cafile=str(self._cluster.certificate_authority))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0, socket_factory=self._sockets),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding", "Accept", "User-Agent"),
            trust_env=False,
        )
        self._runner = web.AppRunner(
            _app(self._handle),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=0.1,
            handler_cancellation=True,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    async def _stop(self) -> None:
        await self._runner.cleanup()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._session.close()
        await self._sockets.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        one = PendingRequest(
            request.method, request.path + (f"?{request.query_string}" if request.query_string else "")
        )
        if self._loop.time() < self._not_before.pop((one.method, one.path), 0.0):
            self._early_retries.append((one.method, one.path))
        self._pending.add(one)
        try:
            return await self._respond(request, one)
        finally:
            self._pending.discard(one)

    async def _respond(self, request: web.Request, one: PendingRequest) -> web.StreamResponse:
        body = await request.read()
        await self._wait_held(one.method, one.path)
        fault = await self._choose_fault(one.method, one.path)
        if fault == CUT:
            return _cut(request)
        if isinstance(fault, web.Response):
            return fault
        one.forwarded = True
        url, watching = URL(self._cluster.url + request.raw_path, encoded=True), is_watch(one.method, one.path)
        if watching and self.rewind_to:
            url = url.update_query(resourceVersion=self.rewind_to)
            self.injected["watch restarted from an old version"] += 1
        try:
            async with self._session.request(
                request.method,
                url,
                data=body or None,
                headers={
                    "Authorization": f"Bearer {self._token}",
                    **{k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP},
                },
                timeout=aiohttp.ClientTimeout(total=None if watching else 60),
            ) as upstream:
                if watching and upstream.status == 200:
                    return await self._forward_watch(request, upstream)
                return await self._forward_response(request, upstream, one, lost=fault == RESPONSE_LOST)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return _cut(request)

    async def _choose_fault(self, method: str, path: str) -> Any:
        """None, CUT, RESPONSE_LOST, or a response by the proxy."""
        for faults in self.faults:
            if not faults.only(method, path):
                continue
            if faults.delay:
                await asyncio.sleep(self._random.uniform(0, faults.delay))
                self.injected["delay"] += 1
            drawn = self._random.random()
            for kind, rate in faults.rates.items():
                drawn -= rate
                if drawn < 0:
                    self.injected[kind] += 1
                    if kind == "429":
                        self._not_before[method, path] = self._loop.time() + faults.retry_after
                    return kind if kind in (CUT, RESPONSE_LOST) else _error_response(kind, faults.retry_after)
        return None

    async def _forward_response(
        self, request: web.Request, upstream: aiohttp.ClientResponse, one: PendingRequest, *, lost: bool
    ) -> web.StreamResponse:
        body = await upstream.read()
        if lost:
            return _cut(request)
        for faults in self.faults:
            if faults.response_delay and faults.only(one.method, one.path):
                await asyncio.sleep(self._random.uniform(0, faults.response_delay))
                self.injected["delayed response"] += 1
        return web.Response(status=upstream.status, body=body, headers=_forwarded_headers(upstream))

    async def _forward_watch(self, request: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        assert request.transport is not None
        watch = Watch(request.path, request.transport)
        response = web.StreamResponse(status=upstream.status, headers=_forwarded_headers(upstream))
        response.enable_chunked_encoding()
        await response.prepare(request)
        self._watches.add(watch)
        forwarding = asyncio.ensure_future(self._forward_events(watch, upstream, response))
        ended = asyncio.ensure_future(watch.ended.wait())
        try:
            await asyncio.wait({forwarding, ended}, return_when=asyncio.FIRST_COMPLETED)
            if forwarding.done():
                await forwarding
            if watch.final_line is not None:
                await response.write(watch.final_line)
        finally:
            self._watches.discard(watch)
            forwarding.cancel()
            ended.cancel()
        return response

    async def _forward_events(
        self, watch: Watch, upstream: aiohttp.ClientResponse, response: web.StreamResponse
    ) -> None:
        rest = b""
        async for chunk in upstream.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                for forwarded in () if watch.stalled else self.tamper(watch, line):
                    await response.write(forwarded + b"\n")
        if watch.stalled:
            await asyncio.Event().wait()


def _app(handler: Callable[[web.Request], Any]) -> web.Application:
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", handler)
    return app


def _forwarded_headers(upstream: aiohttp.ClientResponse) -> dict[str, str]:
    return {k: v for k, v in upstream.headers.items() if k.lower() not in _HOP_BY_HOP}


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def _status(code: int, reason: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": f"{code} by the fault proxy",
    }


def _error_response(kind: str, retry_after: int) -> web.Response:
    headers = {"Retry-After": str(retry_after)} if kind == "429" else {}
    return web.json_response(_status(int(kind), _TEXTS[kind]), status=int(kind), headers=headers)
