"""One way to the API server: raw aiohttp and orjson, connections kept alive, credentials fresh.

`Http.send` is the hot path (status and bytes, nothing parsed), `Http.call` is for everybody else. Without an answer both raise
`UnreachableError`; for 4xx and 5xx `call` raises `ApiError`. On 401 the credentials are loaded anew, the session is made anew
and the request is sent once more. Whoever needs retries brings them (see `bindings`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import orjson
from multidict import CIMultiDict
from yarl import URL

from podwright import __version__
from podwright.core.framework.interface import ClusterError
from podwright.kube.credentials import Credentials, Source

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
USER_AGENT: Final = f"podwright/{__version__}"
REQUEST_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 10.0
STREAM_BUFFER: Final = 1 << 18
"""Bytes read ahead of whoever reads a stream."""

log = logging.getLogger(__name__)


class ApiError(ClusterError):
    """The API server refused. `reason` is the Status object's; `retry_after` in seconds, if it asked for a pause."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message or reason or f"HTTP {status}", status)
        self.reason = reason
        self.retry_after = retry_after


class UnreachableError(ClusterError):
    """No answer: a refused or broken connection, or a timeout. A request that was sent may have been carried out."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer as it came."""

    status: int
    body: bytes
    retry_after: float | None = None

    def json(self) -> Any:
        """The body, parsed. Raises ApiError for 4xx and 5xx."""
        if self.status >= 400:
            raise self.error()
        return orjson.loads(self.body)

    def error(self) -> ApiError:
        """What a 4xx or 5xx says."""
        try:
            said = orjson.loads(self.body)
            return ApiError(self.status, str(said.get("reason", "")), str(said.get("message", "")), self.retry_after)
        except (orjson.JSONDecodeError, AttributeError):
            text = self.body[:200].decode(errors="replace").strip()
            return ApiError(self.status, "", f"HTTP {self.status} {text}".strip(), self.retry_after)


class Http:
    """The holder of the session. Close it at the end."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._session: aiohttp.ClientSession | None = None
        self._retired: list[aiohttp.ClientSession] = []
        self._credentials: Credentials | None = None
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
        self._closed = False

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float | None = None,
    ) -> Answer:
        """Sends a request whose body is JSON already. `path` starts with a slash and is encoded. `timeout` in seconds.

        Raises UnreachableError, and ConfigError if no credentials can be had.
        """
        answer = await self._send(method, path, body, content_type, timeout)
        if answer.status == 401:
            await self._refused()
            answer = await self._send(method, path, body, content_type, timeout)
        return answer

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Sends an object, returns the answer's JSON. Raises ApiError and UnreachableError."""
        data = None if body is None else orjson.dumps(body)
        target = f"{path}?{URL.build(query=dict(params)).raw_query_string}" if params else path
        return (await self.send(method, target, data, content_type, timeout)).json()

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], silence: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A GET whose answer is read piece by piece. After `silence` seconds without a byte reading raises TimeoutError.

        Raises ApiError if it is refused and UnreachableError if there is no answer; errors while reading are aiohttp's.
        """
        session, credentials = await self._open()
        url = URL(credentials.server + path, encoded=True).with_query(dict(params))
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence)
        try:
            response = await session.get(url, headers=self._headers, timeout=timeout, read_bufsize=STREAM_BUFFER)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error) from error
        try:
            if response.status == 401:
                await self._refused()
            if response.status >= 400:
                raise Answer(response.status, await response.read(), _retry_after(response)).error()
            yield response
        finally:
            response.close()

    async def close(self) -> None:
        """Closes all connections. Requests from now on raise UnreachableError."""
        self._closed = True
        for session in (*self._retired, *((self._session,) if self._session else ())):
            await session.close()
        self._retired.clear()
        self._session = None

    async def _send(
        self, method: str, path: str, body: bytes | None, content_type: str, timeout: float | None
    ) -> Answer:
        session, credentials = await self._open()
        headers = self._headers
        if body is not None:
            headers = headers.copy()
            headers["Content-Type"] = content_type
        limits = self._timeout if timeout is None else aiohttp.ClientTimeout(total=timeout)
        try:
            async with session.request(
                method, URL(credentials.server + path, encoded=True), data=body, headers=headers, timeout=limits
            ) as response:
                return Answer(response.status, await response.read(), _retry_after(response))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error) from error
        except RuntimeError as error:
            if session.closed:
                raise UnreachableError("the connection was closed") from error
            raise

    async def _open(self) -> tuple[aiohttp.ClientSession, Credentials]:
        credentials = self._credentials
        if credentials is None or self._session is None or self._source.due:
            credentials = await self._renew()
        assert self._session is not None
        return self._session, credentials

    async def _renew(self) -> Credentials:
        credentials = await self._source.current()
        if self._closed:
            raise UnreachableError("the connection was closed")
        before = self._credentials
        if credentials is before and self._session is not None:
            return credentials
        same = before is not None and before.server == credentials.server and before.proxy == credentials.proxy
        if self._session is None or not same or before is None or before.ssl_context is not credentials.ssl_context:
            self._retire()
            self._session = new_session(credentials)
        self._credentials = credentials
        self._headers = CIMultiDict(credentials.headers)
        return credentials

    async def _refused(self) -> None:
        if self._credentials is not None:
            log.info("the API server no longer accepts our credentials; loading them again")
            self._source.refused(self._credentials)
            self._credentials = None
            self._retire()
            await self._renew()
            while len(self._retired) > 1:
                await self._retired.pop(0).close()

    def _retire(self) -> None:
        # Streams and requests that still run on the old session may end there; idle connections time out.
        if self._session is not None:
            self._retired.append(self._session)
            self._session = None


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


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    if response.status < 400:
        return None
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdigit() else None
