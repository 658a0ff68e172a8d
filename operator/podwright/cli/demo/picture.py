"""The scene as rich renderables: nodes filling, zone by zone, pods with the reason for their place, the edit, the findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
COLUMNS: Final = 3
ROWS: Final = 8
"""Nodes shown in a column at most."""
SAMPLE: Final = 3
"""Pods shown of each group at the end."""


def live(scene: Scene, height: int) -> RenderableType:
    """What is going on now, in at most about `height` lines."""
    nodes, edit = _nodes(scene), _edit(scene)
    findings = [_finding(finding) for finding in scene.findings[-2:]]
    room = max(5, height - _node_rows(scene) - len(findings) - (len(scene.edit) + 2 if edit else 0) - 9)
    waiting = [pod for pod in scene.pods.values() if pod.uid and not pod.node]
    placed = [pod for pod in scene.pods.values() if pod.node]
    shown = [*placed[-max(1, room - len(waiting)) :], *waiting[:room]]
    return Group(Text(scene.act, style="bold"), nodes, _pods(shown), *edit, *findings)


def final(scene: Scene) -> RenderableType:
    """What came of it: some pods of each group, the edit and all findings."""
    findings = [_finding(finding) for finding in scene.findings]
    return Group(_nodes(scene), _pods(scene.pods.values(), SAMPLE), *_edit(scene), *findings)


def plain_finding(finding: Finding) -> str:
    """A finding as a line."""
    return f"{'ok  ' if finding.holds else 'FAIL'} {finding.expected}: {finding.found}"


def _finding(finding: Finding) -> Text:
    mark = ("✓ ", "bold green") if finding.holds else ("✗ ", "bold red")
    return Text.assemble(mark, finding.expected, (f": {finding.found}", "dim" if finding.holds else "red"))


def _nodes(scene: Scene) -> Panel:
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
        grid.add_row(*[_node(scene, column[row]) if row < len(column) else "" for column in columns])
    hidden = len(scene.usable()) - sum(min(ROWS, len(column)) for column in columns)
    legend = Text("   ").join([Text(f"■ {group}", COLOURS[group]) for group in (WEB, BATCH, PINNED, NEXT)])
    more = f" (and {hidden} more)" if hidden > 0 else ""
    return Panel(
        grid, title=f"nodes, and how much of their CPU is taken{more}", title_align="left",
        subtitle=legend, subtitle_align="right", box=box.ROUNDED, expand=False,
    )  # fmt: skip


def _node(scene: Scene, info: NodeInfo) -> Text:
    """`node-0001 ██████████────── 5/8`, each group of pods in its colour."""
    has = max(1, info.allocatable("cpu"))
    bar, taken = Text(), 0
    for group, cpu in scene.shares(info):
        before, taken = taken, taken + cpu
        bar.append("█" * (round(BAR * taken / has) - round(BAR * before / has)), COLOURS.get(group, OTHERS))
    bar.append("─" * (BAR - len(bar)), "bright_black")
    return Text.assemble(f"{info.name} ", bar, f" {taken / 1000:g}/{has / 1000:g}")


def _node_rows(scene: Scene) -> int:
    zones = scene.zones()
    most = max(map(len, zones.values()), default=0)
    return min(ROWS, most if 1 < len(zones) <= COLUMNS else -(-len(scene.usable()) // COLUMNS))


def _pods(pods: Iterable[DemoPod], sample: int | None = None) -> Table:
    """Rows of pods; with `sample` only so many of each group, and how many more there are."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("pod", no_wrap=True)
    table.add_column("node", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    table.add_column("why there", ratio=1, overflow="fold")
    for group, members in groupby(pods, key=lambda pod: pod.group):
        listed = list(members)
        for pod in listed[:sample]:
            table.add_row(Text(pod.name, COLOURS[group]), _where(pod), whose(pod), Text(why(pod), _style(pod)))
        if len(listed) > len(listed[:sample]):
            table.add_row(Text(f"… {len(listed) - len(listed[:sample])} more", "dim"), "", "", "")
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
