"""The ports of the server of health and metrics. Each is a `Listener`, which bounds what clients can use, and an
application of aiohttp with a gate and the common endpoints.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from podwright.kube.descriptors import descriptor_limit
from podwright.kube.options.options import Options
from podwright.kube.serve.access.delegation import AccessDelegation
from podwright.kube.serve.access.gates import AccessGate, LoopbackGate
from podwright.kube.serve.connections.connection import ClientLimits
from podwright.kube.serve.content import Content
from podwright.kube.serve.endpoints import Endpoints
from podwright.kube.serve.event_loops import SchedulerLoop
from podwright.kube.serve.port import Address, Port, open_port, written

if TYPE_CHECKING:
    from podwright.kube.serve.tls.secure_port import Tls

log = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 256
"""On each port."""
SHARE_OF_DESCRIPTORS: Final = 8
"""A port's clients get at most this part of the file descriptors. The rest is for the API client."""


class Ports:
    """See the module. Methods are called in the server's thread; other threads may read the properties."""

    def __init__(
        self,
        content: Content,
        loop: SchedulerLoop,
        *,
        options: Options,
        delegation: AccessDelegation,
        limits: ClientLimits | None,
        count_dropped: Callable[[str], None],
        count_reload: Callable[[str], None],
    ) -> None:
        """`limits`: see `Server`."""
        self._loop = loop
        self._options = options
        self._delegation = delegation
        self._limits = limits or default_limits(descriptor_limit())
        self._count_dropped = count_dropped
        self._count_reload = count_reload
        self._endpoints = Endpoints(content, loop)
        self._tls: Tls | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._open: list[Port] = []

    @property
    def numbers(self) -> list[int]:
        """The ports that are open: the one of plain HTTP first."""
        return [port.number for port in self._open]

    @property
    def connection_count(self) -> int:
        return sum(port.connection_count for port in self._open)

    @property
    def viewers(self) -> int | None:
        """How many people look at the page; None if it is not served."""
        return self._endpoints.viewers

    @property
    def expires(self) -> float | None:
        """When the certificate of HTTPS expires, in seconds since the epoch; None without HTTPS."""
        return None if self._tls is None else self._tls.expires

    async def open(self) -> None:
        """Listens where the options say. Raises OSError and ConfigError, which name the option."""
        options = self._options
        self._tasks.append(asyncio.create_task(self._loop.beat_for_ever()))
        if options.health_address is not None:
            await self._add(LoopbackGate(), Address("--health-address", *options.health_address))
        if options.secure_port:
            from podwright.kube.serve.access.delegated_gate import DelegatedGate  # noqa: PLC0415 -- slow to import
            from podwright.kube.serve.tls.secure_port import Tls  # noqa: PLC0415 -- likewise

            tls = self._tls = Tls(options, self._delegation, loop=self._loop, reloaded=self._count_reload)
            gate = DelegatedGate(
                self._delegation, options, issuers=lambda: tls.issuers, loop=self._loop, clock=time.monotonic
            )
            where = (options.bind_address, options.secure_port)
            await self._add(gate, Address("--secure-port", *where, tls.context, shared=options.permit_port_sharing))
            self._tasks.append(asyncio.create_task(tls.run()))

    async def require_authentication(self) -> None:
        """See `Server`."""
        if self._tls is not None:
            await self._tls.require()

    async def _add(self, gate: AccessGate, address: Address) -> None:
        port = await open_port(self._endpoints.routes(), gate, address, self._limits, self._count_dropped)
        self._open.append(port)
        scheme = "http" if address.context is None else "https"
        log.info("serving health and metrics on %s://%s", scheme, written(address.host, port.number))

    async def close(self) -> None:
        """Closes all connections."""
        for task in self._tasks:
            task.cancel()
        for port in self._open:
            await port.close()
        self._open.clear()
        await self._endpoints.close()


def default_limits(descriptors: int) -> ClientLimits:
    """The limits of a port in a process that may have this many open files."""
    return ClientLimits(connections=max(4, min(MOST_CONNECTIONS, descriptors // SHARE_OF_DESCRIPTORS)))
