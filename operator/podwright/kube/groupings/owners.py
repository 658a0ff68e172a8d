"""Watches the kinds of owners that WorkloadGroupings name: one watch for each, as for any other optional kind.

The name of a kind in URLs comes from discovery. What cannot be read is asked for again regularly, and `Workloads`
knows why.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Final

from podwright.core.framework.interface import ClusterError
from podwright.core.groupings import POD, Kind
from podwright.core.objects.raw import Raw
from podwright.engine.engine import Engine
from podwright.kube.client import access
from podwright.kube.client.http import Http
from podwright.kube.deadline import wait_at_most
from podwright.kube.kinds import Resource
from podwright.kube.watch.served_kinds import SYNC_SECONDS, Door, ServedKinds

log = logging.getLogger(__name__)

REFRESH_SECONDS: Final = 10.0
"""How often a kind that cannot be read is asked for again."""
START_SECONDS: Final = 10.0
"""For how long the start waits for owners: their pods wait for them anyway."""


class OwnerKinds:
    """See the module."""

    def __init__(self, http: Http, engine: Engine, served: ServedKinds) -> None:
        self._http = http
        self._engine = engine
        self._served = served
        self._doors: dict[Kind, OwnerDoor] = {}
        self._changed = asyncio.Event()
        engine.workloads.on_read_changed = self._changed.set

    async def start(self, grouping_kind: str) -> None:
        """Returns once the groupings and the owners that they name are known, so that the first pods find them; or
        after a while without. Raises ClusterError.
        """
        known = self._served.served.get(grouping_kind)
        if known is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(START_SECONDS):
                    await known.reflector.synced.wait()
                    await self.refresh()

    async def run(self) -> None:
        """Follows the groupings until it is cancelled."""
        while True:
            await wait_at_most(REFRESH_SECONDS, self._changed.wait())
            self._changed.clear()
            try:
                await self.refresh()
            except ClusterError as error:
                log.info("cannot find out which owners of pods can be read: %s", error)

    async def refresh(self) -> None:
        """Begins and ends watches to match the kinds to read. Raises ClusterError."""
        wanted = self._engine.workloads.read
        for kind, door in [*self._doors.items()]:
            if wanted.get(kind) != door.versions:
                del self._doors[kind]
                self._served.remove(door.kind)
        await asyncio.gather(*(self._begin(kind, versions) for kind, versions in wanted.items() if kind != POD))

    async def _begin(self, kind: Kind, versions: Sequence[str]) -> None:
        workloads = self._engine.workloads
        door = self._doors.get(kind)
        if door is None:
            asked = [access.resource_of(self._http, kind[0], version, kind[1]) for version in versions]
            served = [resource for resource in await asyncio.gather(*asked) if resource is not None]
            if not served:
                workloads.kind_read(kind, f"the API server does not serve {kind[1]} of {kind[0]}")
                return
            door = self._doors[kind] = OwnerDoor(kind, versions, served=served, engine=self._engine)
            self._served.add(door)
        if door.kind not in self._served.served:
            await self._served.discover(door.kind)
        known = self._served.served.get(door.kind)
        if known is None:
            problem = self._served.problem(door.kind).replace("them", door.name)
            workloads.kind_read(kind, problem)
            return
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await known.reflector.synced.wait()
        except TimeoutError:
            workloads.kind_read(kind, f"{door.name} could not be listed within {SYNC_SECONDS:.0f} seconds")
            return
        if self._doors.get(kind) is door and door.kind in self._served.served:
            workloads.kind_read(kind, "")


class OwnerDoor(Door):
    """The door of one kind of owners."""

    def __init__(self, kind: Kind, versions: Sequence[str], served: Sequence[Resource], engine: Engine) -> None:
        """`versions`: named by groupings; `served`: the ones that the API server has."""
        self.name = f"{served[0].plural}.{kind[0]}".rstrip(".")
        self.kind = f"owners:{self.name}"
        self.about = f"owners of pods, {self.name},"
        self.candidates = served
        self.versions = versions
        self._kind = kind
        self._engine = engine
        self._version = ""

    def begin(self, resource: Resource) -> None:
        self._version = resource.version

    def end(self, resource: Resource) -> None:
        self._engine.workloads.kind_read(self._kind, f"the API server does not serve {resource.plural}")

    async def changed(self) -> None:
        self._engine.workloads.kind_read(self._kind, "")

    def key(self, raw: Raw) -> str:
        return str(raw["metadata"]["uid"])

    def put(self, raw: Raw) -> None:
        try:
            self._engine.workloads.owner_seen(self._kind, self._version, raw)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._engine.invalid_objects.report(self._kind[1], str(raw["metadata"].get("name")), error)

    def drop(self, key: str, _raw: Raw | None) -> None:
        self._engine.workloads.owner_gone(key)
