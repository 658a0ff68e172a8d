"""The doors of pod groups: while an API is served and readable, its groups are in the object store. Until then, pods
that name a group of it are scheduled one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from podwright.core.framework.features import Features
from podwright.core.objects.pod_group import (
    APIS,
    COMPOSITE_KIND,
    GROVE_KIND,
    KAI_KIND,
    KIND,
    PLUGINS_KIND,
    VOLCANO_KIND,
    fields_off,
    group_key,
    without_fields,
)
from podwright.engine.engine import Engine
from podwright.kube.client.object_metadata import conditions_of
from podwright.kube.kinds import (
    COMPOSITE_POD_GROUPS,
    KAI_POD_GROUPS,
    PLUGINS_POD_GROUPS,
    POD_GANGS,
    POD_GROUPS,
    VOLCANO_POD_GROUPS,
    Resource,
)
from podwright.kube.pod_groups.group_status import PodGroupStatusWriter, was_scheduled
from podwright.kube.watch.served_kinds import Door

_RESOURCES: Final[Mapping[str, Sequence[Resource]]] = {
    KIND: POD_GROUPS,
    COMPOSITE_KIND: COMPOSITE_POD_GROUPS,
    PLUGINS_KIND: PLUGINS_POD_GROUPS,
    VOLCANO_KIND: VOLCANO_POD_GROUPS,
    KAI_KIND: KAI_POD_GROUPS,
    GROVE_KIND: POD_GANGS,
}
"""By kind: the versions, best first."""


class PodGroupDoor(Door):
    """See the module. One kind of pod groups. A change of their status alone, which we write, moves no pod."""

    def __init__(
        self, kind: str, engine: Engine, writer: PodGroupStatusWriter, *, without: Collection[str] = ()
    ) -> None:
        """`without`: fields of the spec that are removed."""
        self.kind = kind
        self.about = "composite pod groups" if kind == COMPOSITE_KIND else f"pod groups of {APIS[kind]}"
        self.candidates: Sequence[Resource] = _RESOURCES[kind]
        self.crd = "" if kind in (KIND, COMPOSITE_KIND) else f"{self.candidates[0].plural}.{APIS[kind]}"
        self._engine = engine
        self._writer = writer
        self._without = without
        self._objects = engine.objects(kind)

    def key(self, raw: Mapping[str, Any]) -> str:
        return self._objects.key(raw)

    def begin(self, resource: Resource) -> None:
        # This comes first: no pod of a group may be scheduled as one without.
        self._engine.cache.groups.serve(APIS[self.kind])
        self._writer.use_version(self.kind, resource)

    def end(self, _resource: Resource) -> None:
        self._engine.cache.groups.withdraw(APIS[self.kind])

    async def changed(self) -> None:
        # Pods that name a group may have to wait for it from now on, or no longer have to.
        await self._engine.group_changes.rank_all()
        self._engine.activate_all()

    def put(self, raw: Mapping[str, Any]) -> None:
        try:
            self._writer.seen(self.kind, raw)
            raw = without_fields(raw, self._without)
            metadata = raw["metadata"]
            cache = self._engine.cache
            before = cache.store.get(self.kind, metadata["name"], metadata.get("namespace") or "")
            unknown = before is None or cache.groups.get(self._group_key(self.key(raw))) is None
            changed = unknown or _scheduling_fields(before or {}) != _scheduling_fields(raw)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._engine.invalid_objects.report("PodGroup", self.key(raw), error)
            return
        if changed:
            self._objects.put(raw)

    def drop(self, key: str, raw: Mapping[str, Any] | None) -> None:
        self._objects.drop(key, raw)
        self._writer.forget(self._group_key(key))

    def _group_key(self, name: str) -> str:
        return group_key(APIS[self.kind], *name.split("/", 1))


def pod_group_doors(engine: Engine, writer: PodGroupStatusWriter, gates: Features) -> list[PodGroupDoor]:
    """The gate GenericWorkload turns the Workload API on, CompositePodGroup its hierarchies, and others some fields:
    see `fields_off`.
    """
    off = [] if gates.enabled("GenericWorkload") else [KIND, COMPOSITE_KIND]
    off += [] if gates.enabled("CompositePodGroup") else [COMPOSITE_KIND]
    kinds = [kind for kind in APIS if kind not in off]
    return [PodGroupDoor(kind, engine, writer=writer, without=fields_off(gates.enabled)) for kind in kinds]


def _scheduling_fields(raw: Mapping[str, Any]) -> tuple[Any, ...]:
    """The parts of a group that scheduling depends on."""
    metadata = raw["metadata"]
    named = tuple(metadata.get(name) for name in ("uid", "generation", "labels", "annotations", "deletionTimestamp"))
    return raw.get("spec"), was_scheduled(conditions_of(raw)), named
