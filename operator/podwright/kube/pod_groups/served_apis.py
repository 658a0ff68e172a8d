"""Which PodGroup APIs there are: found at the start and while we run, reflected into the object store, let go again.

The Workload API comes in several versions, of which the best that is served counts. The custom resource may be installed and
removed at any time; its CRD is watched, where it may be, so that the first group is not taken for none, and discovery is asked
now and then in any case. Until an API is served and may be read, pods that name a group of it are pods like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from podwright.core.framework.features import Features
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod_group import APIS, KIND, PLUGINS_API, PLUGINS_KIND, group_key
from podwright.engine.engine import Engine
from podwright.kube.client import access
from podwright.kube.client.http import Http
from podwright.kube.client.objects import conditions_of
from podwright.kube.kinds import CRD, PLUGINS_POD_GROUPS, POD_GROUPS, Resource
from podwright.kube.pod_groups.status import SCHEDULED, SCHEDULED_OF_OLD, PodGroupStatusWriter
from podwright.kube.watch.reflector import Reflector

log = logging.getLogger(__name__)

CANDIDATES: Final[Mapping[str, tuple[Resource, ...]]] = {KIND: POD_GROUPS, PLUGINS_KIND: PLUGINS_POD_GROUPS}
CRD_NAME: Final = f"podgroups.{PLUGINS_API}"
LOOK_SECONDS: Final = 30.0
ESTABLISH_SECONDS: Final = (0.2, 10.0)
"""How often, and for how long, it is asked whether a CRD that has changed is served by now."""
GONE_SECONDS: Final = 20.0
"""How long an API must be missing to be gone, unless its CRD is seen to go: an API server that starts may deny it for a moment."""
SYNC_SECONDS: Final = 30.0

Start = Callable[[str, Reflector], "asyncio.Task[None]"]


@dataclass(slots=True)
class _Held:
    """An API that is reflected."""

    resource: Resource
    reflector: Reflector
    sink: GroupSink
    task: asyncio.Task[None]
    missing_since: float | None = None


class ServedPodGroupApis:
    """See the module. `start` runs a reflector in a task.

    Of `gates`, GenericWorkload says whether the Workload API counts, TopologyAwareWorkloadScheduling whether its topology
    constraints do.
    """

    def __init__(self, http: Http, engine: Engine, writer: PodGroupStatusWriter, start: Start, gates: Features) -> None:
        self._http = http
        self._engine = engine
        self._writer = writer
        self._start = start
        self._kinds = (KIND, PLUGINS_KIND) if gates.enabled("GenericWorkload") else (PLUGINS_KIND,)
        self._with_topology = gates.enabled("TopologyAwareWorkloadScheduling")
        self._held: dict[str, _Held] = {}
        self._problems: dict[str, str] = {}
        self._crd = _Seen()

    @property
    def reflectors(self) -> Mapping[str, Reflector]:
        """Those that are running, by name."""
        return {_name(held.resource): held.reflector for held in self._held.values()}

    async def look(self, *kinds: str) -> bool:
        """Asks what is served of these kinds, or of all, and follows it. Whether something has changed. Raises ClusterError."""
        return any(await asyncio.gather(*(self._look_at(kind) for kind in kinds or self._kinds)))

    async def run(self, *, crds_watchable: bool) -> None:
        """Looks when the CRD has changed, and now and then, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if crds_watchable:
                name = f"metadata.name={CRD_NAME}"
                crds = Reflector(self._http, CRD, self._crd, field_selector=name)
                tasks.create_task(crds.run(), name="podwright CRD of pod groups")
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._crd.changed.wait()
                try:
                    await (self._look_closely() if self._crd.changed.is_set() else self._follow())
                except ClusterError as error:
                    log.info("cannot ask which pod groups are served: %s", error)

    async def _look_closely(self) -> None:
        """A CRD that has come or gone is served, or no longer, a moment later."""
        self._crd.changed.clear()
        pause, longest = ESTABLISH_SECONDS
        loop = asyncio.get_running_loop()
        ends = loop.time() + longest
        while (PLUGINS_KIND in self._held) != self._crd.there and loop.time() < ends:
            if not await self._follow(PLUGINS_KIND):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._crd.changed.wait()
                        return

    async def _follow(self, *kinds: str) -> bool:
        if not await self.look(*kinds):
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SYNC_SECONDS):
                for reflector in self.reflectors.values():
                    await reflector.synced.wait()
        # Pods that were pods like any other may have to wait for their group now, or no longer.
        self._engine.activate_all()
        return True

    async def _look_at(self, kind: str) -> bool:
        served = await asyncio.gather(*(access.exists(self._http, resource) for resource in CANDIDATES[kind]))
        found = next((resource for resource, there in zip(CANDIDATES[kind], served, strict=True) if there), None)
        held = self._held.get(kind)
        if held is not None:
            return self._look_again(kind, held, found)
        if found is None:
            self._note(kind, "the API server does not serve them")
            return False
        for verb in access.READ:
            if not await access.may(self._http, found, verb):
                self._note(kind, f"RBAC does not let us {verb} them")
                return False
        self._take_up(kind, found)
        return True

    def _look_again(self, kind: str, held: _Held, found: Resource | None) -> bool:
        if found == held.resource:
            held.missing_since = None
            return False
        now = asyncio.get_running_loop().time()
        if held.missing_since is None:
            held.missing_since = now
        sure = kind == PLUGINS_KIND and self._crd.there is False
        if not sure and now < held.missing_since + GONE_SECONDS:
            return False
        self._let_go(kind, held)
        if found is not None:
            self._take_up(kind, found)
        return True

    def _take_up(self, kind: str, resource: Resource) -> None:
        # First of all: no pod of a group may pass for one without.
        self._engine.cache.groups.serve(resource.group)
        self._writer.serve(kind, resource)
        sink = GroupSink(kind, self._engine, self._writer, with_topology=self._with_topology)
        reflector = Reflector(self._http, resource, sink)
        self._held[kind] = _Held(resource, reflector, sink, self._start(_name(resource), reflector))
        self._problems.pop(kind, None)
        log.info("pod groups of %s/%s are scheduled as groups", resource.group, resource.version)

    def _let_go(self, kind: str, held: _Held) -> None:
        del self._held[kind]
        held.task.cancel()
        held.reflector.synced.set()  # nobody waits for its first list any more
        for key in list(held.sink.known):
            held.sink.drop(key, None)
        self._engine.cache.groups.withdraw(held.resource.group)
        log.info("pod groups of %s/%s are gone", held.resource.group, held.resource.version)

    def _note(self, kind: str, problem: str) -> None:
        if self._problems.get(kind) != problem:
            self._problems[kind] = problem
            log.info("pod groups of %s are off: %s", APIS[kind], problem)


class GroupSink:
    """Pod groups of one kind on their way into the object store. Their status, which we write, moves no pod."""

    def __init__(self, kind: str, engine: Engine, writer: PodGroupStatusWriter, *, with_topology: bool = True) -> None:
        """Without `with_topology`, topology constraints are taken off."""
        self.known: set[str] = set()
        self._with_topology = with_topology
        self._kind = kind
        self._engine = engine
        self._objects = engine.objects(kind)
        self._writer = writer
        self.key = self._objects.key

    def put(self, raw: Mapping[str, Any]) -> None:
        self.known.add(self.key(raw))
        try:
            self._writer.seen(self._kind, raw)
            if not self._with_topology:
                spec = {name: value for name, value in raw["spec"].items() if name != "schedulingConstraints"}
                raw = {**raw, "spec": spec}
            metadata = raw["metadata"]
            cache = self._engine.cache
            before = cache.store.get(self._kind, metadata["name"], metadata.get("namespace") or "")
            unknown = before is None or cache.groups.get(self._key(self.key(raw))) is None
            news = unknown or _essence(before or {}) != _essence(raw)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._engine.invalid_objects.about("PodGroup", self.key(raw), error)
            return
        if news:
            self._objects.put(raw)

    def drop(self, key: str, raw: Mapping[str, Any] | None) -> None:
        self.known.discard(key)
        self._objects.drop(key, raw)
        self._writer.forget(self._key(key))

    def _key(self, name: str) -> str:
        return group_key(APIS[self._kind], *name.split("/", 1))


class _Seen:
    """A sink that remembers whether the one object is there; None: not known. `changed` is set for whatever happens to it."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.there: bool | None = None

    def key(self, raw: Mapping[str, Any]) -> str:
        return str(raw["metadata"]["name"])

    def put(self, _raw: Mapping[str, Any]) -> None:
        self.there = True
        self.changed.set()

    def drop(self, _key: str, _raw: Mapping[str, Any] | None) -> None:
        self.there = False
        self.changed.set()


def _essence(raw: Mapping[str, Any]) -> tuple[Any, ...]:
    """What scheduling looks at of a group."""
    metadata, conditions = raw["metadata"], conditions_of(raw)
    once = any(conditions.get(kind, {}).get("status") == "True" for kind in (SCHEDULED, SCHEDULED_OF_OLD))
    named = tuple(metadata.get(name) for name in ("uid", "generation", "labels", "annotations", "deletionTimestamp"))
    return raw.get("spec"), once, named


def _name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}"
