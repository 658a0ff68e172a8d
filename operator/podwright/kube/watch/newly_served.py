"""Pods of scheduler names that a policy has just begun to serve.

Until then, the scheduler ignored their events, so they are listed once. A name whose pods cannot be listed is tried
again after pauses that grow, and does not delay the others.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME
from podwright.engine.intake.pending_pods import PendingPods
from podwright.kube.client.http import Http
from podwright.kube.client.pages import list_objects
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.kinds import POD
from podwright.kube.watch.selectors import MANY_NAMES, pending_pods_of, pods_that_may_ask_for
from podwright.kube.watch.unseen_names import UnseenNames
from podwright.kube.watch.watches import Watches

DEFAULT_SCHEDULER_WATCH: Final = "pods of the default scheduler"
RETRY: Final = RetryPolicy(shortest=0.2, longest=60.0)


class NewlyServedNames:
    """See the module. `serves`: whether a scheduler name is served now; `unseen` learns which cannot be listed."""

    def __init__(
        self, http: Http, watches: Watches, *, pending: PendingPods, serves: Callable[[str], bool], unseen: UnseenNames
    ) -> None:
        self._http = http
        self._watches = watches
        self._pending = pending
        self._serves = serves
        self._unseen = unseen
        self._due: dict[str, float] = {}
        """The names whose pods are to be listed, and when, by the clock of the event loop."""
        self._failures: dict[str, int] = {}
        """How often in a row the list of a name has failed."""
        self._arrived = asyncio.Event()

    def add(self, names: Iterable[str]) -> None:
        """Schedules a list of the pods of these names."""
        now = asyncio.get_running_loop().time()
        self._due |= dict.fromkeys(names, now)
        self._arrived.set()

    def clear(self) -> None:
        """Forgets the names so far, whose pods are listed by other means."""
        self._due.clear()
        self._failures.clear()

    async def run(self) -> None:
        """Lists pods until it is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            self._arrived.clear()
            names = [name for name, due in self._due.items() if due <= clock()]
            if KUBERNETES_DEFAULT_SCHEDULER_NAME in names and DEFAULT_SCHEDULER_WATCH not in self._watches:
                self._watch_default_scheduler()
            elif not names:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(min(self._due.values(), default=None)):
                        await self._arrived.wait()
            elif len(names) > MANY_NAMES:
                await self._list(names, pods_that_may_ask_for(names))
            else:
                await self._list(names[:1], pending_pods_of(names[0]))

    def _watch_default_scheduler(self) -> None:
        """Watches the pods of the default scheduler: the watch of pending pods leaves them out unless their name is
        served when it begins.
        """
        del self._due[KUBERNETES_DEFAULT_SCHEDULER_NAME]
        selector = pending_pods_of(KUBERNETES_DEFAULT_SCHEDULER_NAME)
        self._watches.start(DEFAULT_SCHEDULER_WATCH, POD, self._pending, selector, required=False)

    async def _list(self, names: Sequence[str], selector: str) -> None:
        """Lists the pods of these names, which are due. A name that cannot be listed is due again later, if it is
        served then.
        """
        for name in names:
            del self._due[name]
        clock = asyncio.get_running_loop().time
        try:
            async for raw in list_objects(self._http, POD.collection, {"fieldSelector": selector}):
                self._pending.put(raw)
        except ClusterError as error:
            for name in filter(self._serves, names):
                failures = self._failures[name] = self._failures.get(name, 0) + 1
                self._due.setdefault(name, clock() + RETRY.pause(failures, error))
                self._unseen.failed(name, error)
        else:
            for name in names:
                self._failures.pop(name, None)
                self._unseen.listed(name)
