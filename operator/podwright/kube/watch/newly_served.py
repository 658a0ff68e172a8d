"""Pods of scheduler names that a policy has just begun to serve.

Until then, the scheduler ignored their events, so they are listed once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Final

from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME
from podwright.engine.intake.pending_pods import PendingPods
from podwright.kube.client.http import Http
from podwright.kube.client.pages import list_objects
from podwright.kube.client.retry import retry_until_answered
from podwright.kube.kinds import POD
from podwright.kube.watch.selectors import pending_pods_of
from podwright.kube.watch.watches import Watches

DEFAULT_SCHEDULER_WATCH: Final = "pods of the default scheduler"


class NewlyServedNames:
    """See the module."""

    def __init__(self, http: Http, watches: Watches, pending: PendingPods) -> None:
        self._http = http
        self._watches = watches
        self._pending = pending
        self._names: asyncio.Queue[str] = asyncio.Queue()

    def add(self, names: Iterable[str]) -> None:
        """Has the pods of these names listed."""
        for name in names:
            self._names.put_nowait(name)

    def clear(self) -> None:
        """Forgets the names so far, whose pods are listed by other means."""
        while not self._names.empty():
            self._names.get_nowait()

    async def run(self) -> None:
        """Lists pods until it is cancelled."""
        while True:
            name = await self._names.get()
            if name == KUBERNETES_DEFAULT_SCHEDULER_NAME and DEFAULT_SCHEDULER_WATCH not in self._watches:
                # The watch of pending pods leaves these out unless their name is served when it begins.
                self._watches.start(DEFAULT_SCHEDULER_WATCH, POD, self._pending, pending_pods_of(name))
            else:
                await retry_until_answered(f"pods of scheduler {name}", partial(self._list, name))

    async def _list(self, name: str) -> None:
        async for raw in list_objects(self._http, POD.collection, {"fieldSelector": pending_pods_of(name)}):
            self._pending.put(raw)
