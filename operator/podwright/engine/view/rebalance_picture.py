"""Pictures of racks, as SVG: the nodes of each before and after a plan of rebalancing or a simulation, filled as far as
their pods request a resource.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from html import escape
from itertools import chain, islice
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.rebalance.rules import RebalancePlan
from podwright.core.state.cache import Cache
from podwright.engine.process.steps import Steps
from podwright.engine.view.nodes import first_label

COLORS: Final = ("#2f6feb", "#d1242f", "#1a7f37", "#bf8700", "#8250df", "#0a7ea4", "#57606a", "#bc4c00")
STYLE: Final = (
    "<style>text{fill:#1f2328}.grid{stroke:#d0d7de}.back{fill:#ffffff}"
    "@media (prefers-color-scheme: dark){text{fill:#e6edf3}.grid{stroke:#3d444d}.back{fill:#0d1117}}</style>"
)
"""The style of all pictures, readable on light and on dark pages."""
STAYS, LEAVES, COMES, GANG = COLORS[0], COLORS[1], COLORS[2], COLORS[4]
_IN_ROW: Final = 40
_STEP, _CELL, _HIGH = 20, 16, 36
_LEFT: Final = 160
_TOP: Final = 64
_MARGIN: Final = 12
_LABEL: Final = 22
"""The most characters of a rack's name that are shown."""

Amounts = Mapping[str, Mapping[str, int]]
"""By node and colour, an amount of the resource."""


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """`racks`: node labels; the first one that a node has names its rack; without any, all nodes are one rack.
    `resource`: as nodes offer it. `most`: how many nodes are drawn; those that the plan changes go first. `moved`: the
    uids of the pods that have moved already. `style`: empty where the picture is part of a page.
    """

    resource: str
    racks: Sequence[str] = ()
    most: int = 1_000_000
    moved: AbstractSet[str] = frozenset()
    style: str = STYLE


def picture_of(
    cache: Cache, plan: RebalancePlan, waiting: Callable[[str], PodInfo | None], options: PictureOptions
) -> Steps[str]:
    """The SVG document. `waiting` gives a pod that has no node. The same cluster and plan give the same bytes."""
    before, after = yield from _changes(cache, plan, waiting, options)
    return (yield from drawn(cache, before, after, options, of=f"{plan.policy}: "))


def drawn(cache: Cache, before: Amounts, after: Amounts, options: PictureOptions, *, of: str = "") -> Steps[str]:
    """The SVG document of these changes of nodes. `of`: what its title begins with."""
    changed = {**before, **after}
    others = (name for name in cache.nodes if name not in changed)
    racks, chosen = defaultdict[str, list[str]](list), sorted(islice(chain(changed, others), options.most))
    for name in chosen:
        info = cache.nodes.get(name)
        if info is not None and info.node is not None:
            racks[first_label(info.node, options.racks)].append(name)
    yield
    width = _LEFT + _STEP * min(_IN_ROW, max(map(len, racks.values()), default=1)) + _MARGIN
    width = max(width, 480)
    title = f"{of}{options.resource} that pods request of each node"
    y, parts = _TOP, list[str]()
    for when, amounts in (("before", before), ("after", after)):
        parts.append(f'<text x="{_MARGIN}" y="{y + 12}" font-weight="600">{when}</text>')
        y += 20
        for name, nodes in sorted(racks.items()):
            parts.append(f'<text x="{_MARGIN}" y="{y + 22}">{escape(name[:_LABEL])}</text>')
            for start in range(0, len(nodes), _IN_ROW):
                for index, node_name in enumerate(nodes[start : start + _IN_ROW]):
                    parts += _cell(_LEFT + _STEP * index, y, cache, node_name, amounts, options.resource)
                y += _HIGH + 6
                yield
        y += 10
    if (left_out := len(cache.nodes) - len(chosen)) > 0:
        parts.append(f'<text x="{_MARGIN}" y="{y + 4}">{left_out:,} more nodes are left out</text>')
        y += 20
    head = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" '
            'font-family="system-ui, sans-serif" font-size="11" role="img" aria-labelledby="title">'
        ),
        f'<title id="title">{escape(title)}</title>',
        options.style,
        f'<rect class="back" width="{width}" height="{y}"/>',
        f'<text x="{_MARGIN}" y="24" font-size="15" font-weight="600">{escape(title)}</text>',
        *_legend(),
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _changes(
    cache: Cache, plan: RebalancePlan, waiting: Callable[[str], PodInfo | None], options: PictureOptions
) -> Steps[tuple[Amounts, Amounts]]:
    """The nodes that the plan changes, before and after it. All others stay as they are."""
    before, after = NodeAmounts(cache, options.resource), NodeAmounts(cache, options.resource)
    for step in plan.steps:
        for move in step.moves:
            amount, source = move.requests.get(options.resource, 0), cache.nodes.get(move.source)
            waits = source is not None and move.uid in source.pods
            now_on = move.source if waits else move.target if move.uid in options.moved else ""
            for amounts, node, color in ((before, move.source, LEAVES), (after, move.target, COMES)):
                amounts.add(now_on, STAYS, -amount)
                amounts.add(node, color, amount)
            yield
        for uid, place in step.places.items():
            info = cache.placement(uid)
            pod = waiting(uid) if info is None else info.pods[uid]
            amount = 0 if pod is None else pod.requests.amounts.get(options.resource, 0)
            for amounts in (before, after):
                amounts.add("" if info is None else info.name, STAYS, -amount)
            after.add(place, GANG, amount)
        yield
    return before.nodes, after.nodes


@dataclass(slots=True)
class NodeAmounts:
    """The nodes' amounts in each colour. A node named for the first time starts with the requests of its pods."""

    cache: Cache
    resource: str
    nodes: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, node: str, color: str, amount: int) -> None:
        info = self.cache.nodes.get(node)
        if info is not None:
            found = self.nodes.setdefault(node, {STAYS: info.requested.get(self.resource, 0)})
            found[color] = found.get(color, 0) + amount


def _cell(x: int, y: int, cache: Cache, node: str, changes: Amounts, resource: str) -> Iterator[str]:
    yield f'<g><title>{escape(node)}</title><rect x="{x}" y="{y}" width="{_CELL}" height="{_HIGH}" fill="#8c959f44"/>'
    info = cache.nodes.get(node)
    offer = 0 if info is None else info.allocatable(resource)
    stays = {STAYS: 0 if info is None else info.requested.get(resource, 0)}
    amounts = changes.get(node, stays)
    base, room = float(y + _HIGH), float(_HIGH)
    for color in (STAYS, LEAVES, COMES, GANG):
        height = min(room, _HIGH * max(0, amounts.get(color, 0)) / offer) if offer else 0.0
        if height:
            base, room = base - height, room - height
            yield f'<rect x="{x}" y="{base:.1f}" width="{_CELL}" height="{height:.1f}" fill="{color}"/>'
    yield "</g>"


def _legend() -> Iterator[str]:
    named = ((STAYS, "stay"), (LEAVES, "leave"), (COMES, "come"), (GANG, "pods that waited"))
    for number, (color, what) in enumerate(named):
        x = _MARGIN + 80 * number
        yield f'<rect x="{x}" y="36" width="11" height="11" fill="{color}"/><text x="{x + 17}" y="46">{what}</text>'
