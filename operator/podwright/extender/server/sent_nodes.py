"""Nodes that a request brings along (nodeCacheCapable: false): which of them differ from the cache's, and decisions on those sent.

The caller decides on the nodes that it sends, so those are what counts, even if the cache has newer or older ones. Most are of the version
that the watch has delivered: these need no parsing. The others take the place of the cache's for the time of one decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from podwright.core.objects.compaction import compact_regularly, shrink
from podwright.core.objects.node import Node
from podwright.core.objects.readable import parse_known_node
from podwright.core.objects.selectors import as_mapping
from podwright.core.state.cache import Cache
from podwright.engine.intake.nodes import Nodes
from podwright.engine.intake.object_changes import same_node

Raw = Mapping[str, Any]


class NodeVersions:
    """A sink of nodes that remembers the newest version of each, also where nothing that the cache keeps has changed."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._versions: dict[str, str | None] = {}
        """By name: uid and resourceVersion."""
        compact_regularly(self)

    def compact(self) -> None:
        """Frees the memory that the dictionary needed when there were more nodes."""
        shrink(self._versions)

    def key(self, raw: Raw) -> str:
        return self._nodes.key(raw)

    def put(self, raw: Raw) -> None:
        self._versions[self.key(raw)] = _version(raw)
        self._nodes.put(raw)

    def drop(self, key: str, raw: Raw | None) -> None:
        self._versions.pop(key, None)
        self._nodes.drop(key, raw)

    def has(self, name: str, raw: Raw) -> bool:
        """Whether the watch has delivered this very version of the node."""
        version = _version(raw)
        return version is not None and self._versions.get(name) == version


def _version(raw: Raw) -> str | None:
    metadata = raw["metadata"]
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    return f"{uid}/{version}" if uid and version else None


def differing(cache: Cache, versions: NodeVersions, raw: Raw) -> tuple[str, Node | None]:
    """The name of a sent node, and the node itself if the cache has another one or none. Raises InvalidObjectError without a name."""
    metadata = as_mapping(raw.get("metadata"), "metadata")
    name = metadata.get("name")
    known = cache.present(name) if isinstance(name, str) else None
    if isinstance(name, str) and known is not None and versions.has(name, raw):
        return name, None
    node, _problems = parse_known_node(raw)
    same = known is not None and known.node is not None and same_node(known.node, node)
    return node.name, None if same else node


@contextmanager
def in_place(cache: Cache, nodes: Iterable[Node]) -> Iterator[None]:
    """Inside the block, the cache has these nodes instead of its own of the same names. Nothing else may run meanwhile."""
    before: dict[str, Node | None] = {}
    try:
        for node in nodes:
            known = cache.present(node.name)
            before.setdefault(node.name, None if known is None else known.node)
            cache.set_node(node)
        yield
    finally:
        for name, own in before.items():
            if own is None:
                cache.remove_node(name)
            else:
                cache.set_node(own)
