"""What the evaluations of one expression may cost, in units of CEL: about 1 us each.

The limit on a node depends on nothing but the number of nodes, so that all ways to evaluate an expression give one
answer.
"""

from __future__ import annotations

from typing import Final

COST_LIMIT: Final = 10_000
"""What an evaluation on one node may cost in a cluster of up to 1,024 nodes."""
TOTAL_COST: Final = COST_LIMIT * 1024
"""What the evaluations on all nodes may cost together."""
TOO_COSTLY: Final = "operation cancelled: actual cost limit exceeded"
LEAST_LIMIT: Final = 500
"""What an evaluation on one node may cost however many nodes there are."""


def node_limit(nodes: int) -> int:
    """The greatest cost of an evaluation on one node, in a cluster with this many nodes. It changes only when the
    number doubles, so that kept results last.
    """
    rounded = 1 << max(nodes - 1, 0).bit_length()
    return min(COST_LIMIT, max(LEAST_LIMIT, TOTAL_COST // rounded))
