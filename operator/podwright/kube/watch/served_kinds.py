"""Kinds that a cluster may have or not, such as pod groups and queues: finds the served ones, at the start and later,
and reflects their objects.

A kind may have several versions; the best one that is served is used. A custom resource may be installed and removed at
any time. Its CRD is watched, if RBAC allows, so that its first object is not missed; discovery also runs regularly. A
`Door` says what to do with a kind's objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from podwright.api.scheduler_policy import identity_of
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.dataclass import dataclass
from podwright.kube.client import access
from podwright.kube.client.http import Http
from podwright.kube.deadline import wait_at_most
from podwright.kube.kinds import CRD, Resource
from podwright.kube.watch.reflector import Reflector

log = logging.getLogger(__name__)

DISCOVERY_SECONDS: Final = 30.0
CRD_POLL_SECONDS: Final = 0.2
"""How often discovery runs after a CRD has changed."""
CRD_TIMEOUT_SECONDS: Final = 10.0
"""How long discovery runs that often."""
GONE_SECONDS: Final = 20.0
"""How long a kind must be missing to count as gone, unless its CRD was deleted. A starting API server may lack it for a
moment.
"""
SYNC_SECONDS: Final = 30.0
"""How long to wait for the first list of a new kind."""

Start = Callable[[str, Reflector], "asyncio.Task[None]"]


class Door(ABC):
    """The scheduler's use of one kind: the sink of its objects."""

    kind: str
    about: str
    """For log lines: "pod groups of scheduling.k8s.io"."""
    candidates: Sequence[Resource]
    """The versions, best first."""
    crd: str = ""
    """The name of its CRD; empty for a built-in kind."""
    only_with: Collection[str] = ()
    """The kinds of other doors without all of which it is not used; empty if it is used in any case."""

    def begin(self, resource: Resource) -> None:
        """The kind is served in this version. Called before its first object comes."""

    def end(self, resource: Resource) -> None:
        """The kind is no longer served. Its objects were dropped."""

    async def changed(self) -> None:
        """The kind has begun or ended, and what there is of it is known."""

    def key(self, raw: Mapping[str, Any]) -> str:
        return identity_of(raw)[0]

    @abstractmethod
    def put(self, raw: Mapping[str, Any]) -> None:
        """As in a Sink."""

    @abstractmethod
    def drop(self, key: str, raw: Mapping[str, Any] | None) -> None:
        """Likewise."""


@dataclass(slots=True)
class ServedKind:
    """A kind whose objects are reflected. `missing_since`: when discovery no longer found it, on the event loop's
    clock.
    """

    door: Door
    resource: Resource
    reflector: Reflector
    task: asyncio.Task[None]
    missing_since: float | None = None


class ServedKinds:
    """See the module. `start` runs a reflector in a task."""

    def __init__(self, http: Http, doors: Sequence[Door], *, start: Start) -> None:
        self.served: dict[str, ServedKind] = {}
        """The kinds in use."""
        self._crds_changed = asyncio.Event()
        self.crds = {door.kind: CrdSink(self._crds_changed) for door in doors if door.crd}
        self._http = http
        self._start = start
        self._doors = {door.kind: door for door in doors}
        self._problems: dict[str, str] = {}

    def add(self, door: Door) -> None:
        """One more kind, which the next discovery finds."""
        self._doors[door.kind] = door

    def remove(self, kind: str) -> None:
        """The kind is used no more."""
        del self._doors[kind]
        self._problems.pop(kind, None)
        if (known := self.served.get(kind)) is not None:
            self._end(known)

    def problem(self, kind: str) -> str:
        """Why the kind is not used, in words."""
        return self._problems.get(kind, "")

    @property
    def reflectors(self) -> Mapping[str, Reflector]:
        """The running reflectors by name."""
        return {_name(kind.resource): kind.reflector for kind in self.served.values()}

    async def discover(self, *kinds: str) -> Sequence[str]:
        """Asks which versions of these kinds, or of all, are served, and uses them. Returns the kinds that have begun,
        ended, or changed their version.

        Raises ClusterError.
        """
        asked = [kind for kind in kinds or self._doors if not self._doors[kind].only_with]
        after = [kind for kind, door in self._doors.items() if door.only_with]
        found: list[str] = []
        for each in (asked, after):
            changed = await asyncio.gather(*(self._discover(self._doors[kind]) for kind in each))
            found += [kind for kind, has_changed in zip(each, changed, strict=True) if has_changed]
        return found

    async def watch_crds(self) -> None:
        """Lets `run` know at once when a CRD changes, until it is cancelled. Needs the right to watch CRDs."""
        async with asyncio.TaskGroup() as tasks:
            for kind, sink in self.crds.items():
                name = self._doors[kind].crd
                crd = Reflector(self._http, CRD, sink=sink, field_selector=f"metadata.name={name}")
                tasks.create_task(crd.run(), name=f"podwright CRD {name}")

    async def run(self) -> None:
        """Runs discovery when a CRD changes, and regularly, until it is cancelled."""
        while True:
            await wait_at_most(DISCOVERY_SECONDS, self._crds_changed.wait())
            try:
                await (self._follow_crds() if self._crds_changed.is_set() else self._discover_and_sync())
            except ClusterError as error:
                log.info("cannot discover which kinds are served: %s", error)

    async def _follow_crds(self) -> None:
        """Runs discovery until it agrees with the CRDs: a kind comes and goes a moment later than its CRD."""
        self._crds_changed.clear()
        loop = asyncio.get_running_loop()
        ends = loop.time() + CRD_TIMEOUT_SECONDS
        while loop.time() < ends:
            due = [kind for kind, crd in self.crds.items() if crd.exists is not None]
            due = [kind for kind in due if (kind in self.served) != self.crds[kind].exists]
            if not due:
                return
            if not await self._discover_and_sync(*due):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CRD_POLL_SECONDS):
                        await self._crds_changed.wait()
                        return

    async def _discover_and_sync(self, *kinds: str) -> bool:
        changed = await self.discover(*kinds)
        if not changed:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SYNC_SECONDS):
                for reflector in self.reflectors.values():
                    await reflector.synced.wait()
        for kind in changed:
            if (door := self._doors.get(kind)) is not None:
                await door.changed()
        return True

    async def _discover(self, door: Door) -> bool:
        needed = not door.only_with or not self.served.keys().isdisjoint(door.only_with)
        if not needed and door.kind not in self.served:
            return False
        candidates = door.candidates if needed else ()
        served = await asyncio.gather(*(access.is_served(self._http, resource) for resource in candidates))
        best = next((resource for resource, there in zip(candidates, served, strict=True) if there), None)
        known = self.served.get(door.kind)
        if known is not None:
            return self._update(door, known, best)
        if best is None:
            self._log_problem(door, "the API server does not serve them")
            return False
        if (verb := await access.forbidden(self._http, best)) is not None:
            self._log_problem(door, f"RBAC does not let us {verb} them")
            return False
        if door.kind in self.served or self._doors.get(door.kind) is not door:
            return False  # meanwhile another discovery has begun it, or it was removed
        self._begin(door, best)
        return True

    def _update(self, door: Door, known: ServedKind, best: Resource | None) -> bool:
        """True if the kind was given up, or replaced by another version."""
        if best == known.resource:
            known.missing_since = None
            return False
        now = asyncio.get_running_loop().time()
        if known.missing_since is None:
            known.missing_since = now
        crd_deleted = door.kind in self.crds and self.crds[door.kind].exists is False
        if not crd_deleted and now < known.missing_since + GONE_SECONDS:
            return False
        self._end(known)
        if best is not None:
            self._begin(door, best)
        return True

    def _begin(self, door: Door, resource: Resource) -> None:
        door.begin(resource)
        reflector = Reflector(self._http, resource, sink=door)
        task = self._start(_name(resource), reflector)
        self.served[door.kind] = ServedKind(door, resource=resource, reflector=reflector, task=task)
        self._problems.pop(door.kind, None)
        log.info("%s are in use, in version %s", door.about, resource.version)

    def _end(self, known: ServedKind) -> None:
        door = known.door
        del self.served[door.kind]
        known.task.cancel()
        known.reflector.synced.set()  # releases tasks that wait for its first list
        for key in list(known.reflector.known):
            door.drop(key, None)
        door.end(known.resource)
        log.info("%s are gone", door.about)

    def _log_problem(self, door: Door, problem: str) -> None:
        if self._problems.get(door.kind) != problem:
            self._problems[door.kind] = problem
            log.info("%s are off: %s", door.about, problem)


@dataclass(slots=True)
class CrdSink:
    """Remembers whether the CRD exists; None: not known yet. `changed` is set by each of its events."""

    changed: asyncio.Event = field(default_factory=asyncio.Event)
    exists: bool | None = None

    def key(self, raw: Mapping[str, Any]) -> str:
        return str(raw["metadata"]["name"])

    def put(self, _raw: Mapping[str, Any]) -> None:
        self.exists = True
        self.changed.set()

    def drop(self, _key: str, _raw: Mapping[str, Any] | None) -> None:
        self.exists = False
        self.changed.set()


def _name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}"
