"""Renders the demo's state with rich: nodes by zone, pods with the reason for their placement, the edit, and the check
results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from podwright.cli.demo.objects import BATCH, GPU, NEXT, PINNED, TOO_BIG, WEB
from podwright.cli.demo.state import CheckResult, DemoPod, DemoState, policy_of, reason
from podwright.core.state.nodeinfo import NodeInfo

COLOURS: Final = {WEB: "cyan", BATCH: "magenta", PINNED: "green", GPU: "blue", NEXT: "yellow", TOO_BIG: "red"}
OTHERS: Final = "bright_black"
BAR: Final = 16
NARROW_BAR: Final = 13
WIDE: Final = 104
"""Terminals with at least this many columns show numbers beside the bars."""
COLUMNS: Final = 3
ROWS: Final = 8
"""The most nodes shown in a column."""
SAMPLES: Final = {WEB: 3, BATCH: 6, NEXT: 4}
"""How many pods of a group the final picture shows; it shows all pods of other groups."""
WIDTHS: Final = {"pod": 9, "node": 10, "policy": 18}


def live(state: DemoState, step: str, width: int, height: int) -> RenderableType:
    """The current step and state, for a terminal of this size."""
    nodes, edit = _nodes(state, numbers=width >= WIDE), _edit(state)
    results = [_result(result) for result in state.results[-2:]]
    room = max(4, height - _node_rows(state) - len(results) - (len(state.edit) + 2 if edit else 0) - 9)
    waiting = [pod for pod in state.pods.values() if pod.uid and not pod.node]
    placed = [pod for pod in state.pods.values() if pod.node]
    shown = [*placed[-max(1, room - len(waiting)) :], *waiting[:room]]
    return Group(Text(step, style="bold"), nodes, *edit, _pods(shown, {}, wrap=False), *results)


def final(state: DemoState) -> RenderableType:
    """The end state: some pods of each group, the edit between the pods before and after it, and all check results."""
    pods = state.pods.values()
    before = _pods([pod for pod in pods if pod.group != NEXT], SAMPLES)
    after = [_pods(state.group(NEXT), SAMPLES)] if state.group(NEXT) else []
    results = [_result(result) for result in state.results]
    return Group(_nodes(state), before, *_edit(state), *after, *results)


def plain_result(result: CheckResult) -> str:
    """A check result as one line."""
    return f"{'ok  ' if result.holds else 'FAIL'} {result.expected}: {result.found}"


def _result(result: CheckResult) -> Text:
    mark = ("✓ ", "bold green") if result.holds else ("✗ ", "bold red")
    return Text.assemble(mark, result.expected, (f": {result.found}", "dim" if result.holds else "red"))


def _nodes(state: DemoState, *, numbers: bool = True) -> Panel:
    zones = state.zones()
    if not 1 < len(zones) <= COLUMNS:
        usable = state.usable()
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
        grid.add_row(*[_node(state, column[row], numbers=numbers) if row < len(column) else "" for column in columns])
    hidden = len(state.usable()) - sum(min(ROWS, len(column)) for column in columns)
    legend = Text("   ").join([Text(f"■ {group}", COLOURS[group]) for group in (WEB, BATCH, PINNED, NEXT)])
    more = f" ({hidden} more not shown)" if hidden > 0 else ""
    return Panel(
        grid, title=f"nodes and their requested CPU{more}", title_align="left",
        subtitle=legend, subtitle_align="right", box=box.ROUNDED, expand=False,
    )  # fmt: skip


def _node(state: DemoState, info: NodeInfo, *, numbers: bool) -> Text:
    """One node: `node-0001 ██████████────── 5/8`, with a colour for each group of pods."""
    has, width = max(1, info.allocatable("cpu")), BAR if numbers else NARROW_BAR
    bar, taken = Text(), 0
    for group, cpu in state.shares(info):
        before, taken = taken, taken + cpu
        bar.append("█" * (round(width * taken / has) - round(width * before / has)), COLOURS.get(group, OTHERS))
    bar.append("─" * (width - len(bar)), "bright_black")
    return Text.assemble(f"{info.name} ", bar, f" {taken / 1000:g}/{has / 1000:g}" if numbers else "")


def _node_rows(state: DemoState) -> int:
    zones = state.zones()
    most = max(map(len, zones.values()), default=0)
    return min(ROWS, most if 1 < len(zones) <= COLUMNS else -(-len(state.usable()) // COLUMNS))


def _pods(pods: Iterable[DemoPod], samples: Mapping[str, int], *, wrap: bool = True) -> Table:
    """A table of pods, with at most `samples[group]` rows for a group and a count of its other pods. Without `wrap`,
    reasons are cut off.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    for title, width in WIDTHS.items():
        table.add_column(title, no_wrap=True, min_width=width)
    table.add_column("reason", ratio=1, no_wrap=not wrap, overflow="fold" if wrap else "ellipsis")
    for group, members in groupby(pods, key=lambda pod: pod.group):
        listed = list(members)
        shown = listed[: samples.get(group, len(listed))]
        for pod in shown:
            table.add_row(Text(pod.name, COLOURS[group]), _where(pod), policy_of(pod), Text(reason(pod), _style(pod)))
        if len(listed) > len(shown):
            table.add_row(Text(f"… {len(listed) - len(shown)} more", "dim"), "", "", "")
    return table


def _where(pod: DemoPod) -> Text:
    return Text(pod.node) if pod.node else Text("none", "red" if pod.failure else "dim")


def _style(pod: DemoPod) -> str:
    return "red" if pod.failure and not pod.node else ""


def _edit(state: DemoState) -> list[Panel]:
    if not state.edit:
        return []
    return [Panel(_diff(state.edit), title=state.edit_title, title_align="left", box=box.ROUNDED, expand=False)]


def _diff(lines: Sequence[str]) -> Text:
    styles = {"+": "green", "-": "red"}
    return Text("\n").join([Text(line, styles.get(line[:1], "")) for line in lines])
