"""UsedVolumes: the claims that placed pods mount, and the nodes on which disks with exclusive use are mounted.

Invariant: both contain exactly the mounts of the pods on existing nodes. Source: kube-scheduler, VolumeRestrictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.items_by_key import count, drop
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.volumes import claims_of, mapping_at

Disk = tuple[str, ...]
"""Identifies a disk. Mounts of the same disk may conflict."""
EXCLUSIVE: Final = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")
"""The kinds of volumes that the pods of one node can share only read-only or not at all."""


class UsedVolumes:
    """See the module."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], int] = {}
        self._disks: dict[Disk, dict[int, list[int]]] = {}
        """By disk and slot: the number of mounts, and of those that can write."""
        compact_regularly(self)

    def claim_in_use(self, namespace: str, name: str) -> bool:
        """True if a pod on an existing node mounts the claim."""
        return (namespace, name) in self._claims

    def conflicts(self, volume: Mapping[str, Any]) -> list[int]:
        """The slots at which the volume conflicts with a mounted one."""
        return [
            slot
            for disk, shared in disks_of(volume)
            for slot, (_, writers) in self._disks.get(disk, {}).items()
            if writers or not shared
        ]

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        self._use(pod, slot, 1)

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        self._use(pod, slot, -1)

    def _use(self, pod: PodInfo, slot: int, sign: int) -> None:
        for name, ephemeral in claims_of(pod):
            if not ephemeral:
                count(self._claims, (pod.namespace, name), sign)
        for volume in pod.volumes:
            for disk, shared in disks_of(volume):
                mounts = self._disks.setdefault(disk, {}).setdefault(slot, [0, 0])
                mounts[0] += sign
                mounts[1] += 0 if shared else sign
                if not mounts[0]:
                    drop(self._disks, disk, slot)


def disks_of(volume: Mapping[str, Any]) -> Iterator[tuple[Disk, bool]]:
    """The disks of a volume, each with whether readers can share it. An RBD image has one for each monitor."""
    for kind in EXCLUSIVE:
        if volume.get(kind) is None:
            continue
        source = mapping_at(volume, kind)
        shared = bool(source.get("readOnly"))
        match kind:
            case "gcePersistentDisk":
                yield (kind, str(source.get("pdName") or "")), shared
            case "awsElasticBlockStore":
                yield (kind, str(source.get("volumeID") or "")), False
            case "iscsi":
                yield (kind, str(source.get("iqn") or "")), shared
            case "rbd":
                image = (str(source.get("pool") or "rbd"), str(source.get("image") or ""))
                monitors = source.get("monitors")
                for monitor in dict.fromkeys(map(str, monitors if isinstance(monitors, list | tuple) else ())):
                    yield (kind, monitor, *image), shared
