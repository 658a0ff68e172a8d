"""HTTP/1.1 for short requests, reduced to the minimum: one write, one parse (`response`), connections kept alive.

A Binding and its event cost 60 µs of CPU each with this module and 175 µs with aiohttp, which is most of a pod's cost
outside its decision (docs/adr/0005 has the figures). Streams, and requests through a proxy, use aiohttp: see `http`.

Invariant: one request at a time on a connection, and nothing but a GET is sent twice. The oldest idle connection is
used next. So connections opened in a burst expire together, which avoids heap fragmentation.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final
from urllib.parse import quote, urlsplit

from podwright import __version__
from podwright.kube.client.answers import Answer
from podwright.kube.client.errors import TooLongError, UnreachableError
from podwright.kube.client.media_types import JSON
from podwright.kube.client.response import ResponseError, ResponseReader, ResponseTooLongError
from podwright.kube.deadline import LoopDeadline

USER_AGENT: Final = f"podwright/{__version__}"
REQUEST_SECONDS: Final = 30.0
_SAFE_IN_PATHS: Final = "%/:@!$&'()*+,;="
"""Characters of a path that are sent as they are."""
CONNECT_SECONDS: Final = 10.0
ADDRESS_SECONDS: Final = 3.0
"""How long one of several addresses of the host may take before the next is tried."""
IDLE_SECONDS: Final = 45.0
"""A connection that was idle for longer is closed, not used again: the server may be about to close it."""
KEPT_WARM: Final = 8
"""How many idle connections are kept for IDLE_SECONDS."""
SURPLUS_SECONDS: Final = 10.0
"""When other idle connections, left by a burst, are closed: each holds buffers."""
MAX_IDLE: Final = 512
"""As many as Bindings in progress: making a connection costs more CPU than all other work for a pod."""


BeforeWrite = Callable[[str], None]
"""Gets the path of a request. Raises to prevent it."""


def host_and_port(server: str) -> str:
    """Host and port as in the server's URL, without a user."""
    return urlsplit(server).netloc.rpartition("@")[2]


class ConnectionPool:
    """Connections to one server. `headers` are sent with every request."""

    def __init__(
        self,
        server: str,
        context: ssl.SSLContext | None,
        headers: tuple[tuple[str, str], ...],
        *,
        before_write: BeforeWrite | None = None,
    ) -> None:
        """`before_write` is called right before a request is sent that is not a GET."""
        url = urlsplit(server)
        self._host = url.hostname or ""
        self._port = url.port or (80 if context is None else 443)
        self._authority = host_and_port(server)
        self._prefix = quote(url.path, safe=_SAFE_IN_PATHS).rstrip("/")
        self._context = context
        self._before_write = before_write
        self._idle: list[tuple[int, _Connection]] = []
        """A heap of connections by number, so oldest first."""
        self._open: set[_Connection] = set()
        self._numbers = count()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False
        self._last_address = ""
        """The address that answered last."""
        self._head = b""
        self.set_headers(headers)

    def set_headers(self, headers: tuple[tuple[str, str], ...]) -> None:
        """Sends these headers from the next request on. Raises ValueError for a header with a line break."""
        lines = [f"Host: {self._authority}", *(f"{name}: {value}" for name, value in headers)]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header contains a line break")
        self._head = ("\r\n".join(lines) + "\r\n").encode()

    async def send(
        self, method: str, path: str, body: bytes | None, content_type: str, timeout: float, accept: str = JSON
    ) -> Answer:
        """Sends a request and returns the response. `timeout` in seconds, for both. Raises UnreachableError.

        A GET is sent again, once, if its connection was used before and ended without a response: the server may just
        have closed it. Other requests may have been carried out, so their callers find out.
        """
        start = f"{method} {self._prefix}{path} HTTP/1.1\r\nAccept: {accept}\r\n".encode()
        if body is None:
            request = b"".join((start, self._head, b"\r\n"))
        else:
            about = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            request = b"".join((start, self._head, about, body))
        connection = self._pop_idle()
        if connection is None:
            connection = await self._connect()
        elif method == "GET":
            try:
                return await connection.send(request, timeout)
            except StaleConnectionError:
                connection = await self._connect()
        if self._before_write is not None and method != "GET":
            try:
                self._before_write(path)
            except BaseException:
                connection.close()
                raise
        return await connection.send(request, timeout)

    def abort(self) -> None:
        """Closes all connections at once. Requests that are under way raise UnreachableError."""
        for connection in tuple(self._open):
            connection.abort()

    async def close(self) -> None:
        """Closes idle connections now, and the others after their response."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in tuple(self._open):
            if not connection.busy:
                connection.abort()  # in TLS, `close` would wait for the server's end
        self._idle.clear()
        await asyncio.sleep(0)

    def _pop_idle(self) -> _Connection | None:
        since = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle:
            connection = heappop(self._idle)[1]
            if connection.open and connection.used_at >= since:
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        if self._closed:
            raise UnreachableError("the connection was closed")
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._dial()
        except TimeoutError:
            raise UnreachableError(f"no connection to {self._authority} after {CONNECT_SECONDS:g} s") from None
        except (OSError, ssl.SSLError) as error:
            raise UnreachableError(str(error) or type(error).__name__) from error

    async def _dial(self) -> _Connection:
        """Tries the addresses of the host in turn, first the one that answered last. Raises OSError and
        ssl.SSLError.
        """
        found = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        addresses = dict.fromkeys(str(info[4][0]) for info in found)
        *others, last = sorted(addresses, key=lambda address: address != self._last_address)
        for address in others:
            with contextlib.suppress(OSError):
                return await self._dial_address(address, ADDRESS_SECONDS)
        return await self._dial_address(last, CONNECT_SECONDS)

    async def _dial_address(self, address: str, seconds: float) -> _Connection:
        """A connection to one address. Raises OSError and its subclasses TimeoutError and ssl.SSLError."""
        loop = asyncio.get_running_loop()
        connection = _Connection(self, next(self._numbers))
        async with asyncio.timeout(seconds):
            secure = {} if self._context is None else _secure(self._context, self._host)
            await loop.create_connection(lambda: connection, address, self._port, **secure)
        self._last_address = address
        return connection

    def release(self, connection: _Connection) -> None:
        """Takes back a connection whose response is complete."""
        if self._closed or len(self._idle) >= MAX_IDLE:
            connection.close()
            return
        heappush(self._idle, (connection.number, connection))
        if self._sweeper is None:
            self._sweep_later()

    def opened(self, connection: _Connection) -> None:
        """Takes note of a new connection."""
        self._open.add(connection)

    def discard(self, connection: _Connection) -> None:
        """Removes a connection that was closed."""
        self._open.discard(connection)
        entry = (connection.number, connection)
        if not self._closed and entry in self._idle:
            self._idle.remove(entry)
            heapify(self._idle)

    def _sweep(self) -> None:
        """Closes connections that have been idle for long: a burst leaves many behind."""
        self._sweeper = None
        now = asyncio.get_running_loop().time()
        idle, self._idle = sorted(self._idle), []
        for place, entry in enumerate(idle):
            connection = entry[1]
            if connection.used_at > now - (IDLE_SECONDS if place < KEPT_WARM else SURPLUS_SECONDS):
                self._idle.append(entry)  # in order, so it stays a heap
            else:
                connection.close()
        if self._idle:
            self._sweep_later()

    def _sweep_later(self) -> None:
        self._sweeper = asyncio.get_running_loop().call_later(min(SURPLUS_SECONDS, IDLE_SECONDS), self._sweep)


def _secure(context: ssl.SSLContext, host: str) -> dict[str, Any]:
    limits = {"ssl_handshake_timeout": CONNECT_SECONDS, "ssl_shutdown_timeout": 1.0}
    return {"ssl": context, "server_hostname": host, **limits}


class StaleConnectionError(UnreachableError):
    """The connection ended before any part of the response came."""


class _Connection(asyncio.Protocol):
    """One connection: writes a request, and passes arriving bytes to the reader until the response is complete."""

    def __init__(self, pool: ConnectionPool, number: int) -> None:
        self._pool = pool
        self.number = number
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self._reader = ResponseReader()
        self._ended = False
        """True if the server has ended the connection in order. Bytes may be missing from a connection that was lost
        otherwise.
        """
        self.open = False
        self.used_at = self._loop.time()
        self._seconds = 0.0
        """How long the current response may take."""
        self._late: LoopDeadline | None = None
        """From the time at which the connection is made until it is lost."""

    async def send(self, request: bytes, timeout: float) -> Answer:
        assert self._transport is not None
        assert self._late is not None
        assert self._waiter is None
        waiter: asyncio.Future[Answer] = self._loop.create_future()
        self._waiter = waiter
        self._seconds = timeout
        self._late.set(timeout)
        self._transport.write(request)
        try:
            return await waiter
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            if self._late is not None:
                self._late.suspend()

    @property
    def busy(self) -> bool:
        """True if a response is awaited."""
        return self._waiter is not None

    def close(self) -> None:
        self.open = False
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Closes it without sending what is still in its buffer."""
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._late = LoopDeadline(self._time_out)
        self.open = True
        self._pool.opened(self)

    def eof_received(self) -> None:
        self._ended = True

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        if self._late is not None:
            self._late.cancel()
            self._late = None  # it refers to this object, and the garbage collector should not have to find the cycle
        self._pool.discard(self)
        if self._waiter is None:
            self._reader.close()
        elif not self._reader.started:
            text = f"the connection was lost: {error}" if error else "the connection was lost"
            self._fail(text, StaleConnectionError)
        elif not self._ended:
            self._fail(f"the connection was lost within a response: {error or 'it was cut'}")
        else:
            try:
                self._finish(self._reader.end())
            except ResponseError as problem:
                self._fail(str(problem))
            self._reader.close()

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            self.close()  # not a response to a request of ours, or to one that was given up
            return
        try:
            answer = self._reader.feed(data)
        except ResponseTooLongError as error:
            self._fail(str(error), TooLongError)
            return
        except ResponseError as error:
            self._fail(f"not a valid response: {error}")
            return
        if answer is not None:
            self._finish(answer)

    def _finish(self, answer: Answer) -> None:
        waiter, self._waiter = self._waiter, None
        self.used_at = self._loop.time()
        if self._reader.keep and self.open:
            self._pool.release(self)
        else:
            self.close()
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def _time_out(self) -> None:
        self._fail(f"no answer after {self._seconds:g} s")

    def _fail(self, problem: str, kind: type[UnreachableError] = UnreachableError) -> None:
        waiter, self._waiter = self._waiter, None
        self.close()
        self._reader.close()
        if waiter is not None and not waiter.done():
            waiter.set_exception(kind(problem))
