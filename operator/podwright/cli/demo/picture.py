"""The scene as rich renderables: nodes filling, zone by zone, pods with the reason for their place, the edit, the findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from podwright.cli.demo.objects import BATCH, NEXT, PINNED, TOO_BIG, WEB
from podwright.cli.demo.scene import DemoPod, Finding, Scene, whose, why
from podwright.core.state.nodeinfo import NodeInfo

COLOURS: Final = {WEB: "cyan", BATCH: "magenta", PINNED: "green", NEXT: "yellow", TOO_BIG: "red"}
OTHERS: Final = "bright_black"
BAR: Final = 16
NARROW_BAR: Final = 13
WIDE: Final = 104
"""Columns from which there is room for numbers beside the bars."""
COLUMNS: Final = 3
ROWS: Final = 8
"""Nodes shown in a column at most."""
SAMPLES: Final = {WEB: 3, BATCH: 6, NEXT: 4}
"""Pods shown of a group at the end; of the others all."""
WIDTHS: Final = {"pod": 9, "node": 10, "policy": 18}


def live(scene: Scene, width: int, height: int) -> RenderableType:
    """What is going on now, for a terminal of this size."""
    nodes, edit = _nodes(scene, numbers=width >= WIDE), _edit(scene)
    findings = [_finding(finding) for finding in scene.findings[-2:]]
    room = max(4, height - _node_rows(scene) - len(findings) - (len(scene.edit) + 2 if edit else 0) - 9)
    waiting = [pod for pod in scene.pods.values() if pod.uid and not pod.node]
    placed = [pod for pod in scene.pods.values() if pod.node]
    shown = [*placed[-max(1, room - len(waiting)) :], *waiting[:room]]
    return Group(Text(scene.act, style="bold"), nodes, *edit, _pods(shown, {}, wrap=False), *findings)


def final(scene: Scene) -> RenderableType:
    """What came of it: some pods of each group, the edit before those that follow it, and all findings."""
    pods = scene.pods.values()
    before = _pods([pod for pod in pods if pod.group != NEXT], SAMPLES)
    after = [_pods(scene.group(NEXT), SAMPLES)] if scene.group(NEXT) else []
    findings = [_finding(finding) for finding in scene.findings]
    return Group(_nodes(scene), before, *_edit(scene), *after, *findings)


def plain_finding(finding: Finding) -> str:
    """A finding as a line."""
    return f"{'ok  ' if finding.holds else 'FAIL'} {finding.expected}: {finding.found}"


def _finding(finding: Finding) -> Text:
    mark = ("✓ ", "bold green") if finding.holds else ("✗ ", "bold red")
    return Text.assemble(mark, finding.expected, (f": {finding.found}", "dim" if finding.holds else "red"))


def _nodes(scene: Scene, *, numbers: bool = True) -> Panel:
    zones = scene.zones()
    if not 1 < len(zones) <= COLUMNS:
        usable = scene.usable()
        shown = usable[: ROWS * COLUMNS]
        zones = {str(start): shown[start::COLUMNS] for start in range(COLUMNS)}
        titles = [""] * COLUMNS
    else:
        titles = list(zones)
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=any(titles))
    for title in titles:
        grid.add_column(title, no_wrap=True)
    columns = list(zones.values())
    for row in range(min(ROWS, max(map(len, columns), default=0))):
        grid.add_row(*[_node(scene, column[row], numbers=numbers) if row < len(column) else "" for column in columns])
    hidden = len(scene.usable()) - sum(min(ROWS, len(column)) for column in columns)
    legend = Text("   ").join([Text(f"■ {group}", COLOURS[group]) for group in (WEB, BATCH, PINNED, NEXT)])
    more = f" (and {hidden} more)" if hidden > 0 else ""
    return Panel(
        grid, title=f"nodes, and how much of their CPU is taken{more}", title_align="left",
        subtitle=legend, subtitle_align="right", box=box.ROUNDED, expand=False,
    )  # fmt: skip


def _node(scene: Scene, info: NodeInfo, *, numbers: bool) -> Text:
    """`node-0001 ██████████────── 5/8`, each group of pods in its colour."""
    has, width = max(1, info.allocatable("cpu")), BAR if numbers else NARROW_BAR
    bar, taken = Text(), 0
    for group, cpu in scene.shares(info):
        before, taken = taken, taken + cpu
        bar.append("█" * (round(width * taken / has) - round(width * before / has)), COLOURS.get(group, OTHERS))
    bar.append("─" * (width - len(bar)), "bright_black")
    return Text.assemble(f"{info.name} ", bar, f" {taken / 1000:g}/{has / 1000:g}" if numbers else "")


def _node_rows(scene: Scene) -> int:
    zones = scene.zones()
    most = max(map(len, zones.values()), default=0)
    return min(ROWS, most if 1 < len(zones) <= COLUMNS else -(-len(scene.usable()) // COLUMNS))


def _pods(pods: Iterable[DemoPod], samples: Mapping[str, int], *, wrap: bool = True) -> Table:
    """Rows of pods; of a group in `samples` only so many, and how many more there are. Without `wrap` a line each."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    for title, width in WIDTHS.items():
        table.add_column(title, no_wrap=True, min_width=width)
    table.add_column("why there", ratio=1, no_wrap=not wrap, overflow="fold" if wrap else "ellipsis")
    for group, members in groupby(pods, key=lambda pod: pod.group):
        listed = list(members)
        shown = listed[: samples.get(group, len(listed))]
        for pod in shown:
            table.add_row(Text(pod.name, COLOURS[group]), _where(pod), whose(pod), Text(why(pod), _style(pod)))
        if len(listed) > len(shown):
            table.add_row(Text(f"… {len(listed) - len(shown)} more", "dim"), "", "", "")
    return table


def _where(pod: DemoPod) -> Text:
    return Text(pod.node) if pod.node else Text("none", "red" if pod.why else "dim")


def _style(pod: DemoPod) -> str:
    return "red" if pod.why and not pod.node else ""


def _edit(scene: Scene) -> list[Panel]:
    if not scene.edit:
        return []
    return [Panel(_diff(scene.edit), title=scene.edit_title, title_align="left", box=box.ROUNDED, expand=False)]


def _diff(lines: Sequence[str]) -> Text:
    styles = {"+": "green", "-": "red"}
    return Text("\n").join([Text(line, styles.get(line[:1], "")) for line in lines])
