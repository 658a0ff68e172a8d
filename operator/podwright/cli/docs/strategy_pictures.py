"""The pictures of docs/strategies.md: each policy on that page schedules the same 200 pods on the same 20 nodes, in a
simulation.

`python -m podwright.cli.docs.strategy_pictures PAGE` draws them; with `--check` it fails if one is out of date. A
policy belongs to the picture that follows it. The same page always gives the same bytes.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from random import Random
from typing import Final

from podwright.api.configuration.signals import parse_signals
from podwright.api.permissions import PolicySettings
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.raw import Raw
from podwright.engine.view.rebalance_picture import COLORS, STYLE
from podwright.simulator.library import Cluster, Policy, simulate
from podwright.simulator.results import NodeDifference, SimulationResult
from podwright.simulator.snapshot import Snapshot

NODES: Final = tuple(f"node-{number:02}" for number in range(1, 21))
STANDARD: Final = NODES[:14]
SPOT: Final = NODES[14:]
_OFFERS: Final = {"standard": {"cpu": "8", "memory": "32Gi"}, "spot": {"cpu": "16", "memory": "32Gi"}}
_SHAPES: Final = {"busy": ("1", "1Gi", 80), "large": ("250m", "3Gi", 80), "small": ("250m", "512Mi", 40)}
"""Requested CPU and memory, and how many pods request that: half of the cluster's CPU and of its memory."""
_SEED: Final = 1
BUSY: Final = {f"node-{number:02}": 60 for number in (*range(1, 6), *range(15, 18))}
IDLE: Final = 5
"""The measured use of CPU in percent, for policies that read the signal `load`. It does not show in what pods request.
"""
_LOAD: Final = "example.com/load"
_SETTINGS: Final = PolicySettings(
    signals=parse_signals({"signals": [{"name": "load", "resource": "cpu", "annotation": {"key": _LOAD}}]})
)
_SECTION: Final = re.compile(r"^## (?P<title>.+)\n(?P<text>(?:(?!## ).*\n?)*)", re.MULTILINE)
_PICTURED: Final = re.compile(r"```yaml\n(?P<policy>.*?)```\n+!\[[^\]]*\]\((?P<file>[^)]+\.svg)\)", re.DOTALL)

_LEFT, _TOP, _PLOT, _STEP, _BAR = 48, 62, 130, 34, 13
WIDTH, HEIGHT = _LEFT + _STEP * len(NODES) + 12, 258
_BASE = _TOP + _PLOT
MEASURED: Final = COLORS[2]
_RESOURCES: Final = {"cpu": ("CPU", COLORS[0]), "memory": ("memory", COLORS[3])}


@dataclass(frozen=True, slots=True)
class PicturedPolicy:
    """A policy on the page. `title`: of its section; `file`: the picture, relative to the page."""

    title: str
    policy: Policy
    file: str


def policies_of(page: str) -> Iterator[PicturedPolicy]:
    """The policies of the page that a picture follows. Raises ManifestError and InvalidObjectError for YAML that is no
    policy.
    """
    for section in _SECTION.finditer(page):
        for found in _PICTURED.finditer(section["text"]):
            yield PicturedPolicy(section["title"], Policy.parse(found["policy"]), found["file"])


def run(policy: Policy) -> SimulationResult:
    """The 200 pods on the empty cluster, under this policy. Raises ValueError if the policy is not accepted."""
    problem = policy.problem(empty_cluster())
    if problem:
        raise ValueError(f"{policy.name}: {problem}")
    return simulate(empty_cluster(), pods=_pods(), policies=[policy], seed=_SEED)


def empty_cluster() -> Cluster:
    """The 20 nodes without pods, and the signal of their load."""
    return Cluster(Snapshot(objects=[_node(name) for name in NODES]), settings=_SETTINGS)


def _node(name: str) -> Raw:
    pool = "spot" if name in SPOT else "standard"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "pool": pool},
            "annotations": {_LOAD: str(BUSY.get(name, IDLE))},
        },
        "status": {"allocatable": {**_OFFERS[pool], "pods": "110"}},
    }


def _pods() -> list[Raw]:
    """In an order that stays the same."""
    shapes = [shape for shape, (_, _, count) in _SHAPES.items() for _ in range(count)]
    Random(_SEED).shuffle(shapes)
    return [_pod(f"pod-{number:03}", shape) for number, shape in enumerate(shapes, start=1)]


def _pod(name: str, shape: str) -> Raw:
    cpu, memory, _ = _SHAPES[shape]
    container = {"name": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"schedulerName": "podwright", "containers": [container]},
    }


# Drawing


def draw(title: str, result: SimulationResult, *, measured: bool = False) -> str:
    """The whole SVG document: for each node a bar for CPU and one for memory, and its number of pods. `measured`: with
    the measured use.
    """
    changes = {change.node: change for change in result.changes}
    summary = f"{len(result.landed)} pods on {len(changes)} of {len(NODES)} nodes"
    if measured:
        summary += f"; {len(BUSY)} nodes used {next(iter(BUSY.values()))}% of their CPU before, the others {IDLE}%"
    if result.pending:
        summary += f", {len(result.pending)} wait"
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            'font-family="system-ui, sans-serif" font-size="11" role="img" aria-labelledby="title summary">'
        ),
        f'<title id="title">{escape(title)}: requested CPU and memory of each node</title>',
        f'<desc id="summary">{escape(summary)}. {_described(changes)}.</desc>',
        STYLE,
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text x="12" y="24" font-size="15" font-weight="600">{escape(title)}</text>',
        f'<text x="12" y="42">{escape(summary)}</text>',
        *_legend(),
        *(_measured() if measured else ()),
        *_axis(),
    ]
    for index, name in enumerate(NODES):
        parts += _drawn_node(_LEFT + _STEP * index, name, changes.get(name))
    parts += [
        _row_label("node", 16),
        _row_label("pods", 32),
        *_bracket(STANDARD, "pool standard: 8 CPUs, 32 GiB"),
        *_bracket(SPOT, "pool spot: 16 CPUs, 32 GiB"),
    ]
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> list[str]:
    parts = []
    for number, (name, color) in enumerate(_RESOURCES.values()):
        x = WIDTH - 260 + 122 * number
        parts += [
            f'<rect x="{x}" y="15" width="11" height="11" fill="{color}"/>',
            f'<text x="{x + 17}" y="25">requested {name}</text>',
        ]
    return parts


def _measured() -> list[str]:
    """A line at the measured use of each node's CPU, and what it means."""
    x = WIDTH - 382
    parts = [
        f'<path d="M{x} 21h11" stroke="{MEASURED}" stroke-width="3"/>',
        f'<text x="{x + 17}" y="25">measured CPU</text>',
    ]
    for index, name in enumerate(NODES):
        y = _BASE - _PLOT * BUSY.get(name, IDLE) / 100
        left = _LEFT + _STEP * index + 2
        parts.append(f'<path d="M{left} {y:.1f}h{2 * _BAR + 3}" stroke="{MEASURED}" stroke-width="3"/>')
    return parts


def _axis() -> list[str]:
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _BASE - _PLOT * share
        parts += [
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - 12}" y1="{y:.1f}" y2="{y:.1f}"/>',
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>',
        ]
    return parts


def _drawn_node(x: int, name: str, change: NodeDifference | None) -> list[str]:
    parts = []
    for number, (resource, (_, color)) in enumerate(_RESOURCES.items()):
        height = _PLOT * _share(change, resource)
        if height:
            left = x + 4 + _BAR * number
            parts.append(
                f'<rect x="{left}" y="{_BASE - height:.1f}" width="{_BAR - 1}" height="{height:.1f}" fill="{color}"/>'
            )
    middle = x + _STEP // 2
    pods = 0 if change is None else change.pods_after or 0
    return [
        *parts,
        f'<text x="{middle}" y="{_BASE + 16}" text-anchor="middle">{name.removeprefix("node-")}</text>',
        f'<text x="{middle}" y="{_BASE + 32}" text-anchor="middle">{pods}</text>',
    ]


def _row_label(text: str, below: int) -> str:
    return f'<text x="{_LEFT - 6}" y="{_BASE + below}" text-anchor="end">{text}</text>'


def _bracket(nodes: Sequence[str], text: str) -> list[str]:
    first, last = NODES.index(nodes[0]), NODES.index(nodes[-1])
    left, right, y = _LEFT + _STEP * first + 4, _LEFT + _STEP * (last + 1) - 4, _BASE + 42
    return [
        f'<path class="grid" d="M{left} {y}H{right}" stroke-width="2"/>',
        f'<text x="{(left + right) / 2:.0f}" y="{y + 14}" text-anchor="middle">{escape(text)}</text>',
    ]


def _share(change: NodeDifference | None, resource: str) -> float:
    return 0.0 if change is None else change.requested_after[resource] / change.allocatable[resource]


def _described(changes: Mapping[str, NodeDifference]) -> str:
    """For who cannot see the picture."""
    return "; ".join(
        f"{name}: {change.pods_after} pods, {_share(change, 'cpu'):.0%} of CPU, {_share(change, 'memory'):.0%} of "
        "memory"
        for name in NODES
        if (change := changes.get(name)) is not None
    )


# The command


def main(arguments: Sequence[str]) -> int:
    """Draws or checks all pictures. Returns the exit code."""
    parser = argparse.ArgumentParser("python -m podwright.cli.docs.strategy_pictures", description="Draw the pictures.")
    parser.add_argument("page", metavar="PAGE", type=Path, help="The page with the policies.")
    parser.add_argument("--check", action="store_true", help="Do not write. Exit with 1 if a picture is out of date.")
    chosen = parser.parse_args(arguments)
    page: Path = chosen.page
    found = [*policies_of(page.read_text(encoding="utf-8"))]
    if not found:
        sys.stderr.write(f"{page}: no policy is followed by a picture\n")
        return 1
    outdated = []
    for each in found:
        measured = bool(each.policy.raw["spec"].get("signals"))
        path, drawn = page.parent / each.file, draw(each.title, run(each.policy), measured=measured)
        if not chosen.check:
            path.write_text(drawn, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != drawn:
            outdated.append(path)
    for path in outdated:
        sys.stderr.write(f"{path} is out of date: run `make strategies`\n")
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
