"""Level: the pods of a part of a pod group, counted as they come and go: whether its minimum exists, and is placed.

Invariant: a level counts the pods of the levels below it. A pod that comes or goes costs as much as the tree is deep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.sub_groups import BELOW, PartOf, SubGroup, least_together

EXISTING: Final = 0
"""Pods that wait or have a node."""
PLACED: Final = 1
"""Pods that have a node, or are assumed."""
_UNKNOWN: Final = [None, None]


class Level:
    """See the module. `pods` and `met`: how many pods, and how many levels below whose minimum is met, by EXISTING and
    PLACED.
    """

    __slots__ = ("above", "below", "known", "met", "part", "pods")

    def __init__(self, part: SubGroup, above: Level | None = None) -> None:
        self.part = part
        self.above = above
        self.pods = [0, 0]
        self.met = [0, 0]
        self.known: list[int | None] = [None, None]
        """The results of `lacking`, None once they may have changed. If a level's result is known, so are those below
        that it depends on.
        """
        self.below: dict[str, Level] = {}
        for child in part.children:
            level = self.below[child.name] = Level(child, self)
            for which in (EXISTING, PLACED):
                self.met[which] += level.is_met(which)

    def is_met(self, which: int) -> bool:
        """True if the minimum exists, or is placed."""
        return self.pods[which] >= self.part.pods and self.met[which] >= self.part.groups

    def count(self, which: int, by: int) -> None:
        """Adds `by` pods."""
        level: Level | None = self if by else None
        met = 0
        while level is not None:
            before = level.is_met(which)
            level.pods[which] += by
            level.met[which] += met
            level.known[which] = None
            met = level.is_met(which) - before
            level = level.above

    def is_met_without(self, which: int, leaf: Level) -> bool:
        """True if the minimum is met without one of the pods of a level below."""
        leaf.count(which, -1)
        met = self.is_met(which)
        leaf.count(which, 1)
        return met

    def lacking(self, which: int) -> int:
        """How many more pods must exist, or be placed, at least; 0 if the minimum is met."""
        found = self.known[which]
        if found is None:
            part = self.part
            below = least_together((level.lacking(which) for level in self.below.values()), part) if part.groups else 0
            found = self.known[which] = max(0, part.pods - self.pods[which], below)
        return found

    def children_changed(self) -> None:
        """Another level is directly below, or one is not any more."""
        level: Level | None = self
        while level is not None and level.known != _UNKNOWN:
            level.known = [None, None]
            level = level.above

    def standing(self) -> tuple[int, list[Level]]:
        """The levels whose minimum is placed, this one and those below it, and how many pods they have. Pods of a level
        whose minimum is not placed do not count above it.
        """
        found, pods, met = [self], self.pods[PLACED], 0
        for level in self.below.values():
            count, standing = level.standing()
            pods += count - level.pods[PLACED]
            met += bool(standing)
            found += standing
        return (pods, found) if pods >= self.part.pods and met >= self.part.groups else (0, [])

    def part_binds(self) -> bool:
        """True if pods of a level below may not be anywhere."""
        return any(level.part.near.binds or level.part_binds() for level in self.below.values())

    def spares(self, pods: Iterable[tuple[str, Level | None]]) -> list[str]:
        """Returns the uids, in this order, of placed pods without which the minimum is still placed, also that of each
        pod's own level.
        """
        found: list[tuple[str, Level]] = []
        for uid, level in pods:
            if level is None:
                continue
            level.count(PLACED, -1)
            if self.is_met(PLACED) and (level is self or level.is_met(PLACED)):
                found.append((uid, level))
            else:
                level.count(PLACED, 1)
        for _, level in found:
            level.count(PLACED, 1)
        return [uid for uid, _ in found]

    def why_unmet(self, which: int) -> str:
        """Returns a text that counts what the first unmet part has; empty if the minimum is met."""
        if self.is_met(which):
            return ""
        for level in self.below.values() if self.part.groups else ():
            if why := level.why_unmet(which):
                return why
        name = self.part.name.replace(BELOW, "/")
        if self.met[which] < self.part.groups:
            return f"{f'sub-group {name} has ' if name else ''}{self.met[which]} of {self.part.groups} sub-groups"
        return f"{f'sub-group {name} has ' if name else ''}{self.pods[which]} of {self.part.pods} pods"

    def leaves(self) -> Iterator[tuple[str, Level]]:
        """By name: the levels without levels below, and this one as ""."""
        yield "", self
        for name, level in self.below.items():
            if level.below:
                yield from (leaf for leaf in level.leaves() if leaf[0])
            else:
                yield name, level


class Levels(Protocol):
    """The levels of a group, and to which of them a pod belongs."""

    root: Level

    def of(self, pod: PodInfo) -> Level | None:
        """None if the group has no such part."""

    def left(self, level: Level) -> None:
        """A pod has left this level."""


class NamedParts:
    """The levels of a group that names its parts itself."""

    def __init__(self, tree: SubGroup, part_of: PartOf) -> None:
        self.root = Level(tree)
        self._part_of = part_of
        self._leaves = dict(self.root.leaves())

    def of(self, pod: PodInfo) -> Level | None:
        name = self._part_of(pod)
        return None if name is None else self._leaves.get(name) or self._coming(name)

    def _coming(self, name: str) -> Level | None:
        """The level of a part that comes with its pods, see PartOf."""
        above = self.root.below.get(name.partition(BELOW)[0])
        if above is None or not above.part.each:
            return None
        level = above.below.get(name)
        if level is None:
            level = above.below[name] = Level(SubGroup(name, pods=above.part.each, near=above.part.near), above)
            above.children_changed()
        return level

    def left(self, level: Level) -> None:
        above = level.above
        if above is not None and above.part.each and not level.pods[EXISTING]:
            del above.below[level.part.name]
            above.children_changed()
