"""The node table: one row (slot) a node, one NumPy column a fact. Only this package writes it."""

from podwright.core.state.columns.derived import DerivedColumns
from podwright.core.state.columns.table import NodeTable

__all__ = ["DerivedColumns", "NodeTable"]
