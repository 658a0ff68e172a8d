"""SubGroup: a part of a pod group with a minimum of its own. A pod group is a tree of them; a flat one is a single
part. `kai_groups`, `volcano_groups` and `grove_groups` read the trees of these APIs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Final, Protocol

from podwright.core.objects.closeness import ANYWHERE, Closeness
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.raw import as_positive

MAX_LEVELS: Final = 16
"""How deep a tree may be."""


class Member(Protocol):
    """The fields of a pod that decide to which part it belongs."""

    @property
    def key(self) -> str:
        """namespace/name"""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def task(self) -> str: ...


PartOf = Callable[[Member], str | None]
"""The name of the part to which a pod belongs; "" for the whole group, None for none. A part that comes with its pods
is named after the part above it, up to BELOW.
"""
BELOW: Final = "\0"


@dataclass(frozen=True, slots=True)
class SubGroup:
    """A part. Its minimum is met if so many `pods` of it and of the parts below have a node, and the minimums of so
    many `groups` directly below are met.
    """

    name: str = ""
    pods: int = 0
    groups: int = 0
    children: tuple[SubGroup, ...] = ()
    order: tuple[str, str] = ("", "")
    """Where it stands among the parts beside it; equal ones stand as given."""
    near: Closeness = ANYWHERE
    """How close together its pods are to be."""
    each: int = 0
    """Not 0: its pods are in parts that come with their pods. Each needs so many of them, `near` each other."""

    @property
    def least(self) -> int:
        """How many pods are needed at least."""
        return max(self.pods, least_together((child.least for child in self.children), self))


def least_together(of_children: Iterable[int], part: SubGroup) -> int:
    """How many pods the cheapest `part.groups` children need together. A child that is not there yet needs `part.each`,
    at least one.
    """
    cheapest = nsmallest(part.groups, of_children)
    return sum(cheapest) + (part.groups - len(cheapest)) * max(1, part.each)


def leaves_of(tree: SubGroup) -> Iterator[SubGroup]:
    """The parts without parts below."""
    if not tree.children:
        yield tree
    for child in tree.children:
        yield from leaves_of(child)


def count_of(value: object, where: str) -> int | None:
    """None if it is not given. Raises InvalidObjectError."""
    if value is None or (type(value) is int and value == 0):
        return value
    return as_positive(value, where)


Terms = tuple[SubGroup, PartOf | None]
"""The minimums of a group, and to which of its parts a member belongs; None: the group is flat. Without a minimum, it
is no gang.
"""
