"""Placing the parts of a pod group: of each, enough members for its minimum, or none.

A group is a tree of branches, a flat group a single one. `Filling.fill` places the members of a branch in order; if its
minimum is not reached, all of them lose their nodes again. Source of the rules:
kube-scheduler 1.37's cycle of composite pod groups, `pkg/scheduler/schedule_one_podgroup.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from heapq import nsmallest
from itertools import chain, count, islice
from typing import Final

from podwright.core.cycle import Fault, Placement
from podwright.core.framework.interface import Bools
from podwright.core.gangs.capacity_bounds import CapacityBounds, rooms_of, whole_slices
from podwright.core.gangs.rules import minimum_not_reached, minimum_out_of_reach
from podwright.core.gangs.simulation import Simulation
from podwright.core.gangs.topology_domains import DomainSearch, common_domain, used_domains
from podwright.core.objects.closeness import ANYWHERE, Closeness, Wish, closeness_of
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.plugins.topology_placement_generator import TopologyPlacementGenerator
from podwright.core.state.cache import Cache
from podwright.core.state.levels import PLACED, Level
from podwright.core.state.pod_groups import Members


@dataclass(slots=True)
class Branch:
    """A part of a group: its minimum of pods, and of branches below whose minimum is placed."""

    minimum: int
    name: str = ""
    groups: int = 0
    placed: int = 0
    """How many of its pods have a node, also in branches below."""
    untried: Sequence[PodInfo] = ()
    """Its own pods, without those of branches below, that were not tried yet."""
    children: list[Branch] = field(default_factory=list)
    gained: int = 0
    """How many of `placed` got their node from this plan."""
    near: Closeness = ANYWHERE
    there: Mapping[str, PodInfo] = field(default_factory=dict)
    """By uid: the pods that had a node before, also in branches below; only of those that are to be close together."""
    settled: bool = False
    """The domain in which it is placed was chosen."""
    within: Bools | None = None
    """bool[nodes]: that domain; None: all nodes."""
    failed: bool = False
    why: str = ""
    """Why its minimum was not placed when it was tried."""

    @property
    def is_met(self) -> bool:
        return self.placed >= self.minimum and (
            not self.groups or sum(child.is_met for child in self.children) >= self.groups
        )

    @property
    def lacking(self) -> int:
        """How many more pods it needs at least."""
        below = sum(nsmallest(self.groups, (child.lacking for child in self.children)))
        return max(0, self.minimum - self.placed, below)

    @property
    def all_untried(self) -> Sequence[PodInfo]:
        """The untried pods of the branch and of those below it."""
        return [*self.untried, *(pod for child in self.children for pod in child.all_untried)]

    @property
    def reach(self) -> int:
        """How many more pods may get a node at most; -1 if that is not enough for its minimum."""
        below = [reach for child in self.children if (reach := child.reach) >= 0]
        found = len(self.untried) + sum(below)
        return found if self.placed + found >= self.minimum and len(below) >= self.groups else -1

    def in_order(self) -> Iterator[list[PodInfo]]:
        """Its pods in an order in which they may be placed: first those that its minimum needs at least, which may be
        none, then further ones. After each list, it has its minimum, and so has each branch below, or none of these
        pods. Without the pods of branches below that cannot have their minimum.
        """
        orders = [child.in_order() for child in self.children if child.reach >= 0]
        below = sorted(((next(order), order) for order in orders), key=lambda each: len(each[0]))
        first = [pod for minimum, _ in below[: self.groups] for pod in minimum]
        rest = chain.from_iterable(
            order if index < self.groups else chain([minimum], order) for index, (minimum, order) in enumerate(below)
        )
        others = chain(([pod] for pod in self.untried), rest)
        while self.placed + len(first) < self.minimum and (more := next(others, None)) is not None:
            first += more
        yield first
        yield from filter(None, others)

    def copy(self) -> Branch:
        return replace(self, children=[child.copy() for child in self.children])

    def become(self, trial: Branch, within: Bools | None) -> None:
        """A copy was placed on these nodes, and stays there."""
        for each in fields(trial):
            setattr(self, each.name, getattr(trial, each.name))
        self.settled, self.within = True, within

    def gain(self, pods: int) -> None:
        self.placed += pods
        self.gained += pods

    def lose(self) -> None:
        """The pods that got their node from this plan lose it again."""
        self.placed -= self.gained
        self.gained = 0
        for child in self.children:
            child.lose()


_LEFT: Final = (None, False, False)


def branch_of(cache: Cache, group: PodGroup, pods: Sequence[PodInfo], near: Closeness) -> Branch:
    """The group as a tree. `pods`: the waiting members to try. `near`: where the group as a whole is to be. Where it
    says nothing, annotations of Kueue count that its pods have. Raises InvalidObjectError naming such an annotation.
    """
    members, wishes = cache.groups.members(group.key), not group.near and cache.topologies.of_kueue
    if members.levels is None:
        there = members.staying if near or wishes else {}
        flat = Branch(group.min_count, placed=members.placed_count, untried=pods, near=near, there=there)
        return _sliced(_wished(flat) if wishes else flat)
    by_level: dict[Level | None, list[PodInfo]] = {}
    for pod in pods:
        level = members.counted.get(pod.uid, _LEFT)[0]  # the pod may have left the group since it was popped
        by_level.setdefault(level, []).append(pod)
    root, placed_at = members.levels.root, _placed_close(members, every=wishes)

    def branch(level: Level) -> Branch:
        part = level.part
        children = [branch(below) for below in sorted(level.below.values(), key=lambda each: each.part.order)]
        made = Branch(part.pods, part.name, part.groups, level.pods[PLACED], by_level.get(level, ()), children)
        made.near = near if level is root else ANYWHERE if part.each else part.near
        if made.near or wishes:
            made.there = members.staying if level is root else placed_at.get(level, {})
        if wishes and not children and not part.near:
            made = _wished(made)
        return made if children else _sliced(made)

    return branch(root)


def _wished(branch: Branch) -> Branch:
    """All its pods are to be where their annotations say, or if these differ, in a branch for each wish."""
    wishes: dict[Wish, tuple[dict[str, PodInfo], list[PodInfo]]] = {}
    for pod in (*branch.there.values(), *branch.untried):
        there, untried = wishes.setdefault(pod.wish, ({}, []))
        if pod.uid in branch.there:
            there[pod.uid] = pod
        else:
            untried.append(pod)
    if len(wishes) < 2:
        branch.near = _wish(branch.there, branch.untried) or branch.near
        return branch
    whole = branch.minimum >= branch.placed + len(branch.untried)
    for there, untried in wishes.values():
        minimum, near = whole * (len(there) + len(untried)), _wish(there, untried)
        below = Branch(minimum, branch.name, placed=len(there), untried=untried, near=near, there=there)
        branch.children.append(_sliced(below))
    branch.children.sort(key=lambda each: (not each.near.binds, not each.near))  # whoever may be anywhere comes last
    branch.near, branch.untried = ANYWHERE, ()
    return branch


def _wish(there: Mapping[str, PodInfo], untried: Sequence[PodInfo]) -> Closeness:
    """Returns the closeness that these pods request, which is the same for all."""
    for pod in (*islice(there.values(), 1), *untried[:1]):
        try:
            return closeness_of(pod.wish)
        except InvalidObjectError as error:
            raise error.in_object("Pod", pod.key) from error
    return ANYWHERE


def _sliced(branch: Branch) -> Branch:
    """With a branch for each slice, if its pods are in slices. Pods without a number are in slices in their order."""
    near, size = branch.near, branch.near.slice_size
    if not near.slice_level:
        return branch
    slices: dict[tuple[bool, int], tuple[dict[str, PodInfo], list[PodInfo]]] = {}
    unnumbered = count()
    for pod in (*branch.there.values(), *branch.untried):
        number = near.slice_of(pod.labels)
        if number is not None or pod.uid not in branch.there:
            which = (False, next(unnumbered) // size) if number is None else (True, number)
            there, untried = slices.setdefault(which, ({}, []))
            if pod.uid in branch.there:
                there[pod.uid] = pod
            else:
                untried.append(pod)
    one = Closeness((near.slice_level,), topology=near.topology)
    branch.untried, branch.children = (), []
    for _, (there, untried) in sorted(slices.items(), key=lambda each: each[0]):
        minimum = min(size, len(there) + len(untried))
        branch.children.append(Branch(minimum, branch.name, placed=len(there), untried=untried, near=one, there=there))
    return branch


def _placed_close(members: Members, *, every: bool) -> Mapping[Level, Mapping[str, PodInfo]]:
    """The placed pods of each level, or of each whose pods are to be close together, also those of levels below, by
    uid.
    """
    found: dict[Level, dict[str, PodInfo]] = {}
    for uid, pod in members.staying.items():
        level = members.counted[uid][0]
        while level is not None:
            if every or level.part.near:
                found.setdefault(level, {})[uid] = pod
            level = level.above
    return found


def parts_of(branch: Branch, above: str = "") -> Iterator[tuple[str, str]]:
    """By name of the branches without others below: why their minimum is not placed; "" if it is. What is not placed
    above is not placed below.
    """
    why = branch.why or above
    if not branch.children and not branch.groups:
        yield branch.name, why or minimum_not_reached(branch.minimum, branch.placed)
    for child in branch.children:
        yield from parts_of(child, why)


MOST_WORK: Final = 1_000_000_000
"""How much is tried, in nodes looked at, before domains are left out: some ten seconds. Filters that a sum over nodes
cannot know may reject every domain, and branches within branches try domains within domains.
"""


@dataclass(slots=True)
class Filling:
    """Places members of branches in one simulation. `minimums_first`: the minimums of all parts, before what is more
    than the minimum of one of them could take their room.
    """

    simulation: Simulation
    minimums_first: bool

    def fill(self, branch: Branch, *, enough: bool = False) -> str | Fault:
        """Places members of the branch. Returns why its minimum is not placed, or a Fault, which ends the simulation;
        an empty string if it is placed. With `enough`, places only what the minimum needs.
        """
        if branch.near and not branch.settled and not branch.failed and (pods := branch.all_untried):
            gained = branch.gained
            found = self._choose_domain(branch, pods, enough=enough)
            if found or branch.gained > gained:
                return found
        outer, self.simulation.within = self.simulation.within, both(self.simulation.within, branch.within)
        found = self._fill_here(branch, enough=enough)
        self.simulation.within = outer
        return found

    def _choose_domain(self, branch: Branch, pods: Sequence[PodInfo], *, enough: bool) -> str | Fault:
        """Chooses the domain that takes most pods of the branch; among equals the tightest. Places all pods that are
        to be placed there, if it takes all. Returns why none is enough.
        """
        simulation, cache = self.simulation, self.simulation.transaction.cache
        try:
            tree = cache.topologies.tree(branch.near)
            if tree.required >= 0:
                common_domain(cache, tree, branch.there)
        except ValueError as error:
            simulation.rejecting.add(TopologyPlacementGenerator.name)
            branch.failed, branch.why = True, str(error)
            return branch.why
        outer, bounds = simulation.within, CapacityBounds(simulation.framework, cache, pods)
        rooms = rooms_of(bounds, tree, 0 if branch.there else whole_slices(branch.near, pods), within=outer)
        used = used_domains(cache, tree, branch.there)
        search = DomainSearch(tree, rooms, len(pods), max(1, branch.lacking), used)
        best, first, why, left, tried = -1, dict(simulation.attempts), "", "", 0
        attempts = search.attempts()
        following = next(attempts, None)
        while following is not None and following.most > best:
            attempt, following = following, next(attempts, None)
            if tried and ((late := cache.deadline.is_late()) or simulation.work > MOST_WORK):
                left = f", of which {tried} were tried {'in the time given' if late else 'within the bound on work'}"
                break
            tried += 1
            # A domain counts even if nothing is scheduled there: parts may fail before that.
            simulation.work += cache.table.count
            cache.deadline.point()
            trial, before, placed = branch.copy(), simulation.transaction.checkpoint(), simulation.placed
            simulation.within = both(outer, attempt.nodes)
            found = self._fill_here(trial, enough=enough)
            simulation.within = outer
            if isinstance(found, Fault):
                return found
            most = trial.gained == len(pods) or (following is not None and following.most <= trial.gained > best)
            if not found and trial.gained and (enough or most or following is None):
                branch.become(trial, attempt.nodes)
                return ""
            if tried == 1 or tree.required < 0:
                first, why = dict(simulation.attempts), found
            simulation.undo(before, placed, found)
            why = why or found
            if not found and tree.required >= 0 and trial.gained > max(best, 0):
                best, branch.settled, branch.within = trial.gained, True, attempt.nodes
        if branch.settled:
            return ""
        simulation.rejecting.update((TopologyPlacementGenerator.name, *bounds.rejecting_plugins))
        simulation.attempts = first
        if tree.required >= 0:
            why = f", first placement status: {why}" if why else ""
            why = f"0/{len(search.domains)} placements are available{left}{why}{search.nearest_miss()}"
        if not branch.is_met:
            branch.failed, branch.why = True, why
        return why

    def _fill_here(self, branch: Branch, *, enough: bool) -> str | Fault:
        before, placed = self.simulation.transaction.checkpoint(), self.simulation.placed
        found = self._fill(branch, enough=enough) if branch.children else self._pods(branch, enough=enough)
        if found and not isinstance(found, Fault):
            # Of parts that are to be close together, the first one says what it lacks: perhaps no node has its label.
            found += next((f"; {child.why}" for child in branch.children if child.near and child.why), "")
            self.simulation.undo(before, placed, found)
            branch.lose()
            branch.failed, branch.why = True, found
        return found

    def _fill(self, branch: Branch, *, enough: bool) -> str | Fault:
        if self.minimums_first:
            found = self._children(branch, enough=True)
            if found or (enough and branch.placed >= branch.minimum):
                return found
            # What follows may be more than the minimum of the parts below, but is still needed for that of this one.
            found = self._pods(branch, enough=enough, part=True)
            if isinstance(found, Fault) or (enough and branch.placed >= branch.minimum):
                return found
        found = self._children(branch, enough=False)
        return found or minimum_not_reached(branch.minimum, branch.placed)

    def _pods(self, branch: Branch, *, enough: bool, part: bool = False) -> str | Fault:
        """The branch's own pods. `part`: its minimum counts those of branches below, too."""
        pods, branch.untried = branch.untried, ()
        minimum = 0 if part else branch.minimum
        if objection := minimum_out_of_reach(minimum, branch.placed, len(pods)):
            return objection
        for index, pod in enumerate(pods):
            if enough and branch.placed >= branch.minimum:
                branch.untried = pods[index:]
                return ""
            self.simulation.transaction.cache.deadline.point()
            decision = self.simulation.schedule(pod)
            if isinstance(decision, Fault):
                return decision
            branch.gain(isinstance(decision, Placement))
            if objection := minimum_out_of_reach(minimum, branch.placed, len(pods) - index - 1):
                return objection
        return minimum_not_reached(minimum, branch.placed)

    def _children(self, branch: Branch, *, enough: bool) -> str | Fault:
        """The branches below. With `enough`, only the minimums of so many as the branch needs."""
        were_met = [child.is_met for child in branch.children]
        met, left = sum(were_met), sum(not child.failed for child in branch.children) - sum(were_met)
        children = [*zip(branch.children, were_met, strict=True)]
        if enough and branch.groups < len(children):
            children.sort(key=lambda each: each[0].lacking)
        for child, was_met in children:
            if objection := minimum_out_of_reach(branch.groups, met, left):
                return objection
            if enough and met >= branch.groups:
                break
            if child.failed or (enough and was_met):
                continue
            gained = child.gained
            found = self.fill(child, enough=enough)
            if isinstance(found, Fault):
                return found
            branch.gain(child.gained - gained)
            if not was_met:
                met, left = met + (not found), left - 1
        return minimum_out_of_reach(branch.groups, met, left) or minimum_not_reached(branch.groups, met)


def both(one: Bools | None, other: Bools | None) -> Bools | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
