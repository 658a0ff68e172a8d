"""The cost limits for evaluating one expression, in CEL's cost units of about 1 us each.

The limit on a node depends only on the number of nodes, so all ways to evaluate an expression give the same answer.
"""

from __future__ import annotations

from typing import Final

COST_LIMIT: Final = 10_000
"""The cost limit for one node in a cluster of up to 1,024 nodes."""
TOTAL_COST: Final = COST_LIMIT * 1024
"""The cost limit for all nodes together."""
TOO_COSTLY: Final = "operation cancelled: actual cost limit exceeded"
LEAST_LIMIT: Final = 500
"""The lowest cost limit for one node, in a cluster of any size."""


def node_limit(nodes: int) -> int:
    """The greatest cost of an evaluation on one node, in a cluster with this many nodes. It changes only when the
    number doubles, so that kept results last.
    """
    rounded = 1 << max(nodes - 1, 0).bit_length()
    return min(COST_LIMIT, max(LEAST_LIMIT, TOTAL_COST // rounded))
