"""What was found out about single nodes for pods of one template, kept while nothing changes there.

Preemption looks at the same nodes for pod after pod: a workload that preempts has many pods that ask for the same. A finding is
kept only where every active filter gives a `verdict_key`, so that it depends on the node, the pods on it and those nominated to it; it is
taken again only if each of these is the very object that it was.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.state.nodeinfo import NodeInfo

Found = TypeVar("Found")

KEPT_TEMPLATES: Final = 4
KEPT_NODES: Final = 1 << 14


class _Entry(NamedTuple):
    node: Node | None
    pods: tuple[PodInfo, ...]
    nominated: tuple[PodInfo, ...]
    found: Any


class Findings(Generic[Found]):
    """The findings for one template by node."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def get(self, node: NodeInfo, nominated: Sequence[PodInfo]) -> tuple[Found] | None:
        """What was found on the node, in a tuple; None if nothing is known that still holds."""
        entry = self._entries.get(node.name)
        if entry is None or entry.node is not node.node or entry.nominated != tuple(nominated):
            return None
        return (entry.found,) if entry.pods == tuple(node.pods.values()) else None

    def keep(self, node: NodeInfo, nominated: Sequence[PodInfo], found: Found) -> None:
        if len(self._entries) >= KEPT_NODES:
            self._entries.clear()
        self._entries[node.name] = _Entry(node.node, tuple(node.pods.values()), tuple(nominated), found)


class KeptVerdicts(Generic[Found]):
    """Findings by template, of the last few templates."""

    __slots__ = ("_templates",)

    def __init__(self) -> None:
        self._templates: dict[Hashable, Findings[Found]] = {}

    def clear(self) -> None:
        """Lets go of everything, and of the pods that it was found out with."""
        self._templates.clear()

    def of(self, template: Hashable | None) -> Findings[Found] | None:
        """The findings for pods of this template; None for None, see `Framework.verdict_key`."""
        if template is None:
            return None
        known = self._templates.get(template)
        if known is None:
            if len(self._templates) >= KEPT_TEMPLATES:
                self._templates.clear()
            known = self._templates[template] = Findings()
        return known
