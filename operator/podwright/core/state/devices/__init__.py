"""The device state of the cache: the pools that each node reaches, the claims, and which devices are in use.

`Devices` combines the parts. Start with `index` for devices, and with `claims` for who has them. `core.devices`
allocates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from podwright.core.objects.devices.classes import IMPLICIT_RESOURCE, DeviceClass, parse_device_class
from podwright.core.state.columns import DerivedColumns, NodeTable
from podwright.core.state.devices.claims import ClaimState
from podwright.core.state.devices.definitions import Definitions
from podwright.core.state.devices.index import DeviceIndex
from podwright.core.state.devices.unreadable import Unreadable
from podwright.core.state.object_store import Object, ObjectStore
from podwright.core.state.parsed_objects import ParsedObjects

__all__ = ["Devices"]

CLASS_KIND: Final = "DeviceClass"


class Devices:
    """`claims` knows the claims and what they have, `index` the pools that nodes reach. Costs little until devices are
    asked for.
    """

    def __init__(
        self, store: ObjectStore, *, table: NodeTable, derived: DerivedColumns, pause: Callable[[], None]
    ) -> None:
        self._store = store
        self._classes = ParsedObjects(store, CLASS_KIND, parse=self._read_class)
        self._by_resource: dict[str, DeviceClass] = {}
        self._by_resource_version = 0
        self.claims = ClaimState(store)
        self.unreadable = Unreadable()
        self.index = DeviceIndex(
            store, table=table, derived=derived, usage=self.claims.usage, unreadable=self.unreadable, pause=pause
        )
        self.claims.holders.defined = Definitions(self.index)
        store.listen(CLASS_KIND, self._class_changed)

    def _read_class(self, raw: Object) -> DeviceClass:
        found = parse_device_class(raw)
        self.unreadable.note((CLASS_KIND, found.name), found.problems)
        return found

    def _class_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None and before is not None:
            self.unreadable.note((CLASS_KIND, before["metadata"]["name"]), ())

    def device_class(self, name: str) -> DeviceClass | None:
        raw = self._store.get(CLASS_KIND, name)
        return None if raw is None else self._classes.get(("", name), raw)

    @property
    def any_class(self) -> bool:
        """True if there has been a class: without one, no class stands for a resource."""
        return self._store.version(CLASS_KIND) > 0

    def class_of_resource(self, resource: str) -> DeviceClass | None:
        """The class that stands for an extended resource: the newest that names it (of equally new ones the one with
        the lowest name), or the one whose implicit resource it is. Source: `updateResourceName2class` in
        k8s.io/dynamic-resource-allocation.
        """
        version = self._store.version(CLASS_KIND)
        if version != self._by_resource_version:
            self._by_resource_version = version
            self._by_resource = self._resources()
        return self._by_resource.get(resource)

    def _resources(self) -> dict[str, DeviceClass]:
        names = [raw["metadata"]["name"] for raw in self._store.list(CLASS_KIND)]
        classes = [found for name in names if (found := self.device_class(name)) is not None]
        by_resource = {IMPLICIT_RESOURCE + found.name: found for found in classes}
        for found in sorted(classes, key=lambda found: (-found.creation, found.name)):
            if found.extended_resource:
                by_resource.setdefault(found.extended_resource, found)
        return by_resource
