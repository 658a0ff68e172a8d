"""Places: which nodes a pod's queue lets it use, by their flavors, and which of them first. See `flavors`.

A node is refused if a bound on a resource of its flavors forbids the pod to start there. Of the others, the pod gets
one of the place that comes first: those where its queue stays within its guarantee, in the order of the queue's
flavors, then those where it borrows, in the same order. The order is that of the nearest queue that names flavors, the
pod's own or one above. Nodes without one of these flavors come last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import numpy as np

from podwright.core.framework.interface import Bools, FilterResult, Slots
from podwright.core.framework.status import Code, Status, unresolvable
from podwright.core.objects.pod import PodInfo
from podwright.core.queues.bound import Bound
from podwright.core.queues.flavors import NOWHERE, Flavors, Place
from podwright.core.queues.rules import QueueRules
from podwright.core.queues.tree import Queue, QueueTree

MOST_TOLD: Final = 4
"""Of how many places a message names the bound."""


class Bounds(Protocol):
    """The bounds of the cluster's queues."""

    flavors: Flavors

    def tree(self) -> QueueTree:
        """The tree of the valid queues."""

    def queue_of(self, pod: PodInfo) -> str:
        """The name of the pod's queue; empty if it has none."""

    def get(self, name: str) -> QueueRules | None:
        """A queue of the tree."""

    def plain_amounts(self, pod: PodInfo) -> Mapping[str, int]:
        """What the pod takes wherever it is."""

    def bound_at(self, pod: PodInfo, place: Place, *, trying: bool = False) -> Bound | None:
        """What forbids the pod to start on nodes of this place, besides what holds on all nodes."""


class Places:
    """See the module. A `PlaceRules` of core/framework."""

    def __init__(self, queues: Bounds, plugin: str) -> None:
        self.plugin = plugin
        self._queues = queues
        self._flavors = queues.flavors

    def of(self, pod: PodInfo) -> Sequence[Place]:
        """Where a pod of a queue may be, as far as labels say, in the order in which it uses them. Empty if it requests
        nothing that any queue bounds in a flavor.
        """
        if (found := self._request(pod)) is None:
            return ()
        return sorted(self._flavors.places_for(pod.node_affinity, frozenset(found[1])), key=self._rank(*found))

    def shared_by(self, pods: Sequence[PodInfo]) -> Sequence[tuple[Place, Bools | None]]:
        """The places where all of these pods may be, in the order in which the first one uses them, each with its
        nodes, bool[nodes]. Without any, one that has all nodes.
        """
        found = self.of(pods[0]) if self._flavors.named else ()
        for pod in pods[1:] if found else ():
            others = self.of(pod)
            found = [place for place in found if place in others] if others else found
        column, places = self._flavors.column()
        return [(place, column == places.index(place)) for place in found] or [(NOWHERE, None)]

    def bound(self, pod: PodInfo, *, trying: bool) -> Bound | None:
        """What forbids the pod to start in all its places. None if it may start in one of them."""
        found: list[Bound] = []
        for place in self.of(pod):
            bound = self._queues.bound_at(pod, place, trying=trying)
            if bound is None:
                return None
            found.append(bound)
        messages = [*dict.fromkeys(bound.message for bound in found)][:MOST_TOLD]
        return replace(found[0], message="; ".join(messages)) if found else None

    # PlaceRules

    def refuse_all(self, pod: PodInfo) -> FilterResult | None:
        if self._request(pod) is None:
            return None
        column, places = self._flavors.column()
        statuses = [self._verdict(pod, place) for place in places]
        if not any(statuses):
            return None
        passing = np.array([status is None for status in statuses], np.bool_)
        told = [status or Status(Code.SUCCESS) for status in statuses]
        return FilterResult(passing[column], lambda: (column, told))

    def refuse(self, pod: PodInfo, slot: int) -> Status | None:
        place = self._flavors.at(slot)
        return self._verdict(pod, place) if place and self._request(pod) is not None else None

    def preferred(self, pod: PodInfo, slots: Slots) -> Bools | None:
        if (found := self._request(pod)) is None:
            return None
        column, places = self._flavors.column()
        rank = self._rank(*found)
        used = np.unique(column[slots]).tolist()
        ranks = [rank(place)[:2] for place in places]
        first = min([ranks[index] for index in used], default=None)
        chosen = np.array([each == first for each in ranks], np.bool_)
        return chosen[column[slots]]

    # Internals

    def _request(self, pod: PodInfo) -> tuple[Queue, Mapping[str, int]] | None:
        """The pod's queue, and what it requests that any queue bounds in a flavor. None without either."""
        flavors = self._flavors
        if flavors.named.isdisjoint(pod.requests.amounts) and not flavors.off_nodes:
            return None
        name = self._queues.queue_of(pod)
        queue = self._queues.tree().get(name) if name else None
        if queue is None:
            return None
        amounts = self._queues.plain_amounts(pod)
        requested = {resource: amounts[resource] for resource in flavors.named if amounts.get(resource)}
        return (queue, requested) if requested else None

    def _verdict(self, pod: PodInfo, place: Place) -> Status | None:
        bound = self._queues.bound_at(pod, place) if place else None
        return (
            None
            if bound is None
            else unresolvable(f"node(s) of flavor {', '.join(place)}: {bound.message}").by(self.plugin)
        )

    def _rank(self, queue: Queue, requested: Mapping[str, int]) -> Callable[[Place], Any]:
        """A sort key: whether the queue borrows there, where its flavors are in the order, and their names."""
        ordering, order = self._order(queue)
        positions = {flavor: index for index, flavor in enumerate(order)}

        def rank(place: Place) -> tuple[bool, int, Place]:
            position = min([positions[flavor] for flavor in place if flavor in positions], default=len(order))
            taken = self._flavors.taken(requested, place) or requested
            borrows = any(
                ordering.held.get(resource, 0) + amount > ordering.guarantee(resource)
                for resource, amount in taken.items()
            )
            return borrows, position, place

        return rank

    def _order(self, queue: Queue) -> tuple[Queue, Sequence[str]]:
        """The nearest queue that names flavors, and these."""
        for above in queue.path:
            rules = self._queues.get(above.spec.name)
            if rules is not None and rules.flavors:
                return above, [*rules.flavors]
        return queue, ()
