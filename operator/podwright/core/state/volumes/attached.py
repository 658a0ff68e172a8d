"""AttachedVolumes: the number of CSI volumes of each driver that are attached to each node, and the node's limit.

A node's count includes the distinct volumes that its pods mount through claims, the in-tree volumes that are migrated
to CSI, and the volumes of its VolumeAttachments. It is updated with every pod, claim, volume, attachment and CSINode.
Invariant: `counts(driver)` equals what `NodeVolumeLimits.filter` counts for each node, which a test checks. Invalid
claims are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.csi_migration import MigrationError, inline_handle, kind_of
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.items_by_key import count, drop
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.volumes import claims_of, mapping_at
from podwright.core.state.object_store import Object, ObjectStore, key_of
from podwright.core.state.volumes.volume_index import CsiVolume, VolumeIndex

NO_LIMIT: Final = 2**62
ClaimKey = tuple[str, str]
Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


class _Column:
    """An array over slots that grows on demand. `used`: how many values are not the default."""

    __slots__ = ("_default", "used", "values")

    def __init__(self, default: int | bool) -> None:
        self._default = default
        self.used = 0
        self.values: NDArray[Any] = np.full(64, default)

    def view(self, size: int) -> NDArray[Any]:
        self._grow_to(size)
        view = self.values[:size]
        view.setflags(write=False)
        return view

    def add(self, slot: int, amount: int) -> None:
        self._grow_to(slot + 1)
        self.set(slot, int(self.values[slot]) + amount)

    def set(self, slot: int, value: int | bool) -> None:
        self._grow_to(slot + 1)
        self.used += int(value != self._default) - int(self.values[slot] != self._default)
        self.values[slot] = value

    def _grow_to(self, size: int) -> None:
        if size > len(self.values):
            more = max(size - len(self.values), len(self.values))
            self.values = np.pad(self.values, (0, more), constant_values=self._default)


class _Columns:
    """Columns by driver. A driver without values other than the default has none."""

    __slots__ = ("_columns", "_default")

    def __init__(self, default: int | bool) -> None:
        self._default = default
        self._columns: dict[str, _Column] = {}

    def known(self, driver: str, size: int) -> NDArray[Any] | None:
        """The driver's column, read-only; None if it has none."""
        column = self._columns.get(driver)
        return None if column is None else column.view(size)

    def view(self, driver: str, size: int) -> NDArray[Any]:
        """The driver's column, read-only; one with defaults if it has none."""
        column = self._columns.get(driver)
        return (_Column(self._default) if column is None else column).view(size)

    def add(self, driver: str, slot: int, amount: int) -> None:
        self._column(driver).add(slot, amount)
        self._drop_if_unused(driver)

    def set(self, driver: str, slot: int, value: int | bool) -> None:
        self._column(driver).set(slot, value)
        self._drop_if_unused(driver)

    def _column(self, driver: str) -> _Column:
        column = self._columns.get(driver)
        if column is None:
            column = self._columns[driver] = _Column(self._default)
        return column

    def _drop_if_unused(self, driver: str) -> None:
        if not self._columns[driver].used:
            del self._columns[driver]


class AttachedVolumes:
    """See the module. Slots are rows of the node table."""

    def __init__(self, store: ObjectStore, index: VolumeIndex) -> None:
        self._store = store
        self._index = index
        self._slots: dict[str, int] = {}
        self._csi_nodes: dict[int, Mapping[str, int | None]] = {}
        self._known = _Column(default=False)
        self._installed = _Columns(default=False)
        self._limits = _Columns(NO_LIMIT)
        self._counts = _Columns(0)
        self._uses: dict[CsiVolume, dict[int, list[int]]] = {}
        """By volume and slot: the number of mounts by pods, and of attachments."""
        self._users: dict[ClaimKey, dict[int, int]] = {}
        """By claim and slot: the number of mounts by pods."""
        self._resolved: dict[ClaimKey, tuple[CsiVolume | None, str]] = {}
        """By mounted claim: its CSI volume and the name of its PersistentVolume."""
        self._claims_by_volume: dict[str, dict[ClaimKey, None]] = {}
        self._attachments: dict[str, tuple[str, str, str]] = {}
        """By name: node, attacher, PersistentVolume."""
        self._on_node: dict[str, dict[str, None]] = {}
        self._of_volume: dict[str, dict[str, None]] = {}
        self._attached: dict[str, CsiVolume] = {}
        """The attachments that are counted, with their volumes."""
        for kind, listener in (
            ("PersistentVolumeClaim", self._claim_changed),
            ("PersistentVolume", self._volume_changed),
            ("StorageClass", self._class_changed),
            ("VolumeAttachment", self._attachment_changed),
            ("CSINode", self._csi_node_changed),
        ):
            store.listen(kind, listener)
        compact_regularly(self)

    # Reading

    def counts(self, driver: str, size: int) -> Int64s:
        """int64[size]: the number of attached volumes of the driver."""
        return self._counts.view(driver, size)

    def limits(self, driver: str, size: int) -> Int64s | None:
        """int64[size]: the node's limit, NO_LIMIT if it has none; None if no node has one."""
        return self._limits.known(driver, size)

    def installed(self, driver: str, size: int) -> Bools:
        """bool[size]: the node's CSINode lists the driver."""
        return self._installed.view(driver, size)

    def known(self, size: int) -> Bools:
        """bool[size]: the node has a CSINode."""
        return self._known.view(size)

    def mounted_on(self, volume: CsiVolume) -> list[int]:
        """The slots whose pods already mount the volume."""
        return [slot for slot, (pods, _) in self._uses.get(volume, {}).items() if pods]

    def attached_to(self, node_name: str) -> Iterator[CsiVolume]:
        """The CSI volumes of the node's VolumeAttachments."""
        for name in self._on_node.get(node_name, ()):
            volume = self._volume_of(name)
            if volume is not None:
                yield volume

    # Pods and nodes

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        self._use_all(pod, slot, 1)

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        self._use_all(pod, slot, -1)

    def node_added(self, name: str, slot: int) -> None:
        self._slots[name] = slot
        csi_node = self._store.get("CSINode", name)
        if csi_node is not None:
            self._set_csi_node(slot, csi_node)
        for attachment in self._on_node.get(name, ()):
            self._attach(attachment)

    def node_removed(self, name: str, slot: int) -> None:
        """Removes a node after its pods were removed."""
        for attachment in self._on_node.get(name, ()):
            self._detach(attachment)
        self._set_csi_node(slot, None)
        self._slots.pop(name, None)

    def _use_all(self, pod: PodInfo, slot: int, sign: int) -> None:
        for name, _ in claims_of(pod):
            self._use_claim((pod.namespace, name), slot, sign)
        for volume in pod.volumes:
            kind = kind_of(volume)
            if kind is not None and kind.translated:
                try:
                    self._count((kind.driver, inline_handle(volume, kind), ""), slot, 0, sign)
                except MigrationError:
                    continue

    def _use_claim(self, key: ClaimKey, slot: int, sign: int) -> None:
        slots = self._users.setdefault(key, {})
        if key not in self._resolved:
            self._resolve(key)
        count(slots, slot, sign)
        volume = self._resolved[key][0]
        if volume is not None:
            self._count(volume, slot, 0, sign)
        if not slots:
            del self._users[key]
            self._unresolve(key)

    def _count(self, volume: CsiVolume, slot: int, which: int, amount: int) -> None:
        """Adds to the uses by pods (`which` 0) or attachments (`which` 1).

        A volume counts once per node, regardless of its uses.
        """
        uses = self._uses.setdefault(volume, {}).setdefault(slot, [0, 0])
        before = uses[0] or uses[1]
        uses[which] += amount
        after = uses[0] or uses[1]
        if bool(before) != bool(after):
            self._counts.add(volume[0], slot, 1 if after else -1)
        if not after:
            drop(self._uses, volume, slot)

    # Claims

    def _resolve(self, key: ClaimKey) -> None:
        volume: CsiVolume | None = None
        source = ""
        try:
            claim = self._index.stored_claim(*key)
            if claim is not None:
                source = claim.volume_name
                volume = self._index.csi_volume(claim)
        except InvalidObjectError:
            pass
        self._resolved[key] = (volume, source)
        if source:
            self._claims_by_volume.setdefault(source, {})[key] = None

    def _unresolve(self, key: ClaimKey) -> None:
        _, source = self._resolved.pop(key)
        if source:
            drop(self._claims_by_volume, source, key)

    def _resolve_again(self, key: ClaimKey) -> None:
        before = self._resolved[key][0]
        self._unresolve(key)
        self._resolve(key)
        after = self._resolved[key][0]
        if before == after:
            return
        for slot, uses in self._users[key].items():
            if before is not None:
                self._count(before, slot, 0, -uses)
            if after is not None:
                self._count(after, slot, 0, uses)

    def _claim_changed(self, before: Object | None, after: Object | None) -> None:
        key = key_of(after or before or {})
        if key in self._users:
            self._resolve_again(key)

    def _volume_changed(self, before: Object | None, after: Object | None) -> None:
        name = key_of(after or before or {})[1]
        for key in tuple(self._claims_by_volume.get(name, ())):
            self._resolve_again(key)
        for attachment in self._of_volume.get(name, ()):
            self._detach(attachment)
            self._attach(attachment)

    def _class_changed(self, _before: Object | None, _after: Object | None) -> None:
        for key in tuple(self._users):
            self._resolve_again(key)

    # Attachments

    def _attachment_changed(self, before: Object | None, after: Object | None) -> None:
        name = key_of(after or before or {})[1]
        if name in self._attachments:
            self._detach(name)
            node, _, volume = self._attachments.pop(name)
            drop(self._on_node, node, name)
            drop(self._of_volume, volume, name)
        if after is not None:
            spec = mapping_at(after, "spec")
            node = str(spec.get("nodeName") or "")
            volume = str(mapping_at(spec, "source").get("persistentVolumeName") or "")
            self._attachments[name] = (node, str(spec.get("attacher") or ""), volume)
            self._on_node.setdefault(node, {})[name] = None
            self._of_volume.setdefault(volume, {})[name] = None
            self._attach(name)

    def _volume_of(self, attachment: str) -> CsiVolume | None:
        _, attacher, name = self._attachments[attachment]
        if not attacher or not name:
            return None
        try:
            volume = self._index.stored_volume(name)
        except InvalidObjectError:
            return None
        return None if volume is None or volume.csi is None else (attacher, volume.csi[1], "")

    def _attach(self, attachment: str) -> None:
        slot = self._slots.get(self._attachments[attachment][0])
        volume = self._volume_of(attachment)
        if slot is not None and volume is not None:
            self._attached[attachment] = volume
            self._count(volume, slot, 1, 1)

    def _detach(self, attachment: str) -> None:
        volume = self._attached.pop(attachment, None)
        if volume is not None:
            self._count(volume, self._slots[self._attachments[attachment][0]], 1, -1)

    # CSINodes

    def _csi_node_changed(self, before: Object | None, after: Object | None) -> None:
        slot = self._slots.get(key_of(after or before or {})[1])
        if slot is not None:
            self._set_csi_node(slot, after)

    def _set_csi_node(self, slot: int, raw: Object | None) -> None:
        drivers = {} if raw is None else dict(drivers_of(raw))
        for driver in self._csi_nodes.pop(slot, {}):
            self._installed.set(driver, slot, value=False)
            self._limits.set(driver, slot, NO_LIMIT)
        for driver, limit in drivers.items():
            self._installed.set(driver, slot, value=True)
            self._limits.set(driver, slot, NO_LIMIT if limit is None else limit)
        if raw is not None:
            self._csi_nodes[slot] = drivers
        self._known.set(slot, value=raw is not None)


def drivers_of(csi_node: Object) -> Iterator[tuple[str, int | None]]:
    """The drivers of a CSINode, each with the node's limit of volumes; None if it has none."""
    drivers = mapping_at(csi_node, "spec").get("drivers")
    for driver in drivers if isinstance(drivers, list | tuple) else ():
        if isinstance(driver, Mapping):
            count = mapping_at(driver, "allocatable").get("count")
            yield str(driver.get("name") or ""), count if isinstance(count, int) else None
