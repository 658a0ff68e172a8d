"""Watches pending pods for policies in shadow mode: those of each of their scheduler names, including the default
scheduler's.

They are apart from the watch of pods that are to be scheduled, and run only while there is such a policy. No decision
waits for them.
"""

from __future__ import annotations

import asyncio

from podwright.engine.shadow.shadow import Shadow
from podwright.engine.shadow.shadow_pods import ALL
from podwright.kube.kinds import POD
from podwright.kube.watch.selectors import MANY_NAMES, PENDING_PODS, pending_pods_of
from podwright.kube.watch.watches import Watches


class ShadowWatches:
    """See the module."""

    def __init__(self, shadow: Shadow, watches: Watches) -> None:
        self._shadow = shadow
        self._watches = watches
        self._changed = asyncio.Event()
        self._watched: set[str] = set()
        self._clears = 0
        shadow.listen(self._changed.set)

    async def run(self) -> None:
        """Starts and stops watches until it is cancelled."""
        while True:
            self._changed.clear()
            names = self._shadow.names
            wanted = {ALL} if len(names) > MANY_NAMES else set(names)
            pods = self._shadow.pods
            kept = self._watched & wanted if pods.clears == self._clears else set()
            self._clears = pods.clears
            for name in self._watched - kept:
                await self._watches.stop(_title(name))
                pods.forget(name)
            for name in wanted - kept:
                selector = PENDING_PODS if name == ALL else pending_pods_of(name)
                self._watches.start(_title(name), POD, pods, selector, required=False)
            self._watched = wanted
            await self._changed.wait()


def _title(name: str) -> str:
    return "pending pods for shadow" if name == ALL else f"pending pods of {name} for shadow"
