"""One port with an application of aiohttp: a `Listener`, which bounds what clients can use, a gate, and routes.

It is served in the loop in which it is opened. By default a connection serves one request, see `connections`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from typing import Any, Final

from aiohttp import web

from podwright.core.objects.dataclass import dataclass
from podwright.kube.serve.access.gates import AccessGate
from podwright.kube.serve.connections.connection import ClientLimits
from podwright.kube.serve.connections.listener import LASTS, Context, Listener
from podwright.kube.serve.endpoints import Handler

log = logging.getLogger(__name__)

HEADERS: Final = {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}
"""The headers of all answers of a port."""
SHUTDOWN_SECONDS: Final = 1.0
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


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. `option` is named in errors. `context`: see `Listener`, None for plain HTTP; `shared`: see
    `Listener.open`.
    """

    option: str
    host: str
    port: int
    context: Context | None = None
    shared: bool = False

    def __str__(self) -> str:
        return written(self.host, self.port)


def written(host: str, port: int) -> str:
    """HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Port:
    """See the module."""

    def __init__(self, listener: Listener, runner: web.AppRunner) -> None:
        """Only for `open_port`."""
        self._listener = listener
        self._runner = runner

    @property
    def number(self) -> int:
        return self._listener.port

    @property
    def connection_count(self) -> int:
        return self._listener.connection_count

    async def close(self) -> None:
        """Stops listening, and drops all connections. What requests in progress have begun may end within a second."""
        self._listener.close()
        await self._runner.cleanup()


async def open_port(
    routes: Iterable[web.RouteDef],
    gate: AccessGate,
    address: Address,
    limits: ClientLimits,
    dropped: Callable[[str], None],
) -> Port:
    """Opens a port. `dropped` gets the reason of each connection that is dropped. Raises OSError, which names the
    option.
    """
    application = web.Application(middlewares=[_middleware(gate, lambda: listener, keep_alive=limits.keep_alive)])
    application[LASTS] = lambda request, seconds: listener.lasts(request.protocol, seconds)
    application.add_routes(routes)
    runner = web.AppRunner(
        application,
        logger=_quiet,
        shutdown_timeout=SHUTDOWN_SECONDS,
        **{**_HTTP, "keepalive_timeout": limits.idle_seconds},
    )
    await runner.setup()
    server = runner.server
    assert server is not None
    listener: Listener = Listener(server, limits, context=address.context, dropped=dropped)
    try:
        listener.open(address.host, address.port, shared=address.shared)
    except OSError as error:
        await runner.cleanup()
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(f"{address.option} {address}: {reason}") from error
    return Port(listener, runner)


def _middleware(gate: AccessGate, listener: Callable[[], Listener], *, keep_alive: bool) -> Any:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        listener().request_arrived(request.protocol)
        try:
            response = await gate.refusal(request) or await handler(request)
        except web.HTTPException as error:
            allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
            response = web.Response(status=error.status, text=f"{error.status} {error.reason}\n", headers=allow)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            response = web.Response(status=500, text="internal server error\n")
        if not response.prepared:
            if not keep_alive:
                response.force_close()
            response.headers.update(HEADERS)
        return response

    return middleware
