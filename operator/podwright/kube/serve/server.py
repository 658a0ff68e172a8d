"""The server of health and metrics. It runs in a thread of its own, so that probes are answered at once whatever is being decided.

Each port is a `Listener`, which bounds what clients can use, and an application of aiohttp with a gate and the common endpoints.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from podwright.engine.log_fields import V6
from podwright.engine.metrics.metrics import (
    CERTIFICATE_EXPIRES,
    CERTIFICATE_RELOADS,
    SERVER_CONNECTIONS,
    SERVER_DROPPED,
    Metrics,
)
from podwright.kube.descriptors import descriptor_limit
from podwright.kube.options import Options
from podwright.kube.serve.connection import Limits
from podwright.kube.serve.delegated_gate import DelegatedGate
from podwright.kube.serve.delegation import Delegation
from podwright.kube.serve.endpoints import Content, Endpoints, Handler
from podwright.kube.serve.event_loops import LoopThread, SchedulerLoop
from podwright.kube.serve.gates import Gate, LoopbackGate
from podwright.kube.serve.listener import Listener

if TYPE_CHECKING:
    from podwright.kube.serve.tls import Tls

log = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 256
"""On each port."""
SHARE_OF_DESCRIPTORS: Final = 8
"""A port's clients get at most this part of the file descriptors. The rest is for the API client."""
DROPPED: Final = ("connections", "descriptors", "handshake", "head", "size", "stall", "total")
"""Why connections are dropped: the label `reason`."""
_HEADERS: Final = {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}
_HTTP: Final[dict[str, Any]] = {
    "access_log": None,
    "handle_signals": False,
    "lingering_time": 0,
    "max_headers": 64,
    "max_field_size": 16384,  # tokens can be long
    "tcp_keepalive": False,
}

_quiet = logging.getLogger(f"{__name__}.aiohttp")
_quiet.setLevel(logging.CRITICAL)
"""aiohttp logs a traceback for each malformed request. Errors of handlers are logged by `_middleware`."""


@dataclass(slots=True)
class _Port:
    listener: Listener
    runner: web.AppRunner


class Server:
    """See the module. All methods are called in the scheduler's loop."""

    def __init__(
        self,
        content: Content,
        metrics: Metrics,
        *,
        options: Options,
        delegation: Delegation,
        limits: Limits | None = None,
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
        self._tasks: list[asyncio.Task[None]] = []
        self._ports: list[_Port] = []
        metrics.compute(SERVER_CONNECTIONS, lambda: {(): self._connection_count})
        metrics.compute(CERTIFICATE_EXPIRES, lambda: {(): self._tls.expires} if self._tls is not None else {})

    @property
    def ports(self) -> list[int]:
        """The ports that are open: the one of plain HTTP first."""
        return [port.listener.port for port in self._ports]

    @property
    def _connection_count(self) -> int:
        return sum(port.listener.connection_count for port in self._ports)

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
        endpoints = Endpoints(self._content, loop)
        if self._options.health_address is not None:
            await self._open(endpoints, LoopbackGate(), "--health-address", self._options.health_address, None)
        if self._options.secure_port:
            from podwright.kube.serve.tls import Tls  # noqa: PLC0415 -- `cryptography` is only needed here

            tls = self._tls = Tls(self._options, self._delegation, loop=loop, reloaded=self._count_reload)
            gate = DelegatedGate(self._delegation, self._options, loop=loop, clock=time.monotonic)
            address = (self._options.bind_address, self._options.secure_port)
            await self._open(endpoints, gate, "--secure-port", address, tls.context)
            self._tasks.append(asyncio.create_task(tls.run()))

    async def _open(
        self,
        endpoints: Endpoints,
        gate: Gate,
        option: str,
        address: tuple[str, int],
        context: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        application = web.Application(middlewares=[_middleware(gate, lambda: listener)])
        application.add_routes(endpoints.routes())
        runner = web.AppRunner(application, logger=_quiet, shutdown_timeout=1.0, **_HTTP)
        await runner.setup()
        server = runner.server
        assert server is not None
        limits = self._limits or default_limits(descriptor_limit())
        listener = Listener(server, limits, context=context, dropped=self._count_dropped)
        try:
            listener.open(*address, shared=context is not None and self._options.permit_port_sharing)
        except OSError as error:
            await runner.cleanup()
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise OSError(f"{option} {_written(address)}: {reason}") from error
        self._ports.append(_Port(listener, runner))
        scheme = "http" if context is None else "https"
        log.info("serving health and metrics on %s://%s", scheme, _written((address[0], listener.port)))

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for port in self._ports:
            port.listener.close()
            await port.runner.cleanup()
        self._ports.clear()

    def _count_dropped(self, reason: str) -> None:
        self._dropped[reason][0] += 1

    def _count_reload(self, result: str) -> None:
        self._reloads[result][0] += 1


def default_limits(descriptors: int) -> Limits:
    """The limits of a port in a process that may have so many open files."""
    return Limits(connections=max(4, min(MOST_CONNECTIONS, descriptors // SHARE_OF_DESCRIPTORS)))


def _middleware(gate: Gate, listener: Callable[[], Listener]) -> Any:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        listener().request_arrived(request.protocol)
        try:
            response = await gate.refusal(request) or await handler(request)
        except web.HTTPException as error:
            response = web.Response(status=error.status, text=f"{error.status} {error.reason}\n")
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            response = web.Response(status=500, text="internal server error\n")
        if not response.prepared:
            response.force_close()
            response.headers.update(_HEADERS)
        return response

    return middleware


def _log_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Asyncio reports what a client broke, too: no traceback each."""
    log.log(V6, "%s: %r", context.get("message"), context.get("exception"))


def _written(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
