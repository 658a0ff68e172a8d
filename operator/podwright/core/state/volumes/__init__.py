"""The volume state of the cache: volumes and claims, their assumed versions, and the volumes that placed pods use.

`Volumes` combines the parts and is an observer of the cache. Start with `volume_index`.
"""

from __future__ import annotations

from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.state.object_store import ObjectStore
from podwright.core.state.observers import Batch, PlacementObserver, PodsInRows, one_by_one
from podwright.core.state.volumes.attached import AttachedVolumes
from podwright.core.state.volumes.used import UsedVolumes
from podwright.core.state.volumes.volume_index import VolumeIndex

__all__ = ["Volumes"]


class Volumes(PlacementObserver):
    """`index` finds volumes and claims, `attached` counts CSI volumes per node, `used` has the mounts of placed
    pods.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.index = VolumeIndex(store)
        self.attached = AttachedVolumes(store, self.index)
        self.used = UsedVolumes()

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        if pod.volumes:
            self.attached.pod_added(pod, slot)
            self.used.pod_added(pod, slot)

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        if pod.volumes:
            self.attached.pod_removed(pod, slot)
            self.used.pod_removed(pod, slot)

    def batch(self, pods: PodsInRows) -> Batch:
        return one_by_one(self, [each for each in pods if each[0].volumes])

    def node_set(self, slot: int, before: Node | None, after: Node | None) -> None:
        if before is None and after is not None:
            self.attached.node_added(after.name, slot)
        elif before is not None and after is None:
            self.attached.node_removed(before.name, slot)
