"""Positions of values in a YAML file: line and column of a field's path, and of a place within a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml

from podwright.core.objects.dataclass import dataclass

_Loader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_STEP: Final = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")

Place = tuple[int, int]
"""Line and column, from 1."""


@dataclass(frozen=True, slots=True)
class Position:
    """A value of a YAML document, and the lines of its file."""

    node: yaml.Node
    lines: Sequence[str]

    @property
    def place(self) -> Place:
        """Where the value begins."""
        return self.node.start_mark.line + 1, self.node.start_mark.column + 1

    def at(self, path: str) -> Position:
        """The value at a field's path, such as `spec.rules.filters[0].expression`. If it does not exist, the innermost
        existing value on the path.
        """
        node = self.node
        for key, index in _STEP.findall(path):
            found = _child(node, key or index)
            if found is None:
                break
            node = found
        return Position(node, self.lines)

    def inside(self, line: int, column: int) -> Place | None:
        """The place of a line and column of the text that the value is; None if the file has it in another form."""
        node = self.node
        if not isinstance(node, yaml.ScalarNode):
            return None
        first = node.start_mark.line
        if node.style == "|":
            indent = _indentation(self.lines[first + 1 : node.end_mark.line])
            return first + 1 + line, indent + column
        if node.style == ">" or line != 1 or node.end_mark.line != first:
            return None
        start = node.start_mark.column + (1 if node.style in ("'", '"') else 0)
        return None if self._escaped else (first + 1, start + column)

    @property
    def _escaped(self) -> bool:
        """True if the text is written with escapes, so that its positions differ from those of the file."""
        node: Any = self.node
        quotes = 2 if node.style in ("'", '"') else 0
        return bool(node.end_mark.column - node.start_mark.column - quotes != len(node.value))


def positions(content: str) -> Iterator[Position]:
    """The objects of a file: its documents that are not empty, and the items of lists. Raises yaml.YAMLError."""
    lines = content.splitlines()
    for node in yaml.compose_all(content, _Loader):
        if node is None or (isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"):
            continue
        items = _child(node, "items")
        kind = _child(node, "kind")
        if isinstance(items, yaml.SequenceNode) and (kind is None or str(kind.value or "List").endswith("List")):
            yield from (Position(item, lines) for item in items.value)
        else:
            yield Position(node, lines)


def repeated_keys(position: Position) -> Iterator[tuple[str, Place]]:
    """The keys that an object of the value has twice: YAML readers silently take the last one."""
    waiting = [position.node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    yield key.value, (key.start_mark.line + 1, key.start_mark.column + 1)
                elif isinstance(key, yaml.ScalarNode):
                    seen.add(key.value)
                waiting.append(value)
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def _child(node: yaml.Node, name: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if getattr(key, "value", None) == name), None)
    if isinstance(node, yaml.SequenceNode) and name.isdecimal() and int(name) < len(node.value):
        found: yaml.Node = node.value[int(name)]
        return found
    return None


def _indentation(lines: Sequence[str]) -> int:
    return next((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), 0)
