"""Flavors: the nodes with certain labels, such as those with one GPU model, which queues may bound by themselves.

What a pod has of a resource on nodes of a flavor is a resource of its own, `RESOURCE@FLAVOR`: it has quotas, shares and
a capacity like any other, and is counted beside the resource itself, which counts on all nodes. A place is the set of
flavors that a node has, so pods cost the same on all nodes of one place. A pod that waits may have several places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.affinity import NodeAffinity
from podwright.core.objects.compaction import RecentCache, compact_regularly
from podwright.core.objects.node import Node
from podwright.core.objects.selectors import NodeSelectorTerm
from podwright.core.state.columns.table import NodeTable

OF: Final = "@"
"""Between resource and flavor. No name of a resource has it."""
Place = tuple[str, ...]
NOWHERE: Final[Place] = ()
"""The place of nodes without a flavor."""
Labels = Mapping[str, str]

_REMEMBERED: Final = 1024
_MOST_REQUIREMENTS: Final = 64
"""A pod with a greater node affinity counts as one that may be anywhere: it would be checked for each flavor."""
_ANYTHING: Final = NodeSelectorTerm((), ())


def of_flavor(resource: str, flavor: str) -> str:
    """The name of a resource of a flavor."""
    return f"{resource}{OF}{flavor}"


def parts_of(name: str) -> tuple[str, str]:
    """The resource itself, and the flavor, which is empty for a resource of all nodes."""
    resource, _, flavor = name.partition(OF)
    return resource, flavor


def field_of(name: str) -> str:
    """The field of a SchedulingQueue with the quota of a resource."""
    resource, flavor = parts_of(name)
    return f"spec.flavors[{flavor}].resources[{resource}]" if flavor else f"spec.resources[{resource}]"


def labels_text(labels: Labels) -> str:
    """Labels as kubectl writes them."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def judged(amounts: Mapping[str, int]) -> dict[str, int]:
    """The amounts by which it is judged what a queue is entitled to: what is of a flavor stands for the resource
    itself.
    """
    replaced = {parts_of(name)[0] for name in amounts if OF in name}
    return {name: amount for name, amount in amounts.items() if name not in replaced}


class Flavors:
    """See the module."""

    def __init__(self, table: NodeTable) -> None:
        self.labels: Mapping[str, Labels] = {}
        """By flavor: the labels of its nodes."""
        self.off_nodes: frozenset[str] = frozenset()
        """The named resources that are no amounts of nodes, or not in the requests of pods."""
        self.named: frozenset[str] = frozenset()
        """The resources of which any queue has a quota in any flavor."""
        self._table = table
        self._resources: dict[str, tuple[tuple[str, str], ...]] = {}
        """By flavor: the resources of which any queue has a quota there."""
        self._first_label: dict[tuple[str, str], list[str]] = {}
        """By a label: the flavors of which it is the first."""
        self._places: dict[int, Place] = {}
        """By row of the table: those of nodes with a flavor."""
        self._column: tuple[NDArray[np.intp], Sequence[Place]] | None = None
        self._pairs: NDArray[np.intp] = np.zeros((0, 2), np.intp)
        """[pairs, 2]: each flavor, as an index of `labels`, with the places that have it, as indices of these."""
        self._offering: dict[frozenset[str], Sequence[Place]] = {}
        self._offering_at = -1
        self._allowed: RecentCache[tuple[NodeAffinity, Place], bool] = RecentCache(_REMEMBERED)
        compact_regularly(self)

    def define(self, labels: Mapping[str, Labels], names: Iterable[str]) -> bool:
        """The flavors are these from now on, and queues have quotas of these resources. Returns whether that changes
        what any pod has. Labels that are empty select no node.
        """
        resources: dict[str, tuple[tuple[str, str], ...]] = {}
        for name in sorted(names):
            resource, flavor = parts_of(name)
            if labels.get(flavor):
                resources[flavor] = (*resources.get(flavor, ()), (resource, name))
        if resources == self._resources and all(labels[flavor] == self.labels[flavor] for flavor in resources):
            return False
        self.labels = {flavor: dict(labels[flavor]) for flavor in resources}
        self._resources = resources
        self.named = frozenset(resource for each in resources.values() for resource, _ in each)
        self._first_label.clear()
        for flavor, required in self.labels.items():
            self._first_label.setdefault(min(required.items()), []).append(flavor)
        self._places.clear()
        self._offering_at = -1
        self._allowed.clear()
        for slot, node in enumerate(self._table.nodes):
            self.set_node(slot, node)
        return True

    def set_node(self, slot: int, node: Node | None) -> None:
        """The row has this node from now on."""
        place = NOWHERE if node is None else self.place_of(node.labels)
        if place:
            self._places[slot] = place
        else:
            self._places.pop(slot, None)
        self._column = None

    def place_of(self, labels: Labels) -> Place:
        """The place of a node with these labels."""
        first = self._first_label
        found = [
            flavor
            for label in labels.items()
            for flavor in first.get(label, ())
            if self.labels[flavor].items() <= labels.items()
        ]
        return tuple(sorted(found))

    def at(self, slot: int) -> Place:
        return self._places.get(slot, NOWHERE)

    def taken(self, amounts: Mapping[str, int], place: Iterable[str]) -> dict[str, int]:
        """Returns the amounts of flavors that a pod with these amounts takes on nodes of a place."""
        return {
            name: amounts[resource]
            for flavor in place
            for resource, name in self._resources.get(flavor, ())
            if amounts.get(resource)
        }

    # Where a pod may be

    def open_to(self, affinity: NodeAffinity) -> Collection[str]:
        """The flavors on whose nodes a pod with this node affinity may be, as far as their labels say."""
        return [flavor for flavor in self.labels if self._may_be_at(affinity, (flavor,))]

    def places_for(self, affinity: NodeAffinity, resources: frozenset[str]) -> Sequence[Place]:
        """The places where a pod with this node affinity may be, as far as labels say, and of which a node offers these
        resources.
        """
        if self._offering_at != (seq := self._table.static_changes.seq):
            self._offering.clear()
            self._offering_at = seq
        places = self._offering.get(resources)
        if places is None:
            offers = self._table.valid
            for resource in resources - self.off_nodes:
                offers = offers & (self._table.allocatable(resource) > 0)
            column, known = self.column()
            places = self._offering[resources] = [known[index] for index in np.unique(column[offers])]
        return [place for place in places if self._may_be_at(affinity, place)]

    def column(self) -> tuple[NDArray[np.intp], Sequence[Place]]:
        """int[nodes]: the place of each node, as an index of the places."""
        if self._column is None or len(self._column[0]) != self._table.size:
            known = {NOWHERE: 0}
            column = np.zeros(self._table.size, np.intp)
            for slot, place in self._places.items():
                column[slot] = known.setdefault(place, len(known))
            self._column = column, [*known]
            numbers = {flavor: number for number, flavor in enumerate(self.labels)}
            pairs = [(numbers[flavor], index) for place, index in known.items() for flavor in place]
            self._pairs = np.array(pairs, np.intp).reshape(-1, 2)
        return self._column

    def nodes_of(self, flavor: str) -> NDArray[np.bool_]:
        """bool[nodes]: the nodes of a flavor."""
        column, places = self.column()
        return np.array([flavor in place for place in places], np.bool_)[column]

    def sums(self, amounts: NDArray[np.int64]) -> Mapping[str, int]:
        """The sum of these amounts, int64[nodes], over the nodes of each flavor, and over all nodes under ""."""
        found = {"": int(amounts.sum())}
        if self.labels:
            column, places = self.column()
            of_places, of_flavors = np.zeros(len(places), np.int64), np.zeros(len(self.labels), np.int64)
            np.add.at(of_places, column, amounts)
            np.add.at(of_flavors, self._pairs[:, 0], of_places[self._pairs[:, 1]])
            found.update(zip(self.labels, of_flavors.tolist(), strict=True))
        return found

    def has_nodes(self, flavor: str) -> bool:
        return any(flavor in place for place in self.column()[1])

    def _may_be_at(self, affinity: NodeAffinity, place: Place) -> bool:
        if not 0 < affinity.size <= _MOST_REQUIREMENTS:
            return True
        known = self._allowed.get((affinity, place))
        if known is None:
            terms = (_ANYTHING,) if affinity.required is None else affinity.required.terms
            known = any(self._is_met(affinity.node_selector, term, place) for term in terms)
            self._allowed.put((affinity, place), known)
        return known

    def _is_met(self, selector: Labels, term: NodeSelectorTerm, place: Place) -> bool:
        """True if a node of the place may have these labels and meet the term."""
        labels = {key: value for flavor in place for key, value in self.labels[flavor].items()}
        if any(labels.get(key, value) != value for key, value in selector.items()):
            return False
        if not all(each.matches_value(labels[each.key]) for each in term.expressions if each.key in labels):
            return False
        only = {
            each.key: [*each.values] for each in term.expressions if each.operator == "In" and len(each.values) == 1
        }
        required = {**{key: values[0] for key, values in only.items()}, **selector}
        return set(self.place_of(required)) <= set(place)
