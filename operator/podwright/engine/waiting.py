"""Pods that wait in Permit: until all plugins that asked for it allow them, one rejects them, or time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from podwright.core.framework.status import Code, Status, unschedulable


class WaitingPod:
    """One pod. `timeouts`: seconds by plugin; the shortest counts."""

    def __init__(self, key: str, timeouts: Mapping[str, float]) -> None:
        self.key = key
        self._pending = dict(timeouts)
        self._verdict: asyncio.Future[Status | None] = asyncio.get_running_loop().create_future()

    def allow(self, plugin: str) -> None:
        """One plugin no longer objects."""
        self._pending.pop(plugin, None)
        if not self._pending and not self._verdict.done():
            self._verdict.set_result(None)

    def reject(self, plugin: str, message: str) -> None:
        """The pod must not be bound there."""
        if not self._verdict.done():
            self._verdict.set_result(Status(Code.UNSCHEDULABLE, (message,), plugin))

    async def wait(self) -> Status | None:
        """None: allowed by all."""
        if not self._pending:
            return None
        plugin, seconds = min(self._pending.items(), key=lambda item: item[1])
        try:
            async with asyncio.timeout(seconds):
                return await self._verdict
        except TimeoutError:
            return unschedulable(f"rejected due to timeout after waiting {seconds:g}s at plugin {plugin}").by(plugin)
