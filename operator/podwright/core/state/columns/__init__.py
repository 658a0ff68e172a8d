"""The node table: one row (slot) for each node and one NumPy column for each attribute. Only this package writes it."""

from podwright.core.state.columns.derived import DerivedColumns
from podwright.core.state.columns.table import NodeTable

__all__ = ["DerivedColumns", "NodeTable"]
