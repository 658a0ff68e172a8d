"""CapacityBounds: how many members nodes take at most, computed over all nodes at once without scheduling anything.

Where even the bound is too small, no simulation and no eviction is needed. Bounds count resources and the filters whose
verdicts depend on the node alone (`Scope.NODE`). Invariant: a bound is never smaller than what fits. Without such
filters in the profile all members seem to fit everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework import contract
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import (
    Bools,
    CycleState,
    Int64s,
    PreFilterPlugin,
    ResourceFilter,
    Scope,
    Slots,
)
from podwright.core.framework.profile import Point
from podwright.core.framework.status import Status
from podwright.core.gangs import kept_rooms
from podwright.core.gangs.kept_rooms import KeptRoom, KeptRooms
from podwright.core.gangs.rules import minimum_not_reached, minimum_out_of_reach
from podwright.core.objects.closeness import Closeness
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.objects.resources import PODS
from podwright.core.state.cache import Cache
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.topologies import DomainLevel, DomainTree, UnknownLevelError

INEXACT: Final = 1e-9
"""The relative rounding error of a sum of amounts: a bound must not be smaller than what fits."""
ALL: Final = slice(None)
Float64s = NDArray[np.float64]


@dataclass(slots=True)
class Template:
    """Members with equal requests and equal verdicts. `passing`: bool[nodes], by the filters of the node; None: not
    computed yet. `key`: what tells them from others.
    """

    pod: PodInfo
    requests: Sequence[tuple[str, int]]
    key: Hashable
    count: int = 0
    passing: Bools | None = None
    rejecting: frozenset[str] = frozenset()


class CapacityBounds:
    """See the module. Reads the cache at each call. Pods may come and go between calls, but nodes must not change.

    With `emptied`, a bound holds for nodes without any pods on them. `crowded`: the room that others are nominated to
    is left to them, if none of the pods is nominated. Then no nomination may change either. `held`: the same, but only
    of room that reservations hold; it changes nothing beside `crowded`.
    """

    def __init__(
        self, framework: Framework, cache: Cache, pods: Sequence[PodInfo], *, crowded: bool = False, held: bool = False
    ) -> None:
        self._cache = cache
        nominator = cache.nominator
        counts = (crowded or held) and len(nominator) > 0
        self._crowded = counts and not any(nominator.node_of(pod.uid) for pod in pods)
        self._only_slots = held and not crowded
        self._held: dict[str, Int64s] = {}
        self.pods = pods
        self.members = len(pods)
        self._least: dict[str, Float64s] | None = None
        self._fit = next((plugin for plugin in framework.filter_plugins if isinstance(plugin, ResourceFilter)), None)
        self._rooms = cache.extension(KeptRooms, KeptRooms)
        self._filters = [p for p in framework.filter_plugins if p.scope is Scope.NODE and p.filter_all is not None]
        templates: dict[tuple[Any, ...], Template] = {}
        for pod in pods:
            rank = nominator.rank(pod) if self._crowded else None
            key = (pod.requests, rank, *(contract.verdict_key_of(plugin, pod) for plugin in self._filters))
            template = templates.get(key)
            if template is None:
                checked = () if self._fit is None else self._fit.checked_requests(pod.requests)
                template = templates[key] = Template(pod, _occupied(checked, pod), key)
            template.count += 1
        self.templates = tuple(templates.values())

    @property
    def kind(self) -> Hashable:
        """Bounds of one kind have the same `per_node`. None for members that differ."""
        if len(self.templates) != 1:
            return None
        return self.members if self._fit is None else 0, self.templates[0].key

    def per_node(self, *, emptied: bool = False) -> Int64s:
        """int64[nodes]: how many members each node takes at most."""
        bounds = self._by_template(emptied=emptied)
        return bounds[0] if len(bounds) == 1 else self._together(bounds, emptied=emptied)

    def free(self, resource: str, rows: Slots | slice = ALL, *, emptied: bool = False) -> Int64s:
        """int64[rows]: what is left of a resource; of PODS, how many more there may be."""
        table = self._cache.table
        offered = (table.allowed_pods if resource == PODS else table.allocatable(resource))[rows]
        if emptied:
            return offered
        left = offered - (table.pods if resource == PODS else table.requested(resource))[rows]
        return left - self._left_to_others(resource)[rows] if self._crowded else left

    def lacking(self) -> dict[str, Int64s]:
        """By resource, int64[nodes]: how much more a member of the first template needs."""
        return {each: amount - self.free(each) for each, amount in (*self.templates[0].requests, (PODS, 1))}

    def per_domain(
        self, levels: Sequence[DomainLevel], *, within: Bools | None = None, emptied: bool = False
    ) -> list[tuple[Int64s, Int64s]]:
        """For each level, twice int64[domains]: the sum of what its nodes take at most, by which domains are compared,
        and how many members it takes at most. `within`: bool[nodes], the only nodes that count; None: all.
        """
        keeps = self._cache.table.size >= kept_rooms.LEAST_NODES and within is None and not (emptied or self._crowded)
        rooms = [self._room(template) for template in self.templates] if keeps else []
        bounds = [room.fits for room in rooms] if rooms else self._by_template(emptied=emptied)
        if within is not None:
            bounds = [np.where(within, bound, 0) for bound in bounds]
        together = bounds[0] if len(bounds) == 1 else self._together(bounds, emptied=emptied)
        found = []
        for level in levels:
            sums = [room.sums(level) for room in rooms] if rooms else [*map(level.sums, bounds)]
            total = sums[0] if len(sums) == 1 else level.sums(together)
            most = np.zeros(len(level), np.int64)
            for template, each in zip(self.templates, sums, strict=True):
                self._cache.deadline.point()
                most += np.minimum(each, template.count)
            if len(bounds) > 1:
                most = self._with_least(most, together > 0, level.sums, emptied=emptied)
            found.append((total, np.minimum(most, total)))
        return found

    def total(self, *, emptied: bool = False) -> int:
        """How many members all nodes together take at most."""
        bounds = self._by_template(emptied=emptied)
        most = 0
        for template, bound in zip(self.templates, bounds, strict=True):
            self._cache.deadline.point()
            most += min(int(bound.sum()), template.count)
        if len(bounds) == 1:
            return most
        together = self._together(bounds, emptied=emptied)
        most = min(most, int(together.sum()))
        return int(
            self._with_least(np.array([most]), together > 0, lambda free: free.sum(keepdims=True), emptied=emptied)[0]
        )

    @property
    def rejecting_plugins(self) -> frozenset[str]:
        """The filters that made the bounds smaller so far: their queueing hints say which events may make them
        larger.
        """
        own = () if self._fit is None else (self._fit.name,)
        return frozenset(own).union(*(template.rejecting for template in self.templates))

    # Internals

    def _by_template(self, *, emptied: bool) -> list[Int64s]:
        """int64[nodes] for each template, as if there were no members of other templates."""
        bounds = []
        for template in self.templates:
            self._cache.deadline.point()
            bounds.append(self._fitting(template, ALL, emptied=emptied))
        return bounds

    def _room(self, template: Template) -> KeptRoom:
        self._cache.deadline.point()
        table = self._cache.table
        plugins = (self._fit, *self._filters)
        key = self.members if self._fit is None else 0, *map(id, plugins), template.requests, template.key
        room = self._rooms.get(key)
        if room is None or room.epoch != table.epoch:
            passing = self._passing(template)
            room = KeptRoom(table.epoch, plugins, passing, template.rejecting)
            if passing.any():  # otherwise PreFilter may have rejected the members, whatever their key
                self._rooms.keep(key, room)
        template.passing, template.rejecting = room.passing, room.rejecting
        room.update(table.usage_changes, partial(self._fitting, template))
        return room

    def _fitting(self, template: Template, rows: Slots | slice, *, emptied: bool = False) -> Int64s:
        """How many members of the template each of these nodes takes, as if there were no others."""
        return np.where(self._passing(template)[rows], self._fits(template.requests, rows, emptied=emptied), 0)

    def _together(self, bounds: Sequence[Int64s], *, emptied: bool) -> Int64s:
        """int64[nodes] for members of all templates: the sum of the bounds, or how many of the smallest requests fit
        if that is less.
        """
        total = np.zeros_like(bounds[0])
        for bound in bounds:
            self._cache.deadline.point()
            total += bound
        return self._with_least(total, total > 0, lambda free: free, emptied=emptied)

    def _with_least(self, most: Int64s, nodes: Bools, sums: Callable[[Float64s], Float64s], *, emptied: bool) -> Int64s:
        """`most`, or if that is less, how many members have room together if they are those that request least.
        `sums`: of what is free on each of the nodes, for each entry of `most`.
        """
        for resource, least in self._sums_of_least().items():
            self._cache.deadline.point()
            free = sums(np.where(nodes, np.maximum(self.free(resource, emptied=emptied), 0), 0).astype(np.float64))
            others = self.members - len(least)
            most = np.minimum(most, others + np.searchsorted(least, free * (1 + INEXACT), side="right"))
        return most

    def _sums_of_least(self) -> Mapping[str, Float64s]:
        """For each resource, what the one, two, three … members with the smallest requests need together. Without
        those that need nothing of it.
        """
        if self._least is None:
            amounts: dict[str, list[tuple[int, int]]] = {}
            for template in () if self._fit is None else self.templates:
                for resource, amount in (*((each, n) for each, n in template.requests if each != PODS), (PODS, 1)):
                    if amount > 0:
                        amounts.setdefault(resource, []).append((amount, template.count))
            self._least = {}
            for resource, each in amounts.items():
                requests, counts = zip(*sorted(each), strict=True)
                self._least[resource] = np.cumsum(np.repeat(np.array(requests, np.float64), counts))
        return self._least

    def _fits(self, requests: Sequence[tuple[str, int]], rows: Slots | slice, *, emptied: bool) -> Int64s:
        """How many pods with these requests fit on each of these nodes."""
        table = self._cache.table
        if self._fit is None:
            return np.where(table.valid[rows], self.members, 0)
        fits = self.free(PODS, rows, emptied=emptied)
        for resource, amount in requests:
            if amount > 0:
                fits = np.minimum(fits, self.free(resource, rows, emptied=emptied) // amount)
        return np.where(table.valid[rows], np.maximum(fits, 0), 0)

    def _left_to_others(self, resource: str) -> Int64s:
        """int64[nodes]: what each of the pods must leave to pods that are nominated, if that counts."""
        held = self._held.get(resource)
        if held is None:
            for template in self.templates:
                crowd = self._cache.crowds.of(template.pod, only_slots=self._only_slots)
                amounts = np.zeros(self._cache.table.size, np.int64)
                amounts[crowd.slots] = crowd.pods if resource == PODS else crowd.requested(resource)
                held = amounts if held is None else np.minimum(held, amounts)
            assert held is not None, "there are pods"
            self._held[resource] = held
        return held

    def _passing(self, template: Template) -> Bools:
        if template.passing is None:
            table = self._cache.table
            template.passing = table.valid
            for plugin in self._filters:
                passing = _passing(plugin, template.pod, table)
                if passing is not None and np.any(template.passing & ~passing):
                    template.rejecting |= {plugin.name}
                    template.passing = template.passing & passing
        return template.passing


def why_infeasible(group: PodGroup, cache: Cache, bounds: CapacityBounds, *, emptied: bool = False) -> str | None:
    """Why the bounds rule out a placement of the group's waiting members; None if they do not."""
    placed = cache.groups.placed(group.key)
    if objection := minimum_out_of_reach(group.min_count, placed, bounds.members):
        return objection
    domains = None
    if group.near.required:
        try:
            tree = cache.topologies.tree(group.near)
        except UnknownLevelError as error:
            return str(error)
        domains, slices = tree.bound, 0 if placed else whole_slices(group.near, bounds.pods)
        most = max(rooms_of(bounds, tree, slices, emptied=emptied)[tree.required][1].tolist(), default=0)
    else:
        most = bounds.total(emptied=emptied)
    if most and placed + most >= group.min_count:
        return None
    # The same text as that of a simulation, which stops when too few members remain.
    remaining = max(group.min_count - 1 - placed - most, 0)
    text = minimum_out_of_reach(group.min_count, placed + most, remaining) or minimum_not_reached(
        group.min_count, placed + most
    )
    if domains is None:
        return text
    return f"0/{len(domains)} placements are available, first placement status: {text}"


def rooms_of(
    bounds: CapacityBounds, tree: DomainTree, slice_size: int, *, within: Bools | None = None, emptied: bool = False
) -> list[tuple[Int64s, Int64s]]:
    """See `CapacityBounds.per_domain`. Of members in slices, whole slices count, from the level of the slices upwards.
    `slice_size`: see `whole_slices`; 0 if members of some slices are placed already, so that others are left of them.
    """
    found = bounds.per_domain(tree.levels, within=within, emptied=emptied)
    if tree.sliced >= 0 and slice_size:
        total = found[tree.sliced][0] // slice_size * slice_size
        for index in range(tree.sliced, -1, -1):
            found[index] = (total, np.minimum(found[index][1], total))
            if index:
                above = tree.levels[index].above
                total = np.bincount(above, total, len(tree.levels[index - 1])).astype(np.int64)
    return found


def whole_slices(near: Closeness, pods: Sequence[PodInfo]) -> int:
    """Returns how many of the pods are in each slice; 0 without slices, or if slices differ in size."""
    if not near.slice_size:
        return 0
    sizes = Counter(near.slice_of(pod.labels) for pod in pods)
    unnumbered = sizes.pop(None, 0)
    whole = unnumbered % near.slice_size == 0 and all(size == near.slice_size for size in sizes.values())
    return near.slice_size if whole else 0


def emptied_domains(bounds: CapacityBounds, cache: Cache, near: Closeness, needed: int) -> Iterator[Bools]:
    """The domains of the required level, each bool[nodes], that would take so many of the pods of `bounds` without
    others, the smallest first.
    """
    try:
        tree = cache.topologies.tree(near)
    except UnknownLevelError:
        return
    rooms = rooms_of(bounds, tree, whole_slices(near, bounds.pods), emptied=True)
    total, most = rooms[tree.required]
    enough = np.flatnonzero(most >= needed)
    for position in enough[np.argsort(total[enough], kind="stable")].tolist():
        yield tree.bound.nodes(position)


def _occupied(checked: Sequence[tuple[str, int]], pod: PodInfo) -> Sequence[tuple[str, int]]:
    """The amounts that the pod takes from a node. A filter may demand that more than that is free."""
    taken = pod.requests.amounts
    return tuple((resource, min(amount, taken.get(resource, 0))) for resource, amount in checked)


def _passing(plugin: Any, pod: PodInfo, table: NodeTable) -> Bools | None:
    """bool[nodes]: the nodes that pass a filter of scope NODE; None: all nodes, or not known."""
    if contract.verdict_key_of(plugin, pod) is None:
        return None
    state = CycleState()
    try:
        if isinstance(plugin, PreFilterPlugin):
            answer = contract.call(plugin, Point.PRE_FILTER, plugin.pre_filter, state, pod)
            status = None if answer is None else contract.pre_filter_answer(plugin, answer)
            if isinstance(status, Status):
                return np.zeros(table.size, np.bool_) if status.rejected else None
        answer = contract.call(plugin, Point.FILTER, plugin.filter_all, state, pod, table)
        result = contract.filter_result(plugin, answer, table.size)
    except PluginError:
        return None  # The simulation of a member meets the same error, and reports it.
    return None if result is None else result.ok
