"""Sources: they give the bodies of answers piece by piece, from Prometheus over HTTP, or from the API server."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from podwright.api.configuration.signals import Prometheus
from podwright.engine.process.side_thread import NoAnswerError, SideThread
from podwright.kube.bounded_files import read_at_most
from podwright.kube.client.credentials.tls import tls_context
from podwright.kube.client.errors import ConfigError
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import JSON
from podwright.kube.client.wire import USER_AGENT
from podwright.kube.kinds import NODE_METRICS

if TYPE_CHECKING:
    import aiohttp

CHUNK: Final = 1 << 13
"""Bytes that are read at once, which takes a few milliseconds at most."""
MAX_ERROR: Final = 1 << 14
"""Bytes of a refusal that are read."""
_OK: Final = 200


class SourceError(Exception):
    """A source gives no answer. The message says why, in a bounded length."""


class SignalSource(Protocol):
    """A source. `path`: the keys that lead to the list of entries."""

    path: Sequence[str]

    def answer(self) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The body of the answer in pieces. Raises SourceError, ClusterError, ConfigError and OSError."""

    async def close(self) -> None:
        """Closes its connections."""


class PrometheusSource:
    """An instant query. See docs/signals.md."""

    path: Sequence[str] = ("data", "result")

    def __init__(self, settings: Prometheus, proxy: str | None) -> None:
        """`proxy`: the URL of the proxy that leads to it."""
        self._settings = settings
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None
        self._url = f"{settings.url.rstrip('/')}/api/v1/query"
        self._reader = SideThread("podwright signal files", most_left=1)
        """Reads the files of the token and the certificates, which may be on a file system that does not answer."""

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def answer(self) -> AsyncIterator[AsyncIterator[bytes]]:
        import aiohttp  # noqa: PLC0415 -- takes long, and few have sources

        headers = {"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": USER_AGENT}
        try:
            authorization, context = await self._reader.call(lambda: (self._authorization(), self._context()))
        except NoAnswerError as error:
            raise SourceError("bearerTokenFile and caFile: an earlier attempt to read them has not ended") from error
        headers |= authorization
        if self._session is None:
            cookies = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(cookie_jar=cookies, trust_env=False, auto_decompress=False)
        try:
            async with self._session.get(
                self._url,
                params={"query": self._settings.query},
                headers=headers,
                ssl=context,
                proxy=self._proxy,
                allow_redirects=False,
            ) as response:
                if response.status != _OK:
                    raise SourceError(f"HTTP {response.status}: {_refusal(await response.content.read(MAX_ERROR))}")
                yield checked(response)
        except aiohttp.ClientResponseError as error:
            # Not the URL, which may be that of a proxy with a password.
            raise SourceError(f"HTTP {error.status} {error.message}") from error
        except aiohttp.ClientError as error:
            raise SourceError(str(error) or type(error).__name__) from error

    def _authorization(self) -> dict[str, str]:
        """The token is read again for each question, because it may be replaced at any time. Raises ConfigError."""
        file = self._settings.bearer_token_file
        if not file:
            return {}
        token = _content(file, "bearerTokenFile").strip()
        if not token or not token.isascii() or not token.isprintable():
            raise ConfigError(f"bearerTokenFile: {file}: is no token")
        return {"Authorization": f"Bearer {token}"}

    def _context(self) -> ssl.SSLContext | bool:
        file = self._settings.ca_file
        if not file:
            return True
        authority = _content(file, "caFile")
        return tls_context(
            authority, None, None, where=("", ""), fields=("caFile", "")
        )  # the same one as long as the file is the same


class MetricsApiSource:
    """The list of NodeMetrics, with the operator's own rights."""

    path: Sequence[str] = ("items",)

    def __init__(self, http: Http) -> None:
        self._http = http

    async def close(self) -> None:
        """Uses the connections of the API client."""

    @asynccontextmanager
    async def answer(self) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._http.stream(NODE_METRICS.collection, {}) as response:
            yield checked(response)


def checked(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The body of an answer in JSON. Raises SourceError for any other one."""
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise SourceError(f"the answer is compressed ({encoding:.20}), which was not asked for")
    if response.content_type != JSON:
        raise SourceError(f"the answer is {response.content_type:.80}, not {JSON}")
    return response.content.iter_chunked(CHUNK)


def _content(file: str, where: str) -> str:
    try:
        return read_at_most(Path(file)).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"{where}: {file}: {error.strerror}") from error


def _refusal(body: bytes) -> str:
    """Returns Prometheus's message about a query that it refuses."""
    try:
        found: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    text = found.get("error") if isinstance(found, dict) else None
    return text if isinstance(text, str) else body[:200].decode("utf-8", "replace")
