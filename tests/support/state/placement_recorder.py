"""An observer of the cache that records which pods and nodes were reported to it."""

from __future__ import annotations

from collections.abc import Mapping

from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo


class PlacementRecorder:
    """Fails if a pod is reported twice, or removed from a row that it is not on."""

    def __init__(self) -> None:
        self.pods: dict[str, int] = {}
        """Rows by uid."""
        self.nodes: dict[int, str] = {}
        """Names by row."""

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        assert pod.uid not in self.pods
        self.pods[pod.uid] = slot

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        assert self.pods.pop(pod.uid) == slot

    def node_set(self, slot: int, before: Node | None, after: Node | None) -> None:
        assert (self.nodes.pop(slot, None) is None) is (before is None)
        if after is not None:
            self.nodes[slot] = after.name

    def namespace_set(self, name: str, labels: Mapping[str, str]) -> None:
        """Namespaces are not recorded."""
