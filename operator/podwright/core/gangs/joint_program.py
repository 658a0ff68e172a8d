"""JointProgram: a gang's members and the nodes as an integer program, whose solution is a placement of all at once.

Members of one kind differ in nothing that a filter reads, so only their number on each node counts. Rows say what nodes
have room for, what parts of the group need at least, and what the filters demand (`framework.joint_rules`). Invariant:
each placement that members can get one after the other is a solution. Next: `joint`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import compress, islice, zip_longest
from operator import truediv
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework import contract
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools, DomainPlugin, Int64s, Scope
from podwright.core.framework.joint_rules import Apart, Barred, Even, JointFilter, JointRule, Near
from podwright.core.framework.profile import Point
from podwright.core.framework.program import Answer, Program, Rows, TooLargeError, common_unit
from podwright.core.gangs.branches import Branch
from podwright.core.gangs.capacity_bounds import CapacityBounds
from podwright.core.gangs.evictions import Evictions
from podwright.core.gangs.topology_domains import common_domain, used_domains
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache

Columns = NDArray[np.int64]
FEW: Final = 4
"""Up to how many large members of a node are counted. These rows bring bounds closer to whole members."""
MAX_KINDS: Final = 1_000
"""Any two of them may repel each other."""
MAX_CELLS: Final = 10_000_000
"""The most pairs of a kind and a node: each takes some dozen bytes."""


@dataclass(slots=True)
class Kind:
    """Members that differ in nothing that counts. `most`: int64[nodes], of the kind alone; `columns`: int64[nodes], -1
    where none fits.
    """

    pods: Sequence[PodInfo]
    most: Int64s
    requests: dict[str, int]
    columns: Columns = field(default_factory=lambda: np.zeros(0, np.int64))


class JointProgram:
    """See the module. `least`: how many members must be placed at least; `within`: bool[nodes], where they may be, None
    for all; `evictions`: units that are not on the cache now, but stay unless they leave. Raises TooLargeError. Only
    `tightly` needs no `build`.
    """

    def __init__(
        self,
        framework: Framework,
        cache: Cache,
        branch: Branch,
        least: int,
        *,
        within: Bools | None = None,
        evictions: Evictions | None = None,
    ) -> None:
        self._framework = framework
        self._cache = cache
        self._branch = branch
        self._least = least
        self._within = within
        self._evictions = evictions
        self.kinds: list[Kind] = []
        self._kinds_of: dict[int, list[Kind]] = {}
        nominated = any(cache.nominator.node_of(pod.uid) for pod in branch.all_untried)
        self._gather(branch, crowded=evictions is None and not nominated)
        self._rules = [
            rule
            for plugin in framework.filter_plugins
            if isinstance(plugin, JointFilter)
            for rule in contract.call(plugin, Point.FILTER, plugin.joint_rules, [kind.pods[0] for kind in self.kinds])
        ]
        for rule in self._rules:
            if isinstance(rule, Barred):
                self.kinds[rule.member].most[rule.nodes] = 0
        self._rows = Rows()
        self._placing: list[int] = []
        self._spread: list[list[tuple[Columns, float]]] = []
        """By aim of `prefer_close`: the columns of members in each domain, and what it costs to have some there."""

    def build(self) -> Self:
        """Makes the rows, of the cache as it was before. Raises ValueError if members that are placed are not in one
        domain, and TooLargeError.
        """
        self._bound()
        evictions = self._evictions
        for kind in self.kinds:
            if self._within is not None:
                kind.most[~self._within] = 0
            there = np.flatnonzero(kind.most)
            kind.columns = np.full(len(kind.most), -1)
            kind.columns[there] = self._rows.variables(kind.most[there])
            self._rows.at_most(kind.columns[there], len(kind.pods))
        everything = self._columns(self.kinds)
        self._rows.at_least(everything, self._least)
        if evictions is not None:
            taken = np.flatnonzero(sum(kind.most for kind in self.kinds))
            evictions.enter(self._rows, set(taken.tolist()))
        self._room()
        self._demand(self._rules)
        self._part(self._branch, None)
        if evictions is not None:
            evictions.limit(self._rows)
            if evictions.for_whom is not None:
                self._leave_for(evictions, evictions.for_whom)
        self._aim(self._least)
        return self

    def program(self, start: Iterable[tuple[PodInfo, int]] = (), victims: Iterable[PodInfo] = ()) -> Program:
        """`start`: members with slots of nodes, and who leaves for them, where the solver may begin."""
        columns = {pod.uid: kind.columns for kind in self.kinds for pod in kind.pods}
        begun = [int(columns[pod.uid][slot]) for pod, slot in start]
        known = [self._columns(self.kinds)]
        if self._evictions is not None:
            begun += self._evictions.columns_of(victims)
            known.append(self._evictions.columns)
        return self._rows.program(begun, known)

    def bounds(self, answer: Answer) -> Sequence[int]:
        """Returns upper bounds, from an answer, on the placed members of each priority, the highest first."""
        return [answer.bounds[aim] for aim in self._placing if aim < len(answer.bounds)]

    def refuse(self, slot: int, found: Int64s, placed: int) -> None:
        """Limits the members of the solution's kinds on a node to `placed`: so many passed the filters there."""
        columns = np.array([kind.columns[slot] for kind in self.kinds if kind.columns[slot] >= 0])
        self._rows.at_most(columns[found[columns] > 0], placed)

    def prefer_close(self) -> bool:
        """After what is aimed at: as few domains as possible of each level down to the preferred one, the fullest
        first; without a preferred level, the fullest domain of the required one. Domains with members that have a node
        cost nothing. False if there is neither. Raises as `build`.
        """
        for branch in self._all(self._branch):
            if branch.near.preferred or branch.near.required:
                self._prefer_close(branch)
        return bool(self._spread)

    def spread(self, found: Int64s) -> list[float]:
        """How far apart a solution has the members: the less the better, the first number first."""
        return [sum(cost for columns, cost in level if found[columns].any()) for level in self._spread]

    def placed(self, found: Int64s) -> Iterator[tuple[PodInfo, int]]:
        """The members that a solution places, each with the slot of its node."""
        for kind in self.kinds:
            pods = iter(kind.pods)
            for slot in np.flatnonzero(kind.most):
                for pod in islice(pods, max(0, int(found[kind.columns[slot]]))):
                    yield pod, int(slot)

    def tightly(self, *, largest_first: bool) -> Iterator[tuple[PodInfo, int]]:
        """Members with the slots of nodes that have room for them: the most important first, of these the largest or
        the smallest, each where the least room is left. Knows no rules of filters.
        """
        table = self._cache.table
        free = [(table.allowed_pods - table.pods).astype(np.float64)]
        resources = [*dict.fromkeys(resource for kind in self.kinds for resource in kind.requests)]
        free += [(table.allocatable(each) - table.requested(each)).astype(np.float64) for each in resources]
        unit = [max(1.0, float(each.clip(0).sum())) for each in free]
        sizes = [[1, *(kind.requests.get(each, 0) for each in resources)] for kind in self.kinds]
        weights = [sum(map(truediv, amounts, unit)) for amounts in sizes]
        sign = -1 if largest_first else 1
        order = [(-kind.pods[0].priority, sign * weight) for kind, weight in zip(self.kinds, weights, strict=True)]
        for number in sorted(range(len(sizes)), key=order.__getitem__):
            kind, amounts = self.kinds[number], sizes[number]
            fits = kind.most > 0
            for each, amount in zip(free, amounts, strict=True):
                fits &= each >= amount
            for pod in kind.pods:
                self._cache.deadline.point()
                there = np.flatnonzero(fits)
                if not len(there):
                    break
                left = sum(each[there] / whole for each, whole in zip(free, unit, strict=True))
                slot = int(there[np.argmin(left)])
                for each, amount in zip(free, amounts, strict=True):
                    each[slot] -= amount
                    fits[slot] &= each[slot] >= amount
                yield pod, slot

    # What programs with another aim replace

    def _bound(self) -> None:
        """A place to change what nodes take of each kind, and to add kinds."""

    def _told_apart(self, pod: PodInfo) -> Hashable:
        """Returns what the pods of a kind must have in common, besides all that filters read."""
        return None

    def _aim(self, least: int) -> None:
        """The most members of the highest priority, then of the next, by the fewest evictions."""
        total, evictions = sum(len(kind.pods) for kind in self.kinds), self._evictions
        priorities = sorted({kind.pods[0].priority for kind in self.kinds}, reverse=True) if least < total else []
        for priority, lower in zip_longest(priorities, priorities[1:]):
            these = self._columns(kind for kind in self.kinds if kind.pods[0].priority == priority)
            self._placing.append(self._rows.prefer(these))
            if evictions is not None and lower is not None:
                evictions.prefer_spared(self._rows, lower)
        if evictions is not None:
            evictions.prefer_least(self._rows)

    # Kinds

    def _gather(self, branch: Branch, *, crowded: bool) -> None:
        filters = self._framework.filter_plugins
        domains = [plugin for plugin in filters if isinstance(plugin, DomainPlugin)]
        alone = [
            plugin
            for plugin in filters
            if plugin.filter_all is not None
            and (
                plugin.scope is Scope.NODE or (isinstance(plugin, JointFilter) and not isinstance(plugin, DomainPlugin))
            )
        ]
        alike: dict[Any, list[PodInfo]] = {}
        for pod in branch.untried:
            verdicts = (contract.verdict_key_of(plugin, pod) for plugin in alone)
            key = (
                pod.priority,
                pod.requests,
                pod.namespace,
                self._told_apart(pod),
                *verdicts,
                *(plugin.influence_key(pod) for plugin in domains),
            )
            alike.setdefault(key, []).append(pod)
        kinds = len(self.kinds) + len(alike)
        if kinds > MAX_KINDS or kinds * self._cache.table.size > MAX_CELLS:
            raise TooLargeError
        found = []
        for pods in alike.values():
            bounds = CapacityBounds(self._framework, self._cache, pods, crowded=crowded)
            found.append(Kind(pods, bounds.per_node(), dict(bounds.templates[0].requests)))
        self.kinds += found
        self._kinds_of[id(branch)] = found
        for child in branch.children:
            self._gather(child, crowded=crowded)

    @staticmethod
    def _columns(kinds: Iterable[Kind]) -> Columns:
        return np.concatenate([kind.columns[kind.columns >= 0] for kind in kinds] or [np.zeros(0, np.int64)])

    # Nodes

    def _room(self) -> None:
        table = self._cache.table
        resources = dict.fromkeys(resource for kind in self.kinds for resource in kind.requests)
        self._resource("", [1] * len(self.kinds), table.allowed_pods - table.pods)
        for resource in resources:
            amounts = [kind.requests.get(resource, 0) for kind in self.kinds]
            self._resource(resource, amounts, table.allocatable(resource) - table.requested(resource))

    def _resource(self, resource: str, amounts: Sequence[int], free: Int64s) -> None:
        """Adds the rows of a resource: its amount on each node, and that this serves one of the members that need more
        than half of it, two of those that need more than a third, and so on.
        """
        unit = common_unit(amounts)
        if not unit:
            return
        taking = [(kind, amount) for kind, amount in zip(self.kinds, amounts, strict=True) if amount > 0]
        exact = [amount for _, amount in taking]
        sizes = np.array([amount // unit for amount in exact])
        most = np.stack([kind.most for kind, _ in taking])
        columns = np.stack([kind.columns for kind, _ in taking])
        left = np.maximum(free, 0)
        wanted = np.array(exact, np.float64) @ most
        for slot in np.flatnonzero(wanted > (left if self._evictions is None else 0)).tolist():
            self._cache.deadline.point()
            there = most[:, slot] > 0
            room = int(left[slot]) // unit
            if self._evictions is not None:
                leaving, held, total = self._evictions.on(slot, resource)
                rest = int(free[slot]) - total
                if wanted[slot] > rest:
                    changes = [*compress(exact, there), *(-each for each in held)]
                    self._rows.holds(np.append(columns[there, slot], leaving), max(0, rest), changes)
            if wanted[slot] <= left[slot]:
                continue
            self._rows.at_most(columns[there, slot], room, sizes[there])
            for few in range(1, FEW + 1):
                large = there & (sizes * (few + 1) > room)
                if most[large, slot].sum() > few:
                    self._rows.at_most(columns[large, slot], few)

    def _leave_for(self, evictions: Evictions, may_preempt: Callable[[PodInfo], bool]) -> None:
        """A unit leaves only where a member of higher priority is placed that may preempt."""
        claiming = [kind for kind in self.kinds if may_preempt(kind.pods[0])]
        for each in evictions.kinds:
            self._cache.deadline.point()
            takers = np.array(
                [k.columns[slot] for k in claiming for slot in each.uses if k.pods[0].priority > each.priority]
            )
            takers = takers[takers >= 0]
            most = len(each.units)
            self._rows.at_most(
                np.append(takers, each.column).astype(np.int64), 0, np.append(np.full(len(takers), -most), 1)
            )

    # Filters

    def _demand(self, rules: Sequence[JointRule]) -> None:
        apart: dict[str, list[Apart]] = {}
        for rule in rules:
            self._cache.deadline.point()
            match rule:
                case Apart():
                    apart.setdefault(rule.key, []).append(rule)
                case Near():
                    self._near(rule)
                case Even():
                    self._even(rule)
        for those in apart.values():
            self._apart(those)

    def _by_domain(self, kinds: Iterable[int], domains: Int64s, count: int) -> dict[int, Columns]:
        """By domain: the columns of these kinds on its nodes."""
        chosen = [self.kinds[each] for each in kinds]
        columns = self._columns(chosen)
        codes = np.concatenate([domains[kind.columns >= 0] for kind in chosen] or [np.zeros(0, np.int64)])
        order = np.argsort(codes, kind="stable")
        found, starts = np.unique(codes[order], return_index=True)
        return {
            int(domain): part
            for domain, part in zip(found, np.split(columns[order], starts[1:]), strict=bool(len(found)))
            if 0 <= domain < count
        }

    def _apart(self, rules: Sequence[Apart]) -> None:
        """Kinds that are all apart from each other and themselves share a row; other pairs say which one is there."""
        domains, count = rules[0].domains, rules[0].count
        apart: dict[int, set[int]] = {}
        for rule in rules:
            apart.setdefault(rule.one, set()).add(rule.other)
            apart.setdefault(rule.other, set()).add(rule.one)
        alone = sorted(each for each, others in apart.items() if each in others)
        left = {each: set(others) for each, others in apart.items()}
        for start in alone:
            self._cache.deadline.point()
            if not left[start]:
                continue
            group, possible = [start], apart[start].intersection(alone) - {start}
            while possible:
                group.append(min(possible))
                possible = possible & apart[group[-1]] - {group[-1]}
            if any(not left[each].isdisjoint(group) for each in group):
                for each in group:
                    left[each].difference_update(group)
                for columns in self._by_domain(group, domains, count).values():
                    self._rows.at_most(columns, 1)
        here: dict[int, dict[int, Columns]] = {}
        for each in (each for each, others in left.items() if others):
            columns_of = self._by_domain([each], domains, count)
            here[each] = columns_of if each in alone else self._present(each, columns_of)
        for one, other in ((one, other) for one, others in left.items() for other in others if one <= other):
            for domain in here[one].keys() & here[other].keys():
                self._rows.at_most(np.concatenate([here[one][domain], here[other][domain]]), 1)

    def _present(self, kind: int, columns_of: dict[int, Columns]) -> dict[int, Columns]:
        """By domain: a variable that is 1 if the kind has a member there."""
        present = self._rows.variables([1] * len(columns_of))
        for variable, columns in zip(present, columns_of.values(), strict=True):
            self._only_if(columns, len(self.kinds[kind].pods), variable)
        return {domain: present[i : i + 1] for i, domain in enumerate(columns_of)}

    def _only_if(self, columns: Columns, most: int, variable: int) -> None:
        """Allows at most `most` members, and none unless the variable is 1."""
        most = min(most, int(self._rows.most(columns).sum()))
        self._rows.at_most(np.append(columns, variable), 0, np.append(np.ones(len(columns)), -most))

    def _near(self, rule: Near) -> None:
        count = len(rule.there)
        to = self._by_domain(rule.to, rule.domains, count)
        firsts = []
        for domain, columns in self._by_domain(rule.members, rule.domains, count).items():
            if rule.there[domain]:
                continue
            opened = self._rows.variables([1])
            self._only_if(columns, sum(len(self.kinds[each].pods) for each in rule.members), int(opened[0]))
            openers = [to.get(domain, np.zeros(0, np.int64))]
            if rule.first:
                first = self._rows.variables([1])
                firsts.append(first)
                openers.append(first)
            by = np.concatenate(openers)
            self._rows.at_most(np.append(by, opened), 0, np.append(-np.ones(len(by)), 1))
        if firsts:
            self._rows.at_most(np.concatenate(firsts), 1)

    def _even(self, rule: Even) -> None:
        count = len(rule.counts)
        counting = self._by_domain(rule.counting, rule.domains, count)
        themselves = self._by_domain(rule.themselves, rule.domains, count)
        most = sum(len(self.kinds[each].pods) for each in rule.members)
        none = np.zeros(0, np.int64)
        fewest, least = 0, none
        if not rule.from_zero and len(rule.ids):
            fewest = int(rule.counts[rule.ids].min())
            gained = sum(len(self.kinds[each].pods) for each in rule.counting)
            least = self._rows.variables([gained + fewest])
            for domain in rule.ids.tolist():
                columns = counting.get(domain, none)
                high = int(rule.counts[domain])
                self._rows.at_most(np.append(columns, least), high, np.append(-np.ones(len(columns)), 1))
        for domain, columns in self._by_domain(rule.members, rule.domains, count).items():
            there, own = int(rule.counts[domain]), themselves.get(domain, none)
            room = rule.skew - there
            row, ones = np.append(own, least), np.append(np.ones(len(own)), -np.ones(len(least)))
            if room + fewest >= 0:
                self._rows.at_most(row, room, ones)
                continue
            taken = self._rows.variables([1])
            self._only_if(columns, most, int(taken[0]))
            slack = most - room
            self._rows.at_most(np.append(row, taken), room + slack, np.append(ones, slack))

    # Parts

    def _part(self, branch: Branch, above: int | None) -> tuple[int, Columns]:
        """The variable that is 1 if the part's minimum is placed, and the columns of its members."""
        met = int(self._rows.variables([1])[0])
        below = [self._part(child, met) for child in branch.children]
        columns = np.concatenate([self._columns(self._kinds_of[id(branch)]), *(each for _, each in below)])
        if above is None:
            self._rows.at_least(np.array([met]), 1)
        else:
            self._rows.at_most(np.array([met, above]), 0, np.array([1, -1]))
        if branch.minimum:
            values = np.append(np.ones(len(columns)), -branch.minimum)
            self._rows.at_least(np.append(columns, met), -branch.placed, values)
        if branch.groups:
            children = np.array([each for each, _ in below])
            self._rows.at_least(np.append(children, met), 0, np.append(np.ones(len(below)), -branch.groups))
        if above is not None and len(columns):
            self._only_if(columns, len(branch.all_untried), met)
        if branch.near.required:
            self._in_one_domain(branch)
        return met, columns

    def _in_one_domain(self, branch: Branch) -> None:
        tree = self._cache.topologies.tree(branch.near)
        domains, only = tree.bound, common_domain(self._cache, tree, branch.there)
        chosen = self._rows.variables([0 if only not in (-1, each) else 1 for each in range(len(domains))])
        if len(domains):
            self._rows.at_most(chosen, 1)
        for kind in self._all_kinds(branch):
            position = self.kinds.index(kind)
            for domain, columns in self._by_domain([position], domains.codes, len(domains)).items():
                self._only_if(columns, len(kind.pods), int(chosen[domain]))
            outside = kind.columns[(domains.codes < 0) & (kind.columns >= 0)]
            if len(outside):
                self._rows.at_most(outside, 0)

    def _prefer_close(self, branch: Branch) -> None:
        tree, pods = self._cache.topologies.tree(branch.near), branch.all_untried
        kinds = [self.kinds.index(kind) for kind in self._all_kinds(branch)]
        used = used_domains(self._cache, tree, branch.there)
        room = CapacityBounds(self._framework, self._cache, pods).per_node()
        for number in range(max(tree.required, 0), tree.preferred + 1):
            # A node without the label is a domain of its own, which costs more.
            level, alone = tree.levels[number], np.arange(len(room))
            codes = np.where(level.codes < 0, len(level) + alone, level.codes)
            costs = np.append(np.where(used[number], 0, 1), np.full(len(alone), 2))
            domains = {
                each: columns for each, columns in self._by_domain(kinds, codes, len(costs)).items() if costs[each]
            }
            taken = self._rows.variables([1] * len(domains))
            for columns, variable in zip(domains.values(), taken.tolist(), strict=True):
                self._only_if(columns, len(pods), variable)
            wanted = [costs[[*domains]]]
            if number == tree.preferred:
                wanted.append(np.bincount(codes, room, len(costs))[[*domains]] / (room.sum() + 1))
            for each in wanted:
                self._rows.prefer(taken, -each)
                self._spread.append([*zip(domains.values(), each.tolist(), strict=True)])

    def _all(self, branch: Branch) -> Iterator[Branch]:
        yield branch
        for child in branch.children:
            yield from self._all(child)

    def _all_kinds(self, branch: Branch) -> Iterator[Kind]:
        for each in self._all(branch):
            yield from self._kinds_of[id(each)]
