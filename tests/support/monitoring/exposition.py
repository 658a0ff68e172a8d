"""Parses a scrape: for each family its type, the names of its labels, and its buckets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass
class Family:
    """`labels`: the values of each label but `le`; `buckets`: the values of `le`, as texts; `sampled`: whether it has a
    series.
    """

    kind: str
    labels: dict[str, set[str]] = field(default_factory=dict)
    buckets: set[str] = field(default_factory=set)
    sampled: bool = False


def families(text: str) -> dict[str, Family]:
    """The families of a scrape in the text format, by their names."""
    found: dict[str, Family] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            found[name] = Family(kind)
        elif line and not line.startswith("#"):
            name, labels = _SAMPLE.match(line).groups()
            parts = name.removesuffix("_bucket"), name.removesuffix("_sum"), name.removesuffix("_count")
            family = found[next(each for each in (name, *parts) if each in found)]
            family.sampled = True
            for label, value in _LABEL.findall(labels or ""):
                (family.buckets.add if label == "le" else family.labels.setdefault(label, set()).add)(value)
    return found
