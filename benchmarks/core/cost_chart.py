"""The cost of a decision against the number of nodes, one line for each workload, as SVG without a plotting library."""

from collections.abc import Sequence
from html import escape
from math import log
from typing import Any, Final

_WIDTH: Final = 820
_HEIGHT: Final = 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 270, 52, 40
_COLORS: Final = ("#2f6feb", "#1a7f37", "#bf3989", "#9a6700", "#57606a")
_STEP: Final = 200
"""Microseconds between two lines of the grid."""


def cost_chart(results: Sequence[dict[str, Any]]) -> str:
    """The whole SVG document. `results`: see `decisions`; those without a rate are left out."""
    rated = [item for item in results if "decisions_per_s" in item]
    sizes = sorted({item["nodes"] for item in rated})
    costs = [1e6 / item["decisions_per_s"] for item in rated]
    top = _STEP * (int(max(costs)) // _STEP + 1)
    inner = _WIDTH - _LEFT - _RIGHT
    span = log(sizes[-1] / sizes[0]) or 1.0

    def x(nodes: int) -> float:
        return round(_LEFT + inner * log(nodes / sizes[0]) / span, 1)

    def y(cost: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * cost / top, 1)

    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
            'font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="Cost of a decision by nodes">'
        ),
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        '<text x="16" y="26" font-size="16" font-weight="600" fill="#1f2328">CPU time of a decision, µs</text>',
    ]
    for cost in range(0, top + 1, _STEP):
        lines += [
            f'<line x1="{_LEFT}" x2="{_LEFT + inner}" y1="{y(cost)}" y2="{y(cost)}" stroke="#d0d7de"/>',
            f'<text x="{_LEFT - 8}" y="{y(cost) + 4}" text-anchor="end" fill="#57606a">{cost:,}</text>',
        ]
    lines += [
        f'<text x="{x(nodes)}" y="{_HEIGHT - 16}" text-anchor="middle" fill="#57606a">{nodes:,} nodes</text>'
        for nodes in sizes
    ]
    for number, workload in enumerate(dict.fromkeys(item["workload"] for item in rated)):
        color = _COLORS[number % len(_COLORS)]
        own = sorted((item["nodes"], 1e6 / item["decisions_per_s"]) for item in rated if item["workload"] == workload)
        points = " ".join(f"{x(nodes)},{y(cost)}" for nodes, cost in own)
        at = _TOP + 20 * number
        lines += [
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>',
            f'<rect x="{_WIDTH - _RIGHT + 24}" y="{at}" width="12" height="12" fill="{color}"/>',
            f'<text x="{_WIDTH - _RIGHT + 42}" y="{at + 11}" fill="#1f2328">{escape(workload)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])
