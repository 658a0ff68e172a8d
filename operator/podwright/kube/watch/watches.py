"""The watches of a runtime: its reflectors, by name. The scheduler decides nothing before the first list of each is
complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from podwright.kube.client.http import Http
from podwright.kube.kinds import Resource
from podwright.kube.watch.reflector import Reflector, Sink

log = logging.getLogger(__name__)

ASSIGNED_PODS_WATCH: Final = "assigned pods"
ESSENTIAL: Final = ("nodes", ASSIGNED_PODS_WATCH, "pending pods")
"""Without these, no decision can be right."""
PARAMS_WATCH: Final = "params of policies"
"""The ConfigMaps in the operator's namespace."""
PATIENCE_SECONDS: Final = 10.0

StartTask = Callable[[str, Callable[[], Coroutine[Any, Any, None]]], asyncio.Task[None]]
"""(name, work) → a task that runs the work until it is cancelled."""


class Watches:
    """See the module."""

    def __init__(self, http: Http, start_task: StartTask) -> None:
        self._http = http
        self._start_task = start_task
        self._reflectors: dict[str, Reflector] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._optional: set[str] = set()
        self._others: Callable[[], Mapping[str, Reflector]] = dict

    def __contains__(self, name: str) -> bool:
        return name in self._all()

    def start(
        self, name: str, resource: Resource, sink: Sink, field_selector: str = "", *, required: bool = True
    ) -> None:
        """Watches a kind. `name` names the watch in the log and in answers of the health server.

        `required`: the scheduler makes no decision before the first list is complete.
        """
        if not required:
            self._optional.add(name)
        reflector = Reflector(self._http, resource, sink=sink, field_selector=field_selector)
        self._reflectors[name] = reflector
        self._tasks[name] = self._start_task(name, reflector.run)

    def relist(self, name: str) -> None:
        """Lists everything of a watch again, if it has begun."""
        if name in self._reflectors:
            self._reflectors[name].request_relist()

    async def stop(self, name: str) -> None:
        """Ends a watch that was started. Its sink keeps what it has."""
        task = self._tasks.pop(name)
        del self._reflectors[name]
        self._optional.discard(name)
        task.cancel()
        await asyncio.wait([task])

    def include(self, others: Callable[[], Mapping[str, Reflector]]) -> None:
        """Includes reflectors that someone else runs, and that may come and go."""
        self._others = others

    def _all(self) -> dict[str, Reflector]:
        return {**self._reflectors, **self._others()}

    def missing(self, *, required: bool = True) -> list[str]:
        """The names of the watches whose first list is not complete: of the required ones, or of all others."""
        return [
            name
            for name, reflector in self._all().items()
            if not reflector.synced.is_set() and required == (name not in self._optional)
        ]

    @property
    def names(self) -> list[str]:
        """The names of all."""
        return list(self._all())

    def blind(self) -> dict[str, float]:
        """Returns how many seconds ago the last watch ended, by name of each synced reflector without an open watch."""
        now = asyncio.get_running_loop().time()
        return {
            name: now - reflector.blind_since
            for name, reflector in self._all().items()
            if reflector.synced.is_set() and reflector.blind_since is not None
        }

    def hold_back(self) -> None:
        """Makes all watches hand nothing over until `go_on`."""
        for reflector in self._all().values():
            reflector.hold_back()

    def go_on(self) -> None:
        """See `hold_back`."""
        for reflector in self._all().values():
            reflector.go_on()

    def knows(self, key: str) -> bool:
        """True if one of the watches has an object of this key."""
        return any(key in reflector.known for reflector in self._all().values())

    async def reach(self, version: int) -> None:
        """Waits until each watch has everything up to this resourceVersion. It waits for nodes and pods without limit.
        Other kinds may be forbidden or removed by now, so it waits for them at most PATIENCE_SECONDS.
        """
        tasks = {name: asyncio.create_task(found.reach(version)) for name, found in self._all().items()}
        try:
            waited = 0.0
            while waiting := sorted(name for name, task in tasks.items() if not task.done()):
                await asyncio.wait([tasks[name] for name in waiting], timeout=PATIENCE_SECONDS)
                late = [name for name in waiting if not tasks[name].done()]
                if not late:
                    return
                waited += PATIENCE_SECONDS
                log.warning("for %g s, the watches of %s have not reached version %d", waited, ", ".join(late), version)
                for name in late:
                    if name not in ESSENTIAL or name not in self._all():
                        tasks.pop(name).cancel()
        finally:
            for task in tasks.values():
                task.cancel()

    async def wait_until_synced(self) -> None:
        """Returns when the first list of each that is required is complete."""
        found = self._all()
        await asyncio.gather(*(found[name].synced.wait() for name in self.missing()))
