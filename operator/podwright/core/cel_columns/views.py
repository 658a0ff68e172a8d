"""NodeViews: nodes as values of CEL, each made once for all expressions that read it at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from podwright.core.cel_columns.nodes import NodeView, NodeViewer
from podwright.core.cel_columns.reads import Reads
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

View = Callable[[NodeInfo], NodeView]
"""Shows a node as a value of CEL."""
MAX_VIEWS: Final = 16
"""An expression asks for few nodes at once, and each view holds some kB."""


class NodeViews:
    """See the module. `reads`: of all these expressions. Only for the nodes of the table themselves, not for those that
    a dry run changes.
    """

    def __init__(self, table: NodeTable, reads: Reads) -> None:
        self._table = table
        self._viewer = NodeViewer(reads)
        self._seq = -1
        self._views: dict[int, NodeView] = {}

    def of(self, info: NodeInfo) -> NodeView:
        """The node as it is now."""
        seq = self._table.usage_changes.seq
        if seq != self._seq or len(self._views) >= MAX_VIEWS:
            self._seq = seq
            self._views.clear()
        view = self._views.get(info.slot)
        if view is None:
            view = self._views[info.slot] = self._viewer.of(info)
        return view
