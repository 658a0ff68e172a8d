"""A listening port whose clients cannot use up the process: connections are bounded, and accepting them is paced.

When all connections are taken, a new one replaces the oldest of the peer that has most. So a peer with many open
connections keeps no other peer out. The same holds for the bytes of requests. asyncio's own servers have no such
limits, and log each of a hundred failures to accept with a traceback.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from aiohttp import web

from podwright.kube.serve.connections.connection import ClientLimits, Connection

log = logging.getLogger(__name__)

ACCEPTS: Final = 16
"""How many connections are accepted in each period."""
PERIOD_SECONDS: Final = 0.05
FAILED_PAUSE_SECONDS: Final = 0.5
"""The pause after a failure to accept, such as too many open files."""
LOG_SECONDS: Final = 60.0
"""The shortest time between two log lines about failures to accept."""
BACKLOG: Final = 256
"""How many connections the kernel keeps until they are accepted."""
_GONE: Final = (errno.ECONNABORTED, errno.EPROTO, errno.EPERM)
"""The client gave up, or a firewall refuses it: the next one may be accepted."""

Protocols = Callable[[], asyncio.Protocol]
Context = Callable[[str], ssl.SSLContext]
"""Returns the TLS context for a new connection to this local address."""
Dropped = Callable[[str], None]
"""Gets why a connection was dropped."""
Lasts = Callable[[web.Request, float], None]
LASTS: Final = web.AppKey[Lasts]("podwright_lasts")
"""Tells the port how many seconds the answer to a request may take."""


class Connections:
    """The open connections, in the order of their start, by peer."""

    def __init__(self) -> None:
        self._of: dict[str, dict[Connection, None]] = {}
        self.count = 0
        self.byte_count = 0
        """The bytes that the clients of the open connections have sent."""

    def add(self, connection: Connection) -> None:
        self._of.setdefault(connection.peer, {})[connection] = None
        self.count += 1

    def remove(self, connection: Connection) -> None:
        mine = self._of[connection.peer]
        del mine[connection]
        if not mine:
            del self._of[connection.peer]
        self.count -= 1
        self.byte_count -= connection.byte_count

    def all(self) -> list[Connection]:
        return [connection for mine in self._of.values() for connection in mine]

    def least_deserving(self) -> Connection:
        """The connection to drop if there are too many: of the peer with most connections, the oldest whose request has
        not arrived; if all have arrived, the oldest. There must be a connection.
        """
        return _oldest([*max(self._of.values(), key=len)])

    def greediest(self) -> Connection:
        """The connection to drop if there are too many bytes: as `least_deserving`, but of the peer that has sent most
        bytes, and among its connections that have sent any. There must be one.
        """
        mine = max(self._of.values(), key=lambda mine: sum(each.byte_count for each in mine))
        return _oldest([connection for connection in mine if connection.byte_count])


def _oldest(connections: Sequence[Connection]) -> Connection:
    """The first whose request has not arrived; if all have, the first."""
    return next((connection for connection in connections if not connection.answering), connections[0])


class Listener:
    """One port. `open` and `close` run in the loop that serves it."""

    def __init__(
        self,
        http: Protocols,
        limits: ClientLimits,
        *,
        context: Context | None = None,
        dropped: Dropped = lambda _reason: None,
    ) -> None:
        """`http` makes the protocol of a new connection. `context`: None for plain HTTP."""
        self._http = http
        self._limits = limits
        self._context = context
        self._dropped = dropped
        self._socket: socket.socket | None = None
        self._open = Connections()
        self._resume: asyncio.TimerHandle | None = None
        self._by_http: dict[asyncio.BaseProtocol, Connection] = {}
        self._period_ends = float("-inf")
        self._room = 0
        """How many more connections may be accepted in this period."""
        self._failures = 0
        self._logged = float("-inf")

    @property
    def port(self) -> int:
        """The port, once it is open."""
        assert self._socket is not None
        return int(self._socket.getsockname()[1])

    @property
    def connection_count(self) -> int:
        return self._open.count

    def open(self, host: str, port: int, *, shared: bool = False) -> None:
        """Listens: on all addresses if `host` is empty, on a free port if `port` is 0. Raises OSError.

        `shared`: other processes that also set this may listen on the same port.
        """
        self._socket = _listening(host, port, shared=shared)
        self._socket.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Stops listening and drops all connections."""
        if self._resume is not None:
            self._resume.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
        for connection in self._open.all():
            connection.drop("")

    def request_arrived(self, http: asyncio.BaseProtocol) -> None:
        """The head of a request has arrived at this protocol."""
        connection = self._by_http.get(http)
        if connection is not None:
            connection.request_arrived()

    def lasts(self, http: asyncio.BaseProtocol, seconds: float) -> None:
        """The answer of this protocol may take this many seconds: see `Connection.lasts`."""
        connection = self._by_http.get(http)
        if connection is not None:
            connection.lasts(seconds)

    def _listen(self) -> None:
        assert self._socket is not None
        asyncio.get_running_loop().add_reader(self._socket, self._accept_some)

    def _pause(self, seconds: float) -> None:
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        self._resume = loop.call_later(seconds, self._listen)

    def _accept_some(self) -> None:
        assert self._socket is not None
        now = asyncio.get_running_loop().time()
        if now >= self._period_ends:
            self._period_ends, self._room = now + PERIOD_SECONDS, ACCEPTS
        while self._room:
            try:
                client, address = accept(self._socket)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _GONE:
                    continue
                self._failed(error)
                return
            self._room -= 1
            self._start(client, str(address[0]))
        self._pause(self._period_ends - now)

    def _failed(self, error: OSError) -> None:
        """Drops a connection, because most likely file descriptors are used up, and waits."""
        self._failures += 1
        now = time.monotonic()
        if now >= self._logged + LOG_SECONDS:
            log.error("cannot accept connections of health checks: %s (%d times)", error.strerror, self._failures)
            self._logged, self._failures = now, 0
        if self._open.count:
            self._open.least_deserving().drop("descriptors")
        self._pause(FAILED_PAUSE_SECONDS)

    def _start(self, client: socket.socket, peer: str) -> None:
        client.setblocking(False)
        if self._open.count >= self._limits.connections:
            self._open.least_deserving().drop("connections")
        http = self._http()
        connection = Connection(peer, http=http, limits=self._limits, received=self._received, ended=self._ended)
        self._open.add(connection)
        self._by_http[http] = connection
        opening = asyncio.create_task(self._connect(client, connection))
        # If the task is cancelled before its first step, no code owns the socket.
        opening.add_done_callback(lambda task: client.close() if task.cancelled() else None)
        connection.opens_with(opening)

    async def _connect(self, client: socket.socket, connection: Connection) -> None:
        connect = asyncio.get_running_loop().connect_accepted_socket
        if self._context is None:
            await connect(lambda: connection, client)
            return
        seconds = self._limits.head_seconds
        await connect(
            lambda: connection,
            client,
            ssl=self._context(str(client.getsockname()[0])),
            ssl_handshake_timeout=seconds,
            ssl_shutdown_timeout=seconds,
        )

    def _received(self, size: int) -> None:
        self._open.byte_count += size
        while self._open.byte_count > self._limits.connections * self._limits.mean_bytes:
            self._open.greediest().drop("size")

    def _ended(self, connection: Connection, limit: str) -> None:
        self._open.remove(connection)
        del self._by_http[connection.http]
        if limit:
            self._dropped(limit)


def accept(listening: socket.socket) -> tuple[socket.socket, tuple[str, int]]:
    """The next client and its address. Raises OSError, BlockingIOError if nobody waits."""
    client, address = listening.accept()
    return client, address


def _listening(host: str, port: int, *, shared: bool) -> socket.socket:
    create = partial(socket.create_server, backlog=BACKLOG, reuse_port=shared)
    if host in ("", "0.0.0.0", "::"):  # noqa: S104 -- asked for
        if socket.has_dualstack_ipv6():
            return create(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return create(("", port))
    ((family, _, _, _, address), *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return create(address[:2], family=family)
