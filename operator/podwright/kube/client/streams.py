"""Streams from the API server, and short requests through an HTTP proxy, over aiohttp. Only `http` uses `Streams`.

aiohttp takes long to import, so `http` imports this module when it is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from podwright.kube.client.answers import Answer, retry_after_seconds
from podwright.kube.client.credentials.credentials import Credentials
from podwright.kube.client.errors import TooLongError, UnreachableError
from podwright.kube.client.media_types import JSON
from podwright.kube.client.metrics import NO_ANSWER
from podwright.kube.client.response import BODY_LIMIT
from podwright.kube.client.wire import CONNECT_SECONDS, REQUEST_SECONDS, USER_AGENT

STREAM_BUFFER: Final = 1 << 18
"""How many bytes of a stream are buffered before its reader takes them."""

ERROR_BYTES: Final = 1 << 16
"""How much of a refused stream's body is read."""


class Streams:
    """The connections of credentials with one server and one TLS context."""

    def __init__(self, credentials: Credentials) -> None:
        self._session = new_session(credentials)

    @asynccontextmanager
    async def open(
        self, credentials: Credentials, target: str, opened: Callable[[int], None]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A GET whose response is read piece by piece. `opened` gets its status, or NO_ANSWER.

        Raises UnreachableError without a response, and if reading it fails.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                response = await self._session.get(
                    _url(credentials, target),
                    headers=CIMultiDict(credentials.headers),
                    timeout=timeout,
                    read_bufsize=STREAM_BUFFER,
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            opened(NO_ANSWER)
            raise _unreachable(error) from error
        opened(response.status)
        try:
            yield response
        except aiohttp.ClientError as error:
            raise _unreachable(error) from error
        finally:
            response.close()

    @staticmethod
    async def refusal(response: aiohttp.ClientResponse) -> Answer:
        """The answer instead of a stream, with the beginning of its body, which is only to be logged."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                body = await response.content.read(ERROR_BYTES)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error) from error
        return Answer(response.status, body, _retry_after(response))

    async def send(
        self,
        credentials: Credentials,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str,
        timeout: float,
        accept: str,
    ) -> Answer:
        """A short request through the proxy. See `ConnectionPool.send`."""
        headers = CIMultiDict(credentials.headers)
        headers["Accept"] = accept
        if body is not None:
            headers["Content-Type"] = content_type
        url = _url(credentials, path)
        asked = self._session.request(method, url, data=body, headers=headers, allow_redirects=False)
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

    async def close(self) -> None:
        await self._session.close()


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


def _url(credentials: Credentials, target: str) -> URL:
    return URL(credentials.server.rstrip("/") + target, encoded=True)


def _unreachable(error: BaseException) -> UnreachableError:
    return UnreachableError(str(error) or type(error).__name__)


async def _hide_urls(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """A refusal by a proxy, and a malformed response, as an error without the URL: that of a proxy may contain a
    password.

    aiohttp must not see the type of the error if a connection ends without a response: it would send a PUT or DELETE
    again.
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
