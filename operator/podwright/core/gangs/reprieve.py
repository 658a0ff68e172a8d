"""Reprieve: which removed units may return to their nodes without displacing a group's planned members.

A unit is reprieved if every member still passes all filters on its planned node, with the members before it in place.
Invariant: with all units reprieved so far, they do. So only the members that the unit may affect are filtered again:
see `affected_members`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from podwright.core.cycle import Placement
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState
from podwright.core.gangs.affected_members import AffectedMembers
from podwright.core.gangs.simulation import reserve
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.units import Unit
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.transaction import CacheTransaction


class Reprieve:
    """See the module. The transaction has removed the units, and cleared the nominations of all members."""

    def __init__(
        self,
        framework: Framework,
        transaction: CacheTransaction,
        placements: Sequence[Placement],
        *,
        thorough: bool = False,
    ) -> None:
        """`thorough`: filters all members again for every unit."""
        self._framework = framework
        self._transaction = transaction
        self._cache = transaction.cache
        self._placements = placements
        self._affected = AffectedMembers(framework, transaction.cache, placements, thorough=thorough)
        self._states: dict[str, CycleState] = {}

    def reprieve_unit(self, unit: Unit) -> bool:
        """Adds the unit back if all members still fit, and returns whether they do."""
        pods = [(pod, self._transaction.removed_from(pod.uid)) for pod in unit.pods]
        on_nodes = self._affected.on_nodes({name for _, name in pods})
        beyond = self._affected.beyond_node(pods, shares_node=bool(on_nodes))
        before = self._transaction.checkpoint()
        self._transaction.add_back([pod.uid for pod in unit.pods])
        # What the node itself refuses needs no look at other members, unless these reserve what it has.
        fit = (bool(beyond) and self._affected.must_reserve) or self._fit_on_nodes(on_nodes)
        fit = fit and (not beyond or self._fit_in_order(beyond | on_nodes))
        if not fit:
            self._transaction.rollback(before)
        return fit

    def affecting(self, pods: Iterable[PodInfo]) -> set[str]:
        """The uids of pods that may affect any member. The others need no reprieve."""
        any_by, removed_from, deadline = self._affected.any_by, self._transaction.removed_from, self._cache.deadline
        found: set[str] = set()
        for pod in pods:
            deadline.point()
            if any_by(pod, removed_from(pod.uid)):
                found.add(pod.uid)
        return found

    def all_fit(self) -> bool:
        """True if all members pass all filters, with all reprieved units on their nodes."""
        return self._fit_in_order(frozenset(range(len(self._placements))))

    def _fit_on_nodes(self, members: AbstractSet[int]) -> bool:
        """True if the members pass the filters that depend on their own node. `members`: all members of some nodes."""
        copies: dict[str, NodeInfo] = {}
        for index in sorted(members):
            placement = self._placements[index]
            info = copies.get(placement.node_name)
            if info is None:
                info = copies[placement.node_name] = self._node(placement).clone()
            state = self._state_on_node(placement.pod)
            if self._framework.filter_node_with_nominated(state, placement.pod, info) is not None:
                return False
            info.add(placement.pod)
        return True

    def _state_on_node(self, pod: PodInfo) -> CycleState:
        """The pod's state without domain filters. It depends on no other pod, so it is computed once."""
        state = self._states.get(pod.uid)
        if state is None:
            state = self._states[pod.uid] = CycleState()
            self._framework.pre_filter(state, pod)
            state.skip_filter |= self._affected.domain_filters
        return state

    def _fit_in_order(self, members: AbstractSet[int]) -> bool:
        """True if these members pass all filters, each with the members before it assumed and reserved, if they may
        change its verdict.
        """
        transaction = self._transaction
        before = transaction.checkpoint()
        try:
            for index in self._affected.beneath(members):
                self._cache.deadline.point()
                placement, state = self._placements[index], CycleState()
                if index in members and not self._passes(state, placement):
                    return False
                if not self._affected.must_reserve:
                    transaction.assume(placement.pod, placement.node_name)
                elif reserve(transaction, self._framework, state, placement.pod, placement.node_name) is not None:
                    return False
            return True
        finally:
            transaction.rollback(before)

    def _passes(self, state: CycleState, placement: Placement) -> bool:
        info = self._node(placement)
        outcome = self._framework.pre_filter(state, placement.pod)
        if outcome.status is not None or (outcome.node_names is not None and info.name not in outcome.node_names):
            return False
        return self._framework.filter_node_with_nominated(state, placement.pod, info) is None

    def _node(self, placement: Placement) -> NodeInfo:
        info = self._cache.present(placement.node_name)
        assert info is not None, f"node {placement.node_name} was planned with"
        return info
