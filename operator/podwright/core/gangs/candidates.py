"""Who could go for a group: the pods of lower priority whose absence may matter to it.

Where members look at their own node alone (`Outlook.is_local`), pods on nodes that could not take a member even if they were
empty stay on the cache, unless a plugin can notice them on other nodes (`DomainPlugin.reaches_beyond_node`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from podwright.core.framework.interface import Bools
from podwright.core.gangs.outlook import Outlook
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.units import Unit, priority_of, split_by_budget, units_below
from podwright.core.state.cache import Cache


class Candidates:
    """See the module. Reads the cache when it is made, and never again."""

    def __init__(self, cache: Cache, priority: int, outlook: Outlook) -> None:
        self._budgets = list(cache.store.list("PodDisruptionBudget"))
        self._met: list[PodInfo] = []
        """Pods of lower priority, and members of groups, in the order in which they are met."""
        self._far: set[str] = set()
        """The uids of those that matter to budgets at most."""
        self._units: dict[str, Unit | None] = {}
        """By uid of pods that name a group: its unit, for the first pod of each; None for the others."""
        self._meet(cache, priority, outlook)
        grouped = [pod for pod in self._met if pod.uid in self._units]
        first: dict[str, str] = {}
        for pod in grouped:
            first.setdefault(pod.group, pod.uid)
        for unit in units_below(priority, grouped, cache):
            self._units[first[unit.whole.key] if unit.whole else unit.pods[0].uid] = unit

    def _meet(self, cache: Cache, priority: int, outlook: Outlook) -> None:
        reachable: Bools | None = outlook.room(emptied=True) > 0 if outlook.is_local else None
        is_member = cache.groups.is_member
        reaching = outlook.reaching
        for info in cache.nodes.values():
            if info.node is None:
                continue
            closed = reachable is not None and not reachable[info.slot]
            for pod in info.pods.values():
                far = closed
                if closed:
                    for reaches in reaching:  # once per placed pod, so no generator
                        far = far and not reaches(pod)
                if far and not self._budgets:
                    continue
                if pod.group and is_member(pod):
                    self._units[pod.uid] = None
                elif pod.priority >= priority:
                    continue
                self._met.append(pod)
                if far:
                    self._far.add(pod.uid)

    @cached_property
    def pods(self) -> Sequence[PodInfo]:
        """All that may matter to members."""
        found: list[PodInfo] = []
        for pod in self._met:
            if pod.uid not in self._units:
                if pod.uid not in self._far:
                    found.append(pod)
            elif (unit := self._units[pod.uid]) is not None and not self.stays(unit):
                found += unit.pods
        return found

    def stays(self, unit: Unit) -> bool:
        """Whether the unit need not even leave the cache: only budgets ask for it."""
        return self._far.issuperset(pod.uid for pod in unit.pods)

    def units(self, concerned: AbstractSet[str]) -> list[Unit]:
        """Those that concern the group, and those that share a namespace with one of these and a budget.

        The others decide nothing: nobody is turned away by them, and what they take of a budget is not counted. `concerned`:
        by uid, out of `pods`.
        """
        guarded = {str(budget["metadata"].get("namespace") or "") for budget in self._budgets}
        if guarded:
            guarded &= {pod.namespace for pod in self.pods if pod.uid in concerned}
        units = []
        for pod in self._met:
            if pod.uid not in self._units:
                if pod.uid in concerned or pod.namespace in guarded:
                    units.append(Unit((pod,), pod.priority))
                continue
            unit = self._units[pod.uid]
            if unit is not None and any(each.uid in concerned or each.namespace in guarded for each in unit.pods):
                units.append(unit)
        return units

    def split(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, int]]:
        """Those that overdraw a budget first, with how many of their pods do; without those that stay."""
        violating, others = split_by_budget(units, self._budgets)
        return ((unit, count) for unit, count in (*violating, *((unit, 0) for unit in others)) if not self.stays(unit))


def any_below(priority: int, cache: Cache) -> bool:
    """Whether any placed pod is of lower priority. A group that goes as a whole counts as its most important pod."""
    groups = cache.groups
    for info in cache.nodes.values():
        if info.node is None:
            continue
        for pod in info.pods.values():
            if not pod.group or not groups.is_member(pod):
                if pod.priority < priority:
                    return True
            elif priority_of(pod, groups) < priority and units_below(priority, (pod,), cache):
                return True
    return False
