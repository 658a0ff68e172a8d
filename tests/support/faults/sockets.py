"""The sockets of a client that must all be closed when it ends, also those whose TLS handshake or shutdown nobody
answers.
"""

from __future__ import annotations

import asyncio
import socket
import weakref
from contextlib import suppress

from aiohttp import AddrInfoType

_OPEN = 5.0
"""Seconds until the transports have closed their sockets."""


class Sockets:
    """A socket factory for `aiohttp.TCPConnector`, which knows its open sockets."""

    def __init__(self) -> None:
        self._made: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def __call__(self, address: AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._made.add(made)
        return made

    def open(self) -> list[socket.socket]:
        return [one for one in self._made if one.fileno() != -1]

    async def close(self) -> None:
        """Ends the connections, and returns when their transports have closed them. Raises TimeoutError if they do not.

        A transport whose request was cancelled waits for its peer for up to 30 s. It sees the end of the connection at
        once.
        """
        async with asyncio.timeout(_OPEN):
            while remaining := self.open():
                for one in remaining:
                    with suppress(OSError):  # not connected yet, or no longer
                        one.shutdown(socket.SHUT_RDWR)
                await asyncio.sleep(0.01)
