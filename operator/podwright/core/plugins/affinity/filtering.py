"""Filtering by required pod affinity: what PreFilter keeps, for one node and for all of them.

Three things are counted by (topology key, domain): pods that match all of the pod's required terms, pods that match one
of its required anti-affinity terms, and required anti-affinity terms of placed pods that match the pod. Invariant:
`filter` and `filter_all` agree, and after `update` so do they with a recount.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.interface import Bools, FilterResult
from podwright.core.framework.status import Status, unresolvable, unschedulable
from podwright.core.objects.affinity import PodAffinityTerm
from podwright.core.objects.pod import PodInfo
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.podindex import Groups, Picker, PodIndex, Sums

_AFFINITY: Final = unresolvable("node(s) didn't match pod affinity rules")
_ANTI_AFFINITY: Final = unschedulable("node(s) didn't match pod anti-affinity rules")
_EXISTING: Final = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
STATUSES: Final = (_AFFINITY, _ANTI_AFFINITY, _EXISTING)

SumsByKey = Mapping[str, Sequence[Sums]]


class Counted:
    """What counts in the cluster for one pod, found when first asked for; dry runs share it."""

    def __init__(self, index: PodIndex, pod: PodInfo, existing: Groups) -> None:
        self.index = index
        self.pod = pod
        self._existing = existing

    @cached_property
    def affinity(self) -> SumsByKey:
        """Pods that match all required terms, by the terms' topology keys."""
        terms = self.pod.pod_affinity.required
        if not terms:
            return {}
        counter = self.index.counter(tuple(map(Picker.of_term, terms)))
        return {key: (self.index.sums(counter, key),) for key in dict.fromkeys(t.topology_key for t in terms)}

    @cached_property
    def anti_affinity(self) -> SumsByKey:
        """Pods that match a required anti-affinity term, by its topology key."""
        found: dict[str, list[Sums]] = {}
        for term in self.pod.pod_affinity.anti_required:
            counter = self.index.counter((Picker.of_term(term),))
            found.setdefault(term.topology_key, []).append(self.index.sums(counter, term.topology_key))
        return found

    @cached_property
    def existing(self) -> SumsByKey:
        """Required anti-affinity terms of placed pods that match the pod, by topology key."""
        found: dict[str, list[Sums]] = {}
        for key, sums in self.index.sums_of(self._existing):
            if sums.total:
                found.setdefault(key, []).append(sums)
        return found

    @cached_property
    def selfish(self) -> bool:
        """The pod matches all of its own required terms."""
        return matches_all(self.index, self.pod.pod_affinity.required, self.pod)


class Tally:
    """Counts by topology key and domain, with what a dry run changed."""

    __slots__ = ("_changes", "_find", "_index")

    def __init__(
        self, index: PodIndex, find: Callable[[], SumsByKey], changes: dict[str, dict[int, int]] | None = None
    ) -> None:
        self._index = index
        self._find = find
        self._changes = changes

    def clone(self) -> Tally:
        changes = None if self._changes is None else {key: dict(changed) for key, changed in self._changes.items()}
        return Tally(self._index, self._find, changes)

    def update(self, key: str, node: NodeInfo, delta: int) -> None:
        if key not in node.present.labels:
            return
        if self._changes is None:
            self._changes = {}
        domain = int(self._index.domains(key).of_node[node.slot])
        changed = self._changes.setdefault(key, {})
        changed[domain] = changed.get(domain, 0) + delta

    @property
    def keys(self) -> Iterable[str]:
        """The topology keys for which anything may be counted."""
        found = self._find().keys()
        return found if self._changes is None else dict.fromkeys((*found, *self._changes))

    @property
    def empty(self) -> bool:
        """Nothing is counted anywhere."""
        total = sum(sums.total for group in self._find().values() for sums in group)
        if self._changes is not None:
            total += sum(delta for changed in self._changes.values() for delta in changed.values())
        return total == 0

    def at(self, key: str, node: NodeInfo) -> int:
        """What is counted in the domain of a node that has the label."""
        domain = int(self._index.domains(key).of_node[node.slot])
        count = sum(int(sums.values[domain]) for sums in self._find().get(key, ()))
        if self._changes is not None:
            count += self._changes.get(key, {}).get(domain, 0)
        return count

    def somewhere(self, node: NodeInfo) -> bool:
        """Something is counted in one of the node's domains."""
        labels = node.present.labels
        return any(key in labels and self.at(key, node) > 0 for key in self.keys)

    def column(self, key: str) -> Bools:
        """bool[nodes]: something is counted in the node's domain of this key."""
        domains = self._index.domains(key)
        found = self._find().get(key, ())
        changed = None if self._changes is None else self._changes.get(key)
        if len(found) == 1 and not changed:
            return (found[0].values > 0)[domains.of_node]
        values = np.zeros(domains.count + 1, np.int64)
        for sums in found:
            values += sums.values
        for domain, delta in (changed or {}).items():
            values[domain] += delta
        return (values > 0)[domains.of_node]

    def anywhere(self) -> Bools | None:
        """bool[nodes]: something is counted in one of the node's domains; None for nowhere at all."""
        found: Bools | None = None
        for key in self.keys:
            column = self.column(key)
            found = column if found is None else found | column
        return found


class PreFilterState:
    """The three tallies of one pod."""

    __slots__ = ("_affinity", "_anti_affinity", "_counted", "_existing")

    def __init__(self, counted: Counted, tallies: tuple[Tally, Tally, Tally] | None = None) -> None:
        self._counted = counted
        self._affinity, self._anti_affinity, self._existing = tallies or (
            Tally(counted.index, lambda: counted.affinity),
            Tally(counted.index, lambda: counted.anti_affinity),
            Tally(counted.index, lambda: counted.existing),
        )

    def clone(self) -> PreFilterState:
        tallies = (self._affinity.clone(), self._anti_affinity.clone(), self._existing.clone())
        return PreFilterState(self._counted, tallies)

    def update(self, other: PodInfo, node: NodeInfo, delta: int) -> None:
        """`other` was put on the node (delta 1) or taken off (-1)."""
        index, pod = self._counted.index, self._counted.pod
        own = pod.pod_affinity
        if other.pod_affinity.anti_required:
            namespace_labels = index.namespace_labels(pod.namespace) or {}
            for term in other.pod_affinity.anti_required:
                if term.matches(pod.namespace, namespace_labels, pod.labels):
                    self._existing.update(term.topology_key, node, delta)
        if matches_all(index, own.required, other):
            for key in dict.fromkeys(term.topology_key for term in own.required):
                self._affinity.update(key, node, delta)
        for term in own.anti_required:
            if index.picks(term, other):
                self._anti_affinity.update(term.topology_key, node, delta)

    def filter(self, node: NodeInfo) -> Status | None:
        """The first rule that the node breaks: the pod's affinity, its anti-affinity, that of placed pods."""
        if not self._attracted(node):
            return _AFFINITY
        if self._anti_affinity.somewhere(node):
            return _ANTI_AFFINITY
        return _EXISTING if self._existing.somewhere(node) else None

    def _attracted(self, node: NodeInfo) -> bool:
        labels = node.present.labels
        keys = [term.topology_key for term in self._counted.pod.pod_affinity.required]
        if not all(key in labels for key in keys):
            return False
        return all(self._affinity.at(key, node) > 0 for key in keys) or self._first_of_group

    @property
    def _first_of_group(self) -> bool:
        """No pod matches the required terms, and the pod itself does: it may be the first of its kind."""
        return self._affinity.empty and self._counted.selfish

    def filter_all(self) -> FilterResult | None:
        """The same for all nodes; None if all pass."""
        attracted = self._attracted_all() if self._counted.pod.pod_affinity.required else None
        repelled = self._anti_affinity.anywhere()
        refused = self._existing.anywhere()
        ok: Bools | None = attracted
        for bad in (repelled, refused):
            if bad is not None:
                ok = ~bad if ok is None else ok & ~bad
        return None if ok is None else FilterResult(ok, lambda: (_codes(len(ok), attracted, repelled), STATUSES))

    def _attracted_all(self) -> Bools:
        """bool[nodes]: the pod's required terms hold; never on nodes that lack a key."""
        keys = list(dict.fromkeys(term.topology_key for term in self._counted.pod.pod_affinity.required))
        if self._first_of_group:
            found = [self._counted.index.domains(key) for key in keys]
            columns = [domains.of_node != domains.count for domains in found]
        else:
            columns = [self._affinity.column(key) for key in keys]
        return functools.reduce(np.logical_and, columns)


def matches_all(index: PodIndex, terms: Sequence[PodAffinityTerm], pod: PodInfo) -> bool:
    """Whether a pod matches all of a pending pod's terms; no terms are matched by none."""
    return bool(terms) and all(index.picks(term, pod) for term in terms)


def _codes(rows: int, attracted: Bools | None, repelled: Bools | None) -> NDArray[np.int8]:
    """int8[nodes]: positions in STATUSES for nodes that were rejected."""
    codes = np.full(rows, 2, np.int8)
    if repelled is not None:
        codes[repelled] = 1
    if attracted is not None:
        codes[~attracted] = 0
    return codes
