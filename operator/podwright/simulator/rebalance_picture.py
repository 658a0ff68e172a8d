"""The picture of a plan of rebalancing, as SVG: the nodes of each rack before and after, filled as far as their pods
request a resource.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

from podwright.core.objects.resources import CPU
from podwright.core.rebalance.rules import RebalancePlan
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.replay.plots import COLORS, STYLE

_STAYS, _LEAVES, _COMES, _GANG = COLORS[0], COLORS[1], COLORS[2], COLORS[4]
_IN_ROW: Final = 40
_STEP, _CELL, _HIGH = 20, 16, 36
_LEFT: Final = 160
_TOP: Final = 64
_MARGIN: Final = 12
_LABEL: Final = 22
"""The most characters of a rack's name that are shown."""

Amounts = Mapping[str, Mapping[str, int]]
"""By node and colour, an amount of the resource."""


def picture_of(cluster: LoadedCluster, plan: RebalancePlan, *, rack: str = "", resource: str = CPU) -> str:
    """The SVG document. `rack`: the node label whose values are the racks; empty: all nodes are one. `resource`: as
    nodes offer it. The same cluster and plan give the same bytes.
    """
    racks = defaultdict[str, list[str]](list)
    for name, info in sorted(cluster.cache.nodes.items()):
        if info.node is not None:
            racks[str(info.node.labels.get(rack, "")) if rack else ""].append(name)
    offers = {name: info.allocatable(resource) for name, info in cluster.cache.nodes.items()}
    width = _LEFT + _STEP * min(_IN_ROW, max(map(len, racks.values()), default=1)) + _MARGIN
    width = max(width, 480)
    title = f"{plan.policy}: {resource} that pods request of each node"
    y, parts = _TOP, list[str]()
    for when, amounts in (("before", _before(cluster, plan, resource)), ("after", _after(cluster, plan, resource))):
        parts.append(f'<text x="{_MARGIN}" y="{y + 12}" font-weight="600">{when}</text>')
        y += 20
        for name, nodes in sorted(racks.items()):
            parts.append(f'<text x="{_MARGIN}" y="{y + 22}">{escape(name[:_LABEL])}</text>')
            for start in range(0, len(nodes), _IN_ROW):
                for index, node in enumerate(nodes[start : start + _IN_ROW]):
                    parts += _cell(_LEFT + _STEP * index, y, node, amounts[node], offers[node])
                y += _HIGH + 6
        y += 10
    head = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" '
            'font-family="system-ui, sans-serif" font-size="11" role="img" aria-labelledby="title">'
        ),
        f'<title id="title">{escape(title)}</title>',
        STYLE,
        f'<rect class="back" width="{width}" height="{y}"/>',
        f'<text x="{_MARGIN}" y="24" font-size="15" font-weight="600">{escape(title)}</text>',
        *_legend(),
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _before(cluster: LoadedCluster, plan: RebalancePlan, resource: str) -> Amounts:
    amounts = _staying(cluster, resource)
    for move in plan.moves:
        amount = cluster.cache.nodes[move.source].pods[move.uid].requests.amounts.get(resource, 0)
        amounts[move.source][_STAYS] -= amount
        amounts[move.source][_LEAVES] += amount
    return amounts


def _after(cluster: LoadedCluster, plan: RebalancePlan, resource: str) -> Amounts:
    amounts = _staying(cluster, resource)
    for step in plan.steps:
        for move in step.moves:
            amount = cluster.cache.nodes[move.source].pods[move.uid].requests.amounts.get(resource, 0)
            amounts[move.source][_STAYS] -= amount
            amounts[move.target][_COMES] += amount
        for uid, node in step.places.items():
            amounts[node][_GANG] += cluster.pending[uid].requests.amounts.get(resource, 0)
    return amounts


def _staying(cluster: LoadedCluster, resource: str) -> dict[str, dict[str, int]]:
    return {
        name: defaultdict(int, {_STAYS: info.requested.get(resource, 0)}) for name, info in cluster.cache.nodes.items()
    }


def _cell(x: int, y: int, node: str, amounts: Mapping[str, int], offer: int) -> Iterator[str]:
    yield f'<g><title>{escape(node)}</title><rect x="{x}" y="{y}" width="{_CELL}" height="{_HIGH}" fill="#8c959f44"/>'
    base = float(y + _HIGH)
    for color in (_STAYS, _LEAVES, _COMES, _GANG):
        height = _HIGH * amounts.get(color, 0) / offer if offer else 0.0
        if height:
            base -= height
            yield f'<rect x="{x}" y="{base:.1f}" width="{_CELL}" height="{height:.1f}" fill="{color}"/>'
    yield "</g>"


def _legend() -> Iterator[str]:
    named = ((_STAYS, "stay"), (_LEAVES, "leave"), (_COMES, "come"), (_GANG, "pods that waited"))
    for number, (color, what) in enumerate(named):
        x = _MARGIN + 80 * number
        yield f'<rect x="{x}" y="36" width="11" height="11" fill="{color}"/><text x="{x + 17}" y="46">{what}</text>'
