"""VolumeIndex: volumes, claims and storage classes, parsed on demand, and free volumes by storage class.

Invariant: results reflect the current store. Assumed versions replace stored ones, except in methods named `stored_`.
Parsed objects are cached as long as their source is the same object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.csi_migration import BY_PLUGIN, MigrationError, kind_of, volume_handle
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.items_by_key import drop
from podwright.core.objects.volumes import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    mapping_at,
    parse_claim,
    parse_storage_capacity,
    parse_storage_class,
    parse_volume,
    storage_class_of,
)
from podwright.core.state.object_store import Object, ObjectStore, key_of
from podwright.core.state.parsed_objects import ParsedObjects
from podwright.core.state.volumes.assumed import AssumedObjects

CsiVolume = tuple[str, str, str]
"""(driver, volume handle, "") or, for a volume that is not provisioned yet, (driver, "", namespace/name of the claim).
"""


class VolumeIndex:
    """See the module. Getters of one object raise InvalidObjectError if it is invalid."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.assumed_volumes = AssumedObjects(store, "PersistentVolume")
        self.assumed_claims = AssumedObjects(store, "PersistentVolumeClaim")
        self._free: dict[str, dict[str, None]] = {}
        self._reserved: dict[tuple[str, str], dict[str, None]] = {}
        self._volumes = ParsedObjects(store, "PersistentVolume", parse=parse_volume)
        self._claims = ParsedObjects(store, "PersistentVolumeClaim", parse=parse_claim)
        self._classes = ParsedObjects(store, "StorageClass", parse=parse_storage_class)
        self._capacities: list[StorageCapacity] = []
        self._capacities_version = -1
        store.listen("PersistentVolume", self._volume_changed)
        compact_regularly(self)

    def compact(self) -> None:
        """Drops what outdated objects have left."""
        if self._store.version("CSIStorageCapacity") != self._capacities_version:
            self._capacities, self._capacities_version = [], -1

    @property
    def changes(self) -> int:
        """Rises with each assumption about a volume or a claim."""
        return self.assumed_volumes.changes + self.assumed_claims.changes

    def volume(self, name: str) -> PersistentVolume | None:
        raw = self.assumed_volumes.get(name)
        return None if raw is None else self._volumes.get(("", name), raw)

    def stored_volume(self, name: str) -> PersistentVolume | None:
        raw = self._store.get("PersistentVolume", name)
        return None if raw is None else self._volumes.get(("", name), raw)

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        raw = self.assumed_claims.get(name, namespace)
        return None if raw is None else self._claims.get((namespace, name), raw)

    def stored_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        raw = self._store.get("PersistentVolumeClaim", name, namespace)
        return None if raw is None else self._claims.get((namespace, name), raw)

    def storage_class(self, name: str) -> StorageClass | None:
        raw = self._store.get("StorageClass", name)
        return None if raw is None else self._classes.get(("", name), raw)

    def capacities(self, storage_class: str) -> Iterator[StorageCapacity]:
        """The CSIStorageCapacities of a class, without invalid ones."""
        version = self._store.version("CSIStorageCapacity")
        if version != self._capacities_version:
            self._capacities = list(self._parse_capacities())
            self._capacities_version = version
        return (capacity for capacity in self._capacities if capacity.storage_class == storage_class)

    def unbound(self, storage_class: str) -> Iterator[PersistentVolume]:
        """The volumes of a class that are stored without a claim. An assumed version may have one. Leaves out invalid
        volumes.
        """
        return self._valid(self._free.get(storage_class, ()), storage_class)

    def reserved(self, claim: PersistentVolumeClaim) -> Iterator[PersistentVolume]:
        """The volumes of the claim's class that are stored with a claim of this name. Leaves out invalid volumes."""
        return self._valid(self._reserved.get((claim.namespace, claim.name), ()), claim.storage_class)

    def _valid(self, names: Iterable[str], storage_class: str) -> Iterator[PersistentVolume]:
        for name in names:
            try:
                volume = self.volume(name)
            except InvalidObjectError:
                continue
            if volume is not None and volume.storage_class == storage_class:
                yield volume

    def csi_volume(self, claim: PersistentVolumeClaim, *, migrated: bool = True) -> CsiVolume | None:
        """The CSI volume of a stored claim, which may not be provisioned yet; None if it is not a CSI volume.

        `migrated`: translate in-tree volumes to the CSI volumes that replace them.
        """
        volume = self.stored_volume(claim.volume_name) if claim.volume_name else None
        if volume is None:
            return self._csi_volume_to_provision(claim, migrated=migrated)
        if volume.csi is not None:
            driver, handle = volume.csi
            return (driver, handle, "") if driver and handle else None
        kind = kind_of(mapping_at(volume.raw, "spec"))
        if kind is None or not kind.translated or not migrated:
            return None
        try:
            handle = volume_handle(volume, kind)
        except MigrationError:
            return None
        return (kind.driver, handle, "") if handle else None

    def _csi_volume_to_provision(self, claim: PersistentVolumeClaim, *, migrated: bool) -> CsiVolume | None:
        found = self.storage_class(claim.storage_class) if claim.storage_class else None
        if found is None:
            return None
        driver = found.provisioner
        kind = BY_PLUGIN.get(driver)
        if kind is not None:
            if not kind.translated or not migrated:
                return None
            driver = kind.driver
        return (driver, "", claim.key) if driver else None

    def _parse_capacities(self) -> Iterator[StorageCapacity]:
        for raw in self._store.list("CSIStorageCapacity"):
            try:
                yield parse_storage_capacity(raw)
            except InvalidObjectError:
                continue

    def _volume_changed(self, before: Object | None, after: Object | None) -> None:
        if before is not None:
            names, key = self._names_with(before)
            drop(names, key, key_of(before)[1])
        if after is not None:
            names, key = self._names_with(after)
            names.setdefault(key, {})[key_of(after)[1]] = None

    def _names_with(self, raw: Object) -> tuple[dict[Any, dict[str, None]], Any]:
        """The names that include this volume, and their key: those reserved for its claim, or the free ones of its
        class.
        """
        if mapping_at(raw, "spec").get("claimRef") is None:
            return self._free, storage_class_of(raw)
        claim = mapping_at(raw, "spec", "claimRef")
        return self._reserved, (str(claim.get("namespace") or ""), str(claim.get("name") or ""))
