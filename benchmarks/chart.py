"""The README's picture on speed: one pair of bars for each workload, Podwright's rate above kube-scheduler's, as SVG.

Plain SVG without a plotting library: the picture has to be the same, byte for byte, whenever it is drawn from the same
result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_ROW = 46
_TOP = 58
_LABELS = 350
_BARS = 480
_WIDTH = _LABELS + _BARS + 120
_OURS = "#2f6feb"
_THEIRS = "#9aa4b2"


@dataclass(frozen=True, slots=True)
class Pair:
    """Rates of one workload, in pods per second, and Podwright's divided by kube-scheduler's."""

    label: str
    ours: float
    theirs: float
    ratio: float


def chart(pairs: Sequence[Pair]) -> str:
    """The whole SVG document."""
    longest = max(max(pair.ours, pair.theirs) for pair in pairs)
    height = _TOP + _ROW * len(pairs) + 12
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
            'font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="Pods per second, by workload">'
        ),
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        '<text x="16" y="26" font-size="16" font-weight="600" fill="#1f2328">Pods bound per second</text>',
        *_legend(),
    ]
    for number, pair in enumerate(pairs):
        lines += _row(pair, _TOP + _ROW * number, _BARS / longest)
    return "\n".join([*lines, "</svg>", ""])


def _legend() -> list[str]:
    x = _LABELS
    return [
        f'<rect x="{x}" y="15" width="12" height="12" fill="{_OURS}"/>',
        f'<text x="{x + 18}" y="26" fill="#1f2328">Podwright</text>',
        f'<rect x="{x + 110}" y="15" width="12" height="12" fill="{_THEIRS}"/>',
        f'<text x="{x + 128}" y="26" fill="#1f2328">kube-scheduler, same API server</text>',
    ]


def _row(pair: Pair, top: int, scale: float) -> list[str]:
    ours, theirs = pair.ours * scale, pair.theirs * scale
    return [
        f'<text x="16" y="{top + 21}" fill="#1f2328">{escape(pair.label)}</text>',
        f'<rect x="{_LABELS}" y="{top}" width="{ours:.0f}" height="16" fill="{_OURS}"/>',
        (
            f'<text x="{_LABELS + ours + 6:.0f}" y="{top + 13}" fill="#1f2328">{pair.ours:,.0f}'
            f'<tspan dx="8" fill="#57606a">{pair.ratio:.2f}x</tspan></text>'
        ),
        f'<rect x="{_LABELS}" y="{top + 18}" width="{theirs:.0f}" height="16" fill="{_THEIRS}"/>',
        f'<text x="{_LABELS + theirs + 6:.0f}" y="{top + 31}" fill="#57606a">{pair.theirs:,.0f}</text>',
    ]
