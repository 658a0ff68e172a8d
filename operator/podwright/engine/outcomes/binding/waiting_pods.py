"""WaitingPod: a pod that waits in Permit until all plugins that asked for the wait allow it, or one rejects it or times
out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from podwright.core.framework.status import Status, unschedulable
from podwright.core.objects.durations import format_duration
from podwright.core.objects.pod import PodInfo


class PermitWaitingPod:
    """See the module. `timeouts`: seconds by plugin; a plugin's timeout runs until it allows the pod."""

    def __init__(self, pod: PodInfo, node_name: str, timeouts: Mapping[str, float]) -> None:
        loop = asyncio.get_running_loop()
        self.pod = pod
        self.node_name = node_name
        self._verdict: asyncio.Future[Status | None] = loop.create_future()
        self._timers = {
            plugin: loop.call_later(seconds, self._expire, plugin, seconds) for plugin, seconds in timeouts.items()
        }

    @property
    def pending_plugins(self) -> Collection[str]:
        """The plugins that have not allowed the pod yet."""
        return tuple(self._timers)

    @property
    def allowed(self) -> bool:
        """True if all plugins have allowed the pod."""
        return self._verdict.done() and self._verdict.result() is None

    def allow(self, plugin: str) -> None:
        """The plugin allows the pod."""
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._decide(None)

    def reject(self, plugin: str, message: str) -> None:
        """The plugin rejects the pod."""
        self._decide(unschedulable(message).by(plugin))

    def end(self, status: Status) -> None:
        """Ends the wait for a reason other than a plugin's."""
        self._decide(status)

    async def wait(self) -> Status | None:
        """Why the pod must not be bound; None if all plugins have allowed it. The first verdict counts."""
        try:
            return await self._verdict
        finally:
            self._clear()

    def _expire(self, plugin: str, seconds: float) -> None:
        self.reject(plugin, f"rejected due to timeout after waiting {format_duration(seconds)} at plugin {plugin}")

    def _decide(self, verdict: Status | None) -> None:
        self._clear()
        if not self._verdict.done():
            self._verdict.set_result(verdict)

    def _clear(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
