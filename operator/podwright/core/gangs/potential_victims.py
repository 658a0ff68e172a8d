"""PotentialVictims: the pods of lower priority whose eviction may help a pod group.

If no member's verdict depends on pods on other nodes, then pods on nodes that could not take a member even when empty
are left in place, except for those that plugins notice from other nodes (`DomainPlugin.reaches_beyond_node`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, Final

from podwright.core.framework import contract
from podwright.core.framework.contract import looks_beyond_node
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools, DomainPlugin
from podwright.core.framework.profile import Point
from podwright.core.gangs.capacity_bounds import CapacityBounds
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.budgets import KIND, BudgetRules
from podwright.core.preemption.placed_priorities import may_be_below
from podwright.core.preemption.queue_claims import QueueClaim
from podwright.core.preemption.units import Unit, importance, priority_of, split_by_budget, units_below
from podwright.core.state.cache import Cache

_POINTS: Final = (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE, Point.RESERVE)
"""Where plugins may notice placed pods."""


class PotentialVictims:
    """See the module. Reads the cache only while it is constructed. `shrinks`: without the minimums of gangs that have
    more members.
    """

    def __init__(
        self,
        framework: Framework,
        cache: Cache,
        members: Sequence[PodInfo],
        priority: int,
        bounds: CapacityBounds,
        *,
        shrinks: bool = False,
    ) -> None:
        self.claim: QueueClaim | None = None
        self.budgets = BudgetRules(cache.store.list(KIND))
        self._found: list[PodInfo] = []
        """Pods of lower priority and members of groups, in the order of nodes."""
        self._only_for_budgets: set[str] = set()
        """The uids of pods that stay on their nodes, but may use up a budget."""
        self._units: dict[str, Unit | None] = {}
        """By uid of pods that name a group: the unit for the first pod of each unit, None for its other pods."""
        useful = useful_nodes(framework, members, bounds)
        noticed = [
            contract.guarded(plugin, Point.FILTER, plugin.reaches_beyond_node)
            for plugin in dict.fromkeys(framework.at(*_POINTS))
            if isinstance(plugin, DomainPlugin) and plugin.reaches_beyond_node is not None
        ]
        self._find(cache, priority, useful, noticed)
        grouped = [pod for pod in self._found if pod.uid in self._units]
        order = {pod.uid: index for index, pod in enumerate(grouped)}
        for unit in units_below(priority, grouped, cache):
            if shrinks and unit.spares:
                continue
            self._units[min((pod.uid for pod in unit.pods if pod.uid in order), key=order.__getitem__)] = unit

    def _find(
        self, cache: Cache, priority: int, useful: Bools | None, noticed: Sequence[Callable[[PodInfo], bool]]
    ) -> None:
        """`useful`: bool[nodes], the nodes that could take a member when empty; None: pods matter on all nodes.

        `noticed`: functions that return whether plugins notice a placed pod from other nodes.
        """
        is_member = cache.groups.is_member
        for info in cache.nodes.values():
            cache.deadline.point()
            if info.node is None:
                continue
            on_useless_node = useful is not None and not useful[info.slot]
            for pod in info.pods.values():
                stays = on_useless_node
                if on_useless_node:
                    for is_noticed in noticed:  # A loop, because a generator for each placed pod is slow.
                        stays = stays and not is_noticed(pod)
                if stays and not self.budgets:
                    continue
                if pod.group and is_member(pod):
                    self._units[pod.uid] = None
                elif pod.priority >= priority:
                    continue
                self._found.append(pod)
                if stays:
                    self._only_for_budgets.add(pod.uid)

    @cached_property
    def pods(self) -> Sequence[PodInfo]:
        """The pods to remove from the cache: all potential victims but those that stay."""
        found: list[PodInfo] = []
        for pod in self._found:
            if pod.uid not in self._units:
                if pod.uid not in self._only_for_budgets:
                    found.append(pod)
            elif (unit := self._units[pod.uid]) is not None and not self._stays(unit):
                found += unit.pods
        return found

    @property
    def candidates(self) -> list[Unit]:
        """The units of `pods`."""
        return [unit for unit in self.units({pod.uid for pod in self.pods}) if not self._stays(unit)]

    def _stays(self, unit: Unit) -> bool:
        return self._only_for_budgets.issuperset(pod.uid for pod in unit.pods)

    def units(self, affecting: AbstractSet[str]) -> list[Unit]:
        """Units with a pod in `affecting`, uids out of `pods`, and units that share a budget's namespace with such a
        pod.

        No other unit changes the result: it makes no filter fail, and what it uses of a budget does not count.
        """
        namespaces = set(self.budgets.namespaces)
        if namespaces:
            namespaces &= {pod.namespace for pod in self.pods if pod.uid in affecting}
        units = []
        for pod in self._found:
            if pod.uid not in self._units:
                if pod.uid in affecting or pod.namespace in namespaces:
                    units.append(Unit((pod,), pod.priority))
                continue
            unit = self._units[pod.uid]
            if unit is not None and any(each.uid in affecting or each.namespace in namespaces for each in unit.pods):
                units.append(unit)
        return units

    def violating_first(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, int]]:
        """Units whose eviction violates a budget come first, each with the number of its pods that do. Without units
        that stay.
        """
        violating, others = split_by_budget(units, self.budgets)
        ordered = (*violating, *((unit, 0) for unit in others))
        return ((unit, count) for unit, count in ordered if not self._stays(unit))

    def start(self) -> None:
        """No unit has returned."""

    def may_return(self, _unit: Unit) -> bool:
        """True if the unit may stay on its nodes, as far as the others are concerned."""
        return True

    def returns(self, unit: Unit) -> None:
        """The unit stays on its nodes."""

    @staticmethod
    def importance(now: float) -> Callable[[Unit], tuple[Any, ...]]:
        """See `units.importance`."""
        return importance(now)


class ClaimedVictims:
    """The same for a gang of a queue: the units that its claim takes. None of them violates a budget. `only`: it takes
    these, by the uid of a pod; `inside`: it takes those inside of the level of its queues that has its share.
    """

    def __init__(
        self,
        cache: Cache,
        claim: QueueClaim,
        useful: Bools | None,
        only: AbstractSet[str] | None = None,
        *,
        inside: bool = False,
    ) -> None:
        self.claim = claim
        self.budgets = claim.rules
        self._going = {pod.uid for pod in claim.going()}
        """Terminating pods that hold what a limit forbids the gang."""
        infos = [
            info for info in cache.nodes.values() if info.node is not None and (useful is None or useful[info.slot])
        ]
        by_node: dict[str, list[Unit]] = {}
        self.candidates = claim.candidates([pod for info in infos for pod in info.pods.values()])
        if inside:
            self.candidates = [*filter(claim.is_inside, self.candidates)]
        for unit in self.candidates:
            cache.deadline.point()
            info = cache.placement(unit.pods[0].uid)
            assert info is not None, "candidates are placed"
            by_node.setdefault(info.name, []).append(unit)

        def cost(node_name: str) -> tuple[float, ...]:
            """First nodes that can be emptied, of these first the one where that costs least."""
            cache.deadline.point()
            pods = [pod for unit in by_node[node_name] for pod in unit.pods]
            return (max(0, len(cache.nodes[node_name].pods) - len(pods)), *claim.cost(pods))

        left = [unit for name in sorted(by_node, key=cost) for unit in reversed(by_node[name])]
        if only is not None:
            left = sorted((unit for unit in left if unit.pods[0].uid in only), key=claim.is_overdue)

        def is_refused(unit: Unit) -> bool:
            cache.deadline.point()
            return not claim.take(unit)

        # What is taken in the gang's own part of the tree may allow more to be taken outside of it.
        while left and len(refused := [*filter(is_refused, left)]) < len(left):
            left = refused
        self._units = tuple(claim.taken)
        self.pods: Sequence[PodInfo] = [pod for unit in self._units for pod in unit.pods]
        """See PotentialVictims."""

    def units(self, _affecting: AbstractSet[str]) -> list[Unit]:
        """All units: whether one may return depends on the others."""
        return [*self._units]

    def violating_first(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, int]]:
        return ((unit, 0) for unit in units)

    def start(self) -> None:
        self.claim.take_all(self._units)

    def may_return(self, unit: Unit) -> bool:
        return self._going.isdisjoint(pod.uid for pod in unit.pods) and self.claim.spares(unit)

    def returns(self, unit: Unit) -> None:
        self.claim.give_back(unit)

    def importance(self, _now: float) -> Callable[[Unit], tuple[Any, ...]]:
        return self.claim.importance


def useful_nodes(framework: Framework, members: Sequence[PodInfo], bounds: CapacityBounds) -> Bools | None:
    """bool[nodes]: the nodes that could take a member when empty; None: pods matter on all nodes."""
    plugins = dict.fromkeys(framework.at(*_POINTS))
    if any(looks_beyond_node(plugin, pod) for plugin in plugins for pod in members):
        return None
    return bounds.per_node(emptied=True) > 0


def any_lower_priority(priority: int, cache: Cache) -> bool:
    """True if any unit on the cache is of lower priority. Searches for it only if pods or groups of lower priority
    exist.
    """
    groups = cache.groups
    if not may_be_below(priority, cache):
        return False
    for info in cache.nodes.values():
        cache.deadline.point()
        if info.node is None:
            continue
        for pod in info.pods.values():
            if not pod.group or not groups.is_member(pod):
                if pod.priority < priority:
                    return True
            elif priority_of(pod, groups) < priority and units_below(priority, (pod,), cache):
                return True
    return False
