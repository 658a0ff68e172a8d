"""The verdict cache: verdicts on single nodes, reused for pods that the filters cannot tell apart.

Preemption runs the filters on the same nodes for many pods of one workload. Verdicts are cached by verdict key (see
`Framework.verdict_key`), so only if all active filters give one: then a verdict depends on nothing but the node, the
pods on it, and the pods nominated to it. A cached verdict is valid as long as each of these is the same object.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.state.nodeinfo import NodeInfo

Verdict = TypeVar("Verdict")

MAX_KEYS: Final = 32
"""Ordinary pods of as many templates find their verdicts again while a gang is nominated to a thousand nodes."""
MAX_NODES: Final = 1 << 14
MAX_VERDICTS: Final = 1 << 16
"""With more of them, a new key takes the place of all others."""


class _Entry(NamedTuple):
    node: Node | None
    pods: tuple[PodInfo, ...]
    nominated: tuple[PodInfo, ...]
    verdict: Any


class NodeVerdicts(Generic[Verdict]):
    """The cached verdicts of one verdict key, by node."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, node: NodeInfo, nominated: Sequence[PodInfo]) -> tuple[Verdict] | None:
        """The verdict in a tuple, because a verdict may be None; None if no valid verdict is cached."""
        entry = self._entries.get(node.name)
        if entry is None or entry.node is not node.node or entry.nominated != tuple(nominated):
            return None
        return (entry.verdict,) if entry.pods == tuple(node.pods.values()) else None

    def put(self, node: NodeInfo, nominated: Sequence[PodInfo], verdict: Verdict) -> None:
        if len(self._entries) >= MAX_NODES:
            self._entries.clear()
        self._entries[node.name] = _Entry(node.node, tuple(node.pods.values()), tuple(nominated), verdict)


class VerdictCache(Generic[Verdict]):
    """The node verdicts of the last few verdict keys."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[Hashable, NodeVerdicts[Verdict]] = {}

    def clear(self) -> None:
        """Drops all verdicts, and with them the references to nodes and pods."""
        self._keys.clear()

    def of(self, key: Hashable | None) -> NodeVerdicts[Verdict] | None:
        """The verdicts of this key. None for the key None: its verdicts must not be cached."""
        if key is None:
            return None
        known = self._keys.get(key)
        if known is None:
            if len(self._keys) >= MAX_KEYS or sum(map(len, self._keys.values())) >= MAX_VERDICTS:
                self._keys.clear()
            known = self._keys[key] = NodeVerdicts()
        return known
