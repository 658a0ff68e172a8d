"""The plots of a replay, as SVG without a plotting library: the same bytes whenever they are drawn from the same
scorecards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.queues.amounts import unit_of
from podwright.engine.view.rebalance_picture import COLORS, STYLE
from podwright.simulator.replay.meter import MeterSample
from podwright.simulator.replay.scorecard import Scorecard

WIDTH, HEIGHT = 860, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 70, 48
_DASHES: Final = ("", "7 4", "2 3", "10 3 2 3", "4 4", "1 3", "", "7 4")
"""Dashes, so that lines can be distinguished without colours."""
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over an axis. `percent`: values are shares. `logarithmic`: the x axis is."""

    title: str
    x_label: str
    lines: Mapping[str, Points]
    percent: bool = False
    logarithmic: bool = False
    seconds: bool = False
    """x is a time."""


def plots(cards: Sequence[Scorecard]) -> Mapping[str, str]:
    """SVG documents by the name of their file."""
    first = cards[0]
    name = first.resource

    def over_time(title: str, value: Callable[[MeterSample], float], *, percent: bool = False) -> Plot:
        return Plot(title, "time", _over_time(cards, value), percent=percent, seconds=True)

    waits = {card.policy: card.waiting.curve for card in cards}
    waiting = "Waiting times: the share of pods that waited at most so long"
    drawn = {
        "allocation": over_time(
            f"Allocation of {name}: requested of all nodes", lambda s: s.allocation[name], percent=True
        ),
        "utilisation": over_time(
            f"Utilisation of {name}: requested of nodes in use", lambda s: s.utilisation[name], percent=True
        ),
        "fragmentation": over_time(
            f"Fragmentation of {name}: free, but useless to a typical pod", lambda s: s.fragmentation, percent=True
        ),
        "spread": over_time("Spread: standard deviation of the nodes' load", lambda s: s.spread, percent=True),
        "nodes": over_time("Nodes in use", lambda s: float(s.nodes_in_use)),
        "pending": over_time("Pods that wait for a node", lambda s: float(s.waiting)),
        "waiting": Plot(waiting, "seconds", waits, percent=True, logarithmic=True),
    }
    if any(card.queue_samples for card in cards):
        fairness = {
            card.policy: [(each.time - card.queue_samples[0].time, each.fairness) for each in card.queue_samples]
            for card in cards
        }
        title = "Fairness: the part of their fair shares that queues have"
        drawn["fairness"] = Plot(title, "time", fairness, percent=True, seconds=True)
    for number, card in enumerate(cards, start=1):
        if card.queues:
            drawn |= {f"queues-{number}-{key}": plot for key, plot in _of_queues(card).items()}
    return {f"{key}.svg": draw(plot) for key, plot in drawn.items()}


def _of_queues(card: Scorecard) -> Mapping[str, Plot]:
    """Returns plots of the queues with most pods: their amounts and fair shares over time, and how long pods wait."""
    start = card.queue_samples[0].time if card.queue_samples else 0.0
    names = [*card.queue_samples[0].allocated] if card.queue_samples else []
    resource, scale = card.queues[0].resource, unit_of(card.queues[0].resource)
    has = {name: [(each.time - start, each.allocated[name] / scale) for each in card.queue_samples] for name in names}
    fair = {name: [(each.time - start, each.share[name] / scale) for each in card.queue_samples] for name in names}
    curves = {figures.queue: figures.waiting.curve for figures in card.queues}
    waiting = {name: curves[name] for name in names}
    return {
        "allocation": Plot(f"{resource} that queues have under {card.policy}", "time", has, seconds=True),
        "share": Plot(f"{resource} that is fair under {card.policy}", "time", fair, seconds=True),
        "waiting": Plot(
            f"Waiting times by queue under {card.policy}", "seconds", waiting, percent=True, logarithmic=True
        ),
    }


def _over_time(cards: Sequence[Scorecard], value: Callable[[MeterSample], float]) -> Mapping[str, Points]:
    start = min((card.samples[0].time for card in cards if card.samples), default=0.0)
    return {card.policy: [(sample.time - start, value(sample)) for sample in card.samples] for card in cards}


def draw(plot: Plot) -> str:
    """The whole SVG document."""
    xs = [_x(plot, x) for points in plot.lines.values() for x, _ in points] or [0.0]
    ys = [y for points in plot.lines.values() for _, y in points] or [0.0]
    low, high = min(xs), max(xs)
    top = _nice(max(ys))
    if plot.percent and top > 0.5:
        top = 1.0
    across = (WIDTH - _LEFT - _RIGHT) / ((high - low) or 1.0)
    upwards = (HEIGHT - _TOP - _BOTTOM) / top

    def at(x: float, y: float) -> str:
        return f"{_LEFT + (_x(plot, x) - low) * across:.1f},{HEIGHT - _BOTTOM - y * upwards:.1f}"

    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    font = 'font-family="system-ui, sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img" aria-label="{escape(_described(plot))}">',
        STYLE,
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text x="16" y="24" font-size="15" font-weight="600">{escape(plot.title)}</text>',
        *_legend([*plot.lines]),
    ]
    for step in range(5):
        value = top * step / 4
        y = HEIGHT - _BOTTOM - value * upwards
        parts += [
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>',
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_y_text(value, percent=plot.percent)}</text>',
        ]
    for step in range(6):
        position = low + (high - low) * step / 5
        x = _LEFT + (position - low) * across
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{_x_text(plot, position)}</text>'
        )
    parts.append(
        f'<text x="{(WIDTH + _LEFT) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(plot.x_label)}</text>'
    )
    for number, points in enumerate(plot.lines.values()):
        if points:
            path = " ".join(at(x, y) for x, y in points)
            color, dash = COLORS[number % len(COLORS)], _DASHES[number % len(_DASHES)]
            parts.append(
                f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6" stroke-dasharray="{dash}"/>'
            )
    return "\n".join([*parts, "</svg>", ""])


def _legend(names: Sequence[str]) -> list[str]:
    parts = []
    x = 16.0
    for number, name in enumerate(names):
        color, dash = COLORS[number % len(COLORS)], _DASHES[number % len(_DASHES)]
        parts += [
            (
                f'<line x1="{x:.0f}" x2="{x + 24:.0f}" y1="46" y2="46" stroke="{color}" stroke-width="2.5" '
                f'stroke-dasharray="{dash}"/>'
            ),
            f'<text x="{x + 30:.0f}" y="50">{escape(name)}</text>',
        ]
        x += 48 + 7 * len(name)
    return parts


def _described(plot: Plot) -> str:
    """A description for people who cannot see the plot: the last value of each line."""
    ends = (
        f"{name} ends at {_y_text(points[-1][1], percent=plot.percent)}"
        for name, points in plot.lines.items()
        if points
    )
    return f"{plot.title}. {'; '.join(ends)}."


def _x(plot: Plot, x: float) -> float:
    return math.log10(max(x, 0.0) + 1.0) if plot.logarithmic else x


def _x_text(plot: Plot, position: float) -> str:
    if plot.logarithmic:
        return f"{10**position - 1:,.0f}"
    return duration(position) if plot.seconds else f"{position:g}"


def _y_text(value: float, *, percent: bool) -> str:
    return f"{value:.1%}".replace(".0%", "%") if percent else f"{value:,.4g}"


def duration(seconds: float) -> str:
    """A length of time in one unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s" if seconds >= 10 or seconds == 0 else f"{seconds:.2g} s"


def _nice(value: float) -> float:
    """The next round number."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(size * step for step in (1.0, 2.0, 2.5, 4.0, 5.0, 8.0, 10.0) if size * step >= value * 0.999999)
