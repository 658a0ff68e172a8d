"""Places: which nodes a pod's queue lets it use, by their flavors, and which of them first. See `flavors`.

`Bounds` refuses a node if a bound on a resource of its flavors forbids the pod to start there. Of the others, the pod
gets one of the place that comes first: those where its queue stays within its guarantee, in the order of the queue's
flavors, then those where it borrows, in the same order. The order is that of the nearest queue that names flavors, the
pod's own or one above. Nodes without one of these flavors come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from podwright.core.framework.interface import Bools, Slots
from podwright.core.objects.pod import PodInfo
from podwright.core.queues.accounts import Accounts
from podwright.core.queues.flavors import NOWHERE, Place, judged
from podwright.core.queues.tree import Queue


class Places:
    """See the module."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._flavors = accounts.flavors

    def of(self, pod: PodInfo) -> Sequence[Place]:
        """Where a pod of a queue may be, as far as labels say, in the order in which it uses them. Empty if it requests
        nothing that any queue bounds in a flavor.
        """
        if (found := self.request(pod)) is None:
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

    def preferred(self, pod: PodInfo, slots: Slots) -> Bools | None:
        """bool[slots]: the nodes of the place that comes first. None: no node comes before another."""
        if (found := self.request(pod)) is None:
            return None
        column, places = self._flavors.column()
        rank = self._rank(*found)
        used = np.unique(column[slots]).tolist()
        ranks = [rank(place)[:2] for place in places]
        first = min([ranks[index] for index in used], default=None)
        chosen = np.array([each == first for each in ranks], np.bool_)
        return chosen[column[slots]]

    def choices(self, pod: PodInfo) -> Iterator[Mapping[str, int]]:
        """By what a waiting pod takes in each of its places it is judged what its queue is entitled to."""
        for place in self.of(pod) or (NOWHERE,):
            yield judged(self._accounts.tree().tracked(self._accounts.amounts_at(pod, place)))

    def request(self, pod: PodInfo) -> tuple[Queue, Mapping[str, int]] | None:
        """The pod's queue, and what it requests that any queue bounds in a flavor. None without either."""
        flavors = self._flavors
        if flavors.named.isdisjoint(pod.requests.amounts) and not flavors.off_nodes:
            return None
        name = self._accounts.queue_of(pod)
        queue = self._accounts.tree().get(name) if name else None
        if queue is None:
            return None
        amounts = self._accounts.plain_amounts(pod)
        requested = {resource: amounts[resource] for resource in flavors.named if amounts.get(resource)}
        return (queue, requested) if requested else None

    # Internals

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
            rules = self._accounts.get(above.spec.name)
            if rules is not None and rules.flavors:
                return above, [*rules.flavors]
        return queue, ()
