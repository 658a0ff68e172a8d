"""A scripted API server over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from aiohttp import web

from podwright.engine.records.metrics import Metrics
from podwright.kube.client.credentials.credentials import Credentials, CredentialSource, Loaded
from podwright.kube.client.http import Http
from podwright.kube.client.retry import RetryPolicy

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Script:
    """Answers requests with `answers` in order, then with `default`, and records the requests."""

    answers: list[Answer] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    default: Answer | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.read()
        body = orjson.loads(text) if text else None
        self.requests.append(Request(request.method, request.path, dict(request.query), dict(request.headers), body))
        answer = self.answers.pop(0) if self.answers else self.default
        assert answer is not None, f"unexpected request: {request.method} {request.path_qs}"
        return await answer(request)

    @property
    def asked(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.requests]


def says(status: int = 200, body: Any = None, **headers: str) -> Answer:
    """A response with a JSON body, by default a Status object."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        content = body if body is not None else {"kind": "Status", "reason": f"R{status}", "message": f"says {status}"}
        return web.Response(status=status, body=orjson.dumps(content), headers=headers)

    return answer


def page(*items: Any, version: int | None = None, following: str = "") -> Answer:
    """A page of a list, at a resourceVersion; `following`: the continue token of the next page."""
    metadata = {"continue": following} | ({} if version is None else {"resourceVersion": str(version)})
    return says(200, {"metadata": metadata, "items": list(items)})


def hangs_up() -> Answer:
    """Closes the connection without a response."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        await asyncio.sleep(0)
        return web.Response()

    return answer


def streams(
    *lines: Any, first: Callable[[], Awaitable[Any]] | None = None, then: Callable[[], Awaitable[Any]] | None = None
) -> Answer:
    """A watch that awaits `first`, sends lines, each an object or raw bytes, awaits `then`, and ends."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if first is not None:
            await first()
        for line in lines:
            await response.write(line if isinstance(line, bytes) else orjson.dumps(line) + b"\n")
        if then is not None:
            await then()
        return response

    return answer


def without_pauses(policy: RetryPolicy) -> RetryPolicy:
    """The policy with all pauses set to 0, for tests that wait for retries."""
    return replace(policy, shortest=0.0, longest=0.0, longest_retry_after=0.0)


async def forever() -> None:
    await asyncio.Event().wait()


def source_of(url: str) -> CredentialSource:
    """Credentials for a server."""
    return CredentialSource(lambda _now: Loaded(Credentials(url, None, (("Authorization", "Bearer t"),))), lambda: 0.0)


@asynccontextmanager
async def api(
    *answers: Answer, default: Answer | None = None, metrics: Metrics | None = None
) -> AsyncIterator[tuple[Http, Script]]:
    """An `Http`, and the script of its server."""
    async with served(*answers, default=default) as (url, script):
        http = Http(source_of(url), metrics)
        try:
            yield http, script
        finally:
            await http.close()


@asynccontextmanager
async def served(*answers: Answer, default: Answer | None = None) -> AsyncIterator[tuple[str, Script]]:
    """A server's URL and its script."""
    script = Script(list(answers), default=default)
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", script.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", script
    finally:
        await runner.cleanup()
