"""ImageLocality: prefers nodes that already have the pod's images. Larger and more widespread images count more.

Each image adds its size times the share of nodes that have it. A sum of 23 MiB or less scores 0; 1000 MiB per image of the pod or
more scores 100. The size of an image is the one that the first node reported. `ImageIndex` holds sizes and counts. The scores
of a set of images are a column, which is kept until a node changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from podwright.core.framework.cost import ORDINARY, Cost
from podwright.core.framework.interface import (
    MAX_SCORE,
    CycleState,
    Feasible,
    Handle,
    Int64s,
    Plugin,
    Scope,
    ScorePlugin,
)
from podwright.core.objects.compaction import RecentCache, compact_regularly, shrink
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodImages, PodInfo
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

_MIB: Final = 1024 * 1024
_LEAST: Final = 23 * _MIB
_GREATEST_PER_IMAGE: Final = 1000 * _MIB
_GREATEST: Final = 2**50
"""A greater contribution makes no difference. The sum of as many as a pod has images fits into int64."""
_KEPT: Final = 256
FEW_IMAGES: Final = 16
"""If a pod has more images than this, the images of each node are looked up among them, instead of the nodes that have each image."""


class ImageIndex:
    """By image name: its size in bytes, and how many nodes have it."""

    def __init__(self) -> None:
        self._known: dict[str, list[int]] = {}
        compact_regularly(self)

    def compact(self) -> None:
        """Frees the memory that the dictionary needed when there were more images."""
        shrink(self._known)

    def contribution(self, name: str, nodes: int) -> int:
        """The bytes that the image adds on a node that has it: its size times the share of nodes that have it."""
        size, having = self._known.get(name, (0, 0))
        return min(int(float(size) * (having / nodes)), _GREATEST) if having else 0

    def has(self, name: str) -> bool:
        """Whether any node has the image."""
        return name in self._known

    def node_set(self, slot: int, before: Node | None, after: Node | None) -> None:
        for name in before.images if before is not None else ():
            entry = self._known[name]
            entry[1] -= 1
            if not entry[1]:
                del self._known[name]
        for name, size in after.images.items() if after is not None else ():
            self._known.setdefault(name, [size, 0])[1] += 1

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        """Ignored: the kubelet reports the images of a node."""

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        """See pod_added."""

    def namespace_set(self, name: str, labels: Mapping[str, str]) -> None:
        """Ignored: images do not depend on namespaces."""


class ImageLocality(Plugin, ScorePlugin):
    """See the module."""

    name = "ImageLocality"
    scope = Scope.NODE

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._index = handle.cache.observer(ImageIndex)
        self._scores: RecentCache[PodImages, tuple[int, Int64s | int]] = RecentCache(_KEPT // 2)

    def costs(self, pod: PodInfo) -> Iterable[Cost]:
        return (Cost(number, "images", 5e-6),) if (number := pod.images.count) > ORDINARY else ()

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        total = self.handle.cache.table.count
        images = node.present.images
        found = sum(self._index.contribution(name, total) for name in _names(pod.images) if name in images)
        least, greatest = _LEAST, _GREATEST_PER_IMAGE * pod.images.count
        return MAX_SCORE * (max(least, min(found, greatest)) - least) // (greatest - least)

    def score_all(self, _state: CycleState, pod: PodInfo, feasible: Feasible) -> Int64s | int:
        images = pod.images
        known = self._scores.get(images)
        if known is None or known[0] != feasible.table.epoch:
            known = (feasible.table.epoch, self._column(feasible.table, images))
            self._scores.put(images, known)
        scores = known[1]
        return scores if isinstance(scores, int) else feasible.take(scores)

    def _column(self, table: NodeTable, images: PodImages) -> Int64s | int:
        """int64[nodes], or 0 if no node has any of the images."""
        known = [name for name in _names(images) if self._index.has(name)]
        if not known:
            return 0
        found = self._one_by_one(table, known) if len(known) <= FEW_IMAGES else self._by_node(table, known)
        greatest = _GREATEST_PER_IMAGE * images.count
        return (found.clip(_LEAST, greatest) - _LEAST) * MAX_SCORE // (greatest - _LEAST)

    def _one_by_one(self, table: NodeTable, names: Sequence[str]) -> Int64s:
        """int64[nodes]: what these images add. Which nodes have an image is kept."""
        found = np.zeros(table.size, np.int64)
        for name in names:
            found += self._having(name) * self._index.contribution(name, table.count)
        return found

    def _by_node(self, table: NodeTable, names: Sequence[str]) -> Int64s:
        """As `_one_by_one` for many images, in one pass over the nodes' images."""
        added: dict[str, int] = {}
        for name in names:
            added[name] = added.get(name, 0) + self._index.contribution(name, table.count)
        found = np.zeros(table.size, np.int64)
        for slot, node in enumerate(table.nodes):
            if node is not None:
                found[slot] = sum([added[name] for name in node.images if name in added])
        return found

    def _having(self, name: str) -> Int64s:
        """int64[nodes]: 1 if the node has the image, else 0."""
        return self.handle.cache.derived.get(("image", name), lambda node: name in node.images, np.int64)


def _names(images: PodImages) -> list[str]:
    """The image names, repeated as often as the pod uses them, with the default tag added to untagged names."""
    return [_tagged(name) for names in (images.init_containers, images.containers, images.volumes) for name in names]


def _tagged(name: str) -> str:
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
