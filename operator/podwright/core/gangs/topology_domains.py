"""The domains in which the planner tries a group or a part of it, in the order of what their nodes take at most.

Domains of all levels are compared at once, by sums over nodes (`capacity_bounds`). A sum may be too high but is never
too low, so a domain whose sum is too small need not be tried. Of a domain, those parts are tried first in which the
members are least spread, level by level.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from podwright.core.framework.interface import Bools, Int64s
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.core.state.topologies import DomainTree


def domains_of(cache: Cache, key: str, uids: Collection[str]) -> frozenset[str]:
    """The label's values on the nodes of these placed pods."""
    values = set()
    for uid in uids:
        info = cache.placement(uid)
        if info is not None and info.node is not None and key in info.node.labels:
            values.add(info.node.labels[key])
    return frozenset(values)


def common_domain(cache: Cache, tree: DomainTree, placed: Mapping[str, PodInfo]) -> int:
    """The one domain of the required level that all these pods are in; -1 without pods. Raises ValueError if there is
    none, or more than one.
    """
    common, domains = -1, tree.bound
    for uid, pod in placed.items():
        info = cache.placement(uid)
        position = -1 if info is None or info.node is None else int(domains.codes[info.slot])
        if position < 0:
            raise ValueError(f"no topology domain found for pod {pod.key}")
        if common not in (-1, position):
            raise ValueError(
                f"more than 1 domain found for pod group: {domains.value(common)}, {domains.value(position)}"
            )
        common = position
    return common


def used_domains(cache: Cache, tree: DomainTree, placed: Collection[str]) -> Sequence[Bools]:
    """For each level bool[domains]: where these placed pods are, by uid."""
    infos = [info for uid in placed if (info := cache.placement(uid)) is not None and info.node is not None]
    slots = [info.slot for info in infos]
    found = []
    for level in tree.levels:
        used = np.zeros(len(level) + 1, np.bool_)
        used[level.codes[slots]] = True
        found.append(used[:-1])
    return found


@dataclass(frozen=True, slots=True)
class Attempt:
    """Nodes to try: bool[nodes], None for all. `most`: how many members they take at most."""

    nodes: Bools | None
    most: int


@dataclass(frozen=True, slots=True)
class DomainSearch:
    """See the module. `rooms`: of each level, see `CapacityBounds.per_domain`; `minimum`: so many of the `members` must
    be placed; `used`: for each level bool[domains], where placed members are: in one domain of the required level.
    """

    tree: DomainTree
    rooms: Sequence[tuple[Int64s, Int64s]]
    members: int
    minimum: int
    used: Sequence[Bools]

    def attempts(self) -> Iterator[Attempt]:
        """From the preferred level up to the required one, the domains that take all members, the fullest first; then
        those of the required level that take the minimum, those that take most first. Without a required level: then as
        few domains as possible, and at last all nodes. If no domain may take the minimum, the first is tried
        nevertheless, because that shows what is missing.
        """
        tree, found = self.tree, False
        for level in range(tree.preferred, max(tree.required, 0) - 1, -1):
            total, most = self.rooms[level]
            fitting = self._allowed(level, most >= self.members)
            closest = not found
            for position in fitting[np.argsort(total[fitting], kind="stable")].tolist():
                found = True
                yield from self._within(level, position, closest=closest)
        if tree.required < 0:
            yield from self._anywhere()
            return
        total, most = self.rooms[tree.required]
        some = self._allowed(tree.required, (most >= self.minimum) & (most < self.members))
        if not (found or len(some)):
            some = self.domains[:1]
        for position in some[np.lexsort((total[some], -most[some]))].tolist():
            yield Attempt(tree.bound.nodes(position), int(most[position]))

    @property
    def domains(self) -> Int64s:
        """The positions of the domains of the required level that may be taken."""
        return self._allowed(self.tree.required, np.ones(len(self.tree.bound), np.bool_))

    def nearest_miss(self) -> str:
        """The domain of the required level with the most room, and how many members it takes; empty if one has
        enough.
        """
        if not len(self.tree.bound):
            labels = [level.label for level in self.tree.levels[: self.tree.required + 1]]
            return f"; no node has the label{'s' if labels[1:] else ''} {' and '.join(labels)}"
        domains, most = self.domains, self.rooms[self.tree.required][1]
        best = int(domains[np.argmax(most[domains])]) if len(domains) else -1
        if best < 0 or most[best] >= self.minimum:
            return ""
        return f"; {self.tree.bound.name(best)}: room for {most[best]} of {self.minimum}"

    def _allowed(self, level: int, which: Bools) -> Int64s:
        """The positions of these domains, without those that placed members rule out."""
        used = self.used[level]
        if used.any():
            which = which & used if used.sum() == 1 else np.zeros_like(which)
        return np.flatnonzero(which)

    def _within(self, level: int, position: int, *, closest: bool) -> Iterator[Attempt]:
        """Yields attempts in one domain: in the part where members are least spread, then in all of it."""
        most = int(self.rooms[level][1][position])
        if closest and level + 1 < len(self.tree.levels):
            yield Attempt(self._closest(level, position, 0), most)
        yield Attempt(self.tree.levels[level].nodes(position), most)

    def _anywhere(self) -> Iterator[Attempt]:
        """More and more domains of the coarsest level, those first where placed members are."""
        if self.tree.preferred >= 0:
            more = 0
            if self.used[0].any():
                yield Attempt(self.used[0][self.tree.levels[0].codes] & (self.tree.levels[0].codes >= 0), self.members)
            while more < len(self.tree.levels[0]):
                yield Attempt(self._closest(-1, -1, more), self.members)
                more = 2 * more or 1
        yield Attempt(None, self.members)

    def _closest(self, level: int, position: int, more: int) -> Bools:
        """bool[nodes]: of a domain (level -1: of all), the fewest domains of each level below that take the members by
        their sums, and `more` of the level below.
        """
        nodes: Bools = np.zeros(len(self.tree.levels[0].codes), np.bool_)
        needed = self.members
        for below in range(level + 1, len(self.tree.levels)):
            domains, (total, room) = self.tree.levels[below], self.rooms[below]
            inside = np.flatnonzero((domains.above == position) & (room > 0))
            ranks = np.lexsort((-room[inside], ~self.used[below][inside]))
            inside, first = inside[ranks], int(self.used[below][inside].sum())
            left = needed - np.concatenate(([0], np.cumsum(room[inside])))
            # Those where placed members are count first, then the largest, until one takes all others.
            taken = first + next(iter(np.flatnonzero(room[inside[first:]] >= left[first:-1])), len(inside) - first)
            chosen = np.zeros(len(domains) + 1, np.bool_)
            chosen[inside[: taken + more]] = True
            nodes |= chosen[domains.codes]
            more, needed = 0, int(left[taken])
            last = inside[taken:][room[inside[taken:]] >= needed]
            if needed <= 0 or not len(last):
                return nodes
            position = int(last[np.argmin(total[last])])
        nodes |= self.tree.levels[-1].nodes(position)
        return nodes
