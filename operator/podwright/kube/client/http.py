"""The connection to the API server: short requests over `wire`, JSON by orjson, credentials kept fresh.

Streams, and through an HTTP proxy short requests, too, go over aiohttp: see `streams`.

`Http.send` is the hot path: it returns status and bytes, and parses nothing. `Http.call` sends and returns objects and
raises `ApiError` for 4xx and 5xx. Both raise `UnreachableError` without a response. On a 401 the credentials are loaded
again, all connections are replaced, and the request is sent once more. Nothing else is sent twice, except by
`call_with_retries`: a caller that writes brings a `RetryPolicy` of its own (`retry`). Lists are read page by page with
`pages`.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import orjson

from podwright.engine.records.metrics import Metrics
from podwright.kube.client.answers import Answer
from podwright.kube.client.credentials.credentials import Credentials, CredentialSource, Headers
from podwright.kube.client.errors import ConfigError, UnreachableError, is_initializing, retry_after
from podwright.kube.client.json_text import loads
from podwright.kube.client.media_types import JSON
from podwright.kube.client.metrics import NO_ANSWER, HostMetrics
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.client.wire import REQUEST_SECONDS, USER_AGENT, BeforeWrite, ConnectionPool, host_and_port

if TYPE_CHECKING:
    import aiohttp

    from podwright.kube.client.streams import Streams

READ_RETRY: Final = RetryPolicy(
    shortest=0.05,
    longest=5.0,
    attempts=5,
    longest_retry_after=5.0,
    retry_after=lambda error: 0.0 if is_initializing(error) else retry_after(error),
)
_SAFE: Final = "!$'()*,/:;?@"
"""Characters that need no escape in a query."""


class Http:
    """The API client. Its owner closes it."""

    def __init__(
        self, source: CredentialSource, metrics: Metrics | None = None, *, before_write: BeforeWrite | None = None
    ) -> None:
        """`before_write` is called with the path right before each request that is not a GET. Raises UnreachableError
        to prevent it.
        """
        self._source = source
        self._before_write = before_write
        self._metrics = metrics or Metrics(perf_counter)
        self._current: _Connections | None = None
        self._retired: list[_Connections] = []
        self._closed = False
        self.refused_write = asyncio.Event()
        """Set by each response 403 to a write. Its reader clears it."""
        self._had_credentials = False

    @property
    def in_progress(self) -> int:
        """How many short requests are in progress."""
        return 0 if self._current is None else self._current.in_progress

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Answer:
        """Sends a request whose body is already JSON. `path` starts with a slash and is URL-encoded.

        Raises UnreachableError, also if credentials cannot be renewed, and ConfigError or OSError if none were ever
        loaded. Raises ApiError with status 401, without sending anything, while the server refuses our credentials.
        """
        connections = self._current
        if connections is None or self._source.due:
            connections = await self._connections()
        used = connections.credentials
        answer = await connections.send(method, path, body, content_type, REQUEST_SECONDS, accept)
        if answer.status == 401:
            # Many requests may be refused at once. The first one loads the credentials.
            await self._refused(connections, used)
            connections = await self._connections()
            used = connections.credentials
            answer = await connections.send(method, path, body, content_type, REQUEST_SECONDS, accept)
            if answer.status == 401:
                await self._refused(connections, used)
                return answer
        if self._source.refused_since is not None:
            self._source.accepted(used)
        if answer.status == 403 and method != "GET":
            self.refused_write.set()
        return answer

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
        accept: str = JSON,
    ) -> Any:
        """Sends an object and returns the parsed response. Raises ApiError and UnreachableError."""
        data = None if body is None else orjson.dumps(body)
        return (await self.send(method, _target(path, params), data, content_type, accept)).json()

    async def call_with_retries(
        self,
        method: str,
        path: str,
        body: object = None,
        params: Mapping[str, str] | None = None,
    ) -> Any:
        """`call`, retried a few times. For reads, and for other requests that may be sent twice. Raises as `call` does.

        Without retries, work of many requests, such as a list in pages, would never finish if one request in ten fails.
        """
        return await READ_RETRY.run(lambda: self.call(method, path, body, params=params))

    async def page(
        self, path: str, params: Mapping[str, str], accept: str = JSON, loads: Callable[[bytes], Any] = loads
    ) -> tuple[Any, int]:
        """A part of a list, and how many bytes of JSON it had. Retried, and raises, as `call_with_retries`."""

        async def once() -> tuple[Any, int]:
            answer = await self.send("GET", _target(path, params), accept=accept)
            return answer.json(loads), len(answer.body)

        return await READ_RETRY.run(once)

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """A GET whose response is read piece by piece, without a time limit.

        Raises ApiError if the server refuses it, and UnreachableError without a response, or while it is read.
        """
        connections = await self._connections()
        used = connections.credentials
        streams = await connections.streams()
        async with streams.open(used, _target(path, params), connections.metrics.opened) as response:
            if response.status == 401:
                await self._refused(connections, used)
            elif self._source.refused_since is not None:
                self._source.accepted(used)
            if response.status >= 300:
                raise (await streams.refusal(response)).error()
            yield response

    async def reset(self) -> None:
        """Closes all connections, and with them the requests that are under way. Later requests open new ones."""
        open_ones, self._current = [*self._retired, *((self._current,) if self._current else ())], None
        self._retired.clear()
        for connections in open_ones:
            connections.abort()
            await connections.close()

    async def close(self) -> None:
        """Closes all connections. Later requests raise UnreachableError."""
        self._closed = True
        for connections in (*self._retired, *((self._current,) if self._current else ())):
            await connections.close()
        self._retired.clear()
        self._current = None

    async def _connections(self) -> _Connections:
        """The connections of the current credentials."""
        try:
            credentials = await self._source.current()
        except (ConfigError, OSError) as error:
            if not self._had_credentials:
                raise  # waiting will not help
            raise UnreachableError(f"no credentials: {error}") from error
        if self._closed:
            raise UnreachableError("the connection was closed")
        self._had_credentials = True
        current = self._current
        if current is not None and current.adopt(credentials):
            return current
        metrics = HostMetrics(self._metrics, host_and_port(credentials.server))
        new = self._current = _Connections(credentials, metrics, before_write=self._before_write)
        if current is not None:
            await self._retire(current)
        return new

    async def _retire(self, connections: _Connections) -> None:
        """Lets their streams and requests finish; they are closed when the next ones retire."""
        self._retired.append(connections)
        while len(self._retired) > 1:
            await self._retired.pop(0).close()

    async def _refused(self, connections: _Connections, used: Credentials) -> None:
        self._source.refused(used)
        if self._current is connections and connections.credentials is used:
            self._current = None
            await self._retire(connections)


class _Connections:
    """The connections of one set of credentials."""

    def __init__(self, credentials: Credentials, metrics: HostMetrics, before_write: BeforeWrite | None) -> None:
        self.credentials = credentials
        self.metrics = metrics
        self._pool = ConnectionPool(
            credentials.server,
            credentials.ssl_context,
            headers=self._pool_headers(),
            before_write=before_write,
        )
        self._before_write = before_write
        self._streams: Streams | None = None
        self._closed = False
        self.in_progress = 0
        """Requests, also those that wait for a connection."""

    async def streams(self) -> Streams:
        """The connections over aiohttp. Raises UnreachableError if all have been closed."""
        if self._streams is None:
            module = await import_streams()
            if self._closed:
                raise UnreachableError("the connection was closed")
            if self._streams is None:
                self._streams = module.Streams(self.credentials)
        return self._streams

    def _pool_headers(self) -> Headers:
        return (("User-Agent", USER_AGENT), *self.credentials.headers)

    def adopt(self, credentials: Credentials) -> bool:
        """Uses these credentials, unless they need other connections. Returns whether it uses them."""
        old = self.credentials
        if (old.server, old.proxy) != (credentials.server, credentials.proxy):
            return False
        if old.ssl_context is not credentials.ssl_context:
            return False
        self.credentials = credentials
        self._pool.set_headers(self._pool_headers())
        return True

    async def send(
        self, method: str, path: str, body: bytes | None, content_type: str, timeout: float, accept: str
    ) -> Answer:
        started, status = perf_counter(), NO_ANSWER
        self.in_progress += 1
        try:
            if self.credentials.proxy is None:
                answer = await self._pool.send(method, path, body, content_type, timeout, accept)
            else:
                streams = await self.streams()
                if self._before_write is not None and method != "GET":
                    self._before_write(path)
                answer = await streams.send(self.credentials, method, path, body, content_type, timeout, accept)
            status = answer.status
            return answer
        finally:
            self.in_progress -= 1
            self.metrics.answered(method, status, perf_counter() - started)

    def abort(self) -> None:
        self._pool.abort()

    async def close(self) -> None:
        self._closed = True
        if self._streams is not None:
            await self._streams.close()
        await self._pool.close()


async def import_streams() -> Any:
    """Imports `streams`, and with it aiohttp, in a thread."""
    return await asyncio.to_thread(importlib.import_module, "podwright.kube.client.streams")


def _target(path: str, params: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(params, safe=_SAFE, quote_via=quote)}" if params else path
