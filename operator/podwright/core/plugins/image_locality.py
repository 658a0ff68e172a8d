"""ImageLocality: prefers nodes that already have the pod's images. Larger and more widespread images count more.

Each image adds its size times the share of nodes that have it. A sum of 23 MiB or less scores 0; 1000 MiB per image of
the pod or more scores 100. The size of an image is the one that the first node reported. `ImageIndex` holds sizes and
counts of the images that pods ask for, because nodes may have many others. The scores of a set of images are a column,
which is kept until a node changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import repeat
from operator import contains
from typing import Any, Final

import numpy as np

from podwright.core.framework.cost import ORDINARY, Cost
from podwright.core.framework.interface import (
    MAX_SCORE,
    Bools,
    CycleState,
    Feasible,
    Handle,
    Int16s,
    Int64s,
    Plugin,
    Scope,
    ScorePlugin,
)
from podwright.core.objects.compaction import RecentCache, compact_regularly
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodImages, PodInfo
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.observers import PlacementObserver

_MIB: Final = 1024 * 1024
_LEAST: Final = 23 * _MIB
_GREATEST_PER_IMAGE: Final = 1000 * _MIB
_GREATEST: Final = 2**50
"""A greater contribution makes no difference. The sum of as many as a pod has images fits into int64."""
_NO_IMAGES: Final[Mapping[str, int]] = {}
_KEPT: Final = 256
_MOST_ASKED: Final = 4096
"""About how many images `ImageIndex` knows. If pods ask for more, it counts them when they are asked for again."""
FEW_IMAGES: Final = 16
"""If a pod has more images than this, the images of each node are looked up among them, instead of each image on all
nodes.
"""


class ImageIndex(PlacementObserver):
    """By image name, of those that pods have asked for: its size in bytes, and how many nodes have it."""

    def __init__(self) -> None:
        self._asked: dict[str, list[int]] = {}
        self.scores: RecentCache[PodImages, tuple[int, Int16s | int]] = RecentCache(_KEPT // 2)
        """The scores of all nodes, as of an epoch of the table. The plugins of all policies share them."""
        compact_regularly(self)

    def compact(self) -> None:
        """Forgets the images that no node has."""
        self._asked = {name: entry for name, entry in self._asked.items() if entry[1]}

    def contributions(self, names: Collection[str], table: NodeTable) -> dict[str, int]:
        """The bytes that each of these images adds on a node that has it: its size times the share of nodes that have
        it. Only of images that any node has.
        """
        if len(self._asked) > _MOST_ASKED:
            self._asked.clear()
        asked = self._asked
        if new := {name: [0, 0] for name in names if name not in asked}:
            images = _images_of(table)
            if len(new) <= FEW_IMAGES:
                for name, entry in new.items():
                    if having := sum(map(contains, images, repeat(name))):
                        entry[:] = next(each[name] for each in images if name in each), having
            else:
                for each in images:
                    _count(new, each)
            asked.update(new)
        return {
            name: min(int(float(size) * (having / table.count)), _GREATEST)
            for name in dict.fromkeys(names)
            for size, having in (asked[name],)
            if having
        }

    def node_set(self, slot: int, before: Node | None, after: Node | None) -> None:
        if before is not None:
            for name in _common(self._asked, before.images):
                self._asked[name][1] -= 1
        if after is not None:
            _count(self._asked, after.images)


class ImageLocality(Plugin, ScorePlugin):
    """See the module."""

    name = "ImageLocality"
    scope = Scope.NODE
    keeps_scores = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._index = handle.cache.observer(ImageIndex)

    def costs(self, pod: PodInfo) -> Iterable[Cost]:
        return (Cost(number, "images", 5e-6),) if (number := pod.images.count) > ORDINARY else ()

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        images, names = node.present.images, _names(pod.images)
        added = self._index.contributions(names, self.handle.cache.table)
        found = sum(added[name] for name in names if name in added and name in images)
        least, greatest = _LEAST, _GREATEST_PER_IMAGE * pod.images.count
        return MAX_SCORE * (max(least, min(found, greatest)) - least) // (greatest - least)

    def score_all(self, _state: CycleState, pod: PodInfo, feasible: Feasible) -> Int16s | int:
        images = pod.images
        known = self._index.scores.get(images)
        if known is None or known[0] != feasible.table.epoch:
            known = (feasible.table.epoch, self._column(feasible.table, images))
            self._index.scores.put(images, known)
        scores = known[1]
        return scores if isinstance(scores, int) else feasible.take(scores)

    def _column(self, table: NodeTable, images: PodImages) -> Int16s | int:
        """int16[nodes], or 0 if no node has any of the images."""
        names = _names(images)
        added = self._index.contributions(names, table)
        if not added:
            return 0
        added = {name: bytes_ * times for name, times in Counter(names).items() if (bytes_ := added.get(name, 0))}
        found = self._one_by_one(table, added) if len(added) <= FEW_IMAGES else self._by_node(table, added)
        greatest = _GREATEST_PER_IMAGE * images.count
        return ((found.clip(_LEAST, greatest) - _LEAST) * MAX_SCORE // (greatest - _LEAST)).astype(np.int16)

    def _one_by_one(self, table: NodeTable, added: Mapping[str, int]) -> Int64s:
        """int64[nodes]: what the images add, of those that `added` has. Which nodes have an image is kept."""
        found = np.zeros(table.size, np.int64)
        for name, bytes_ in added.items():
            found += np.multiply(self._having(name), bytes_, dtype=np.int64)
        return found

    def _by_node(self, table: NodeTable, added: Mapping[str, int]) -> Int64s:
        """As `_one_by_one` for many images, in one pass over the nodes' images."""
        found = np.zeros(table.size, np.int64)
        for slot, node in enumerate(table.nodes):
            if node is not None:
                found[slot] = sum([added[name] for name in _common(added, node.images)])
        return found

    def _having(self, name: str) -> Bools:
        """bool[nodes]: whether the node has the image."""

        def whole_table(table: NodeTable) -> Bools:
            return np.fromiter(map(contains, _images_of(table), repeat(name)), np.bool_, table.size)

        return self.handle.cache.derived.get(("image", name), lambda node: name in node.images, np.bool_, whole_table)


def _images_of(table: NodeTable) -> list[Mapping[str, int]]:
    """The images of each row. With these, C code can look for an image on all nodes."""
    return [_NO_IMAGES if node is None else node.images for node in table.nodes]


def _common(asked: Mapping[str, object], images: Mapping[str, int]) -> list[str]:
    """The names that are in both maps."""
    few, many = (asked, images) if len(asked) < len(images) else (images, asked)
    return [name for name in few if name in many]


def _count(entries: Mapping[str, list[int]], images: Mapping[str, int]) -> None:
    """Counts a node's images in entries of size and number of nodes. The first node says the size."""
    for name in _common(entries, images):
        entry = entries[name]
        if not entry[1]:
            entry[0] = images[name]
        entry[1] += 1


def _names(images: PodImages) -> list[str]:
    """The image names, repeated as often as the pod uses them, with the default tag added to untagged names."""
    return [_tagged(name) for names in (images.init_containers, images.containers, images.volumes) for name in names]


def _tagged(name: str) -> str:
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
