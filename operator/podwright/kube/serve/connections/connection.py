"""One connection of a client: its limits in time, and the HTTP protocol that it carries.

Unless its limits say otherwise, a connection serves one request, so that the pace of accepting connections bounds the
pace of requests too. It ends when a limit is reached, however the client behaves: the handshake and the head of the
request must arrive in time and be short, the client must read its answer, and all of it must end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.kube.deadline import LoopDeadline

DROPPED: Final = ("connections", "descriptors", "handshake", "head", "size", "stall", "total")
"""Why connections are dropped: the label `reason`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """The limits for clients of one port: connections, bytes and seconds."""

    connections: int
    """How many are open at once."""
    request_bytes: int = 32 * 1024
    """The most that a client may send on one connection. Most of it is a token, which can have some 10 KB."""
    mean_bytes: int = 16 * 1024
    """`connections` times this is what all clients together may have sent on the connections that are open. A peer that
    has sent less than this never loses a connection because of others."""
    head_seconds: float = 10.0
    """How long the TLS handshake and the head of the request may take together."""
    stall_seconds: float = 10.0
    """How long a client may leave its answer unread."""
    total_seconds: float = 60.0
    """How long all of it may take, until the answer is sent. With `idle_seconds`, from the arrival of the last request.
    """
    idle_seconds: float = 0.0
    """How long a connection waits for its next request; 0: it serves only one. Then the first three limits of bytes and
    seconds are for all requests of a connection, or for the first."""

    @property
    def keep_alive(self) -> bool:
        """True if a connection serves several requests."""
        return self.idle_seconds > 0


Received = Callable[[int], None]
"""Gets the number of new bytes."""
Ended = Callable[["Connection", str], None]
"""Gets the limit that was reached, "" if none was."""


class Connection(asyncio.Protocol):
    """See the module. Passes everything on to `http`. `ended` is called once, when the connection ends."""

    def __init__(
        self, peer: str, *, http: asyncio.Protocol, limits: ClientLimits, received: Received, ended: Ended
    ) -> None:
        """`received` is called before `http` gets more bytes, and may drop this connection or others."""
        self.peer = peer
        self.byte_count = 0
        """How many bytes the client has sent for `http`."""
        self.answering = False
        """True if the head of the request has arrived."""
        self.http = http
        self._limits = limits
        self._received = received
        self._ended = ended
        self._opening: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        loop = asyncio.get_running_loop()
        self._total = LoopDeadline(partial(self.drop, "total"))
        self._total.set(limits.total_seconds)
        self._waits = loop.call_later(limits.head_seconds, self.drop, "head")
        self._over = False

    def opens_with(self, opening: asyncio.Task[None]) -> None:
        """The task of the TLS handshake, which is cancelled if the connection ends before."""
        self._opening = opening
        opening.add_done_callback(self._opened)

    def _opened(self, opening: asyncio.Task[None]) -> None:
        if opening.cancelled() or opening.exception() is not None:
            self._end("" if opening.cancelled() else "handshake")

    def request_arrived(self) -> None:
        """The head of a request is complete."""
        self.answering = True
        self._waits.cancel()
        if self._limits.keep_alive and not self._over:
            self._total.set(self._limits.total_seconds)

    def lasts(self, seconds: float) -> None:
        """The answer to the current request may take this many seconds, instead of `ClientLimits.total_seconds`."""
        if not self._over:
            self._total.set(seconds)

    def drop(self, limit: str) -> None:
        """Ends the connection at once, because of this limit."""
        self._end(limit)
        if self._transport is not None:
            self._transport.abort()
        elif self._opening is not None:
            self._opening.cancel()

    def _end(self, limit: str) -> None:
        if not self._over:
            self._over = True
            self._total.cancel()
            self._waits.cancel()
            self._ended(self, limit)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.http.connection_made(transport)
        if self._over:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end("")
        self.http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Counts the bytes first: `http` keeps what it gets, and needs up to three times as much memory."""
        if self._over:
            return
        if self.byte_count + len(data) > self._limits.request_bytes:
            self._receive_no_more()
            return
        self.byte_count += len(data)
        self._received(len(data))
        if not self._over:
            self.http.data_received(data)

    def _receive_no_more(self) -> None:
        if self.answering and self._transport is not None:
            self._transport.pause_reading()  # it is a body that no handler reads
        else:
            self.drop("size")

    def eof_received(self) -> bool | None:
        return self.http.eof_received()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._waits.cancel()
        if not self._over:
            self._waits = asyncio.get_running_loop().call_later(self._limits.stall_seconds, self.drop, "stall")
        self.http.pause_writing()

    def resume_writing(self) -> None:
        self._waits.cancel()
        self.http.resume_writing()
