"""The watches of a runtime: its reflectors, by name. The scheduler decides nothing before the first list of each is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from podwright.kube.client.http import Http
from podwright.kube.kinds import Resource
from podwright.kube.watch.reflector import Reflector, Sink

StartTask = Callable[[str, Callable[[], Coroutine[Any, Any, None]]], asyncio.Task[None]]
"""(name, work) → a task that runs the work until it is cancelled."""


class Watches:
    """See the module."""

    def __init__(self, http: Http, start_task: StartTask) -> None:
        self._http = http
        self._start_task = start_task
        self._reflectors: dict[str, Reflector] = {}
        self._optional: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._reflectors

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
        self._start_task(name, reflector.run)

    def add(self, reflectors: Mapping[str, Reflector]) -> None:
        """Adds reflectors that are running already."""
        self._reflectors.update(reflectors)

    def missing(self, *, required: bool = True) -> list[str]:
        """The names of those whose first list is not complete, either of the required ones or of the others."""
        return [
            name
            for name, reflector in self._reflectors.items()
            if not reflector.synced.is_set() and required == (name not in self._optional)
        ]

    @property
    def names(self) -> list[str]:
        """The names of all."""
        return list(self._reflectors)

    def blind(self) -> dict[str, float]:
        """How many seconds ago the last watch ended, by the name of each that is synced and has none open."""
        now = asyncio.get_running_loop().time()
        return {
            name: now - reflector.blind_since
            for name, reflector in self._reflectors.items()
            if reflector.synced.is_set() and reflector.blind_since is not None
        }

    def knows(self, key: str) -> bool:
        """Whether one of the watches has an object of this key."""
        return any(key in reflector.known for reflector in self._reflectors.values())

    async def reach(self, version: int) -> None:
        """Returns when each has everything up to this resourceVersion."""
        await asyncio.gather(*(reflector.reach(version) for reflector in tuple(self._reflectors.values())))

    async def wait_until_synced(self) -> None:
        """Returns when the first list of each that is required is complete."""
        await asyncio.gather(*(self._reflectors[name].synced.wait() for name in self.missing()))
