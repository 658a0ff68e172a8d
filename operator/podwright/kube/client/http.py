"""One way to the API server: short requests over `wire`, streams over aiohttp, orjson, credentials that stay fresh.

`Http.send` is the hot path (status and bytes, nothing parsed), `Http.call` is for everybody else. Without an answer both raise
`UnreachableError`; for 4xx and 5xx `call` raises `ApiError`. On 401 the credentials are loaded anew, all connections are
made anew and the request is sent once more. `Http.insist` tries again; who writes brings
retries of his own (see `bindings`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, Final

import aiohttp
import orjson
from multidict import CIMultiDict
from prometheus_client import CollectorRegistry
from yarl import URL

from podwright import __version__
from podwright.core.framework.interface import ClusterError
from podwright.kube.client.answers import Answer, ApiError, UnreachableError, worth_retrying
from podwright.kube.client.credentials import ConfigError, Credentials, Headers, Source
from podwright.kube.client.metrics import NO_ANSWER, ClientMetrics, HostMetrics
from podwright.kube.client.wire import CONNECT_SECONDS, JSON, Wire

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""What to accept where only the metadata of listed objects counts."""
USER_AGENT: Final = f"podwright/{__version__}"
REQUEST_SECONDS: Final = 30.0
INSIST_TRIES: Final = 5
INSIST_PAUSES: Final = (0.05, 5.0)
"""Seconds between tries: the shortest, which doubles, and the longest."""
STREAM_BUFFER: Final = 1 << 18
"""Bytes read ahead of whoever reads a stream."""

log = logging.getLogger(__name__)

__all__ = ["JSON", "Answer", "ApiError", "Http", "UnreachableError", "new_session"]


class Http:
    """The holder of the session. Close it at the end."""

    def __init__(self, source: Source, metrics: ClientMetrics | None = None) -> None:
        self._source = source
        self._metrics = metrics or ClientMetrics(CollectorRegistry())
        self._link: _Link | None = None
        self._retired: list[_Link] = []
        self._closed = False
        self._began = False
        """There were credentials once."""

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float | None = None,
        accept: str = JSON,
    ) -> Answer:
        """Sends a request whose body is JSON already. `path` starts with a slash and is encoded. `timeout` in seconds.

        Raises UnreachableError, also where there are no credentials any more; ConfigError and OSError where there never were.
        """
        link = self._link
        if link is None or self._source.due:
            link = await self._open()
        seconds = REQUEST_SECONDS if timeout is None else timeout
        answer = await link.send(method, path, body, content_type, seconds, accept)
        if answer.status == 401:
            link = await self._refused(link)
            answer = await link.send(method, path, body, content_type, seconds, accept)
        return answer

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
        accept: str = JSON,
    ) -> Any:
        """Sends an object, returns the answer's JSON. Raises ApiError and UnreachableError."""
        data = None if body is None else orjson.dumps(body)
        target = f"{path}?{URL.build(query=dict(params)).raw_query_string}" if params else path
        return (await self.send(method, target, data, content_type, timeout, accept)).json()

    async def insist(
        self,
        method: str,
        path: str,
        body: object = None,
        params: Mapping[str, str] | None = None,
        accept: str = JSON,
    ) -> Any:
        """`call` for what does no harm when it is sent twice: a few tries while that may help. Raises as `call` does.

        Work of many requests would otherwise never end where one in ten of them fails.
        """
        shortest, longest = INSIST_PAUSES
        for failures in range(INSIST_TRIES - 1):
            try:
                return await self.call(method, path, body, params=params, accept=accept)
            except ClusterError as error:
                if not worth_retrying(error):
                    raise
                asked = 0.0 if _making_ready(error) else getattr(error, "retry_after", None) or 0.0
                await asyncio.sleep(min(longest, max(asked, shortest * 2**failures)))
        return await self.call(method, path, body, params=params, accept=accept)

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """A GET whose answer is read piece by piece, for as long as it takes.

        Raises ApiError if it is refused and UnreachableError if there is no answer; errors while reading are aiohttp's.
        """
        link = await self._open()
        url = URL(link.credentials.server + path, encoded=True).with_query(dict(params))
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                response = await link.session.get(
                    url, headers=link.headers, timeout=timeout, read_bufsize=STREAM_BUFFER
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            link.metrics.opened(NO_ANSWER)
            raise _unreachable(error) from error
        link.metrics.opened(response.status)
        try:
            if response.status == 401:
                await self._refused(link)
            if response.status >= 400:
                raise Answer(response.status, await response.read(), _retry_after(response)).error()
            yield response
        finally:
            response.close()

    async def close(self) -> None:
        """Closes all connections. Requests from now on raise UnreachableError."""
        self._closed = True
        for link in (*self._retired, *((self._link,) if self._link else ())):
            await link.close()
        self._retired.clear()
        self._link = None

    async def _open(self) -> _Link:
        try:
            credentials = await self._source.current()
        except (ConfigError, OSError) as error:
            if not self._began:
                raise  # nothing to wait for
            raise UnreachableError(f"no credentials: {error}") from error
        if self._closed:
            raise UnreachableError("the connection was closed")
        self._began = True
        link = self._link
        if link is not None and link.takes(credentials):
            return link
        new = self._link = _Link(credentials, self._metrics.of(URL(credentials.server).authority))
        if link is not None:
            await self._retire(link)
        return new

    async def _retire(self, link: _Link) -> None:
        """Streams and requests on its connections may end there, until the next one retires."""
        self._retired.append(link)
        while len(self._retired) > 1:
            await self._retired.pop(0).close()

    async def _refused(self, link: _Link) -> _Link:
        """Other credentials than those of `link`, whichever of many refused requests is the first to ask."""
        if self._link is link:
            log.info("the API server no longer accepts our credentials; loading them again")
            self._source.refused(link.credentials)
            self._link = None
            await self._retire(link)
        return await self._open()


class _Link:
    """The connections of one set of credentials."""

    def __init__(self, credentials: Credentials, metrics: HostMetrics) -> None:
        self.credentials = credentials
        self.metrics = metrics
        self.headers = CIMultiDict(credentials.headers)
        self.session = new_session(credentials)
        self._wire: Wire | None = None
        if credentials.proxy is None:
            self._wire = Wire(credentials.server, credentials.ssl_context, self._wire_headers())

    def _wire_headers(self) -> Headers:
        return (("User-Agent", USER_AGENT), *self.credentials.headers)

    def takes(self, credentials: Credentials) -> bool:
        """Whether these credentials can use the connections as they are; if so, they do from now on."""
        old = self.credentials
        if (old.server, old.proxy) != (credentials.server, credentials.proxy):
            return False
        if old.ssl_context is not credentials.ssl_context:
            return False
        if old.headers != credentials.headers:
            self.headers = CIMultiDict(credentials.headers)
        self.credentials = credentials
        if self._wire is not None:
            self._wire.use(self._wire_headers())
        return True

    async def send(
        self, method: str, path: str, body: bytes | None, content_type: str, timeout: float, accept: str
    ) -> Answer:
        started, status = perf_counter(), NO_ANSWER
        try:
            sent = self._ask if self._wire is None else self._wire.send
            answer = await sent(method, path, body, content_type, timeout, accept)
            status = answer.status
            return answer
        finally:
            self.metrics.answered(method, status, perf_counter() - started)

    async def _ask(
        self, method: str, path: str, body: bytes | None, content_type: str, timeout: float, accept: str
    ) -> Answer:
        """Over aiohttp, for what `wire` cannot: a proxy."""
        headers = self.headers.copy()
        headers["Accept"] = accept
        if body is not None:
            headers["Content-Type"] = content_type
        url = URL(self.credentials.server + path, encoded=True)
        limits = aiohttp.ClientTimeout(total=timeout)
        try:
            async with self.session.request(method, url, data=body, headers=headers, timeout=limits) as response:
                return Answer(response.status, await response.read(), _retry_after(response))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error) from error
        except RuntimeError as error:
            if self.session.closed:
                raise UnreachableError("the connection was closed") from error
            raise

    async def close(self) -> None:
        await self.session.close()
        if self._wire is not None:
            await self._wire.close()


def new_session(credentials: Credentials, *, authenticated: bool = False) -> aiohttp.ClientSession:
    """A session with the credentials' TLS context; it sends their headers by itself only if `authenticated`."""
    headers = CIMultiDict(credentials.headers if authenticated else ())
    headers.extend({"User-Agent": USER_AGENT, "Accept": JSON, "Accept-Encoding": "identity"})
    connector = aiohttp.TCPConnector(limit=0, ssl=credentials.ssl_context or False, keepalive_timeout=60)
    return aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        proxy=credentials.proxy,
        trust_env=False,
    )


def _unreachable(error: BaseException) -> UnreachableError:
    return UnreachableError(str(error) or type(error).__name__)


def _making_ready(error: ClusterError) -> bool:
    """The API server has to make its cache of a kind first, since nobody asked for it before: that takes some milliseconds.

    It asks for a second all the same, as it does when it has too much to do.
    """
    return getattr(error, "status", 0) == 429 and "initializing" in str(error)


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    if response.status < 400:
        return None
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdigit() else None
