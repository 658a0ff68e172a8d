"""A proxy between the operator and the API server that does what bad networks and tired servers do, at given rates.

    with FaultProxy(cluster) as proxy:
        proxy.faults = [Faults(only=is_binding, rates={"500": 0.1, "answer lost": 0.1})]
        operator_kit.start(cluster, kubeconfig=proxy.kubeconfig(admin))
        proxy.close_watches()

Plain HTTP towards the operator, TLS towards the API server. `injected` counts what was done. It lives in a thread of its
own, so its methods may be called from tests as they are.
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

CUT, ANSWER_LOST = "cut", "answer lost"
_TEXTS = {
    "409": "Conflict",
    "410": "Expired",
    "429": "TooManyRequests",
    "500": "InternalError",
    "503": "ServiceUnavailable",
    "504": "Timeout",
}
_HOP_BY_HOP = {"connection", "host", "keep-alive", "transfer-encoding", "content-length"}

Only = Callable[[str, str], bool]
"""Whether a request (its method, and its path with the query if there is one) is meant."""


def everything(method: str, path: str) -> bool:
    return True


def is_binding(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/binding")


def is_write(method: str, path: str) -> bool:
    return method != "GET"


def is_watch(method: str, path: str) -> bool:
    return method == "GET" and _query(path).get("watch") in ("1", "true")


def is_list_of_assigned_pods(method: str, path: str) -> bool:
    asked = _query(path)
    return path.startswith("/api/v1/pods?") and "watch" not in asked and "spec.nodeName!=" in asked["fieldSelector"]


def is_later_page(method: str, path: str) -> bool:
    """Of a list that comes in several."""
    return method == "GET" and "continue" in _query(path)


def _query(path: str) -> Mapping[str, str]:
    return dict(parse_qsl(path.partition("?")[2]))


@dataclass(frozen=True)
class Faults:
    """What to do to requests. `rates`: `cut`, `answer lost`, or a status code, with its share from 0 to 1.

    `cut` ends the connection before the request reaches the server, `answer lost` after the server has carried it out.
    `delay`: seconds, at random up to that, before a request goes on; `late`: as much before its answer does.
    `retry_after`: what a 429 asks for, in seconds.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    only: Only = everything
    delay: float = 0.0
    retry_after: int = 1
    late: float = 0.0


@dataclass(eq=False)
class Passing:
    """A request that has come and is not answered. `passed_on`: the API server may have it."""

    method: str
    path: str
    passed_on: bool = False


class Watch:
    """One watch that runs through the proxy. What may be done to its events is up to `Tamper`."""

    def __init__(self, path: str, transport: asyncio.Transport) -> None:
        self.path = path
        self.transport = transport
        self.stalled = False
        self.last_words: bytes | None = None
        self.ended = asyncio.Event()


Tamper = Callable[[Watch, bytes], Iterable[bytes]]
"""A watch and a line as it came; the lines to pass on."""


def _untouched(_watch: Watch, line: bytes) -> Iterable[bytes]:
    return (line,)


class FaultProxy:
    """See the module."""

    def __init__(self, cluster: ControlPlane, seed: int = 1) -> None:
        self._cluster = cluster
        self._chance = random.Random(seed)
        self._port = free_port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._watches: set[Watch] = set()
        self._session: aiohttp.ClientSession
        self._runner: web.AppRunner
        self._held = Counter[Only]()
        self._released = asyncio.Event()
        self._under_way: set[Passing] = set()
        self._not_before: dict[tuple[str, str], float] = {}
        self._too_early: list[tuple[str, str]] = []
        self.faults: Sequence[Faults] = ()
        self.tamper: Tamper = _untouched
        self.rewind_to = ""
        """If set, the resource version from which watches begin, whatever they ask for."""
        self.injected: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()

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
        """The same login as in another kubeconfig, through this proxy."""
        config = yaml.safe_load(direct.read_text())
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self._port}"}
        path = direct.with_name(f"through-{self._port}-{direct.name}")
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        return path

    # Watches

    def close_watches(self, part: str = "") -> int:
        """Ends all watches whose path has this part, in the middle; how many there were."""
        return self._each_watch("watch closed", part, lambda watch: watch.transport.abort())

    def stall_watches(self, part: str = "") -> int:
        """From now on nothing comes through these watches, and nobody says so; new ones work."""

        def stall(watch: Watch) -> None:
            watch.stalled = True

        return self._each_watch("watch stalled", part, stall)

    def expire_watches(self, part: str = "", code: int = 410, reason: str = "Expired") -> int:
        """Tells these watches that their resource version is too old, or something else, and ends them."""

        def expire(watch: Watch) -> None:
            watch.last_words = json.dumps({"type": "ERROR", "object": _status(code, reason)}).encode() + b"\n"
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

    def under_way(self, only: Only, *, passed_on: bool = False) -> int:
        """How many requests have come and are not answered; with `passed_on` those that the API server may have."""

        async def count() -> int:
            return sum(one.passed_on >= passed_on and only(one.method, one.path) for one in self._under_way)

        return int(self._run(count()))

    def too_early(self, only: Only) -> list[str]:
        """Requests that came again before a 429 allowed it. Of those that only one of goes to a path at a time."""
        return [path for method, path in self._too_early if only(method, path)]

    # Requests that are held

    def hold(self, only: Only) -> None:
        """From now on these requests come no further, until `release`."""
        self._held[only] = 0

    def held(self) -> int:
        """How many requests are held at this moment."""
        return self._held.total()

    def release(self) -> None:
        """Lets all go on that is held."""

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
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
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
        await self._session.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        one = Passing(request.method, request.path + (f"?{request.query_string}" if request.query_string else ""))
        self.requests[one.method] += 1
        if self._loop.time() < self._not_before.pop((one.method, one.path), 0.0):
            self._too_early.append((one.method, one.path))
        self._under_way.add(one)
        try:
            return await self._answer(request, one)
        finally:
            self._under_way.discard(one)

    async def _answer(self, request: web.Request, one: Passing) -> web.StreamResponse:
        body = await request.read()
        await self._wait_held(one.method, one.path)
        fault = await self._fate(one.method, one.path)
        if fault == CUT:
            return _cut(request)
        if isinstance(fault, web.Response):
            return fault
        one.passed_on = True
        url, watching = URL(self._cluster.url + request.raw_path, encoded=True), is_watch(one.method, one.path)
        if watching and self.rewind_to:
            url = url.update_query(resourceVersion=self.rewind_to)
            self.injected["watch begun again from long ago"] += 1
        try:
            async with self._session.request(
                request.method,
                url,
                data=body or None,
                headers={k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP},
                timeout=aiohttp.ClientTimeout(total=None if watching else 60),
            ) as answer:
                if watching and answer.status == 200:
                    return await self._pass_watch(request, answer)
                return await self._pass_answer(request, answer, one, lost=fault == ANSWER_LOST)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return _cut(request)

    async def _fate(self, method: str, path: str) -> Any:
        """None, CUT, ANSWER_LOST or an answer of our own."""
        for faults in self.faults:
            if not faults.only(method, path):
                continue
            if faults.delay:
                await asyncio.sleep(self._chance.uniform(0, faults.delay))
                self.injected["delay"] += 1
            drawn = self._chance.random()
            for kind, rate in faults.rates.items():
                drawn -= rate
                if drawn < 0:
                    self.injected[kind] += 1
                    if kind == "429":
                        self._not_before[method, path] = self._loop.time() + faults.retry_after
                    return kind if kind in (CUT, ANSWER_LOST) else _refusal(kind, faults.retry_after)
        return None

    async def _pass_answer(
        self, request: web.Request, answer: aiohttp.ClientResponse, one: Passing, *, lost: bool
    ) -> web.StreamResponse:
        body = await answer.read()
        if lost:
            return _cut(request)
        for faults in self.faults:
            if faults.late and faults.only(one.method, one.path):
                await asyncio.sleep(self._chance.uniform(0, faults.late))
                self.injected["late answer"] += 1
        return web.Response(status=answer.status, body=body, headers=_passed(answer))

    async def _pass_watch(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        assert request.transport is not None
        watch = Watch(request.path, request.transport)
        response = web.StreamResponse(status=answer.status, headers=_passed(answer))
        response.enable_chunked_encoding()
        await response.prepare(request)
        self._watches.add(watch)
        passing = asyncio.ensure_future(self._pass_events(watch, answer, response))
        ended = asyncio.ensure_future(watch.ended.wait())
        try:
            await asyncio.wait({passing, ended}, return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                await passing
            if watch.last_words is not None:
                await response.write(watch.last_words)
        finally:
            self._watches.discard(watch)
            passing.cancel()
            ended.cancel()
        return response

    async def _pass_events(self, watch: Watch, answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
        rest = b""
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                for passed in () if watch.stalled else self.tamper(watch, line):
                    await response.write(passed + b"\n")
        if watch.stalled:
            await asyncio.Event().wait()


def _app(handler: Callable[[web.Request], Any]) -> web.Application:
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", handler)
    return app


def _passed(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}


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


def _refusal(kind: str, retry_after: int) -> web.Response:
    headers = {"Retry-After": str(retry_after)} if kind == "429" else {}
    return web.json_response(_status(int(kind), _TEXTS[kind]), status=int(kind), headers=headers)
