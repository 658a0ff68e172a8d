"""Nodes that a request contains (nodeCacheCapable: false): which of them differ from the cache's, and how decisions use
them.

The caller decides on the nodes that it sends, so the extender uses these, even if the cache has newer or older ones.
Most have the version that the watch has delivered, and need no parsing. The others replace those of the cache for the
time of one decision.
"""

from __future__ import annotations

from collections.abc import Iterable

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.node import Node
from podwright.core.objects.raw import Raw, as_mapping
from podwright.core.objects.readable import parse_known_node
from podwright.core.state.cache import Cache
from podwright.engine.intake.nodes import Nodes
from podwright.engine.intake.object_changes import same_node


class NodeVersions:
    """A sink of nodes that remembers the newest version of each, even if nothing has changed that the cache keeps."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._versions: dict[str, str | None] = {}
        """By name: uid and resourceVersion."""
        compact_regularly(self)

    def key(self, raw: Raw) -> str:
        return self._nodes.key(raw)

    def put(self, raw: Raw) -> None:
        self._versions[self.key(raw)] = _version(raw)
        self._nodes.put(raw)

    def drop(self, key: str, raw: Raw | None) -> None:
        self._versions.pop(key, None)
        self._nodes.drop(key, raw)

    def has(self, name: str, raw: Raw) -> bool:
        """True if the watch has delivered exactly this version of the node."""
        version = _version(raw)
        return version is not None and self._versions.get(name) == version


def _version(raw: Raw) -> str | None:
    metadata = raw["metadata"]
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    return f"{uid}/{version}" if uid and version else None


def differing(cache: Cache, versions: NodeVersions, raw: Raw) -> tuple[str, Node | None]:
    """The name of a sent node, and the node itself if the cache has another one or none. Raises InvalidObjectError
    without a name.
    """
    metadata = as_mapping(raw.get("metadata"), "metadata")
    name = metadata.get("name")
    known = cache.present(name) if isinstance(name, str) else None
    if isinstance(name, str) and known is not None and versions.has(name, raw):
        return name, None
    node, _problems = parse_known_node(raw)
    same = known is not None and known.node is not None and same_node(known.node, node)
    return node.name, None if same else node


class InPlace:
    """Nodes that replace the cache's nodes of the same names, for the time of one decision. No other decision may be
    made meanwhile.
    """

    def __init__(self, cache: Cache, nodes: Iterable[Node]) -> None:
        self._cache = cache
        self._sent = {node.name: node for node in nodes}
        self._before: dict[str, Node | None] = {}
        """The cache's own nodes that are replaced."""

    def put(self) -> None:
        for name, node in self._sent.items():
            known = self._cache.present(name)
            self._before[name] = None if known is None else known.node
            self._cache.set_node(node)

    def back(self) -> None:
        """Restores the cache's own nodes."""
        while self._before:
            name, own = self._before.popitem()
            if own is None:
                self._cache.remove_node(name)
            else:
                self._cache.set_node(own)
