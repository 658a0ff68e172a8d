"""The server of health and metrics. It runs in a thread of its own, so that probes are answered at once whatever is
being decided.

Here is what the scheduler's loop calls. The ports of the server's thread are in `ports`, which that thread imports,
because the first requests to the API server need not wait for aiohttp.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from podwright.engine.records.log_fields import V6
from podwright.engine.records.metrics import (
    CERTIFICATE_EXPIRES,
    CERTIFICATE_RELOADS,
    PAGE_VIEWERS,
    SERVER_CONNECTIONS,
    SERVER_DROPPED,
    Metrics,
)
from podwright.kube.options.options import Options
from podwright.kube.serve.access.delegation import AccessDelegation
from podwright.kube.serve.connections.connection import DROPPED, ClientLimits
from podwright.kube.serve.content import Content
from podwright.kube.serve.event_loops import LoopThread, SchedulerLoop

if TYPE_CHECKING:
    from podwright.kube.serve.ports import Ports

log = logging.getLogger(__name__)


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
        """`limits`: of each port; the default depends on the process's limit of file descriptors."""
        self._content = content
        self._options = options
        self._delegation = delegation
        self._limits = limits
        # Series are made here, because only the scheduler's thread may add series.
        self._dropped = {reason: metrics.counter(SERVER_DROPPED).of(reason) for reason in DROPPED}
        self._reloads = {result: metrics.counter(CERTIFICATE_RELOADS).of(result) for result in ("success", "error")}
        self._thread: LoopThread | None = None
        self._ports: Ports | None = None
        metrics.compute(SERVER_CONNECTIONS, lambda: {(): 0 if self._ports is None else self._ports.connection_count})
        metrics.compute(PAGE_VIEWERS, lambda: _if_any(None if self._ports is None else self._ports.viewers))
        metrics.compute(CERTIFICATE_EXPIRES, lambda: _if_any(None if self._ports is None else self._ports.expires))

    @property
    def ports(self) -> list[int]:
        """The ports that are open: the one of plain HTTP first."""
        return [] if self._ports is None else self._ports.numbers

    async def start(self) -> None:
        """Listens where the options say. Raises OSError and ConfigError, which name the option."""
        options = self._options
        if options.health_address is None and not options.secure_port:
            return
        self._thread = LoopThread("podwright health")
        self._thread.start()
        await self._thread.run(self._open(SchedulerLoop(asyncio.get_running_loop())))

    async def require_authentication(self) -> None:
        """Looks up who may issue client certificates. Raises AccessError if that fails and must not."""
        if self._thread is not None and self._ports is not None:
            await self._thread.run(self._ports.require_authentication())

    async def stop(self) -> None:
        """Closes all connections, and ends the thread."""
        if self._thread is not None:
            if self._ports is not None:
                await self._thread.run(self._ports.close())
            await self._thread.stop()
            self._thread = None

    # In the server's thread

    async def _open(self, loop: SchedulerLoop) -> None:
        from podwright.kube.serve.ports import Ports  # noqa: PLC0415 -- see the module

        asyncio.get_running_loop().set_exception_handler(_log_error)
        self._ports = Ports(
            self._content,
            loop,
            options=self._options,
            delegation=self._delegation,
            limits=self._limits,
            count_dropped=self._count_dropped,
            count_reload=self._count_reload,
        )
        await self._ports.open()

    def _count_dropped(self, reason: str) -> None:
        self._dropped[reason][0] += 1

    def _count_reload(self, result: str) -> None:
        self._reloads[result][0] += 1


def _if_any(value: float | None) -> Mapping[tuple[str, ...], float]:
    return {} if value is None else {(): value}


def _log_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Asyncio reports what a client broke, too: no traceback each."""
    log.log(V6, "%s: %r", context.get("message"), context.get("exception"))
