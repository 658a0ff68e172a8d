"""VolumeIndex: volumes, claims and classes, parsed when asked for, and free volumes by storage class.

Invariant: what is returned is what the store (with the assumed versions on top, unless `stored_` is in the name) says
now; parsed objects are kept as long as their source is the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

from podwright.core.objects.csi_migration import BY_PLUGIN, MigrationError, kind_of, volume_handle
from podwright.core.objects.errors import InvalidObjectError
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
from podwright.core.state.volumes.assumed import AssumedObjects

T = TypeVar("T")
_KEPT: Final = 65536

CsiVolume = tuple[str, str, str]
"""(driver, volume handle, "") or, of a volume that is still to be made, (driver, "", namespace/name of the claim)."""


class _Parsed(Generic[T]):
    """Parsed objects by the identity of their source."""

    __slots__ = ("_known", "_parse")

    def __init__(self, parse: Callable[[Object], T]) -> None:
        self._parse = parse
        self._known: dict[tuple[str, str], tuple[Object, T]] = {}

    def get(self, key: tuple[str, str], raw: Object) -> T:
        known = self._known.get(key)
        if known is not None and known[0] is raw:
            return known[1]
        parsed = self._parse(raw)
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[key] = (raw, parsed)
        return parsed


class VolumeIndex:
    """See the module. All getters raise InvalidObjectError for an object that cannot be understood."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.assumed_volumes = AssumedObjects(store, "PersistentVolume")
        self.assumed_claims = AssumedObjects(store, "PersistentVolumeClaim")
        self._free: dict[str, dict[str, None]] = {}
        self._kept_for: dict[tuple[str, str], dict[str, None]] = {}
        self._volumes = _Parsed(parse_volume)
        self._claims = _Parsed(parse_claim)
        self._classes = _Parsed(parse_storage_class)
        self._capacities: list[StorageCapacity] = []
        self._capacities_version = -1
        store.listen("PersistentVolume", self._volume_changed)

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
        """The CSIStorageCapacities of a class. One that cannot be understood is none."""
        version = self._store.version("CSIStorageCapacity")
        if version != self._capacities_version:
            self._capacities = list(self._parse_capacities())
            self._capacities_version = version
        return (capacity for capacity in self._capacities if capacity.storage_class == storage_class)

    def candidates(self, claim: PersistentVolumeClaim) -> Iterator[PersistentVolume]:
        """The volumes of the claim's class that are bound to nothing or kept for this claim, assumed ones included.

        A volume that cannot be understood is none.
        """
        names = dict(self._free.get(claim.storage_class, ()))
        names.update(self._kept_for.get((claim.namespace, claim.name), {}))
        for name in names:
            try:
                volume = self.volume(name)
            except InvalidObjectError:
                continue
            if volume is None or volume.storage_class != claim.storage_class:
                continue
            if volume.claim is None or claim.reserved_by(volume):
                yield volume

    def csi_volume(self, claim: PersistentVolumeClaim, *, migrated: bool = True) -> CsiVolume | None:
        """The CSI volume behind a stored claim, or that will be made for it; None if it is no CSI volume.

        `migrated`: in-tree volumes count as the CSI volumes that replace them.
        """
        volume = self.stored_volume(claim.volume_name) if claim.volume_name else None
        if volume is None:
            return self._csi_volume_to_make(claim, migrated=migrated)
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

    def _csi_volume_to_make(self, claim: PersistentVolumeClaim, *, migrated: bool) -> CsiVolume | None:
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
            shelf, label = self._shelf_of(before)
            shelf[label].pop(key_of(before)[1], None)
            if not shelf[label]:
                del shelf[label]
        if after is not None:
            shelf, label = self._shelf_of(after)
            shelf.setdefault(label, {})[key_of(after)[1]] = None

    def _shelf_of(self, raw: Object) -> tuple[dict[Any, dict[str, None]], Any]:
        """Where the volume is listed: with those kept for one claim, or with the free ones of its class."""
        if mapping_at(raw, "spec").get("claimRef") is None:
            return self._free, storage_class_of(raw)
        claim = mapping_at(raw, "spec", "claimRef")
        return self._kept_for, (str(claim.get("namespace") or ""), str(claim.get("name") or ""))
