"""The server of health and metrics. It runs in a thread of its own, so that probes are answered at once whatever is
being decided.

Each port is a `Listener`, which bounds what clients can use, and an application of aiohttp with a gate and the common
endpoints.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from podwright.engine.records.log_fields import V6
from podwright.engine.records.metrics import (
    CERTIFICATE_EXPIRES,
    CERTIFICATE_RELOADS,
    PAGE_VIEWERS,
    SERVER_CONNECTIONS,
    SERVER_DROPPED,
    Metrics,
)
from podwright.kube.descriptors import descriptor_limit
from podwright.kube.options.options import Options
from podwright.kube.serve.access.delegation import AccessDelegation
from podwright.kube.serve.access.gates import AccessGate, LoopbackGate
from podwright.kube.serve.connections.connection import ClientLimits
from podwright.kube.serve.endpoints import Content, Endpoints
from podwright.kube.serve.event_loops import LoopThread, SchedulerLoop
from podwright.kube.serve.port import DROPPED, Address, Port, open_port, written

if TYPE_CHECKING:
    from podwright.kube.serve.tls.secure_port import Tls

log = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 256
"""On each port."""
SHARE_OF_DESCRIPTORS: Final = 8
"""A port's clients get at most this part of the file descriptors. The rest is for the API client."""


class Server:
    """See the module. All methods are called in the scheduler's loop."""

    def __init__(
        self,
        content: Content,
        metrics: Metrics,
        *,
        options: Options,
        delegation: AccessDelegation,
        limits: ClientLimits | None = None,
    ) -> None:
        """`limits`: those of each port; the default depends on the process's limit of file descriptors."""
        self._content = content
        self._options = options
        self._delegation = delegation
        self._limits = limits
        # Series are made here, because only the scheduler's thread may add series.
        self._dropped = {reason: metrics.counter(SERVER_DROPPED).of(reason) for reason in DROPPED}
        self._reloads = {result: metrics.counter(CERTIFICATE_RELOADS).of(result) for result in ("success", "error")}
        self._thread: LoopThread | None = None
        self._tls: Tls | None = None
        self._endpoints: Endpoints | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ports: list[Port] = []
        metrics.compute(SERVER_CONNECTIONS, lambda: {(): self._connection_count})
        metrics.compute(PAGE_VIEWERS, self._viewers)
        metrics.compute(CERTIFICATE_EXPIRES, lambda: {(): self._tls.expires} if self._tls is not None else {})

    @property
    def ports(self) -> list[int]:
        """The ports that are open: the one of plain HTTP first."""
        return [port.number for port in self._ports]

    @property
    def _connection_count(self) -> int:
        return sum(port.connection_count for port in self._ports)

    def _viewers(self) -> Mapping[tuple[str, ...], float]:
        viewers = None if self._endpoints is None else self._endpoints.viewers
        return {} if viewers is None else {(): viewers}

    async def start(self) -> None:
        """Listens where the options say. Raises OSError and ConfigError, which name the option."""
        options = self._options
        if options.health_address is None and not options.secure_port:
            return
        self._thread = LoopThread("podwright health")
        self._thread.start()
        await self._thread.run(self._start(SchedulerLoop(asyncio.get_running_loop())))

    async def require_authentication(self) -> None:
        """Looks up who may issue client certificates. Raises AccessError if that fails and must not."""
        if self._thread is not None and self._tls is not None:
            await self._thread.run(self._tls.require())

    async def stop(self) -> None:
        """Closes all connections, and ends the thread."""
        if self._thread is not None:
            await self._thread.run(self._close())
            await self._thread.stop()
            self._thread = None

    # In the server's thread

    async def _start(self, loop: SchedulerLoop) -> None:
        asyncio.get_running_loop().set_exception_handler(_log_error)
        self._tasks.append(asyncio.create_task(loop.beat_for_ever()))
        endpoints = self._endpoints = Endpoints(self._content, loop)
        if self._options.health_address is not None:
            await self._open(endpoints, LoopbackGate(), Address("--health-address", *self._options.health_address))
        if self._options.secure_port:
            from podwright.kube.serve.access.delegated_gate import DelegatedGate  # noqa: PLC0415 -- slow to import
            from podwright.kube.serve.tls.secure_port import Tls  # noqa: PLC0415 -- likewise

            tls = self._tls = Tls(self._options, self._delegation, loop=loop, reloaded=self._count_reload)
            gate = DelegatedGate(
                self._delegation, self._options, issuers=lambda: tls.issuers, loop=loop, clock=time.monotonic
            )
            where = (self._options.bind_address, self._options.secure_port)
            address = Address("--secure-port", *where, tls.context, shared=self._options.permit_port_sharing)
            await self._open(endpoints, gate, address)
            self._tasks.append(asyncio.create_task(tls.run()))

    async def _open(self, endpoints: Endpoints, gate: AccessGate, address: Address) -> None:
        limits = self._limits or default_limits(descriptor_limit())
        port = await open_port(endpoints.routes(), gate, address, limits, self._count_dropped)
        self._ports.append(port)
        scheme = "http" if address.context is None else "https"
        log.info("serving health and metrics on %s://%s", scheme, written(address.host, port.number))

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for port in self._ports:
            await port.close()
        self._ports.clear()
        if self._endpoints is not None:
            await self._endpoints.close()

    def _count_dropped(self, reason: str) -> None:
        self._dropped[reason][0] += 1

    def _count_reload(self, result: str) -> None:
        self._reloads[result][0] += 1


def default_limits(descriptors: int) -> ClientLimits:
    """The limits of a port in a process that may have this many open files."""
    return ClientLimits(connections=max(4, min(MOST_CONNECTIONS, descriptors // SHARE_OF_DESCRIPTORS)))


def _log_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Asyncio reports what a client broke, too: no traceback each."""
    log.log(V6, "%s: %r", context.get("message"), context.get("exception"))
