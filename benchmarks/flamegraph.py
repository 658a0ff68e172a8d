"""Turns stack samples into a flame graph (SVG) and a list of the most expensive functions (text).

The input has lines `outermost;…;innermost count`, as py-spy (`--format raw`) and `sampler` write them. A stack may
occur on several lines.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape

Stack = tuple[str, ...]

_WIDTH = 1400
_ROW_HEIGHT = 17
_LETTER_WIDTH = 6.6
_MIN_WIDTH = 0.4
_HUES = (("podwright", 20), ("benchmarks", 200), ("kopf", 290), ("orjson", 120), ("numpy", 120))
_OTHER_HUE = 210


def read_stacks(lines: Iterable[str]) -> Counter[Stack]:
    """Samples by stack. Raises ValueError for a malformed line."""
    stacks: Counter[Stack] = Counter()
    for line in lines:
        if line.strip():
            frames, count = line.rsplit(" ", 1)
            stacks[tuple(frames.split(";"))] += int(count)
    return stacks


def top(stacks: Mapping[Stack, int], count: int = 40) -> str:
    """Functions ranked by their own samples, then by samples including callees, as shares of all samples."""
    own: Counter[str] = Counter()
    with_callees: Counter[str] = Counter()
    for stack, samples in stacks.items():
        own[stack[-1]] += samples
        for frame in set(stack):
            with_callees[frame] += samples
    total = sum(stacks.values())
    lines = [f"{total} samples", "", "   own  with callees"]
    lines += [_line(own[frame], with_callees[frame], total, frame) for frame in _most(own, count)]
    lines += ["", "   own  with callees, sorted by the latter"]
    lines += [_line(own[frame], with_callees[frame], total, frame) for frame in _most(with_callees, count)]
    return "\n".join(lines) + "\n"


def _most(samples: Mapping[str, int], count: int) -> list[str]:
    return sorted(samples, key=lambda frame: (-samples[frame], frame))[:count]


def _line(own: int, with_callees: int, total: int, frame: str) -> str:
    return f"{own / total:6.1%} {with_callees / total:6.1%}  {frame}"


@dataclass(slots=True)
class _Node:
    """A frame, and the samples that contain it at this position."""

    samples: int = 0
    children: dict[str, "_Node"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Box:
    name: str
    samples: int
    start: int
    depth: int


def flame_graph(stacks: Mapping[Stack, int], title: str) -> str:
    """An SVG document. Each box is a function: above its caller, as wide as its share of samples, with the figures as a
    tooltip.
    """
    root = _Node()
    for stack, samples in stacks.items():
        node = root
        node.samples += samples
        for frame in stack:
            node = node.children.setdefault(frame, _Node())
            node.samples += samples
    total = max(root.samples, 1)
    boxes = [box for box in _boxes("all", root, 0, 0) if box.samples / total * _WIDTH >= _MIN_WIDTH]
    height = (max((box.depth for box in boxes), default=0) + 3) * _ROW_HEIGHT
    drawn = "\n".join(_draw(box, total, height) for box in boxes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="monospace" font-size="11">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n<text x="4" y="13">{escape(title)}</text>\n{drawn}\n</svg>\n'
    )


def _boxes(name: str, node: _Node, start: int, depth: int) -> Iterator[_Box]:
    yield _Box(name, node.samples, start, depth)
    for child_name, child in sorted(node.children.items()):
        yield from _boxes(child_name, child, start, depth + 1)
        start += child.samples


def _draw(box: _Box, total: int, height: int) -> str:
    x, width = box.start / total * _WIDTH, box.samples / total * _WIDTH
    y = height - (box.depth + 1) * _ROW_HEIGHT
    room = int((width - 4) / _LETTER_WIDTH)
    label = f'<text x="{x + 2:.1f}" y="{y + 12}">{escape(box.name[:room])}</text>' if room > 2 else ""
    return (
        f"<g><title>{escape(box.name)}: {box.samples} samples, {box.samples / total:.1%}</title>"
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW_HEIGHT - 1}" fill="{_colour(box.name)}"/>{label}</g>'
    )


def _colour(name: str) -> str:
    """One hue per library, one shade per function."""
    hue = next((hue for library, hue in _HUES if library in name), _OTHER_HUE)
    return f"hsl({hue},70%,{62 + zlib.crc32(name.encode()) % 22}%)"
