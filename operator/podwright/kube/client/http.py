"""The connection to the API server: short requests over `wire`, streams over aiohttp, JSON by orjson, credentials kept
fresh.

Through an HTTP proxy, short requests go over aiohttp, too.

`Http.send` is the hot path: it returns status and bytes, and parses nothing. `Http.call` sends and returns objects and
raises `ApiError` for 4xx and 5xx. Both raise `UnreachableError` without a response. On a 401 the credentials are loaded
again, all connections are replaced, and the request is sent once more. Nothing else is sent twice, except by
`call_with_retries`: a caller that writes brings a `RetryPolicy` of its own (`retry`). Lists are read page by page with
`pages`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, Final

import aiohttp
import orjson
from multidict import CIMultiDict
from yarl import URL

from podwright.engine.records.metrics import Metrics
from podwright.kube.client.answers import Answer, retry_after_seconds
from podwright.kube.client.credentials.credentials import Credentials, CredentialSource, Headers
from podwright.kube.client.errors import ConfigError, TooLongError, UnreachableError, is_initializing, retry_after
from podwright.kube.client.json_text import loads
from podwright.kube.client.media_types import JSON
from podwright.kube.client.metrics import NO_ANSWER, HostMetrics
from podwright.kube.client.response import BODY_LIMIT
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.client.wire import (
    CONNECT_SECONDS,
    REQUEST_SECONDS,
    USER_AGENT,
    BeforeWrite,
    ConnectionPool,
    host_and_port,
)

READ_RETRY: Final = RetryPolicy(
    shortest=0.05,
    longest=5.0,
    attempts=5,
    longest_retry_after=5.0,
    retry_after=lambda error: 0.0 if is_initializing(error) else retry_after(error),
)
STREAM_BUFFER: Final = 1 << 18
"""How many bytes of a stream are buffered before its reader takes them."""

ERROR_BYTES: Final = 1 << 16
"""How much of a refused stream's body is read."""


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
            connections = await self._reauthenticate(connections, used)
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
        accept: str = JSON,
    ) -> Any:
        """`call`, retried a few times. For reads, and for other requests that may be sent twice. Raises as `call` does.

        Without retries, work of many requests, such as a list in pages, would never finish if one request in ten fails.
        """
        return await READ_RETRY.run(lambda: self.call(method, path, body, params=params, accept=accept))

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

        Raises ApiError if the server refuses it, and UnreachableError without a response; errors while reading are
        aiohttp's.
        """
        connections = await self._connections()
        used = connections.credentials
        url = URL(connections.credentials.server + path, encoded=True).with_query(dict(params))
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                response = await connections.session.get(
                    url, headers=connections.headers, timeout=timeout, read_bufsize=STREAM_BUFFER
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            connections.metrics.opened(NO_ANSWER)
            raise _unreachable(error) from error
        connections.metrics.opened(response.status)
        try:
            if response.status == 401:
                await self._refused(connections, used)
            elif self._source.refused_since is not None:
                self._source.accepted(used)
            if response.status >= 300:
                raise Answer(response.status, await _error_body(response), _retry_after(response)).error()
            yield response
        finally:
            response.close()

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

    async def _reauthenticate(self, connections: _Connections, used: Credentials) -> _Connections:
        """Connections with other credentials than the refused ones. Many requests may call this; the first one loads
        the credentials.
        """
        await self._refused(connections, used)
        return await self._connections()

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
        self.headers = CIMultiDict(credentials.headers)
        self.session = new_session(credentials)
        self._pool = ConnectionPool(
            credentials.server,
            credentials.ssl_context,
            headers=self._pool_headers(),
            before_write=before_write,
        )
        self._before_write = before_write
        self.in_progress = 0
        """Requests, also those that wait for a connection."""

    def _pool_headers(self) -> Headers:
        return (("User-Agent", USER_AGENT), *self.credentials.headers)

    def adopt(self, credentials: Credentials) -> bool:
        """Uses these credentials, unless they need other connections. Returns whether it uses them."""
        old = self.credentials
        if (old.server, old.proxy) != (credentials.server, credentials.proxy):
            return False
        if old.ssl_context is not credentials.ssl_context:
            return False
        if old.headers != credentials.headers:
            self.headers = CIMultiDict(credentials.headers)
        self.credentials = credentials
        self._pool.set_headers(self._pool_headers())
        return True

    async def send(
        self, method: str, path: str, body: bytes | None, content_type: str, timeout: float, accept: str
    ) -> Answer:
        started, status = perf_counter(), NO_ANSWER
        self.in_progress += 1
        try:
            send = self._pool.send if self.credentials.proxy is None else self._send_through_proxy
            answer = await send(method, path, body, content_type, timeout, accept)
            status = answer.status
            return answer
        finally:
            self.in_progress -= 1
            self.metrics.answered(method, status, perf_counter() - started)

    async def _send_through_proxy(
        self, method: str, path: str, body: bytes | None, content_type: str, timeout: float, accept: str
    ) -> Answer:
        """See `ConnectionPool.send`."""
        if self._before_write is not None and method != "GET":
            self._before_write(path)
        url, headers = URL(self.credentials.server.rstrip("/") + path, encoded=True), self.headers.copy()
        headers["Accept"] = accept
        if body is not None:
            headers["Content-Type"] = content_type
        asked = self.session.request(method, url, data=body, headers=headers, allow_redirects=False)
        try:
            async with asyncio.timeout(timeout), asked as found:
                content = bytearray()
                async for piece in found.content.iter_any():
                    content += piece
                    if len(content) > BODY_LIMIT:
                        raise TooLongError("the response is too long")
                return Answer(found.status, bytes(content), _retry_after(found))
        except TimeoutError:
            raise UnreachableError(f"no answer after {timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(error) from error

    def abort(self) -> None:
        self._pool.abort()

    async def close(self) -> None:
        await self.session.close()
        await self._pool.close()


def new_session(
    credentials: Credentials,
    *,
    authenticated: bool = False,
    middlewares: Sequence[aiohttp.ClientMiddlewareType] = (),
    response_class: type[aiohttp.ClientResponse] = aiohttp.ClientResponse,
) -> aiohttp.ClientSession:
    """An aiohttp session with the credentials' TLS context. It sends their headers by default only if
    `authenticated`.
    """
    headers = CIMultiDict(credentials.headers if authenticated else ())
    headers.extend({"User-Agent": USER_AGENT, "Accept": JSON, "Accept-Encoding": "identity"})
    redirects = aiohttp.TraceConfig()
    redirects.on_request_redirect.append(_refuse_redirect)
    connector = aiohttp.TCPConnector(limit=0, ssl=credentials.ssl_context or True, keepalive_timeout=60)
    return aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        trace_configs=[redirects],
        proxy=credentials.proxy,
        trust_env=False,
        middlewares=(*middlewares, _hide_urls),
        response_class=response_class,
    )


def _target(path: str, params: Mapping[str, str] | None) -> str:
    return f"{path}?{URL.build(query=dict(params)).raw_query_string}" if params else path


def _unreachable(error: BaseException) -> UnreachableError:
    return UnreachableError(str(error) or type(error).__name__)


async def _error_body(response: aiohttp.ClientResponse) -> bytes:
    """The beginning of the body. It is only to be logged."""
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            return await response.content.read(ERROR_BYTES)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _unreachable(error) from error


async def _hide_urls(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """A refusal by a proxy, and a malformed response, as an error without the URL: that of a proxy may contain a
    password.

    Of a connection that ends without a response, aiohttp must not see the type, because it sends a PUT or DELETE again.
    """
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method == "GET":
            raise
        problem = str(error)
    except aiohttp.ClientResponseError as error:
        problem = f"HTTP {error.status} {error.message}"
    raise aiohttp.ClientConnectionError(
        f"no valid response from the server or its proxy: {problem}"
    )  # without the first as its context


async def _refuse_redirect(_session: object, _context: object, params: aiohttp.TraceRequestRedirectParams) -> None:
    """Redirects are not followed: headers that authenticate us would go to another server."""
    raise aiohttp.ClientError(f"{params.url.origin()} redirects, which is not followed")


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    return retry_after_seconds(response.headers.get("Retry-After", "")) if response.status >= 400 else None
