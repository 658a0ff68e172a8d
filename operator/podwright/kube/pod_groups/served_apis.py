"""Discovery of PodGroup APIs: finds the served ones, at the start and later, and reflects their groups into the object
store.

The Workload API has several versions; the best one that is served is used. The custom resource may be installed and
removed at any time. Its CRD is watched, if RBAC allows, so that its first group is not missed; discovery also runs
regularly. Invariant: until an API is served and readable, pods that name a group of it are scheduled one by one.
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
from podwright.kube.client.object_metadata import conditions_of
from podwright.kube.kinds import CRD, PLUGINS_POD_GROUPS, POD_GROUPS, Resource
from podwright.kube.pod_groups.group_status import PodGroupStatusWriter, was_scheduled
from podwright.kube.watch.reflector import Reflector

log = logging.getLogger(__name__)

CANDIDATES: Final[Mapping[str, tuple[Resource, ...]]] = {KIND: POD_GROUPS, PLUGINS_KIND: PLUGINS_POD_GROUPS}
CRD_NAME: Final = f"podgroups.{PLUGINS_API}"
DISCOVERY_SECONDS: Final = 30.0
CRD_POLL_SECONDS: Final = 0.2
"""How often discovery runs after the CRD has changed."""
CRD_TIMEOUT_SECONDS: Final = 10.0
"""How long discovery runs that often."""
GONE_SECONDS: Final = 20.0
"""How long an API must be missing to count as gone, unless its CRD was deleted. A starting API server may lack it for a
moment.
"""
SYNC_SECONDS: Final = 30.0
"""How long to wait for the first list of new groups."""

Start = Callable[[str, Reflector], "asyncio.Task[None]"]


@dataclass(slots=True)
class ServedApi:
    """An API whose groups are reflected. `missing_since`: when discovery no longer found it, on the event loop's clock."""

    resource: Resource
    reflector: Reflector
    sink: GroupSink
    task: asyncio.Task[None]
    missing_since: float | None = None


class ServedPodGroupApis:
    """See the module. `start` runs a reflector in a task.

    The gate GenericWorkload turns the Workload API on, TopologyAwareWorkloadScheduling its topology constraints.
    """

    def __init__(
        self, http: Http, engine: Engine, *, writer: PodGroupStatusWriter, start: Start, gates: Features
    ) -> None:
        self.served: dict[str, ServedApi] = {}
        """The APIs in use, by kind."""
        self.crd = CrdSink()
        self._http = http
        self._engine = engine
        self._writer = writer
        self._start = start
        self._kinds = (KIND, PLUGINS_KIND) if gates.enabled("GenericWorkload") else (PLUGINS_KIND,)
        self._with_topology = gates.enabled("TopologyAwareWorkloadScheduling")
        self._problems: dict[str, str] = {}

    @property
    def reflectors(self) -> Mapping[str, Reflector]:
        """The running reflectors by name."""
        return {_name(api.resource): api.reflector for api in self.served.values()}

    async def discover(self, *kinds: str) -> bool:
        """Asks which versions of these kinds, or of all, are served, and uses them. Whether that has changed anything.

        Raises ClusterError.
        """
        return any(await asyncio.gather(*(self._discover(kind) for kind in kinds or self._kinds)))

    async def run(self, *, crds_watchable: bool) -> None:
        """Runs discovery when the CRD changes, and regularly, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if crds_watchable:
                name = f"metadata.name={CRD_NAME}"
                crds = Reflector(self._http, CRD, sink=self.crd, field_selector=name)
                tasks.create_task(crds.run(), name="podwright CRD of pod groups")
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(DISCOVERY_SECONDS):
                        await self.crd.changed.wait()
                try:
                    await (self._follow_crd() if self.crd.changed.is_set() else self._discover_and_sync())
                except ClusterError as error:
                    log.info("cannot discover which pod groups are served: %s", error)

    async def _follow_crd(self) -> None:
        """Runs discovery until it agrees with the CRD: the API comes and goes a moment later than the CRD."""
        self.crd.changed.clear()
        loop = asyncio.get_running_loop()
        ends = loop.time() + CRD_TIMEOUT_SECONDS
        while (PLUGINS_KIND in self.served) != self.crd.exists and loop.time() < ends:
            if not await self._discover_and_sync(PLUGINS_KIND):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CRD_POLL_SECONDS):
                        await self.crd.changed.wait()
                        return

    async def _discover_and_sync(self, *kinds: str) -> bool:
        if not await self.discover(*kinds):
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SYNC_SECONDS):
                for reflector in self.reflectors.values():
                    await reflector.synced.wait()
        # Pods that name a group may have to wait for it from now on, or no longer have to.
        self._engine.activate_all()
        return True

    async def _discover(self, kind: str) -> bool:
        served = await asyncio.gather(*(access.is_served(self._http, resource) for resource in CANDIDATES[kind]))
        best = next((resource for resource, there in zip(CANDIDATES[kind], served, strict=True) if there), None)
        api = self.served.get(kind)
        if api is not None:
            return self._update(kind, api, best)
        if best is None:
            self._log_problem(kind, "the API server does not serve them")
            return False
        if (verb := await access.forbidden(self._http, best)) is not None:
            self._log_problem(kind, f"RBAC does not let us {verb} them")
            return False
        self._begin(kind, best)
        return True

    def _update(self, kind: str, api: ServedApi, best: Resource | None) -> bool:
        """True if the API was given up, or replaced by another version."""
        if best == api.resource:
            api.missing_since = None
            return False
        now = asyncio.get_running_loop().time()
        if api.missing_since is None:
            api.missing_since = now
        crd_deleted = kind == PLUGINS_KIND and self.crd.exists is False
        if not crd_deleted and now < api.missing_since + GONE_SECONDS:
            return False
        self._end(kind, api)
        if best is not None:
            self._begin(kind, best)
        return True

    def _begin(self, kind: str, resource: Resource) -> None:
        # This comes first: no pod of a group may be scheduled as one without.
        self._engine.cache.groups.serve(resource.group)
        self._writer.use_version(kind, resource)
        sink = GroupSink(kind, self._engine, writer=self._writer, with_topology=self._with_topology)
        reflector = Reflector(self._http, resource, sink=sink)
        self.served[kind] = ServedApi(
            resource=resource, reflector=reflector, sink=sink, task=self._start(_name(resource), reflector)
        )
        self._problems.pop(kind, None)
        log.info("pod groups of %s/%s are scheduled as groups", resource.group, resource.version)

    def _end(self, kind: str, api: ServedApi) -> None:
        del self.served[kind]
        api.task.cancel()
        api.reflector.synced.set()  # releases tasks that wait for its first list
        for key in list(api.sink.known):
            api.sink.drop(key, None)
        self._engine.cache.groups.withdraw(api.resource.group)
        log.info("pod groups of %s/%s are gone", api.resource.group, api.resource.version)

    def _log_problem(self, kind: str, problem: str) -> None:
        if self._problems.get(kind) != problem:
            self._problems[kind] = problem
            log.info("pod groups of %s are off: %s", APIS[kind], problem)


class GroupSink:
    """Takes pod groups of one kind into the object store. A change of their status alone, which we write, moves no pod."""

    def __init__(self, kind: str, engine: Engine, writer: PodGroupStatusWriter, *, with_topology: bool = True) -> None:
        """Without `with_topology`, topology constraints are removed."""
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
            unknown = before is None or cache.groups.get(self._group_key(self.key(raw))) is None
            changed = unknown or _scheduling_fields(before or {}) != _scheduling_fields(raw)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._engine.invalid_objects.report("PodGroup", self.key(raw), error)
            return
        if changed:
            self._objects.put(raw)

    def drop(self, key: str, raw: Mapping[str, Any] | None) -> None:
        self.known.discard(key)
        self._objects.drop(key, raw)
        self._writer.forget(self._group_key(key))

    def _group_key(self, name: str) -> str:
        return group_key(APIS[self._kind], *name.split("/", 1))


class CrdSink:
    """Remembers whether the CRD exists; None: not known yet. `changed` is set by each of its events."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.exists: bool | None = None

    def key(self, raw: Mapping[str, Any]) -> str:
        return str(raw["metadata"]["name"])

    def put(self, _raw: Mapping[str, Any]) -> None:
        self.exists = True
        self.changed.set()

    def drop(self, _key: str, _raw: Mapping[str, Any] | None) -> None:
        self.exists = False
        self.changed.set()


def _scheduling_fields(raw: Mapping[str, Any]) -> tuple[Any, ...]:
    """The parts of a group that scheduling depends on."""
    metadata = raw["metadata"]
    named = tuple(metadata.get(name) for name in ("uid", "generation", "labels", "annotations", "deletionTimestamp"))
    return raw.get("spec"), was_scheduled(conditions_of(raw)), named


def _name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}"
