"""Hierarchies of pod groups: which group is below which, as they come and go one by one.

A PodGroup of the Workload API may name a CompositePodGroup above it, and that one another. Pods belong to PodGroups, at
the bottom. The group at the top stands for all of them; while it is missing, its key does. Source: kube-scheduler
1.37's `pkg/scheduler/backend/queue/workload_forest.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podwright.core.objects.items_by_key import drop
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.objects.sub_groups import MAX_LEVELS, SubGroup
from podwright.core.state.levels import Level

_CIRCLE: Final = ", whose parents form a circle"
_DEEP: Final = f", which is below more than {MAX_LEVELS} others"


class Hierarchies:
    """See the module. Groups without a parent that are not composite are left out."""

    def __init__(self) -> None:
        self.parents: dict[str, str] = {}
        """By key: the group above. The top of all others is the group itself."""
        self._children: dict[str, dict[str, None]] = {}
        self._levels: dict[str, Level] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._levels

    def root_of(self, key: str) -> str:
        """The key of the group at the top. The group need not exist; that of a circle, and of too many levels, never
        does.
        """
        above, seen = self.parents.get(key), [key]
        while above is not None:
            if above in seen:
                return min(seen[seen.index(above) :]) + _CIRCLE
            if len(seen) > MAX_LEVELS:
                return key + _DEEP
            seen.append(above)
            above = self.parents.get(above)
        return seen[-1]

    def leaves(self, key: str) -> Iterator[str]:
        """The keys of the groups at the bottom, below this one; the key itself, if it is one. Each once."""
        seen, left = {key}, [key]
        while left:
            each = left.pop()
            level = self._levels.get(each)
            if level is None or not level.part.groups:
                yield each
            below = [child for child in self._children.get(each, ()) if child not in seen]
            seen.update(below)
            left += reversed(below)

    def set(self, group: PodGroup) -> None:
        """The group is new, or has changed. No pod counts at its level, or at levels below it."""
        self.remove(group.key)
        self._levels[group.key] = Level(_part_of(group))
        if group.parent:
            self.parents[group.key] = group.parent
            self._children.setdefault(group.parent, {})[group.key] = None
        self._link(group.key, self._levels.get(group.parent))

    def remove(self, key: str) -> None:
        """The group is gone. No pod counts at its level, or at levels below it."""
        level = self._levels.pop(key, None)
        if level is None:
            return
        for below in level.below.values():
            below.above = None
        self._set_above(level, None)
        parent = self.parents.pop(key, None)
        if parent is not None:
            drop(self._children, parent, key)

    def below(self, key: str) -> Hierarchy | None:
        """The levels below this group; None if it is not there."""
        root = self._levels.get(key)
        return None if root is None else Hierarchy(root, self._levels)

    def _link(self, key: str, above: Level | None) -> None:
        """Links the level to the one above it, and those below it to each other, none below more than MAX_LEVELS. So
        they form no circle.
        """
        depth, each = 0, above
        while each is not None:
            depth, each = depth + 1, each.above
        found = [(key, above, depth)]
        for name, parent, depth in found:
            level = self._levels[name]
            self._set_above(level, parent if depth <= MAX_LEVELS else None)
            if depth <= MAX_LEVELS:
                found += [(child, level, depth + 1) for child in self._children.get(name, ())]

    @staticmethod
    def _set_above(level: Level, above: Level | None) -> None:
        before, name = level.above, level.part.name
        if before is above:
            return
        level.above = above
        if before is not None:
            del before.below[name]
            before.children_changed()
        if above is not None:
            above.below[name] = level
            above.children_changed()


class Hierarchy:
    """The levels of the hierarchy below one group. See `Levels`."""

    def __init__(self, root: Level, levels: dict[str, Level]) -> None:
        self.root = root
        self._levels = levels

    def of(self, pod: PodInfo) -> Level | None:
        return self._levels.get(pod.group)

    def left(self, level: Level) -> None:
        """These levels stay."""


def _part_of(group: PodGroup) -> SubGroup:
    pods, groups = (0, group.min_count) if group.composite else (group.min_count, 0)
    return SubGroup(group.key, pods=pods, groups=groups, order=group.order, near=group.near)
