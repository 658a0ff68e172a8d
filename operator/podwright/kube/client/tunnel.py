"""The way through an HTTP proxy: a CONNECT tunnel to a server with TLS, and nothing but the connection to the proxy for one without."""

from __future__ import annotations

import asyncio
import base64
import ssl
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

from podwright.kube.client.answers import Answer
from podwright.kube.client.errors import UnreachableError
from podwright.kube.client.response import ResponseError, ResponseReader

HANDSHAKE_SECONDS: Final = 10.0
_PORTS: Final = {"http": 80, "https": 443}

Target = tuple[ssl.SSLContext, str, int]
"""The TLS context, the host and the port of a server."""


class Proxy:
    """An HTTP proxy. Its user and password go to the proxy only."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host = parts.hostname or ""
        self.port = parts.port or _PORTS[parts.scheme]
        self._secure = parts.scheme == "https"
        self.headers: tuple[tuple[str, str], ...] = ()
        """What authenticates us to the proxy."""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.headers = (("Proxy-Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"),)

    async def connect(
        self, address: str, protocol: asyncio.BaseProtocol, target: Target | None
    ) -> asyncio.BaseTransport:
        """The transport of a connection over the proxy's address, for a protocol that does not have it yet.

        Raises OSError, ssl.SSLError, and UnreachableError if the proxy refuses.
        """
        loop = asyncio.get_running_loop()
        tunnel = _Tunnel()
        secure: dict[str, Any] = {}
        if self._secure:
            # As in Go, the authority of the server is that of the proxy too.
            context = ssl.create_default_context() if target is None else target[0]
            secure = {"ssl": context, "server_hostname": self.host, "ssl_handshake_timeout": HANDSHAKE_SECONDS}
        transport: asyncio.BaseTransport
        transport, _ = await loop.create_connection(lambda: tunnel, address, self.port, **secure)
        try:
            if target is None:
                transport.set_protocol(protocol)
                return transport
            context, host, port = target
            await tunnel.open(host, port, self.headers)
            started = await loop.start_tls(
                transport, protocol, context, server_hostname=host, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
            assert started is not None
        except BaseException:
            transport.close()
            raise
        return started


class _Tunnel(asyncio.Protocol):
    """Sends a CONNECT and waits for its answer."""

    def __init__(self) -> None:
        self._reader = ResponseReader(tunnel=True)
        self._waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    async def open(self, host: str, port: int, headers: tuple[tuple[str, str], ...]) -> None:
        assert self._transport is not None
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [
            f"CONNECT {authority} HTTP/1.1",
            f"Host: {authority}",
            *(f"{name}: {value}" for name, value in headers),
        ]
        self._transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        answer = await self._waiter
        if answer.status >= 300 or not self._reader.keep:
            raise UnreachableError(f"the proxy does not connect us to {authority}: HTTP {answer.status}")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._waiter.done():
            return
        try:
            answer = self._reader.feed(data)
        except ResponseError as error:
            self._waiter.set_exception(UnreachableError(f"the proxy sent no valid response: {error}"))
            return
        if answer is not None:
            self._waiter.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._waiter.done():
            self._waiter.set_exception(
                UnreachableError(f"the connection to the proxy was lost: {error or 'it was closed'}")
            )
